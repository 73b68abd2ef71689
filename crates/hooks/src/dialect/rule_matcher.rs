//! Matchers that are written like permission rules: `Bash(rm *)`. A matcher is about the name of a tool only, so
//! such a matcher never matches.

use super::Dialect;
use super::vocabulary::Tool;

/// Returns the alternative of a matcher that is written like a permission rule, and the name of its tool.
pub(super) fn find_rule(dialect: Dialect, written: &str) -> Option<(&str, &str)> {
    alternatives(written).into_iter().find_map(|alternative| {
        let alternative = alternative.trim();
        let (name, arguments) = alternative.strip_suffix(')')?.split_once('(')?;
        let is_rule = is_known(name) && !arguments.is_empty();
        // It may still match as a regular expression: `Bash(Output)?`, `Web(Fetch|Search)`.
        let matcher = dialect.matcher(alternative).ok();
        let matches = matcher.is_some_and(|matcher| {
            tools().any(|tool| names(tool).any(|name| matcher.matches(name)))
        });
        (is_rule && !matches).then_some((alternative, name))
    })
}

/// The tools of all dialects.
fn tools() -> impl Iterator<Item = &'static Tool> {
    let dialects = Dialect::ALL.into_iter();
    dialects.flat_map(|dialect| dialect.vocabulary().tools)
}

fn names(tool: &'static Tool) -> impl Iterator<Item = &'static str> {
    std::iter::once(tool.own).chain(tool.theirs.iter().copied())
}

fn is_known(name: &str) -> bool {
    tools().any(|tool| names(tool).any(|known| known == name))
}

/// Splits a regular expression at the `|` outside of parentheses.
fn alternatives(written: &str) -> Vec<&str> {
    let (mut found, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, character) in written.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => {
                found.push(&written[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&written[start..]);
    found
}

#[cfg(test)]
#[path = "../../tests/unit/dialect/rule_matcher.rs"]
mod tests;
