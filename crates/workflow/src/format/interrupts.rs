//! `interrupt` and its relatives: places at which the reference implementation waits for a person. A run
//! never waits.

use cachalot_core::Problem;
use cachalot_core::tree::{Kind, Node, Section};

use super::codes;
use super::settings::no_effect;

/// Reads `interrupt`, `interrupt_before` and `interrupt_after`, which may stand in a node, in `config` or in
/// the file. An approval that is required before a node is refused: a run must not pass it by. An answer
/// that is expected after a node is missing, with a warning.
pub(super) fn read(section: &mut Section<'_>, what: &str, problems: &mut Vec<Problem>) {
    for key in ["interrupt", "interrupt_before", "interrupt_after"] {
        let Some(entry) = section.unclaimed(key).filter(|entry| is_set(&entry.value)) else {
            continue;
        };
        let is_after = key == "interrupt_after" || entry.value.as_text() == Some("after");
        problems.push(match is_after {
            true => no_effect(
                entry,
                what,
                "give the answer before the run: `cachalot run FILE --input NAME=ANSWER`",
            ),
            false => Problem::new(codes::UNSUPPORTED, "a run does not wait for approval")
                .at(&entry.key_place)
                .help("let an agent do it: `permissions` make `cachalot chat` ask first"),
        });
    }
}

/// Returns false for null, `false` and an empty list.
fn is_set(node: &Node) -> bool {
    match &node.kind {
        Kind::Null | Kind::Boolean(false) => false,
        Kind::List(names) => !names.is_empty(),
        _ => true,
    }
}
