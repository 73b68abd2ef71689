//! Sections that are `true` or `false`, and arguments where there are none.

use cachalot_core::Problem;
use cachalot_core::suggest::nearest;
use cachalot_core::tree::Node;

use crate::lookup::AgentView;

/// What the agent's section of this name says, if it says something.
pub(super) fn said(agent: &dyn AgentView, name: &str) -> Option<bool> {
    agent.section(name).and_then(Node::as_boolean)
}

/// What is wrong with such a section.
pub(super) fn check(name: &str, section: &Node, problems: &mut Vec<Problem>) {
    if section.is_null() || section.as_boolean().is_some() {
        return;
    }
    let problem = section.wrong_type(&format!("`{name}`"), "`true` or `false`");
    let slip = section.as_text().and_then(|text| match text {
        "yes" | "on" => Some("true"),
        "no" | "off" => Some("false"),
        "true" | "false" => None,
        text => nearest(text, ["true", "false"]),
    });
    problems.push(match slip {
        Some(meant) => problem.help(format!("did you mean `{meant}`?")),
        None => problem,
    });
}

/// What is wrong with arguments of something that takes none.
pub(super) fn no_arguments(name: &str, arguments: &[String]) -> Result<(), String> {
    match arguments.first() {
        None => Ok(()),
        Some(first) => Err(format!(
            "`{name}` takes no arguments, but is given `{first}`; take `args` out"
        )),
    }
}
