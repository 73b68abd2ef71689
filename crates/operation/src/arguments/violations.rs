//! Messages to a model about arguments that violate the schema: problem, place, expectation, given value.

use cachalot_core::suggest;
use cachalot_core::text::truncate;
use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::paths::LocationSegment;
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use super::lossless_value::{LosslessValue, join};
use super::types::resolve_reference;

/// Maximum number of messages about one call.
const MAX_MESSAGES: usize = 10;

/// Maximum number of characters of a value that are shown.
const MAX_VALUE_CHARS: usize = 60;

/// Returns one sentence for each violation in `arguments`; empty if there are none.
pub(super) fn describe_violations(
    validator: &Validator,
    schema: &Value,
    arguments: &Value,
) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut further = 0_usize;
    for error in validator.iter_errors(arguments) {
        for complaint in violation_messages(&error, schema) {
            if all.contains(&complaint) {
                continue;
            }
            if all.len() < MAX_MESSAGES {
                all.push(complaint);
            } else {
                further += 1;
            }
        }
    }
    if further > 0 {
        all.push(format!("and {further} more"));
    }
    all
}

fn violation_messages(error: &ValidationError<'_>, root: &Value) -> Vec<String> {
    let path = path_of(error);
    let schema = schema_of(error, root);
    match error.kind() {
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            vec![missing(&path, name, error.instance(), schema, root)]
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            unexpected
                .iter()
                .map(|name| unknown(&path, name, schema))
                .collect()
        }
        Kind::Enum { options } => vec![not_an_option(&path, options, error.instance())],
        kind => vec![match expectation(kind, schema) {
            Some(expected) => format!(
                "{} must be {expected}, not {}",
                subject(&path),
                show_value(error.instance())
            ),
            None => format!("{}: {}", subject(&path), truncate(&error.to_string(), 300)),
        }],
    }
}

fn subject(path: &str) -> String {
    if path.is_empty() {
        "the object of the arguments".to_owned()
    } else {
        format!("`{path}`")
    }
}

fn missing(path: &str, name: &str, object: &Value, schema: Option<&Value>, root: &Value) -> String {
    let declared = |name: &str| schema?.get("properties")?.get(name);
    let mut said = format!("`{}` is missing", join(path, name));
    if let Some(property) = declared(name) {
        said.push_str(": it must be ");
        said.push_str(&expected(property, root));
        if let Some(description) = property.get("description").and_then(Value::as_str) {
            said.push_str(&format!(" ({})", truncate(description, 120)));
        }
    }
    let strangers = object
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.keys().map(String::as_str))
        .filter(|given| declared(given).is_none());
    if let Some(near) = suggest::nearest(name, strangers) {
        said.push_str(&format!("; you gave `{near}`"));
    }
    said
}

fn unknown(path: &str, name: &str, schema: Option<&Value>) -> String {
    let known: Vec<&str> = schema
        .and_then(|schema| schema.get("properties")?.as_object())
        .map(|properties| properties.keys().map(String::as_str).collect())
        .unwrap_or_default();
    format!(
        "there is no argument `{}`; {}",
        join(path, &truncate(name, MAX_VALUE_CHARS)),
        suggest::did_you_mean(name, &known)
    )
}

fn not_an_option(path: &str, options: &Value, given: &Value) -> String {
    let words: Vec<&str> = options
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let near = given
        .as_str()
        .and_then(|given| suggest::nearest(given, words.iter().copied()));
    let meant = near.map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
    format!(
        "{} must be {}, not {}{meant}",
        subject(path),
        one_of(options),
        show_value(given)
    )
}

/// The expectation of a keyword, for keywords whose message by the validator can be improved.
fn expectation(kind: &Kind, schema: Option<&Value>) -> Option<String> {
    Some(match kind {
        Kind::Type { .. } => return schema.map(|schema| expected(schema, schema)),
        Kind::Constant { expected_value } => expected_value.to_string(),
        Kind::Minimum { limit } => format!("at least {limit}"),
        Kind::Maximum { limit } => format!("at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("less than {limit}"),
        Kind::MinLength { limit: 1 } => "a string that is not empty".to_owned(),
        Kind::MinLength { limit } => format!("a string of at least {limit} characters"),
        Kind::MaxLength { limit } => format!("a string of at most {limit} characters"),
        Kind::MinItems { limit: 1 } => "an array that is not empty".to_owned(),
        Kind::MinItems { limit } => format!("an array of at least {limit} items"),
        Kind::MaxItems { limit } => format!("an array of at most {limit} items"),
        Kind::Pattern { pattern } => format!("a string that matches {pattern}"),
        Kind::Format { format } => format!("a string of the format {format}"),
        Kind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => {
            let branches = schema.and_then(|schema| {
                let branches = schema.get("anyOf").or_else(|| schema.get("oneOf"))?;
                branches.as_array()
            })?;
            let said: Vec<String> = branches.iter().map(|b| expected(b, b)).collect();
            said.join(", or ")
        }
        _ => return None,
    })
}

/// The expectation of a schema, in a few words.
fn expected(schema: &Value, root: &Value) -> String {
    let schema = resolve_reference(schema, root);
    if let Some(options) = schema.get("enum") {
        return one_of(options);
    }
    if let Some(value) = schema.get("const") {
        return value.to_string();
    }
    let named = |name: &str| {
        let article = if name.starts_with(['a', 'i', 'o']) {
            "an"
        } else {
            "a"
        };
        match name {
            "null" => name.to_owned(),
            "array" => match schema.get("items").and_then(|items| items.get("type")) {
                Some(Value::String(item)) => format!("an array of {item}s"),
                _ => "an array".to_owned(),
            },
            _ => format!("{article} {name}"),
        }
    };
    let types = match schema.get("type") {
        Some(Value::String(name)) => named(name),
        Some(Value::Array(names)) => {
            let names: Vec<String> = names.iter().filter_map(Value::as_str).map(named).collect();
            names.join(" or ")
        }
        _ => "a value that fits the schema".to_owned(),
    };
    let bound = |word: &str| schema.get(word).filter(|limit| limit.is_number());
    match (bound("minimum"), bound("maximum")) {
        (Some(minimum), Some(maximum)) => format!("{types} from {minimum} to {maximum}"),
        (Some(minimum), None) => format!("{types} of at least {minimum}"),
        (None, Some(maximum)) => format!("{types} of at most {maximum}"),
        (None, None) => types,
    }
}

fn one_of(options: &Value) -> String {
    match options.as_array().map(Vec::as_slice) {
        Some([only]) => only.to_string(),
        Some(several) => {
            let several: Vec<String> = several.iter().map(Value::to_string).collect();
            format!("one of {}", several.join(", "))
        }
        None => options.to_string(),
    }
}

/// A value as JSON, cut; with the syntax error if it is a string that looks like JSON but is not.
fn show_value(value: &Value) -> String {
    let kind = match value {
        Value::Null | Value::Bool(_) => "",
        Value::Number(_) => "the number ",
        Value::String(_) => "the string ",
        Value::Array(_) => "the array ",
        Value::Object(_) => "the object ",
    };
    let mut said = format!("{kind}{}", truncate(&value.to_string(), MAX_VALUE_CHARS));
    if let Value::String(text) = value
        && text.trim_start().starts_with(['[', '{'])
        && let Err(wrong) = LosslessValue::parse(text)
    {
        said.push_str(&format!(" (which is not valid JSON: {wrong})"));
    }
    said
}

/// Formats a path like `a.b[3]`.
fn path_of(error: &ValidationError<'_>) -> String {
    let mut path = String::new();
    for segment in error.instance_path().segments() {
        match segment {
            LocationSegment::Property(name) => path = join(&path, &name),
            LocationSegment::Index(index) => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

/// Returns the schema that contains the violated keyword.
fn schema_of<'a>(error: &ValidationError<'_>, root: &'a Value) -> Option<&'a Value> {
    let keyword = error.schema_path().as_str();
    let (schema, _) = keyword.rsplit_once('/')?;
    root.pointer(schema)
}
