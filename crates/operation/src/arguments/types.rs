//! The set of types that a schema admits, as far as its keywords are supported here.

use jsonschema::{JsonType, JsonTypeSet};
use serde_json::Value;

use super::lossless_value::LosslessValue;
use super::number;

/// Maximum number of references that are followed.
const MAX_REFERENCES: usize = 16;

/// Returns the types of a `type` keyword. Integers are numbers.
fn named_types(name: &str) -> JsonTypeSet {
    match name.parse() {
        Ok(JsonType::Number) => JsonType::Integer | JsonType::Number,
        Ok(other) => other.into(),
        Err(()) => JsonTypeSet::empty(),
    }
}

/// Returns the types that admit `value`.
fn types_of_value(value: &Value) -> JsonTypeSet {
    match JsonType::from(value) {
        JsonType::Number if value.is_f64() => JsonType::Integer | JsonType::Number,
        JsonType::Number => JsonType::Integer.into(),
        other => other.into(),
    }
}

/// True if a value may stay as it is. `5.0` is a number. JSON Schema versions disagree whether it is an
/// integer, so it is cast.
pub(super) fn admit(types: JsonTypeSet, given: &LosslessValue) -> bool {
    match given {
        LosslessValue::Null => types.contains(JsonType::Null),
        LosslessValue::Boolean(_) => types.contains(JsonType::Boolean),
        LosslessValue::Text(_) => types.contains(JsonType::String),
        LosslessValue::List(_) => types.contains(JsonType::Array),
        LosslessValue::Fields(_) => types.contains(JsonType::Object),
        LosslessValue::Number(lexeme) if number::is_written_as_integer(lexeme) => {
            types.contains(JsonType::Integer) && number::integer(lexeme).is_some()
        }
        LosslessValue::Number(_) | LosslessValue::NonInteger(_) => types.contains(JsonType::Number),
    }
}

/// Returns the types that `schema` admits; all types if it does not restrict them.
pub(super) fn admitted_types(schema: &Value, root: &Value) -> JsonTypeSet {
    within(schema, root, MAX_REFERENCES)
}

fn within(schema: &Value, root: &Value, hops: usize) -> JsonTypeSet {
    let Some(fields) = schema.as_object() else {
        return JsonTypeSet::all();
    };
    let Some(hops) = hops.checked_sub(1) else {
        return JsonTypeSet::all();
    };
    let mut types = match fields.get("type") {
        Some(Value::String(name)) => named_types(name),
        Some(Value::Array(names)) => names
            .iter()
            .filter_map(Value::as_str)
            .fold(JsonTypeSet::empty(), |all, name| {
                all.union(named_types(name))
            }),
        _ => JsonTypeSet::all(),
    };
    if fields.contains_key("type") && fields.get("nullable") == Some(&Value::Bool(true)) {
        types = types.insert(JsonType::Null);
    }
    if let Some(options) = fields.get("enum").and_then(Value::as_array) {
        types = types.intersect(options.iter().fold(JsonTypeSet::empty(), |all, option| {
            all.union(types_of_value(option))
        }));
    }
    if let Some(value) = fields.get("const") {
        types = types.intersect(types_of_value(value));
    }
    if let Some(reference_target) = reference_target(schema, root) {
        types = types.intersect(within(reference_target, root, hops));
    }
    for word in ["anyOf", "oneOf"] {
        if let Some(branches) = fields.get(word).and_then(Value::as_array) {
            types = types.intersect(branches.iter().fold(JsonTypeSet::empty(), |all, branch| {
                all.union(within(branch, root, hops))
            }));
        }
    }
    for part in fields
        .get("allOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        types = types.intersect(within(part, root, hops));
    }
    types
}

/// Returns the target of a schema's `$ref`, if it is in the same document.
pub(super) fn reference_target<'a>(schema: &Value, root: &'a Value) -> Option<&'a Value> {
    let pointer = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
    root.pointer(pointer)
}

/// Follows the references of `schema`.
pub(super) fn resolve_reference<'a>(mut schema: &'a Value, root: &'a Value) -> &'a Value {
    for _ in 0..MAX_REFERENCES {
        match reference_target(schema, root) {
            Some(next) => schema = next,
            None => break,
        }
    }
    schema
}
