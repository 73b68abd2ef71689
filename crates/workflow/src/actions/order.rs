//! The order of mappings, where it changes a result.
//!
//! Cache keys sort mappings, so two mappings that differ only in their order have the same key. An action
//! that serializes mappings produces different text for the two.

use serde_json::{Map, Value};

use crate::Arguments;

/// Returns the value that a key must contain besides the arguments of these names to distinguish their
/// order: null if every mapping in them is sorted or has one field.
pub(super) fn implicit_input(arguments: &Arguments, names: &[&str]) -> Value {
    let orders = names.iter().filter_map(|name| {
        let order = key_order(arguments.get(*name)?);
        (!order.is_null()).then(|| ((*name).to_owned(), order))
    });
    let orders: Map<String, Value> = orders.collect();
    if orders.is_empty() {
        return Value::Null;
    }
    serde_json::json!({ "order": orders })
}

/// Returns the order of all mappings in a value; null if they are sorted. Together with the sorted value
/// it determines the value as written.
pub(super) fn key_order(value: &Value) -> Value {
    let entry = |(place, order): (Value, Value)| {
        (!order.is_null()).then(|| Value::from(vec![place, order]))
    };
    let children: Vec<Value> = match value {
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(place, item)| (place.into(), key_order(item)))
            .filter_map(entry)
            .collect(),
        Value::Object(fields) => {
            let mut children: Vec<Value> = fields
                .iter()
                .map(|(name, field)| (name.as_str().into(), key_order(field)))
                .filter_map(entry)
                .collect();
            if !fields.keys().is_sorted() {
                let names: Vec<&str> = fields.keys().map(String::as_str).collect();
                children.insert(0, names.into());
            }
            children
        }
        _ => return Value::Null,
    };
    if children.is_empty() {
        Value::Null
    } else {
        children.into()
    }
}
