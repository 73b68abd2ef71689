//! Detection of endless cycles: cycles of nodes that no condition, edge, fallback or end leaves.

use cachalot_core::Problem;

use super::agent::{Flow, Node, Target};
use crate::codes;

/// Returns a problem for each endless cycle that a run can reach.
///
/// A node whose rules all have conditions can end the run, because possibly none of them holds. Parallel
/// branches are assumed to end at the node where they meet.
pub(super) fn problems(start: &Flow, nodes: &[Node]) -> Vec<Problem> {
    let leaves = leaving(nodes);
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
    let message = format!("the run never leaves these nodes: {}", names.join(" → "));
    Problem::new(codes::ENDLESS_CYCLE, message)
    .at(&nodes[first].place)
    .help("let one of them lead out: `goto: [{if: …, to: …}, {to: __end__}]`; or repeat the steps in a `while_loop`")
}

/// Returns for each node whether a run can end from there. Each connection is followed once, backwards.
fn leaving(nodes: &[Node]) -> Vec<bool> {
    let mut predecessors = vec![Vec::new(); nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        let next = successors(&node.flow).into_iter();
        for next in next.chain(node.on_error.fallback) {
            predecessors[next].push(index);
        }
    }
    let mut ahead: Vec<usize> = (0..nodes.len())
        .filter(|index| may_end(&nodes[*index]))
        .collect();
    let mut leaves = vec![false; nodes.len()];
    while let Some(index) = ahead.pop() {
        if !std::mem::replace(&mut leaves[index], true) {
            ahead.append(&mut predecessors[index]);
        }
    }
    leaves
}

/// True for a node after which a run may end.
fn may_end(node: &Node) -> bool {
    match &node.flow {
        Flow::To(target) => *target == Target::End,
        Flow::Rules(rules) => {
            rules.iter().all(|rule| rule.condition.is_some())
                || rules.iter().any(|rule| rule.to == Target::End)
        }
        Flow::Parallel { .. } => false,
    }
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
