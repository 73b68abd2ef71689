//! Which format the fields of an [`Extra`] came from.
//!
//! A field that one format sent means nothing to another, and strict providers refuse a request for
//! it. So what is read from a wire is marked with its format, goes back to that format only, and the
//! mark itself goes nowhere. Fields without a mark were written by hand and go to every format; but
//! those whose names begin with `@` are our own notes, and go to none.

use serde_json::{Map, Value};

use crate::{Extra, Format};

/// The entry that names the format.
const ORIGIN: &str = "@wire";

/// How the names of notes begin. No provider's field begins like this.
const NOTE: char = '@';

/// Marks fields as read from `format`; no fields remain no fields.
pub(crate) fn from_wire(format: Format, mut fields: Extra) -> Extra {
    if !fields.is_empty() {
        fields = marked(format, fields);
    }
    fields
}

/// Marks fields as read from `format`, also where there are none.
pub(crate) fn marked(format: Format, mut fields: Extra) -> Extra {
    fields.insert(ORIGIN.into(), Value::from(name(format)));
    fields
}

/// Whether the fields are marked as read from `format`.
pub(crate) fn is_from(format: Format, extra: &Extra) -> bool {
    extra.get(ORIGIN).and_then(Value::as_str) == Some(name(format))
}

/// The fields that may go to `format`, in their order.
pub(crate) fn fields(format: Format, extra: &Extra) -> impl Iterator<Item = (&String, &Value)> {
    let own = extra
        .get(ORIGIN)
        .is_none_or(|origin| origin.as_str() == Some(name(format)));
    extra
        .iter()
        .filter(move |(field, _)| own && !field.starts_with(NOTE))
}

/// One of those fields.
pub(crate) fn field<'a>(format: Format, extra: &'a Extra, name: &str) -> Option<&'a Value> {
    fields(format, extra).find_map(|(field, value)| (field == name).then_some(value))
}

/// Adds the fields that may go to `format` behind those that are there; those that are there stay.
pub(crate) fn add(object: &mut Map<String, Value>, format: Format, extra: &Extra) {
    for (field, value) in fields(format, extra) {
        if !object.contains_key(field) {
            object.insert(field.clone(), value.clone());
        }
    }
}

const fn name(format: Format) -> &'static str {
    match format {
        Format::Chat => "chat",
        Format::Responses => "responses",
        Format::Messages => "messages",
        Format::Gemini => "gemini",
        Format::Converse => "converse",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn notes_go_nowhere_and_leave_other_fields_where_they_belong() {
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
}
