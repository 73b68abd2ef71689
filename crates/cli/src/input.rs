//! Input that the user passes to a command: `--input`, `--secrets`, and text on stdin.

use std::collections::BTreeMap;
use std::path::Path;

use cachalot_core::text::head;
use cachalot_core::{Problem, Secret, json, tree};
use serde_json::{Map, Value};

use crate::command_error::{CommandError, Result};

fn bad_input(given: &str, why: impl std::fmt::Display) -> CommandError {
    let shown = head(given, 60);
    CommandError::usage(
        Problem::new("bad-input", format!("--input {shown}: {why}"))
            .help("expected a JSON object, @FILE with one, KEY=TEXT, or KEY:=JSON"),
    )
}

/// Reads text from stdin; `what` names it in errors.
pub(crate) fn from_stdin(what: &str) -> Result<String> {
    std::io::read_to_string(std::io::stdin()).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData => {
            let message = format!("{what} on stdin is not UTF-8 text");
            CommandError::usage(Problem::new("not-utf8", message))
        }
        _ => CommandError::failed(format!("{what} on stdin: {error}")),
    })
}

/// Returns the initial state that all arguments define together; later ones win.
pub(crate) fn state(given: &[String]) -> Result<Map<String, Value>> {
    let mut state = Map::new();
    for input in given {
        state.extend(one(input)?);
    }
    Ok(state)
}

fn one(given: &str) -> Result<Map<String, Value>> {
    if let Some(path) = given.strip_prefix('@') {
        return from_file(given, Path::new(path));
    }
    if given.trim_start().starts_with('{') {
        return match exact(given, given)? {
            Value::Object(fields) => Ok(fields),
            _ => Err(bad_input(given, "not an object")),
        };
    }
    let Some((name, text)) = given.split_once('=') else {
        return Err(bad_input(given, "neither JSON nor KEY=TEXT"));
    };
    let (name, value) = match name.strip_suffix(':') {
        Some(name) => (name, exact(given, text)?),
        None => (name, Value::String(text.to_owned())),
    };
    if name.is_empty() {
        return Err(bad_input(given, "the key is empty"));
    }
    Ok(Map::from_iter([(name.to_owned(), value)]))
}

/// Parses JSON of the argument `given`. Integers beyond 64 bits and duplicate keys are errors, never rounded or dropped.
fn exact(given: &str, text: &str) -> Result<Value> {
    // Refuses duplicate keys, which a value tree would silently drop.
    cachalot_core::Canonical::json(text.as_bytes()).map_err(|error| bad_input(given, error))?;
    let value: Value = serde_json::from_str(text).map_err(|error| bad_input(given, error))?;
    let mut numbers = json::numbers(text).map(|number| &text[number]);
    match numbers.find(|number| json::is_beyond_64_bits(number)) {
        Some(number) => Err(bad_input(
            given,
            format_args!("the integer {number} is beyond 64 bits: put it in quotes"),
        )),
        None => Ok(value),
    }
}

fn from_file(given: &str, path: &Path) -> Result<Map<String, Value>> {
    let text = std::fs::read_to_string(path).map_err(|error| bad_input(given, error))?;
    let is_json = path
        .extension()
        .is_some_and(|extension| extension == "json");
    let value = if is_json {
        exact(given, &text)?
    } else {
        tree::parse(&path.to_string_lossy(), &text)
            .map_err(|problems| CommandError::Usage {
                problems,
                sources: [(path.to_string_lossy().into_owned(), text.clone())].into(),
            })?
            .to_value()
    };
    match value {
        Value::Object(fields) => Ok(fields),
        _ => Err(bad_input(given, "the file does not hold an object")),
    }
}

/// Returns the secrets of a run, by name.
pub(crate) fn secrets(
    file: Option<&Path>,
    prefix: Option<&str>,
    environment: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, Secret<String>>> {
    let mut secrets = BTreeMap::new();
    if let Some(path) = file {
        for (name, value) in read_secrets(path)? {
            secrets.insert(name, Secret::new(value));
        }
    }
    if let Some(prefix) = prefix {
        let prefix = format!("{}_", prefix.trim_end_matches('_'));
        let named = environment.iter().filter_map(|(name, value)| {
            let name = name.strip_prefix(&prefix)?;
            (!name.is_empty()).then(|| (name.to_owned(), Secret::new(value.clone())))
        });
        secrets.extend(named);
    }
    Ok(secrets)
}

/// Reads a file of secrets. Errors never contain its text.
fn read_secrets(path: &Path) -> Result<Vec<(String, String)>> {
    let wrong = |why: &str| {
        CommandError::usage(
            Problem::new(
                "bad-secrets",
                format!("--secrets {}: {why}", path.display()),
            )
            .help("expected a JSON or YAML mapping of names to texts"),
        )
    };
    let text =
        Secret::new(std::fs::read_to_string(path).map_err(|error| wrong(&error.to_string()))?);
    let tree = tree::parse(&path.to_string_lossy(), text.expose())
        .map_err(|_| wrong("it is neither JSON nor YAML"))?;
    let Value::Object(fields) = tree.to_value() else {
        return Err(wrong("it is not a mapping"));
    };
    fields
        .into_iter()
        .map(|(name, value)| match value {
            Value::String(text) => Ok((name, text)),
            Value::Number(number) => Ok((name, number.to_string())),
            _ => Err(wrong(&format!("`{name}` is not text"))),
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(given: &[&str]) -> Option<Value> {
        let given: Vec<String> = given.iter().map(|text| (*text).to_owned()).collect();
        state(&given).ok().map(Value::Object)
    }

    #[test]
    fn all_input_forms_are_merged_and_later_ones_win() {
        assert_eq!(
            read(&[
                r#"{"a": 1, "b": "x"}"#,
                "b=y=z",
                "c:=[1, 2.5]",
                "d=",
                "e:=\"t\""
            ]),
            Some(json!({"a": 1, "b": "y=z", "c": [1, 2.5], "d": "", "e": "t"}))
        );
    }

    #[test]
    fn inexact_or_invalid_input_is_refused() {
        for bad in [
            "novalue",
            "=x",
            "a:=nope",
            r#"{"a": 1, "a": 2}"#,
            "a:=18446744073709551616",
            r#"{"a": [-9223372036854775809]}"#,
            "@/nowhere.json",
            "{]",
        ] {
            assert_eq!(read(&[bad]), None, "{bad}");
        }
        assert_eq!(
            read(&["a:=18446744073709551615", r#"b:="99999999999999999999""#]),
            Some(json!({"a": u64::MAX, "b": "99999999999999999999"}))
        );
    }
}
