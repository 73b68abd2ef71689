//! The order of fields, where it changes a result.
//!
//! Canonical bytes sort fields, so two objects that differ only in the order of their fields have the same ones. A
//! receiver that writes them out as text, such as a model that reads a schema, distinguishes the two.

use serde_json::Value;

/// Returns the order of the fields of all objects in a value; null if they are sorted. Together with the canonical value
/// it determines the order as written.
pub fn key_order(value: &Value) -> Value {
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
