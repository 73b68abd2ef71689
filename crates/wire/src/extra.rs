//! Origin of the fields of an [`Extra`].
//!
//! A field of one format has no meaning in another, and strict providers reject unknown fields. Fields that
//! were read from a wire format are therefore marked with it and sent back to that format only; the mark
//! itself is never sent. Fields without a mark were configured by the user and are sent to every format.
//! Fields whose names begin with `@` are internal notes and are never sent.

use cachalot_core::json::is_empty;
use serde_json::{Map, Value};

use crate::{Extra, Format};

/// The entry with the name of the format.
const ORIGIN: &str = "@wire";

/// Prefix of the names of notes. No provider's field begins with it.
const NOTE: char = '@';

/// Marks fields as read from `format`; an empty map stays empty.
pub(crate) fn from_wire(format: Format, mut fields: Extra) -> Extra {
    if !fields.is_empty() {
        fields = marked(format, fields);
    }
    fields
}

/// Marks fields as read from `format`, even if there are none.
pub(crate) fn marked(format: Format, mut fields: Extra) -> Extra {
    fields.insert(ORIGIN.into(), Value::from(format.name()));
    fields
}

/// Returns true if the fields are marked as read from `format`.
pub(crate) fn is_from(format: Format, extra: &Extra) -> bool {
    extra.get(ORIGIN).and_then(Value::as_str) == Some(format.name())
}

/// Returns the fields that may be sent to `format`, in their order.
pub(crate) fn fields(format: Format, extra: &Extra) -> impl Iterator<Item = (&String, &Value)> {
    let own = extra
        .get(ORIGIN)
        .is_none_or(|origin| origin.as_str() == Some(format.name()));
    extra
        .iter()
        .filter(move |(field, _)| own && !field.starts_with(NOTE))
}

/// Returns one of the fields that may be sent to `format`.
pub(crate) fn field<'a>(format: Format, extra: &'a Extra, name: &str) -> Option<&'a Value> {
    fields(format, extra).find_map(|(field, value)| (field == name).then_some(value))
}

/// Appends the fields that may be sent to `format`; fields already present win.
pub(crate) fn add(object: &mut Map<String, Value>, format: Format, extra: &Extra) {
    for (field, value) in fields(format, extra) {
        if !object.contains_key(field) {
            object.insert(field.clone(), value.clone());
        }
    }
}

/// Sets a field to its value in a later part of an answer. An empty value replaces no other one: it says that the part
/// has nothing of the field, not that the answer has nothing.
pub(crate) fn update(fields: &mut Extra, name: String, value: Value) {
    let is_known = fields.get(&name).is_some_and(|known| !is_empty(known));
    if !is_known || !is_empty(&value) {
        fields.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn at_fields_are_never_sent_and_other_fields_keep_their_format() {
        let mut extra = Extra::new();
        extra.insert("@synthetic".to_owned(), json!({"provenance": "x"}));
        for format in [Format::Chat, Format::Responses, Format::Messages] {
            assert_eq!(fields(format, &extra).count(), 0);
            assert_eq!(field(format, &extra, "@synthetic"), None);
        }
        extra.insert("name".to_owned(), json!("a"));
        let read = from_wire(Format::Chat, extra);
        let names =
            |format| -> Vec<&String> { fields(format, &read).map(|(name, _)| name).collect() };
        assert_eq!(names(Format::Chat), ["name"]);
        assert!(names(Format::Messages).is_empty());
    }

    #[test]
    fn empty_value_replaces_none() {
        let mut fields = Extra::new();
        for (value, expected) in [
            (json!([]), json!([])),
            (json!({}), json!({})),
            (json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": [], "c": 0}), json!({"a": ["b"]})),
            (json!(null), json!({"a": ["b"]})),
            (json!("d"), json!("d")),
        ] {
            update(&mut fields, "name".to_owned(), value);
            assert_eq!(fields["name"], expected);
        }
    }
}
