//! The mark of tool results that hooks have changed.

use cachalot_model::ToolResult;
use serde_json::Value;

/// The field that marks a tool result as changed by hooks. It is stored and never sent: no wire format sends
/// fields that begin with `@`.
const CHANGED_FIELD: &str = "@changed";

/// Marks a result as what hooks have made of it.
pub(crate) fn mark_changed(result: &mut ToolResult) {
    result
        .extra
        .insert(CHANGED_FIELD.to_owned(), Value::Bool(true));
}

/// True if the result is marked.
pub(super) fn is_marked_changed(result: &ToolResult) -> bool {
    result.extra.contains_key(CHANGED_FIELD)
}
