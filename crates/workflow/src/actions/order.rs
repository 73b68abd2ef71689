//! The order of mappings as an input of an action that writes them out.

use cachalot_core::canonical::key_order;
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
