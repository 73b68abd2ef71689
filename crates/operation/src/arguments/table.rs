//! The check and the cast of arguments by a declared table of parameters: those of a workflow, whose templates
//! render numbers and booleans to text.

use std::fmt::Display;
use std::time::Duration;

use cachalot_core::duration::Refusal;
use cachalot_core::suggest;
use serde_json::{Number, Value};

use super::number;
use crate::{Arguments, Failure, OperationMetadata, Parameter, ParameterKind, Parameters, Schema};

impl OperationMetadata {
    /// Checks `arguments` against the parameters and casts them to the declared kinds.
    /// Nulls are dropped, except for parameters of kind `Any`. An alias is replaced by the parameter's name.
    ///
    /// Casts cover what templates make necessary: the text of a number or of a boolean (in any case) becomes
    /// that number or boolean, a number or a boolean becomes its text, and a float without a fraction becomes
    /// a whole number. Nothing is rounded and nothing is guessed.
    ///
    /// The arguments of a JSON Schema are cast and checked like those of a model.
    ///
    /// # Errors
    /// A `validation_error` that names the action and every parameter that is unknown, missing, or not of its
    /// kind.
    pub fn check(&self, arguments: Arguments) -> Result<Arguments, Failure> {
        if let Parameters::Schema(schema) = &self.parameters {
            return check_by_schema(&self.name, schema, arguments);
        }
        let mut wrong = Vec::new();
        let mut checked = arguments;
        if checked
            .iter()
            .all(|(name, value)| self.is_named(name, value))
        {
            for (name, value) in &mut checked {
                if let Some(parameter) = self.parameter(name) {
                    *value = cast_argument(parameter, name, value.take(), &mut wrong);
                }
            }
        } else {
            checked = self.renamed(checked, &mut wrong);
        }
        for parameter in self.parameters.table() {
            if parameter.required && !checked.contains_key(parameter.name) {
                wrong.push(format!("parameter `{}` is required", parameter.name));
            }
        }
        if wrong.is_empty() {
            return Ok(checked);
        }
        Err(Failure::new(
            "validation_error",
            format!("{}: {}", self.name, wrong.join("; ")),
        ))
    }

    /// True for an argument that has the name of a parameter, and is not a null that is dropped.
    fn is_named(&self, name: &str, value: &Value) -> bool {
        let parameter = self.parameter(name);
        parameter.is_some_and(|parameter| {
            parameter.name == name && (!value.is_null() || parameter.kind == ParameterKind::Any)
        })
    }

    /// Returns the cast arguments under the names of their parameters, without nulls that are dropped.
    fn renamed(&self, arguments: Arguments, wrong: &mut Vec<String>) -> Arguments {
        let mut renamed = Arguments::with_capacity(arguments.len());
        for (name, value) in arguments {
            match self.parameter(&name) {
                None => wrong.push(unknown(self, &name)),
                Some(parameter) if value.is_null() && parameter.kind != ParameterKind::Any => {}
                Some(parameter) if renamed.contains_key(parameter.name) => {
                    wrong.push(duplicate_argument(parameter));
                }
                Some(parameter) => {
                    let value = cast_argument(parameter, &name, value, wrong);
                    renamed.insert(parameter.name.to_owned(), value);
                }
            }
        }
        renamed
    }
}

/// Casts and checks arguments by a JSON Schema.
fn check_by_schema(name: &str, schema: &Value, arguments: Arguments) -> Result<Arguments, Failure> {
    let wrong = |why: &dyn Display| Failure::new("validation_error", format!("{name}: {why}"));
    let schema = Schema::compile(schema, true).map_err(|error| wrong(&error))?;
    schema
        .parse_arguments(&Value::Object(arguments).to_string())
        .map_err(|error| wrong(&error))
}

/// Returns the message for a parameter that is given under two of its names.
#[must_use]
pub fn duplicate_argument(parameter: &Parameter) -> String {
    let spellings = parameter.spellings();
    let names: Vec<String> = spellings.map(|name| format!("`{name}`")).collect();
    format!(
        "{} are one parameter: give one of them",
        names.join(" and ")
    )
}

fn unknown(about: &OperationMetadata, name: &str) -> String {
    let parameters = about.parameters.table().iter();
    let known: Vec<&str> = parameters.flat_map(Parameter::spellings).collect();
    format!(
        "unknown parameter `{name}`: {}",
        suggest::did_you_mean(name, &known)
    )
}

/// Casts an argument, given as `name`. Returns null if it cannot be cast, and adds the reason to `wrong`.
fn cast_argument(
    parameter: &Parameter,
    name: &str,
    value: Value,
    wrong: &mut Vec<String>,
) -> Value {
    // The template of an argument that the action renders, see `Parameter::late_names`.
    if !parameter.late_names.is_empty() && value.is_object() {
        return value;
    }
    cast(value, parameter.kind).unwrap_or_else(|Refusal { cause, remedy, .. }| {
        wrong.push(format!("parameter `{name}` {cause}: {remedy}"));
        Value::Null
    })
}

/// Casts the value to the kind.
fn cast(value: Value, kind: ParameterKind) -> Result<Value, Refusal> {
    let refusal = |found: &dyn Display, expected: &str| Refusal {
        code: "wrong-type",
        cause: format!("is {found}"),
        remedy: format!("expected {expected}"),
    };
    let text_refusal =
        |text: &str, expected: &str| refusal(&format_args!("`{}`", excerpt(text)), expected);
    match (kind.basic(), value) {
        (ParameterKind::Any, value) => Ok(value),
        (ParameterKind::Text, Value::Number(number)) => Ok(Value::String(number.to_string())),
        (ParameterKind::Text, Value::Bool(flag)) => Ok(Value::String(flag.to_string())),
        (ParameterKind::Text, value @ Value::String(_))
        | (ParameterKind::Boolean, value @ Value::Bool(_))
        | (ParameterKind::Object, value @ Value::Object(_))
        | (ParameterKind::List, value @ Value::Array(_))
        | (ParameterKind::Number | ParameterKind::Duration(_), value @ Value::Number(_)) => {
            Ok(value)
        }
        (ParameterKind::Duration(range), Value::String(text)) => match parse_number(&text) {
            Some(number) => Ok(Value::Number(number)),
            None => range.read_text(&text).map(seconds),
        },
        (ParameterKind::Boolean, Value::String(text)) => boolean(&text)
            .map(Value::Bool)
            .ok_or_else(|| text_refusal(&text, "true or false")),
        (ParameterKind::Number, Value::String(text)) => parse_number(&text)
            .map(Value::Number)
            .ok_or_else(|| text_refusal(&text, "a number")),
        (ParameterKind::Integer, Value::Number(number)) => whole(&number)
            .map(Value::Number)
            .ok_or_else(|| refusal(&number, "a whole number")),
        (ParameterKind::Integer, Value::String(text)) => parse_number(&text)
            .and_then(|number| whole(&number))
            .map(Value::Number)
            .ok_or_else(|| text_refusal(&text, "a whole number")),
        (kind, value) => {
            let expected = expected(kind) + remedy(kind, &value);
            Err(refusal(&kind_name(&value), &expected))
        }
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// Returns the number of seconds: a duration and the number that means the same have one key.
fn seconds(duration: Duration) -> Value {
    match duration.subsec_nanos() {
        0 => duration.as_secs().into(),
        _ => duration.as_secs_f64().into(),
    }
}

/// Parses a JSON number; whole numbers within 64 bits stay exact.
fn parse_number(text: &str) -> Option<Number> {
    number::number(number::number_lexeme(text)?)
}

fn whole(number: &Number) -> Option<Number> {
    /// The largest magnitude up to which every whole number has its own float (2^53).
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if !number.is_f64() {
        return Some(number.clone());
    }
    let float = number.as_f64()?;
    // The cast is exact: the float has no fraction and is within 2^53.
    #[expect(clippy::cast_possible_truncation, reason = "checked to be exact")]
    (float.fract() == 0.0 && float.abs() <= EXACT).then(|| Number::from(float as i64))
}

/// Returns the type of a value, for messages.
#[must_use]
pub fn kind_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// Returns the name of a kind, for messages.
#[must_use]
pub fn expected(kind: ParameterKind) -> String {
    kind.expected().replace('`', "")
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

/// Returns the beginning of a text, for messages.
#[must_use]
pub fn excerpt(text: &str) -> String {
    const MAX_EXCERPT_CHARS: usize = 300;
    let text = text.trim();
    match text.char_indices().nth(MAX_EXCERPT_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
