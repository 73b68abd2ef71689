//! The members after the messages, as far as several formats share them.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::Extra;

/// Renders `fields`, merged with the caller's own (`extra`), as the end of a body: begins with a comma,
/// unless it has no members, and ends with the body's brace. Members in `elsewhere` belong to another part
/// of the request and are left out.
pub(super) fn rendered(mut fields: Map<String, Value>, extra: &Extra, elsewhere: &[&str]) -> Bytes {
    for (name, value) in extra {
        if !elsewhere.contains(&name.as_str()) {
            merge(&mut fields, name, value);
        }
    }
    if fields.is_empty() {
        return Bytes::from_static(b"}");
    }
    let mut bytes = Value::Object(fields).to_string().into_bytes();
    if let Some(first) = bytes.first_mut() {
        *first = b',';
    }
    bytes.into()
}

/// Sets a member. Objects are merged, and null removes the member.
fn merge(fields: &mut Map<String, Value>, name: &str, value: &Value) {
    match (fields.get_mut(name), value) {
        (Some(_), Value::Null) => {
            fields.shift_remove(name);
        }
        (Some(Value::Object(parameter_members)), Value::Object(theirs)) => {
            for (name, value) in theirs {
                merge(parameter_members, name, value);
            }
        }
        _ => {
            fields.insert(name.to_owned(), value.clone());
        }
    }
}

/// Returns the fields that have a value.
pub(super) fn present<const N: usize>(fields: [(&str, Option<Value>); N]) -> Map<String, Value> {
    fields
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// Returns a number, unless JSON cannot represent it.
pub(super) fn number(value: Option<f64>) -> Option<Value> {
    serde_json::Number::from_f64(value?).map(Value::Number)
}
