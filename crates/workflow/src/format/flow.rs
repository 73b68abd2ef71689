//! Resolution of each node's successor: `goto`, else `edges`, else the next node of the file.
//!
//! The order of the file never leads into a branch of a fan-out. If the next node of the file begins a
//! branch, the node leads to the node where the branches meet.

mod fan_in;

use std::collections::BTreeSet;

use cachalot_core::config::{Custom, Parameter, ParameterKind as Kind, Settings, key, no_effect};
use cachalot_core::tree::{self, MapEntry, NodeKind};
use cachalot_core::{Problem, SourceSpan};
use serde_json::json;

use super::agent::{Branch, Flow, Rule, Target};
use super::node_keys::{CONDITION, NODE_NAME};
use super::nodes::{NodeReader, START};
use crate::codes;
use crate::template::{Condition, TemplateUse};
use fan_in::FanInGraph;

// An edge as written.
#[derive(Settings)]
#[settings(name = "an edge", also = EDGE_KEYS_OF_OTHERS)]
pub(super) struct EdgeKeys {
    /// A node, or `__start__`.
    #[setting(kind = NODE_NAME, required)]
    from: Option<tree::Node>,
    /// A node, or `__end__`.
    #[setting(kind = NODE_NAME, required)]
    to: Option<tree::Node>,
    /// The condition; beside `condition`, what it must be.
    #[setting(kind = CONDITION)]
    when: Option<tree::Node>,
    /// The same as `when`.
    #[setting(kind = CONDITION_OR_MAPPING)]
    condition: Option<tree::Node>,
    /// Begins a branch beside others.
    parallel: Option<bool>,
    /// `parallel` is the same as `parallel: true`.
    #[setting(key = "type", kind = EDGE_TYPE)]
    kind: Option<String>,
    /// The node where the branches meet.
    #[setting(kind = NODE_NAME, then = STRATEGY)]
    fan_in: Option<tree::Node>,
}

const CONDITION_OR_MAPPING: Kind = Kind::Custom(&Custom::shape(
    || json!({ "anyOf": [CONDITION.schema(false), Expression::TABLE.schema(false)] }),
));
const EDGE_TYPE: Kind = Kind::Custom(&Custom {
    schema: Some(|| json!({ "enum": ["parallel", "normal"] })),
    check: check_type,
});
#[rustfmt::skip]
const STRATEGY: Parameter = key("parallel_strategy", Kind::Custom(&Custom { schema: Some(|| json!({ "const": "thread" })), check: check_strategy }), "`thread`, the only strategy.");

const EDGE_KEYS_OF_OTHERS: &[Parameter] = &[no_effect(
    "stream_mode",
    "no data goes from node to node but the state",
)];

// A condition as a mapping.
#[derive(Settings)]
#[settings(name = "`condition`")]
struct Expression {
    /// The kind of condition.
    #[setting(key = "type", kind = Kind::Word(&["expression"]))]
    _kind: Option<String>,
    /// The condition.
    #[setting(kind = CONDITION)]
    value: tree::Node,
}

// A rule of `goto` as written.
#[derive(Settings)]
#[settings(name = "a rule of `goto`")]
pub(super) struct RuleKeys {
    /// The condition; without one the rule always holds.
    #[setting(key = "if", kind = CONDITION)]
    condition: Option<tree::Node>,
    /// A node, or `__end__`.
    #[setting(kind = NODE_NAME, required)]
    to: Option<tree::Node>,
}

fn check_type(entry: &MapEntry, problems: &mut Vec<Problem>) {
    match entry.value.as_text() {
        Some("parallel" | "normal") => {}
        None => problems.push(entry.value.wrong_type("`type`", "text")),
        Some(other) => problems.push(
            Problem::new(
                codes::BAD_VALUE,
                format!("there is no type of edge `{other}`"),
            )
            .at(&entry.value.place)
            .help("write `parallel`, or leave it out; a condition is written as `when: …`"),
        ),
    }
}

fn check_strategy(entry: &MapEntry, problems: &mut Vec<Problem>) {
    if entry.value.as_text() != Some("thread") {
        let problem = Problem::warning(codes::NO_EFFECT, "there is only one way to run branches")
            .at(&entry.value.place);
        problems.push(problem.help("branches run at the same time in one process"));
    }
}

/// An edge as written.
pub(super) struct Edge {
    /// Index of the source node; `None` for the start.
    from: Option<usize>,
    pub(super) to: Target,
    condition: Option<Condition>,
    pub(super) is_parallel: bool,
    pub(super) fan_in: Option<usize>,
    pub(super) place: SourceSpan,
}

/// The outgoing connections that a node itself declares.
#[derive(Default)]
pub(super) struct Outgoing {
    pub(super) goto: Option<Vec<Rule>>,
    /// The node where the branches of a fan-out per item meet.
    pub(super) fan_in: Option<usize>,
    /// Set when branches meet at this node.
    pub(super) is_fan_in: bool,
    /// The edges that start at this node.
    pub(super) edges: Vec<Edge>,
}

impl NodeReader<'_> {
    /// Returns the flow at the start, and the flow after each of `nodes`.
    pub(super) fn flows(
        &mut self,
        nodes: &[tree::Node],
        edges: Option<&tree::Node>,
    ) -> (Flow, Vec<Flow>) {
        let mut outgoing: Vec<Outgoing> = nodes.iter().map(|node| self.outgoing(node)).collect();
        let mut starts = Vec::new();
        for edge in edges.map(|edges| self.edges(edges)).unwrap_or_default() {
            match edge.from {
                None => starts.push(edge),
                Some(node) => outgoing[node].edges.push(edge),
            }
        }
        let graph = FanInGraph::new(&outgoing, &starts);
        let fan_in_nodes: Vec<Option<usize>> = (0..nodes.len())
            .map(|node| graph.fan_in_after(node))
            .collect();
        let start_fan_in = graph.fan_in_of(&starts);
        let implicit: Vec<Target> = (0..nodes.len()).map(|node| graph.implicit(node)).collect();
        let first = if nodes.is_empty() {
            Target::End
        } else {
            Target::Node(0)
        };
        let start = self.flow(starts, start_fan_in, first);
        let flows = outgoing.into_iter().zip(fan_in_nodes).zip(implicit).map(
            |((outgoing, fan_in_node), implicit)| match outgoing.goto {
                Some(rules) => settled(rules),
                None => self.flow(outgoing.edges, fan_in_node, implicit),
            },
        );
        (start, flows.collect())
    }

    fn outgoing(&mut self, node: &tree::Node) -> Outgoing {
        let goto = node
            .get("goto")
            .filter(|goto| !goto.is_null())
            .map(|goto| self.goto(goto));
        let fan_in = node.get("fan_in").filter(|fan_in| !fan_in.is_null());
        if node.get("type").and_then(tree::Node::as_text) != Some("dynamic_parallel") {
            let is_fan_in = fan_in.and_then(tree::Node::as_boolean).unwrap_or(false);
            return Outgoing {
                goto,
                is_fan_in,
                ..Outgoing::default()
            };
        }
        let fan_in = match fan_in {
            Some(fan_in) => self.node_named(fan_in, codes::FAN_IN_UNDEFINED, "`fan_in`"),
            None => {
                self.problems.push(
                    Problem::new(codes::MISSING_KEY, "a fan-out needs `fan_in`")
                        .at(&node.head())
                        .help("name the node that gets `parallel_results`: `fan_in: …`"),
                );
                None
            }
        };
        Outgoing {
            goto,
            fan_in,
            ..Outgoing::default()
        }
    }

    fn node_named(&mut self, node: &tree::Node, code: &'static str, what: &str) -> Option<usize> {
        match self.target(node, code, what, false)? {
            Target::Node(index) => Some(index),
            Target::End => None,
        }
    }

    fn goto(&mut self, goto: &tree::Node) -> Vec<Rule> {
        let NodeKind::List(items) = &goto.kind else {
            let to = self.target(goto, codes::GOTO_UNDEFINED, "`goto`", true);
            return to
                .map(|to| Rule {
                    condition: None,
                    to,
                })
                .into_iter()
                .collect();
        };
        let rules: Vec<(Rule, SourceSpan)> =
            items.iter().filter_map(|item| self.rule(item)).collect();
        let shadow = rules.iter().position(|(rule, _)| rule.condition.is_none());
        if let Some((_, place)) = shadow.and_then(|shadow| rules.get(shadow + 1)) {
            let message = "this rule is never reached: the one before it has no `if`";
            let problem = Problem::new(codes::UNREACHABLE, message).at(place);
            self.problems
                .push(problem.help("put the rule without `if` last"));
        }
        rules.into_iter().map(|(rule, _)| rule).collect()
    }

    fn rule(&mut self, item: &tree::Node) -> Option<(Rule, SourceSpan)> {
        let rule = RuleKeys::read(item, &mut self.problems)?;
        let condition = rule.condition.as_ref();
        let condition = condition.map(|node| self.condition(node, TemplateUse::RESULT));
        let to = self.target(&rule.to?, codes::GOTO_UNDEFINED, "`to`", true)?;
        Some((Rule { condition, to }, item.head()))
    }

    fn edges(&mut self, edges: &tree::Node) -> Vec<Edge> {
        let Some(items) = edges.as_list() else {
            if !edges.is_null() {
                self.problems.push(edges.wrong_type("`edges`", "a list"));
            }
            return Vec::new();
        };
        items.iter().filter_map(|item| self.edge(item)).collect()
    }

    fn edge(&mut self, item: &tree::Node) -> Option<Edge> {
        let edge = EdgeKeys::read(item, &mut self.problems)?;
        let condition = self.edge_condition(&edge);
        let fan_in = edge.fan_in.as_ref();
        let fan_in =
            fan_in.and_then(|node| self.node_named(node, codes::FAN_IN_UNDEFINED, "`fan_in`"));
        let from = edge.from?;
        let from = match from.as_text() {
            Some(START) => None,
            _ => Some(self.node_named(&from, codes::EDGE_UNDEFINED, "`from`")?),
        };
        let to = self.target(&edge.to?, codes::EDGE_UNDEFINED, "`to`", true)?;
        let is_parallel = edge.parallel;
        let is_parallel = is_parallel.unwrap_or(edge.kind.as_deref() == Some("parallel"));
        Some(Edge {
            from,
            to,
            condition,
            is_parallel,
            fan_in,
            place: item.head(),
        })
    }

    /// Reads `when` or `condition`. `condition` can be `{type: expression, value}`; `when: false` beside
    /// it negates it.
    fn edge_condition(&mut self, edge: &EdgeKeys) -> Option<Condition> {
        let when = edge.when.as_ref();
        let Some(condition) = &edge.condition else {
            return when.map(|when| self.condition(when, TemplateUse::PLAIN));
        };
        let condition = match &condition.kind {
            NodeKind::Map(_) => {
                let written = Expression::read(condition, &mut self.problems)?;
                self.condition(&written.value, TemplateUse::PLAIN)
            }
            _ => self.condition(condition, TemplateUse::PLAIN),
        };
        match when.map(|when| (when, when.as_boolean())) {
            None | Some((_, Some(true))) => Some(condition),
            Some((_, Some(false))) => Some(condition.negated()),
            Some((when, None)) => {
                let message = "`when` beside `condition` is `true` or `false`";
                let problem = Problem::new(codes::BAD_VALUE, message).at(&when.place);
                self.problems
                    .push(problem.help("keep one of the two conditions, or join them with `and`"));
                Some(condition)
            }
        }
    }

    /// Combines the edges that start at one node into a flow.
    fn flow(&mut self, edges: Vec<Edge>, fan_in_node: Option<usize>, implicit: Target) -> Flow {
        if edges.is_empty() {
            return Flow::To(implicit);
        }
        if edges.iter().any(|edge| edge.is_parallel) {
            return self.parallel(edges, fan_in_node);
        }
        let (conditional, mut always): (Vec<Edge>, Vec<Edge>) =
            edges.into_iter().partition(|edge| edge.condition.is_some());
        for edge in always.iter().skip(1) {
            let message = "this edge is never taken: another one from the same node always is";
            let help = "give one of them a condition (`when: …`), or both `parallel: true`";
            let problem = Problem::warning(codes::UNREACHABLE, message).at(&edge.place);
            self.problems.push(problem.help(help));
        }
        always.truncate(1);
        let rules = conditional.into_iter().chain(always);
        settled(
            rules
                .map(|edge| Rule {
                    condition: edge.condition,
                    to: edge.to,
                })
                .collect(),
        )
    }

    fn parallel(&mut self, edges: Vec<Edge>, fan_in_node: Option<usize>) -> Flow {
        let place = edges[0].place.clone();
        let mut heads = BTreeSet::new();
        let mut branches = Vec::new();
        for edge in edges {
            let (problem, help) = match edge.to {
                _ if !edge.is_parallel => (
                    "an edge beside parallel ones is not parallel",
                    "give it `parallel: true`, or let it begin elsewhere",
                ),
                Target::End => ("a parallel edge leads to the end", "let it lead to a node"),
                Target::Node(head) if heads.insert(head) => {
                    branches.push(Branch {
                        condition: edge.condition,
                        head,
                        flow: Flow::To(edge.to),
                    });
                    continue;
                }
                Target::Node(_) => (
                    "a second parallel edge leads to the same node",
                    "take it out",
                ),
            };
            self.problems.push(
                Problem::new(codes::BAD_VALUE, problem)
                    .at(&edge.place)
                    .help(help),
            );
        }
        let Some(fan_in) = fan_in_node else {
            let message = "the branches that begin here do not meet at one node";
            let problem = Problem::new(codes::FAN_IN_UNDEFINED, message).at(&place);
            let help = "add `fan_in: NODE` to each of these edges, or mark the node at which they meet with `fan_in: true`";
            self.problems.push(problem.help(help));
            return Flow::To(Target::End);
        };
        Flow::Parallel { branches, fan_in }
    }
}

fn settled(rules: Vec<Rule>) -> Flow {
    match rules.as_slice() {
        [
            Rule {
                condition: None,
                to,
            },
        ] => Flow::To(*to),
        _ => Flow::Rules(rules),
    }
}
