//! One rule.

use cachalot_core::tree::Node;
use cachalot_core::{Place, Problem};

use super::Operation;
use super::pattern::Pattern;
use super::subject::{Reading, Subject};
use crate::Workspace;

/// A rule: a tool, and what its arguments are.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    text: String,
    tool: Pattern,
    arguments: Vec<(String, Pattern)>,
}

const FORM: &str = "write a tool (`read_*`), or a tool and arguments (`shell:command=git *`)";

/// Reads a rule; what is wrong with it is a problem.
pub(super) fn read(node: &Node, problems: &mut Vec<Problem>) -> Option<Rule> {
    let Some(text) = node.as_text() else {
        problems.push(node.wrong_type("a rule", "text such as `shell:command=git *`"));
        return None;
    };
    match parse(text, &node.place) {
        Ok(rule) => Some(rule),
        Err(problem) => {
            problems.push(problem);
            None
        }
    }
}

fn parse(text: &str, place: &Place) -> Result<Rule, Problem> {
    let wrong = |message: String| Problem::new("bad-permission", message).at(place).help(FORM);
    let pattern = |text: &str| {
        Pattern::new(text).map_err(|error| wrong(format!("`{text}` is no pattern: {error}")))
    };
    let mut parts = split(text).into_iter();
    let tool = parts.next().unwrap_or_default().trim();
    if !is_tool(tool) {
        return Err(wrong(format!(
            "`{text}` does not begin with the name of a tool"
        )));
    }
    let mut arguments: Vec<(&str, String)> = Vec::new();
    for part in parts {
        let argument = part
            .split_once('=')
            .map(|(name, pattern)| (name.trim(), pattern))
            .filter(|(name, _)| is_argument(name));
        match (argument, arguments.last_mut()) {
            (Some((name, pattern)), _) => arguments.push((name, pattern.to_owned())),
            // A colon inside of a pattern, as in `https://…`.
            (None, Some((_, pattern))) => {
                pattern.push(':');
                pattern.push_str(part);
            }
            (None, None) => {
                return Err(wrong(format!(
                    "`{part}` is not of the form ARGUMENT=PATTERN"
                )));
            }
        }
    }
    let arguments = arguments
        .into_iter()
        .map(|(name, text)| Ok((name.to_owned(), pattern(&text)?)))
        .collect::<Result<_, Problem>>()?;
    Ok(Rule {
        text: text.to_owned(),
        tool: pattern(tool)?,
        arguments,
    })
}

/// The parts between colons that have no backslash before them.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut is_escaped = false;
    for (at, sign) in text.char_indices() {
        if sign == ':' && !is_escaped {
            parts.push(&text[start..at]);
            start = at + 1;
        }
        is_escaped = sign == '\\' && !is_escaped;
    }
    parts.push(&text[start..]);
    parts
}

fn is_tool(text: &str) -> bool {
    let fits = |sign: char| sign.is_ascii_alphanumeric() || "_-*?".contains(sign);
    !text.is_empty() && text.chars().all(fits)
}

fn is_argument(text: &str) -> bool {
    let fits = |sign: char| sign.is_alphanumeric() || "_-.".contains(sign);
    !text.is_empty() && text.chars().all(fits)
}

impl Rule {
    /// As it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it speaks of this call. One that names an argument does not speak of calls without it.
    pub(super) fn matches(
        &self,
        operation: &Operation<'_>,
        workspace: &Workspace,
        how: Reading,
    ) -> bool {
        self.tool.matches(operation.tool)
            && self.arguments.iter().all(|(name, pattern)| {
                Subject::of(operation, name)
                    .is_some_and(|subject| subject.is(pattern, workspace, how))
            })
    }
}
