//! `${NAME}` in Python code: a value of `variables` in the agent file.
//!
//! Other runtimes put the value's text in its place. Here it becomes an expression, so that no value turns
//! into code.

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{Mode, ParseOptions, parse_unchecked};
use ruff_text_size::Ranged;

use super::edits::{Edit, apply};

/// Replaces each `${NAME}` that stands for an expression by `variables["NAME"]`, where `is_variable` returns
/// true for the name. In literals it is text, and stays as it is. Lines are kept.
///
/// Outside of literals and comments, `$` is an error in Python, so no valid code changes.
pub(super) fn replace_constants(
    source: &str,
    is_variable: impl Fn(&str) -> bool,
) -> Option<String> {
    let parsed = parse_unchecked(source, ParseOptions::from(Mode::Module));
    let mut edits = Vec::new();
    let mut inside = 0_u32;
    for token in parsed.tokens() {
        match token.kind() {
            TokenKind::FStringStart => inside += 1,
            TokenKind::FStringEnd => inside = inside.saturating_sub(1),
            // The replacement has quotes, which would end the literal in Python before 3.12.
            TokenKind::Unknown if inside == 0 => {
                let start = token.start().to_usize();
                let Some(name) = source
                    .get(start..)
                    .and_then(|rest| rest.strip_prefix("${"))
                    .and_then(|rest| rest.split_once('}'))
                    .map(|(name, _)| name)
                    .filter(|name| is_name(name) && is_variable(name))
                else {
                    continue;
                };
                edits.push(Edit {
                    start,
                    end: start + "${}".len() + name.len(),
                    text: format!("variables[\"{name}\"]"),
                });
            }
            _ => {}
        }
    }
    (!edits.is_empty()).then(|| apply(source, 0, source.len(), edits))
}

fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && !text.is_empty()
}

#[cfg(test)]
#[path = "../../tests/unit/script/constants.rs"]
mod tests;
