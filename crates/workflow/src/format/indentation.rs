//! Detection of node keys that are indented too far and are therefore read as keys of another mapping.

use cachalot_core::Problem;
use cachalot_core::tree::{MapEntry, Node};

use crate::codes;

/// Keys of a node that rarely occur as keys of a mapping inside it.
const KEYS: [&str; 8] = [
    "uses", "with", "run", "steps", "output", "on_error", "goto", "fan_in",
];

/// Improves the problems of `nodes` that are caused by a key that is indented too far. An unknown key of a
/// mapping inside a node becomes a problem that names the right indentation. Missing arguments with the
/// same cause are removed.
pub(super) fn explain_indentation(nodes: &[Node], problems: &mut Vec<Problem>) {
    for node in nodes {
        let entries = node.as_map().unwrap_or_default();
        for outer in entries {
            for inner in outer.value.as_map().unwrap_or_default() {
                if is_indented_too_far(entries, outer, inner, problems) {
                    report_indentation(entries, outer, inner, problems);
                }
            }
            if matches!(outer.key.as_str(), "steps" | "body") {
                explain_indentation(outer.value.as_list().unwrap_or_default(), problems);
            }
            if outer.key == "action" {
                explain_indentation(std::slice::from_ref(&outer.value), problems);
            }
        }
    }
}

fn is_indented_too_far(
    node: &[MapEntry],
    outer: &MapEntry,
    inner: &MapEntry,
    problems: &[Problem],
) -> bool {
    let is_free = !node.iter().any(|entry| entry.key == inner.key);
    if !is_free || !KEYS.contains(&inner.key.as_str()) || outer.key == "action" {
        return false;
    }
    // `output` accepts any field, so only missing arguments indicate a misplaced key.
    let is_output = outer.key == "output"
        && inner.key == "with"
        && arguments_missing(node, problems).next().is_some();
    is_output || problems.iter().any(|problem| is_unknown(problem, inner))
}

fn report_indentation(
    node: &[MapEntry],
    outer: &MapEntry,
    inner: &MapEntry,
    problems: &mut Vec<Problem>,
) {
    if inner.key == "with" {
        let missing: Vec<usize> = arguments_missing(node, problems).collect();
        missing
            .into_iter()
            .rev()
            .for_each(|at| drop(problems.remove(at)));
    }
    problems.retain(|problem| !is_unknown(problem, inner));
    let message = format!(
        "`{}` is indented too far: it is read as a part of `{}`",
        inner.key, outer.key
    );
    let problem = Problem::new(codes::UNKNOWN_KEY, message).at(&inner.key_place);
    problems.push(problem.help(format!(
        "indent it by {} spaces, like `{}`",
        outer.key_place.column.saturating_sub(1),
        outer.key
    )));
}

fn is_unknown(problem: &Problem, entry: &MapEntry) -> bool {
    problem.code == codes::UNKNOWN_KEY && problem.place.as_ref() == Some(&entry.key_place)
}

/// Returns the indices of the problems that report missing arguments of the node's action.
fn arguments_missing<'a>(
    node: &'a [MapEntry],
    problems: &'a [Problem],
) -> impl Iterator<Item = usize> + 'a {
    let uses = node.iter().find(|entry| entry.key == "uses");
    let place = uses.map(|entry| &entry.value.place);
    problems
        .iter()
        .enumerate()
        .filter_map(move |(at, problem)| {
            let is_missing = problem.code == codes::MISSING_KEY
                && place.is_some()
                && problem.place.as_ref() == place;
            is_missing.then_some(at)
        })
}
