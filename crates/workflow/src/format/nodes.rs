//! Reads nodes and steps: their names, the destination of their results, and their error handling.

use std::collections::HashMap;

use cachalot_core::Problem;
use cachalot_core::config::Settings as _;
use cachalot_core::tree::{self, NodeKind, Section};
use serde_json::{Map, Value};

use super::agent::{Approval, ErrorMode, InlineCode, Node, OnError, Output, Target, Work};
use super::language::PythonRunner;
use super::node_keys::{self, OnErrorKeys, WORK_KEYS};
use super::outer_file::OuterFile;
use super::{LoadContext, MAX_SUGGESTIONS, interrupts, undefined_node};
use crate::template::{Condition, Prepared, TemplateUse, Templates};
use crate::{Registry, codes};

/// Reads nodes and collects their problems.
pub(super) struct NodeReader<'a> {
    /// The inputs of reading the file, for its subgraphs.
    pub(super) context: LoadContext<'a>,
    /// The file, as its subgraphs see it.
    pub(super) file: &'a OuterFile<'a>,
    /// The text of the file.
    pub(super) source: &'a str,
    pub(super) registry: &'a Registry,
    pub(super) templates: &'a Templates,
    /// The names of the nodes, in order.
    pub(super) names: &'a [String],
    /// The number of each name.
    pub(super) indexes: HashMap<&'a str, usize>,
    /// `variables` of the file.
    pub(super) variables: &'a Map<String, Value>,
    /// `extraction_schema` of the file, if a node uses it.
    pub(super) extraction_schema: Option<&'a tree::Node>,
    /// The runner of inline Python code without `language`.
    pub(super) runner: PythonRunner,
    /// The blocks of inline code that were read so far.
    pub(super) scripts: Vec<InlineCode>,
    /// The approvals that were read so far.
    pub(super) approvals: Vec<Approval>,
    /// The approvals of nodes in subgraphs.
    pub(super) approvals_inside: Vec<Approval>,
    pub(super) problems: Vec<Problem>,
}

/// Position of a node in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeLevel {
    /// An entry of `nodes`.
    Node,
    /// An entry of `steps`, or of the `body` of a loop.
    Step,
}

impl NodeReader<'_> {
    /// Reads one node. Its successor is resolved separately (`flows`).
    pub(super) fn node(
        &mut self,
        node: &tree::Node,
        level: NodeLevel,
        language: Option<&str>,
    ) -> Option<Node> {
        let keys = match level {
            NodeLevel::Node => &node_keys::NODE,
            NodeLevel::Step => &node_keys::STEP,
        };
        let mut section = Section::from_node(node, keys.name, &mut self.problems)?;
        let name = match level {
            NodeLevel::Node => section.required_text("name", &mut self.problems),
            NodeLevel::Step => section.text("name", &mut self.problems),
        };
        let place = section
            .node("name")
            .map_or_else(|| section.place().clone(), |name| name.place.clone());
        section.text("description", &mut self.problems);
        // Before the work: a node whose work cannot be read claims all of its keys.
        match level {
            NodeLevel::Node => self.approvals.extend(interrupts::read_node(
                &mut section,
                name,
                &mut self.problems,
            )),
            NodeLevel::Step => interrupts::read_step(&mut section, &mut self.problems),
        }
        let (work, output_key) = self.work(&mut section, level, language);
        let output = if is_ignored(&section) {
            Output::Merge
        } else {
            self.output(&mut section, output_key)
        };
        let on_error = self.on_error(&mut section, level);
        match level {
            NodeLevel::Node => section.claim("goto"),
            NodeLevel::Step => self.refuse_goto(&mut section),
        }
        keys.finish(section, &mut self.problems);
        Some(Node {
            output,
            on_error,
            ..Node::new(name.unwrap_or_default(), &place, work)
        })
    }

    /// Reads the steps of a node or the body of a loop. Steps without a name are numbered from 1.
    pub(super) fn steps(
        &mut self,
        section: &mut Section<'_>,
        key: &'static str,
        language: Option<&str>,
    ) -> Vec<Node> {
        let Some(items) = section.list(key, &mut self.problems) else {
            return Vec::new();
        };
        let mut steps: Vec<Node> = items
            .iter()
            .filter_map(|item| self.node(item, NodeLevel::Step, language))
            .collect();
        for (index, step) in steps
            .iter_mut()
            .enumerate()
            .filter(|(_, step)| step.name.is_empty())
        {
            step.name = (index + 1).to_string();
        }
        steps
    }

    /// Checks the templates in a value.
    pub(super) fn prepared(&mut self, node: &tree::Node, usage: TemplateUse) -> Prepared {
        self.templates.prepare(node, usage, &mut self.problems)
    }

    /// Checks a condition.
    pub(super) fn condition(&mut self, node: &tree::Node, usage: TemplateUse) -> Condition {
        self.templates.condition(node, usage, &mut self.problems)
    }

    fn output(&mut self, section: &mut Section<'_>, output_key: Option<String>) -> Output {
        if let Some(key) = output_key {
            return Output::Key(key);
        }
        let key = if section.has("output") || !section.has("output_key") {
            "output"
        } else {
            "output_key"
        };
        let Some(node) = section.present(key) else {
            return Output::Merge;
        };
        match &node.kind {
            NodeKind::Text(name) if !name.trim().is_empty() => Output::Key(name.trim().to_owned()),
            NodeKind::Map(entries) if key == "output" => Output::Map(
                entries
                    .iter()
                    .map(|entry| {
                        let prepared = self.prepared(&entry.value, TemplateUse::RESULT);
                        (entry.key.clone(), prepared)
                    })
                    .collect(),
            ),
            _ => {
                self.problems
                    .push(node.wrong_type(&format!("`{key}`"), "the name of a field of the state"));
                Output::Merge
            }
        }
    }

    fn on_error(&mut self, section: &mut Section<'_>, level: NodeLevel) -> OnError {
        let default = OnError::default();
        let Some(node) = section.present("on_error") else {
            return default;
        };
        let Some(keys) = OnErrorKeys::read(node, &mut self.problems) else {
            return default;
        };
        let usual = match keys.max_retries {
            Some(_) => ErrorMode::Retry,
            None => default.mode,
        };
        let fallback = match (level, &keys.fallback) {
            (_, None) => None,
            (NodeLevel::Node, Some(node)) => {
                match self.target(node, codes::FALLBACK_UNDEFINED, "`fallback`", false) {
                    Some(Target::Node(index)) => Some(index),
                    _ => None,
                }
            }
            (NodeLevel::Step, Some(node)) => {
                self.problems.push(
                    Problem::new(codes::UNSUPPORTED, "a step has no `fallback`")
                        .at(&node.place)
                        .help("give it to the node that the step belongs to"),
                );
                None
            }
        };
        OnError {
            mode: keys.mode.unwrap_or(usual),
            max_retries: keys.max_retries.unwrap_or(default.max_retries),
            delay: keys.retry_delay.unwrap_or(default.delay),
            multiplier: keys.backoff_multiplier.unwrap_or(default.multiplier),
            retryable: keys.retryable_errors,
            fallback,
        }
    }

    fn refuse_goto(&mut self, section: &mut Section<'_>) {
        if section.has("goto")
            && let Some(entry) = section.entry("goto")
        {
            self.problems.push(
                Problem::new(codes::UNSUPPORTED, "a step has no `goto`")
                    .at(&entry.key_place)
                    .help("steps run one after the other: make it a node of its own"),
            );
        }
    }

    /// Resolves the name of a node, or of the end of the run if `with_end` is set.
    pub(super) fn target(
        &mut self,
        node: &tree::Node,
        code: &'static str,
        what: &str,
        with_end: bool,
    ) -> Option<Target> {
        let Some(name) = node.as_text() else {
            self.problems
                .push(node.wrong_type(what, "the name of a node"));
            return None;
        };
        if with_end && name == END {
            return Some(Target::End);
        }
        if let Some(index) = self.indexes.get(name) {
            return Some(Target::Node(*index));
        }
        let known: Vec<&str> = if self.problems.len() < MAX_SUGGESTIONS {
            self.names.iter().map(String::as_str).collect()
        } else {
            Vec::new()
        };
        let problem = undefined_node(code, what, name, &known, with_end.then_some(END));
        self.problems.push(problem.at(&node.place));
        None
    }
}

/// Returns true for a node that has `action` but no key that defines work. It does nothing and sets
/// nothing.
fn is_ignored(section: &Section<'_>) -> bool {
    section.has("action")
        && !WORK_KEYS
            .iter()
            .chain(&["type"])
            .any(|key| section.has(key))
}

/// Reserved names for the start and the end of a run.
pub(super) const START: &str = "__start__";
pub(super) const END: &str = "__end__";

/// Empty work, for a node whose work could not be read.
pub(super) const NOTHING: (Work, Option<String>) = (Work::Nothing, None);
