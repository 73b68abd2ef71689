//! The members after the messages, as far as several formats share them.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::Extra;

/// Renders `fields`, merged with the caller's own (`extra`), as the end of a body: begins with a comma,
/// unless it has no members, and ends with the body's brace. Members in `elsewhere` belong to another part
/// of the request and are left out.
pub(super) fn rendered(
    mut fields: Map<String, Value>,
    extra: &Extra,
    elsewhere: &[&str],
    merging: Merging,
) -> Bytes {
    for (name, value) in extra {
        if !elsewhere.contains(&name.as_str()) {
            merge(&mut fields, name, value, merging);
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

/// The objects whose members are merged with those of the caller. Other values are replaced.
#[derive(Clone, Copy)]
pub(super) enum Merging {
    None,
    /// The objects with these names, one level deep.
    Members(&'static [&'static str]),
    All,
}

/// Sets a member. Null removes one that is set.
fn merge(fields: &mut Map<String, Value>, name: &str, value: &Value, merging: Merging) {
    match (fields.get_mut(name), value, merging) {
        (Some(_), Value::Null, _) => {
            fields.shift_remove(name);
        }
        (Some(Value::Object(own)), Value::Object(theirs), Merging::All) => {
            for (name, value) in theirs {
                merge(own, name, value, merging);
            }
        }
        (Some(Value::Object(own)), Value::Object(theirs), Merging::Members(names))
            if names.contains(&name) =>
        {
            own.extend(theirs.clone());
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
