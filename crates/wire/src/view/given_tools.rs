//! Tools that stand outside of the member `tools`.

use serde_json::Value;

/// Returns the tools that an item or a message gives to the model, or takes away; `None` if it does neither.
///
/// | place | tools |
/// |---|---|
/// | item `additional_tools`, `tool_search_output` (Responses) | `tools` |
/// | block `tool_addition`, `tool_removal` (Messages) | the block: a reference, or a `tool_definition` |
/// | block `tool_search_tool_result` (Messages) | the block |
#[must_use]
pub fn given_tools(item: &Value) -> Option<Vec<&Value>> {
    if matches!(kind(item), "additional_tools" | "tool_search_output") {
        let tools = item.get("tools").and_then(Value::as_array);
        return Some(tools.into_iter().flatten().collect());
    }
    let blocks = item.get("content").and_then(Value::as_array)?;
    let given = blocks.iter().filter(|block| {
        let names = ["tool_addition", "tool_removal", "tool_search_tool_result"];
        names.contains(&kind(block))
    });
    let given: Vec<&Value> = given
        .map(|block| block.get("tool_definition").unwrap_or(block))
        .collect();
    (!given.is_empty()).then_some(given)
}

/// Returns true if an item or a block belongs to a search for tools.
#[must_use]
pub fn is_tool_search(item: &Value) -> bool {
    let blocks = item.get("content").and_then(Value::as_array);
    let mut items = std::iter::once(item).chain(blocks.into_iter().flatten());
    items.any(|item| {
        let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
        kind(item).starts_with("tool_search") || name.starts_with("tool_search_tool")
    })
}

fn kind(item: &Value) -> &str {
    item.get("type").and_then(Value::as_str).unwrap_or_default()
}
