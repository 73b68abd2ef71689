//! A loaded agent file in the form that the run loop uses: all names resolved.

use std::sync::Arc;
use std::time::Duration;

use cachalot_agent::Team;
use cachalot_core::{Problem, SourceSpan, config};
use cachalot_model::ModelConfiguration;
use cachalot_model::budget::Budget;
use serde_json::{Map, Value};

use super::language::Language;
use super::settings::Settings;
use crate::Registry;
use crate::action::Action;
use crate::actions::RequestedEffort;
use crate::script::Script;
use crate::template::{Condition, Prepared, Templates};

/// A loaded and checked agent file.
#[derive(Debug)]
pub struct Agent {
    /// `name`.
    pub name: Option<String>,
    /// `description`.
    pub description: Option<String>,
    /// `version`, as text.
    pub version: Option<String>,
    /// `variables`.
    pub variables: Map<String, Value>,
    /// `settings`, environment variables expanded.
    pub settings: Settings,
    /// `models` and `providers`, with `settings.llm` as defaults of all models.
    pub models: ModelConfiguration,
    /// The reasoning efforts that calls in the file request.
    pub efforts: Vec<RequestedEffort>,
    /// `budget`, for one run.
    pub budget: Budget,
    /// `agents` and the settings that they share.
    pub team: Option<Arc<Team>>,
    /// `initial_state`.
    pub initial_state: Map<String, Value>,
    /// The actions, with the tools that the file uses as steps.
    pub actions: Arc<Registry>,
    pub(crate) templates: Templates,
    /// The nodes in the order of the file. Targets are indices into this list.
    pub(crate) nodes: Vec<Node>,
    /// The flow from the start of a run to its first node.
    pub(crate) start: Flow,
    /// The approvals that a run needs and does not have yet.
    pub(super) approvals: Vec<Approval>,
    /// The blocks of inline code, without those of subgraphs.
    pub scripts: Vec<InlineCode>,
    /// Warnings, in the order of the file.
    pub warnings: Vec<Problem>,
}

/// A block of inline code in a file.
#[derive(Debug, Clone)]
pub struct InlineCode {
    /// The block.
    pub script: Script,
    /// Its language.
    pub language: Language,
    /// The place of the block in the file.
    pub place: SourceSpan,
}

impl Agent {
    /// Returns the files that the nodes run as subgraphs, at all depths. Their models and settings include
    /// those of this file that apply to them.
    #[must_use]
    pub fn subgraphs(&self) -> Vec<&Agent> {
        let mut found = Vec::new();
        for node in &self.nodes {
            if let Work::FanOut(fan_out) = &node.work
                && let Work::Subgraph(subgraph) = &fan_out.branch.work
            {
                found.push(&*subgraph.agent);
                found.extend(subgraph.agent.subgraphs());
            }
        }
        found
    }

    /// Returns the place of a line of a block of inline code; the block's own place if the file has no such line.
    #[must_use]
    pub fn line_of(&self, block: &InlineCode, line: u32) -> SourceSpan {
        let line = self.templates.line(&block.place, line);
        line.unwrap_or_else(|| block.place.clone())
    }

    /// Returns the names of the nodes, in the order of the file.
    pub fn node_names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.name.as_str())
    }
}

/// A node that needs approval before it runs.
#[derive(Debug, Clone)]
pub(super) struct Approval {
    /// The path of the node.
    pub(super) node: String,
    /// The place that requires the approval.
    pub(super) place: SourceSpan,
}

/// A node, or a step of one.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) place: SourceSpan,
    pub(crate) work: Work,
    pub(crate) output: Output,
    pub(crate) on_error: OnError,
    /// The flow after the node. Unused for steps.
    pub(crate) flow: Flow,
}

impl Node {
    /// Creates a node with default error handling, whose result is merged into the state.
    pub(super) fn new(name: &str, place: &SourceSpan, work: Work) -> Self {
        Self {
            name: name.to_owned(),
            place: place.clone(),
            work,
            output: Output::Merge,
            on_error: OnError::default(),
            flow: Flow::To(Target::End),
        }
    }
}

/// The work of a node.
#[derive(Debug)]
pub(crate) enum Work {
    Nothing,
    Run {
        script: Script,
        language: Language,
    },
    Action {
        action: Arc<dyn Action>,
        with: Prepared,
    },
    Steps(Vec<Node>),
    While {
        condition: Condition,
        max_iterations: u32,
        body: Vec<Node>,
    },
    FanOut(Box<FanOut>),
    Subgraph(Box<Subgraph>),
    Reflection(Box<Reflection>),
    Retries(Box<Retries>),
}

/// A fan-out: one branch per item.
#[derive(Debug)]
pub(crate) struct FanOut {
    pub(crate) items: Prepared,
    pub(crate) item: String,
    pub(crate) index: String,
    /// The node that each branch runs. Its own output is set in the state of the branch.
    pub(crate) branch: Node,
    pub(crate) concurrency: Option<usize>,
    pub(crate) fail_fast: bool,
}

/// Another agent file, whose graph a branch of a fan-out runs.
#[derive(Debug)]
pub(crate) struct Subgraph {
    /// The path as written.
    pub(crate) file: String,
    /// The agent's name as it appears in handles (escaped): that of a run of the other file.
    pub(crate) scope: String,
    pub(crate) agent: Arc<Agent>,
    /// The fields of the initial state.
    pub(crate) input: Vec<(String, Prepared)>,
}

/// `reflection.loop`: generates an output until it is valid.
#[derive(Debug)]
pub(crate) struct Reflection {
    pub(crate) generator: Node,
    pub(crate) evaluator: Evaluator,
    pub(crate) corrector: Option<Node>,
    /// The arguments `max_iterations` and `on_failure`.
    pub(crate) limits: Prepared,
}

/// Evaluator of an output.
#[derive(Debug)]
pub(crate) enum Evaluator {
    /// Validates the output against this JSON Schema.
    Schema(Prepared),
    /// Asks a model; its answer contains the judgement.
    Model(Node),
    /// Runs inline code; its return value is the judgement.
    Code(Node),
}

/// `retry.loop`: a validation with corrections.
#[derive(Debug)]
pub(crate) struct Retries {
    pub(crate) validate: Node,
    /// Index of the correcting node.
    pub(crate) correct: usize,
    /// The arguments `max_retries` and `retry_delay`.
    pub(crate) limits: Prepared,
}

/// Destination of a node's result in the state.
#[derive(Debug)]
pub(crate) enum Output {
    /// Merges a mapping into the state. Any other value is set as `result`; null from inline code is not
    /// set.
    Merge,
    Key(String),
    /// Sets each field to a value rendered from `result`.
    Map(Vec<(String, Prepared)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, config::Settings)]
pub(crate) enum ErrorMode {
    Raise,
    Graceful,
    Retry,
}

#[derive(Debug, Clone)]
pub(crate) struct OnError {
    pub(crate) mode: ErrorMode,
    pub(crate) max_retries: u32,
    pub(crate) delay: Duration,
    pub(crate) multiplier: f64,
    pub(crate) fallback: Option<usize>,
    /// The failure kinds that are retried. If `None`, failures that are marked as retryable.
    pub(crate) retryable: Option<Vec<String>>,
}

impl Default for OnError {
    fn default() -> Self {
        Self {
            mode: ErrorMode::Raise,
            max_retries: 3,
            delay: Duration::from_secs(1),
            multiplier: 2.0,
            fallback: None,
            retryable: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Node(usize),
    End,
}

/// The successor of a node.
#[derive(Debug)]
pub(crate) enum Flow {
    To(Target),
    /// The target of the first rule whose condition holds.
    Rules(Vec<Rule>),
    /// Runs every branch whose condition holds, then continues with the node `fan_in`.
    Parallel {
        branches: Vec<Branch>,
        fan_in: usize,
    },
}

#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) condition: Option<Condition>,
    pub(crate) to: Target,
}

#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) condition: Option<Condition>,
    /// Index of the first node of the branch.
    pub(crate) head: usize,
    /// The flow to the first node.
    pub(crate) flow: Flow,
}
