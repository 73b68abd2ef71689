//! Detection of endless cycles: cycles of nodes that no condition, edge, fallback or end leaves.

use cachalot_core::Problem;

use super::agent::{Flow, Node, Target};
use crate::codes;

/// Returns a problem for each endless cycle that a run can reach.
///
/// A node whose rules all have conditions can end the run, because possibly none of them holds. Parallel
/// branches are assumed to end at the node where they meet.
pub(super) fn problems(start: &Flow, nodes: &[Node]) -> Vec<Problem> {
    let mut leaves = vec![false; nodes.len()];
    loop {
        let mut changes = false;
        for index in 0..nodes.len() {
            if !leaves[index] && may_leave(&nodes[index], &leaves) {
                leaves[index] = true;
                changes = true;
            }
        }
        if !changes {
            break;
        }
    }
    let mut seen = vec![false; nodes.len()];
    let mut problems = Vec::new();
    for index in reached(start, nodes) {
        let mut path = Vec::new();
        let mut at = index;
        while !leaves[at] && !seen[at] {
            seen[at] = true;
            path.push(at);
            match successors(&nodes[at].flow).first() {
                Some(next) => at = *next,
                None => break,
            }
        }
        if let Some(begin) = path.iter().position(|node| *node == at) {
            problems.push(problem(nodes, &path[begin..]));
        }
    }
    problems
}

fn problem(nodes: &[Node], cycle: &[usize]) -> Problem {
    let names: Vec<String> = cycle
        .iter()
        .chain(cycle.first())
        .map(|node| format!("`{}`", nodes[*node].name))
        .collect();
    let first = cycle.iter().min().copied().unwrap_or_default();
    Problem::new(
        codes::ENDLESS_CYCLE,
        format!("the run never leaves these nodes: {}", names.join(" → ")),
    )
    .at(&nodes[first].place)
    .help("let one of them lead out: `goto: [{if: …, to: …}, {to: __end__}]`; or repeat the steps in a `while_loop`")
}

fn may_leave(node: &Node, leaves: &[bool]) -> bool {
    let ends = match &node.flow {
        Flow::To(target) => *target == Target::End,
        Flow::Rules(rules) => {
            rules.iter().all(|rule| rule.condition.is_some())
                || rules.iter().any(|rule| rule.to == Target::End)
        }
        Flow::Parallel { .. } => false,
    };
    let to_leaving = |next: &usize| leaves[*next];
    ends || successors(&node.flow).iter().any(to_leaving)
        || node.on_error.fallback.iter().any(to_leaving)
}

/// Returns the nodes that a flow leads to.
fn successors(flow: &Flow) -> Vec<usize> {
    let node = |target: &Target| match target {
        Target::Node(index) => Some(*index),
        Target::End => None,
    };
    match flow {
        Flow::To(target) => node(target).into_iter().collect(),
        Flow::Rules(rules) => rules.iter().filter_map(|rule| node(&rule.to)).collect(),
        Flow::Parallel { branches, fan_in } => {
            let heads = branches.iter().map(|branch| branch.head);
            [*fan_in].into_iter().chain(heads).collect()
        }
    }
}

/// Returns the nodes that a run can reach, in the order of the file.
fn reached(start: &Flow, nodes: &[Node]) -> Vec<usize> {
    let mut reached = vec![false; nodes.len()];
    let mut ahead = successors(start);
    while let Some(at) = ahead.pop() {
        if !std::mem::replace(&mut reached[at], true) {
            ahead.extend(successors(&nodes[at].flow));
            ahead.extend(nodes[at].on_error.fallback);
        }
    }
    (0..nodes.len()).filter(|node| reached[*node]).collect()
}
