//! Arguments: checked against an action's table, cast to its kinds, and read by name.

mod given;
#[cfg(test)]
mod tests;

use cachalot_core::suggest;
use serde_json::{Number, Value};

use crate::{About, Arguments, Failure, Parameter, ParameterKind};

pub(super) use given::Given;

/// A parameter that must be given.
pub(super) const fn required(
    name: &'static str,
    kind: ParameterKind,
    doc: &'static str,
) -> Parameter {
    Parameter::required(name, kind, doc)
}

/// A parameter that may be left out.
pub(super) const fn optional(
    name: &'static str,
    kind: ParameterKind,
    doc: &'static str,
) -> Parameter {
    Parameter::optional(name, kind, doc)
}

/// Checks `arguments` against the table of an action and casts them to the kinds named there. Nulls
/// are dropped, except where anything is taken. An alias becomes the parameter's name.
///
/// Casts are those that templates make necessary: the text of a number or of a boolean (in any
/// case) is taken as such, a number or a boolean as its text, a float without a fraction as a whole
/// number. Nothing is rounded and nothing is guessed.
///
/// # Errors
/// A `validation_error` that names the action and every parameter that is unknown, missing, or not
/// of its kind.
pub fn check(about: &About, arguments: Arguments) -> Result<Arguments, Failure> {
    let mut wrong = Vec::new();
    let mut checked = Arguments::new();
    for (name, value) in arguments {
        match about.parameter(&name) {
            None => wrong.push(unknown(about, &name)),
            Some(parameter) if value.is_null() && parameter.kind != ParameterKind::Any => {}
            Some(parameter) => match cast(value, parameter.kind) {
                Ok(_) if checked.contains_key(parameter.name) => {
                    wrong.push(twice(parameter));
                }
                Ok(value) => {
                    let name = if name == parameter.name {
                        name
                    } else {
                        parameter.name.to_owned()
                    };
                    checked.insert(name, value);
                }
                Err(what) => wrong.push(format!("parameter `{name}` {what}")),
            },
        }
    }
    for parameter in about.parameters {
        let named_already = || {
            wrong
                .iter()
                .any(|w| w.starts_with(&format!("parameter `{}` ", parameter.name)))
        };
        if parameter.required && !checked.contains_key(parameter.name) && !named_already() {
            wrong.push(format!("parameter `{}` is required", parameter.name));
        }
    }
    if wrong.is_empty() {
        return Ok(checked);
    }
    Err(Failure::new(
        "validation_error",
        format!("{}: {}", shown(about), wrong.join("; ")),
    ))
}

/// The name under which an action is shown.
fn shown(about: &About) -> &'static str {
    about.names.first().copied().unwrap_or("action")
}

/// Two names of one parameter, of which one is to be kept.
pub(crate) fn twice(parameter: &Parameter) -> String {
    let names: Vec<String> = std::iter::once(&parameter.name)
        .chain(parameter.aliases)
        .map(|name| format!("`{name}`"))
        .collect();
    format!(
        "{} are one parameter: give one of them",
        names.join(" and ")
    )
}

fn unknown(about: &About, name: &str) -> String {
    let known: Vec<&str> = about
        .parameters
        .iter()
        .flat_map(|parameter| std::iter::once(&parameter.name).chain(parameter.aliases))
        .copied()
        .collect();
    format!(
        "unknown parameter `{name}`: {}",
        suggest::did_you_mean(name, &known)
    )
}

/// The value as one of its kind, or what is wrong with it, to be read after the parameter's name.
fn cast(value: Value, kind: ParameterKind) -> Result<Value, String> {
    match (kind, value) {
        (ParameterKind::Any, value) => Ok(value),
        (ParameterKind::Text, Value::Number(number)) => Ok(Value::String(number.to_string())),
        (ParameterKind::Text, Value::Bool(flag)) => Ok(Value::String(flag.to_string())),
        (ParameterKind::Text, value @ Value::String(_))
        | (ParameterKind::Boolean, value @ Value::Bool(_))
        | (ParameterKind::Object, value @ Value::Object(_))
        | (ParameterKind::List, value @ Value::Array(_))
        | (ParameterKind::Number, value @ Value::Number(_)) => Ok(value),
        (ParameterKind::Boolean, Value::String(text)) => boolean(&text)
            .map(Value::Bool)
            .ok_or_else(|| format!("is `{}`: expected true or false", excerpt(&text))),
        (ParameterKind::Number, Value::String(text)) => number(&text)
            .map(Value::Number)
            .ok_or_else(|| format!("is `{}`: expected a number", excerpt(&text))),
        (ParameterKind::Integer, Value::Number(number)) => whole(&number)
            .map(Value::Number)
            .ok_or_else(|| format!("is {number}: expected a whole number")),
        (ParameterKind::Integer, Value::String(text)) => number(&text)
            .and_then(|number| whole(&number))
            .map(Value::Number)
            .ok_or_else(|| format!("is `{}`: expected a whole number", excerpt(&text))),
        (kind, value) => Err(format!(
            "is {}: expected {}{}",
            noun(&value),
            expected(kind),
            remedy(kind, &value)
        )),
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// A number as JSON writes it, whole ones exact within 64 bits.
fn number(text: &str) -> Option<Number> {
    match super::exact_json::parse(text.trim()) {
        Ok(Value::Number(number)) => Some(number),
        _ => None,
    }
}

fn whole(number: &Number) -> Option<Number> {
    /// Up to here every whole number has a float of its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if !number.is_f64() {
        return Some(number.clone());
    }
    let float = number.as_f64()?;
    // The cast is exact: the float has no fraction and is within 2^53.
    #[expect(clippy::cast_possible_truncation, reason = "checked to be exact")]
    (float.fract() == 0.0 && float.abs() <= EXACT).then(|| Number::from(float as i64))
}

pub(super) fn noun(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

fn expected(kind: ParameterKind) -> &'static str {
    match kind {
        ParameterKind::Text => "text",
        ParameterKind::Integer => "a whole number",
        ParameterKind::Number => "a number",
        ParameterKind::Boolean => "true or false",
        ParameterKind::Object => "a mapping",
        ParameterKind::List => "a list",
        ParameterKind::Any => "anything",
    }
}

fn remedy(kind: ParameterKind, value: &Value) -> &'static str {
    match (kind, value) {
        (ParameterKind::Text, Value::Array(_) | Value::Object(_)) => {
            " (the filter `tojson` makes text of it)"
        }
        (ParameterKind::List | ParameterKind::Object, Value::String(_)) => {
            " (a string that is one `{{ expression }}` keeps its type; the filter `fromjson` reads JSON text)"
        }
        _ => "",
    }
}

/// The beginning of a text, for a message.
pub(super) fn excerpt(text: &str) -> String {
    const LONGEST: usize = 300;
    let text = text.trim();
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
