//! The body of a request as the key contains it.

use std::sync::Arc;

use bytes::Bytes;
use cachalot_core::Canonical;
use cachalot_core::canonical::{Assembler, CanonicalError, SharedValue, key_order};
use cachalot_model::wire::Members;
use serde_json::{Map, Value};

/// A body without the members that are no part of the key.
#[derive(Debug, Clone)]
pub(crate) struct KeyBody {
    /// Its value: the fields of its objects are sorted.
    pub(crate) value: Canonical,
    /// The order of fields where the model may read it; `None` if they are sorted there. A model fills a schema in the
    /// order of its properties.
    pub(crate) order: Option<Canonical>,
}

/// A member of a body.
#[derive(Clone, Copy)]
pub(crate) enum KeyMember<'a> {
    /// The encoded and the parsed value.
    Value(&'a Canonical, &'a Value),
    /// The items of a list.
    Items(&'a [KeyItem<'a>]),
}

/// An item of a list.
#[derive(Clone, Copy)]
pub(crate) struct KeyItem<'a> {
    pub(crate) value: &'a Arc<SharedValue>,
    /// The order of its fields ([`order_of_item`]).
    pub(crate) order: Option<&'a Canonical>,
}

/// The member whose items are read as they are written.
const TOOLS: &str = "tools";
/// Depth of lists in which items may be messages or parts of them.
const LISTS_OF_MESSAGES: u8 = 2;

impl KeyBody {
    /// Encodes a text, whose value is given, too, without the members that select the form. `table` declares the members.
    ///
    /// # Errors
    /// Why the body has no canonical form.
    pub(crate) fn of_text(
        form_members: &[&str],
        text: &Bytes,
        value: &Value,
        table: Option<&Members>,
    ) -> Result<Self, CanonicalError> {
        let canonical = if text.is_empty() {
            Canonical::value(&Value::Null)
        } else {
            Canonical::json_without(text, form_members)?
        };
        let members = value.as_object().into_iter().flatten();
        let is_kept = |(name, _): &(&String, _)| !form_members.contains(&name.as_str());
        Ok(Self::of_members(canonical, members.filter(is_kept), table))
    }

    /// Puts the encoded members of a body together, without those that select the form: the same bytes as those of the
    /// whole text.
    pub(crate) fn of_encoded(
        mut members: Vec<(&str, KeyMember<'_>)>,
        form_members: &[&str],
        table: Option<&Members>,
    ) -> Self {
        members.retain(|(name, _)| !form_members.contains(name));
        members.sort_unstable_by_key(|(name, _)| *name);
        let (mut value, mut order) = (Assembler::new(), Assembler::new());
        let mut has_order = false;
        value.open_object();
        order.open_object();
        for (name, member) in &members {
            value.text(name);
            let is_seen = !table.is_some_and(|table| table.does_nothing(name));
            match *member {
                KeyMember::Value(canonical, parsed) => {
                    value.canonical(canonical);
                    let of_value = order_of_value(name, parsed, table).filter(|_| is_seen);
                    if let Some(of_value) = of_value {
                        has_order = true;
                        order.text(name);
                        order.canonical(&of_value);
                    }
                }
                KeyMember::Items(items) => {
                    value.open_list();
                    items.iter().for_each(|item| value.shared(item.value));
                    value.end();
                    let orders = items.iter().map(|item| item.order).enumerate();
                    let mut orders = orders
                        .filter_map(|(place, order)| Some((place, order?)))
                        .peekable();
                    if is_seen && orders.peek().is_some() {
                        has_order = true;
                        order.text(name);
                        order.open_list();
                        for (place, of_item) in orders {
                            order.open_list();
                            order.number(place);
                            order.canonical(of_item);
                            order.end();
                        }
                        order.end();
                    }
                }
            }
        }
        value.end();
        order.end();
        Self {
            value: value.finish(),
            order: has_order.then(|| order.finish()),
        }
    }

    /// Keeps a value that is encoded, and the order of the members that it was made of.
    pub(crate) fn of_members<'a>(
        value: Canonical,
        members: impl Iterator<Item = (&'a String, &'a Value)>,
        table: Option<&Members>,
    ) -> Self {
        let order = order(members, table);
        let order = (!order.is_null()).then(|| Canonical::value(&order));
        Self { value, order }
    }

    /// The size of the encoded forms in bytes.
    pub(crate) fn size(&self) -> usize {
        let order = self.order.as_ref();
        self.value.len() + order.map_or(0, Canonical::len)
    }
}

/// Returns the order of the fields in a body, but for those of the body itself, of its messages, and of their parts: these
/// are members of the API, which no model sees.
fn order<'a>(
    members: impl Iterator<Item = (&'a String, &'a Value)>,
    table: Option<&Members>,
) -> Value {
    of_fields(members, table, |name, value| {
        of_member_of_body(name, value, table)
    })
}

fn of_member_of_body(name: &str, value: &Value, table: Option<&Members>) -> Value {
    match name {
        TOOLS => key_order(value),
        _ => of_member(value, table, LISTS_OF_MESSAGES),
    }
}

/// Returns the order of the fields in a member of a body; `None` if they are sorted.
fn order_of_value(name: &str, value: &Value, table: Option<&Members>) -> Option<Canonical> {
    let order = of_member_of_body(name, value, table);
    (!order.is_null()).then(|| Canonical::value(&order))
}

/// Returns the order of the fields in an item of a list of a body; `None` if they are sorted.
pub(crate) fn order_of_item(
    list: &str,
    item: &Value,
    table: Option<&Members>,
) -> Option<Canonical> {
    let order = match list {
        TOOLS => key_order(item),
        _ => of_item(item, table, LISTS_OF_MESSAGES),
    };
    (!order.is_null()).then(|| Canonical::value(&order))
}

/// Returns the order of the fields in a member; in lists up to a depth, items may be messages or parts.
fn of_member(value: &Value, table: Option<&Members>, lists: u8) -> Value {
    let (Value::Array(items), 1..) = (value, lists) else {
        return key_order(value);
    };
    let items = items.iter().map(|item| of_item(item, table, lists));
    let found = items
        .enumerate()
        .filter(|(_, order)| !order.is_null())
        .map(|(place, order)| Value::from(vec![place.into(), order]));
    match found.collect::<Vec<_>>() {
        found if found.is_empty() => Value::Null,
        found => found.into(),
    }
}

/// Returns the order of the fields in an item of a list.
fn of_item(item: &Value, table: Option<&Members>, lists: u8) -> Value {
    match item {
        Value::Object(fields) if is_of_api(fields) => {
            of_fields(fields.iter(), table, |_, value| {
                of_member(value, table, lists - 1)
            })
        }
        item => key_order(item),
    }
}

/// Returns true for a message, or a part of one.
fn is_of_api(fields: &Map<String, Value>) -> bool {
    let is_text = |name: &str| fields.get(name).is_some_and(Value::is_string);
    is_text("role") || is_text("type")
}

/// Returns the orders in fields whose own order has no meaning, but for those that do nothing.
fn of_fields<'a>(
    fields: impl Iterator<Item = (&'a String, &'a Value)>,
    table: Option<&Members>,
    of: impl Fn(&str, &Value) -> Value,
) -> Value {
    let seen = fields.filter(|(name, _)| !table.is_some_and(|table| table.does_nothing(name)));
    let found = seen.map(|(name, value)| (name.clone(), of(name, value)));
    let found: Map<String, Value> = found.filter(|(_, order)| !order.is_null()).collect();
    if found.is_empty() {
        Value::Null
    } else {
        found.into()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cachalot_model::wire;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn table() -> Option<&'static Members> {
        Some(wire::RESPONSES.members())
    }

    fn key(text: &str) -> (Canonical, Option<Canonical>) {
        let value: Value = serde_json::from_str(text).unwrap();
        let body =
            KeyBody::of_text(&["stream"], &Bytes::from(text.to_owned()), &value, table()).unwrap();
        (body.value, body.order)
    }

    fn order_of(body: &Value) -> Value {
        order(body.as_object().into_iter().flatten(), table())
    }

    #[test]
    fn order_counts_where_a_model_reads_it() {
        for (one, other) in [
            (
                r#"{"response_format": {"json_schema": {"schema": {"properties": {"b": {}, "a": {}}}}}}"#,
                r#"{"response_format": {"json_schema": {"schema": {"properties": {"a": {}, "b": {}}}}}}"#,
            ),
            (
                r#"{"text": {"format": {"schema": {"properties": {"b": {}, "a": {}}}}}}"#,
                r#"{"text": {"format": {"schema": {"properties": {"a": {}, "b": {}}}}}}"#,
            ),
            (
                r#"{"generationConfig": {"responseJsonSchema": {"properties": {"b": {}, "a": {}}}}}"#,
                r#"{"generationConfig": {"responseJsonSchema": {"properties": {"a": {}, "b": {}}}}}"#,
            ),
            (
                r#"{"tools": [{"type": "function", "function": {"parameters": {"b": {}, "a": {}}}}]}"#,
                r#"{"tools": [{"type": "function", "function": {"parameters": {"a": {}, "b": {}}}}]}"#,
            ),
            (
                r#"{"messages": [{"role": "assistant", "content": [{"type": "tool_use", "input": {"b": 1, "a": 2}}]}]}"#,
                r#"{"messages": [{"role": "assistant", "content": [{"type": "tool_use", "input": {"a": 2, "b": 1}}]}]}"#,
            ),
            (
                r#"{"contents": [{"parts": [{"functionCall": {"args": {"b": 1, "a": 2}}}]}]}"#,
                r#"{"contents": [{"parts": [{"functionCall": {"args": {"a": 2, "b": 1}}}]}]}"#,
            ),
        ] {
            let (one, other) = (key(one), key(other));
            assert_eq!(one.0, other.0);
            assert_ne!(one.1, other.1);
        }
    }

    #[test]
    fn order_of_members_of_the_api_has_no_meaning() {
        for (one, other) in [
            (
                r#"{"stream": true, "model": "m", "a": 1}"#,
                r#"{"a": 1, "model": "m"}"#,
            ),
            (
                r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}"#,
                r#"{"messages": [{"content": [{"text": "x", "type": "text"}], "role": "user"}]}"#,
            ),
            (
                r#"{"input": [{"type": "message", "internal_chat_message_metadata_passthrough": {"b": 1, "a": 2}}]}"#,
                r#"{"input": [{"type": "message", "internal_chat_message_metadata_passthrough": {"a": 2, "b": 1}}]}"#,
            ),
            (
                r#"{"system": [{"type": "text", "text": "x"}]}"#,
                r#"{"system": [{"text": "x", "type": "text"}]}"#,
            ),
        ] {
            assert_eq!(key(one), key(other));
        }
    }

    proptest! {
        #[test]
        fn an_order_of_a_body_that_is_sorted_is_null(names in prop::collection::btree_set("[a-z]{1,4}", 0..5)) {
            let fields: Map<String, Value> = names.iter().map(|name| (name.clone(), json!(1))).collect();
            let body = json!({"a": fields, "messages": [{"content": fields, "role": "user"}]});
            prop_assert_eq!(order_of(&body), Value::Null);
        }

        #[test]
        fn two_orders_of_a_schema_are_two_keys(names in prop::collection::btree_set("[a-z]{1,4}", 2..6), at in any::<prop::sample::Index>()) {
            let mut names: Vec<String> = names.into_iter().collect();
            let body = |names: &[String]| {
                let fields: Map<String, Value> = names.iter().map(|name| (name.clone(), json!(1))).collect();
                order_of(&json!({"messages": [{"role": "user", "content": [{"type": "x", "list": [{"type": "x", "of": fields}]}]}]}))
            };
            let sorted = body(&names);
            let at = at.index(names.len() - 1);
            names.swap(at, at + 1);
            prop_assert_ne!(sorted, body(&names));
        }
    }
}
