//! Expands environment variables in definitions.

use std::collections::BTreeMap;

use crate::output::Fault;

/// The notations of variables to expand. Everything else stays unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// `${env.NAME}`.
    Braced,
    /// `${env.NAME}`, `$NAME` and `${NAME}`.
    Shell,
}

/// Replaces each variable in `text` by its `value`. Values are not expanded again.
pub(super) fn expand<'a>(
    text: &str,
    spelling: Spelling,
    mut value: impl FnMut(&str) -> Result<&'a str, Fault>,
) -> Result<String, Fault> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at..];
        match variable(rest, spelling) {
            Some((name, length)) => {
                expanded.push_str(value(name)?);
                rest = &rest[length..];
            }
            None => {
                expanded.push('$');
                rest = &rest[1..];
            }
        }
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Returns the variable that a text starts with, and the length of its notation in bytes.
pub(super) fn variable(text: &str, spelling: Spelling) -> Option<(&str, usize)> {
    let Some(inside) = text.strip_prefix("${") else {
        let bare = &text[1..];
        let end = bare.find(|c| !is_name_char(c)).unwrap_or(bare.len());
        let name = &bare[..end];
        return (spelling == Spelling::Shell && is_name(name)).then_some((name, end + 1));
    };
    let end = inside.find('}')?;
    let name = match (inside[..end].strip_prefix("env."), spelling) {
        (Some(name), _) => name,
        (None, Spelling::Shell) => &inside[..end],
        (None, Spelling::Braced) => return None,
    };
    is_name(name).then_some((name, end + 3))
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

pub(super) fn is_name(text: &str) -> bool {
    text.chars().all(is_name_char) && text.starts_with(|c: char| !c.is_ascii_digit())
}

/// Returns the value of a variable that must be set.
pub(super) fn set<'a>(
    environment: &'a BTreeMap<String, String>,
    name: &str,
    what: &str,
) -> Result<&'a str, Fault> {
    environment.get(name).map(String::as_str).ok_or_else(|| {
        Fault::new(format!(
            "{what} needs the environment variable `{name}`, which is not set"
        ))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../../tests/unit/handler/expand.rs"]
mod tests;
