//! Search for the actions that a file names, without resolving them.

use cachalot_core::SourceSpan;
use cachalot_core::tree::{MapEntry, Node, NodeKind};

/// Returns the place of a step that searches long-term memory by text.
pub(super) fn text_search(node: &Node) -> Option<SourceSpan> {
    let uses = node.get("uses").and_then(Node::as_text);
    let is_search = uses.is_some_and(|name| name.trim_start_matches("actions.") == "ltm.search");
    let query = node.get("with").and_then(|with| with.get("query"));
    if let (true, Some(query)) = (is_search, query) {
        return Some(query.place.clone());
    }
    match &node.kind {
        NodeKind::Map(entries) => entries.iter().find_map(|entry| text_search(&entry.value)),
        NodeKind::List(items) => items.iter().find_map(text_search),
        _ => None,
    }
}

/// Returns true if `matches` holds for an action named by `uses`, or by `action`, `validate` or in the list
/// `tools` within arguments, or by `action` of a fan-out.
pub(super) fn names_action(node: &Node, matches: &dyn Fn(&str) -> bool) -> bool {
    search(node, false, matches)
}

fn search(node: &Node, is_argument: bool, matches: &dyn Fn(&str) -> bool) -> bool {
    let kind = node.get("type").and_then(Node::as_text);
    let names_work = is_argument || kind == Some("dynamic_parallel");
    let of_entry = |entry: &MapEntry| {
        let names = entry.key == "uses"
            || names_work && entry.key == "action"
            || is_argument && entry.key == "validate";
        let name = entry.value.as_text().filter(|_| names);
        let tools = entry
            .value
            .as_list()
            .filter(|_| is_argument && entry.key == "tools");
        let mut tools = tools.unwrap_or_default().iter().filter_map(Node::as_text);
        name.is_some_and(matches)
            || tools.any(matches)
            || search(&entry.value, is_argument || entry.key == "with", matches)
    };
    match &node.kind {
        NodeKind::Map(entries) => entries.iter().any(of_entry),
        NodeKind::List(items) => items.iter().any(|item| search(item, is_argument, matches)),
        _ => false,
    }
}
