//! Shared checks of boolean sections and of builtins without arguments.

use cachalot_core::Problem;
use cachalot_core::suggest::nearest;
use cachalot_core::tree::Node;

use super::ArgumentsError;
use crate::lookup::AgentView;

/// Returns the value of the agent's boolean section, if present.
pub(super) fn value(agent: &dyn AgentView, name: &str) -> Option<bool> {
    agent.section(name).and_then(Node::as_boolean)
}

/// Reports a section that is neither null nor a boolean.
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

/// Returns an error if a builtin without arguments is given some.
pub(super) fn check_no_arguments(name: &str, arguments: &[String]) -> Result<(), ArgumentsError> {
    match arguments.first() {
        None => Ok(()),
        Some(first) => Err(ArgumentsError(format!(
            "`{name}` takes no arguments, but is given `{first}`; take `args` out"
        ))),
    }
}
