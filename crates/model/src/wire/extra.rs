//! Which format the fields of an [`Extra`] came from.
//!
//! A field that one format sent means nothing to another, and strict providers refuse a request for
//! it. So what is read from a wire is marked with its format, goes back to that format only, and the
//! mark itself goes nowhere. Fields without a mark were written by hand and go to every format.

use serde_json::{Map, Value};

use crate::{Extra, Format};

/// The entry that names the format. No provider's field begins like this.
const ORIGIN: &str = "@wire";

/// Marks fields as read from `format`; no fields remain no fields.
pub(crate) fn from_wire(format: Format, mut fields: Extra) -> Extra {
    if !fields.is_empty() {
        fields.insert(ORIGIN.into(), Value::from(name(format)));
    }
    fields
}

/// The fields that may go to `format`, in their order.
pub(crate) fn fields(format: Format, extra: &Extra) -> impl Iterator<Item = (&String, &Value)> {
    let own = extra
        .get(ORIGIN)
        .is_none_or(|origin| origin.as_str() == Some(name(format)));
    extra
        .iter()
        .filter(move |(field, _)| own && *field != ORIGIN)
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
    }
}
