//! The configuration tree of any text: no panic, and places that lie in the text.

use cachalot_core::SourceSpan;
use cachalot_core::tree::{Node, NodeKind, parse};

/// Checks one input.
pub fn check(bytes: &[u8]) {
    let text = crate::text(bytes);
    match parse("fuzz.yaml", text) {
        Ok(node) => {
            check_node(text, &node);
            let _ = node.to_value();
        }
        Err(problems) => {
            assert!(!problems.is_empty());
            problems
                .iter()
                .filter_map(|problem| problem.place.as_ref())
                .for_each(|place| check_place(text, place));
        }
    }
}

fn check_place(text: &str, place: &SourceSpan) {
    assert!(
        text.get(place.start..place.start + place.len).is_some(),
        "{place}"
    );
    assert!(place.line >= 1 && place.column >= 1);
}

fn check_node(text: &str, node: &Node) {
    check_place(text, &node.place);
    check_place(text, &node.head());
    assert!(node.text_first_line(text) >= node.place.line);
    match &node.kind {
        NodeKind::List(items) => items.iter().for_each(|item| check_node(text, item)),
        NodeKind::Map(entries) => entries.iter().for_each(|entry| {
            check_place(text, &entry.key_place);
            check_node(text, &entry.value);
        }),
        _ => {}
    }
}
