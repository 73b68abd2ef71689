//! Changes in lists of tools, wherever these stand.

use std::collections::BTreeSet;

use cachalot_model::wire::view::{given_tools, is_tool_search};
use serde_json::Value;

use super::LikelyCause;
use super::site::DifferenceSite;
use super::spelling::is_reserialized;

/// The name of a tool; tools that a provider runs are named by their type.
pub(super) fn tool_name(tool: &Value) -> &str {
    let name = tool
        .get("name")
        .or_else(|| tool.get("function")?.get("name"));
    let name = name.or_else(|| tool.get("type"));
    name.and_then(Value::as_str).unwrap_or_default()
}

/// True if the difference is in an item that gives tools to the model.
pub(super) fn gives_tools(site: &DifferenceSite<'_>) -> bool {
    let pieces = [site.value_before(), site.value_after()];
    pieces.iter().any(|piece| given_tools(piece).is_some())
}

/// Returns the cause of a difference in an item or a message that gives tools to the model.
pub(super) fn later_tools(before: &Value, after: &Value) -> Option<LikelyCause> {
    if given_tools(before).is_none() && given_tools(after).is_none() {
        return None;
    }
    if is_tool_search(before) || is_tool_search(after) {
        return Some(LikelyCause::ToolSearch);
    }
    let names = |item: &Value| -> Vec<String> {
        let tools = given_tools(item).unwrap_or_default();
        tools.into_iter().flat_map(names_within).collect()
    };
    let found = listed_tools(&names(before), &names(after));
    found
        .or_else(|| is_reserialized(before, after).then_some(LikelyCause::Reserialized))
        .or(Some(LikelyCause::ToolRedefined))
}

/// The names of a tool and, for a namespace, of the tools in it.
fn names_within(tool: &Value) -> Vec<String> {
    let inner = tool.get("tools").and_then(Value::as_array);
    let inner = inner.into_iter().flatten().map(tool_name);
    let own = std::iter::once(tool_name(tool));
    own.chain(inner).map(str::to_owned).collect()
}

/// Returns the cause of a difference in the names of tools; `None` if they are the same.
pub(super) fn listed_tools(before: &[String], after: &[String]) -> Option<LikelyCause> {
    let (had, has): (BTreeSet<_>, BTreeSet<_>) = (before.iter().collect(), after.iter().collect());
    let is_changed = |prefixes: &[&str]| {
        had.symmetric_difference(&has)
            .any(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
    };
    if is_changed(&["web_search", "web_fetch"]) {
        Some(LikelyCause::WebTools)
    } else if is_changed(&["tool_search"]) {
        Some(LikelyCause::ToolSearch)
    } else if had.difference(&has).next().is_some() {
        Some(LikelyCause::ToolRemoved)
    } else if has.difference(&had).next().is_some() {
        Some(LikelyCause::ToolAdded)
    } else if before != after {
        Some(LikelyCause::ToolsReordered)
    } else {
        None
    }
}
