//! Variables of the environment in settings: `${NAME}`, and `${NAME:-DEFAULT}` for one that may not be set.

use std::collections::BTreeMap;
use std::convert::Infallible;

/// Returns a text with the values of its variables.
///
/// # Errors
/// If a variable without a default is not set, as a sentence for the user.
pub(super) fn expanded(
    text: &str,
    environment: &BTreeMap<String, String>,
) -> Result<String, String> {
    replaced(text, |name, default| {
        let value = environment.get(name).map(String::as_str).or(default);
        value.map_or_else(
            || Err(format!("the variable `{name}` is not set")),
            |value| Ok(value.to_owned()),
        )
    })
}

/// Returns the names of the variables in a text, in their order.
#[must_use]
pub fn variables_in(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let Ok(_) = replaced(text, |name, _| {
        names.push(name.to_owned());
        Ok::<_, Infallible>(String::new())
    });
    names
}

/// Replaces each variable, of which `value` gets the name and the default.
fn replaced<E>(
    text: &str,
    mut value: impl FnMut(&str, Option<&str>) -> Result<String, E>,
) -> Result<String, E> {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        result.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            result.push_str("${");
            rest = after;
            continue;
        };
        let (name, default) = match name.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (name, None),
        };
        result.push_str(&value(name, default)?);
        rest = after;
    }
    result.push_str(rest);
    Ok(result)
}
