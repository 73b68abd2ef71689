//! An agent file as the run loop needs it: everything resolved, nothing left to look up.

use std::sync::Arc;
use std::time::Duration;

use cachalot_agent::Team;
use cachalot_core::{Place, Problem};
use cachalot_model::Configured;
use cachalot_model::budget::Budget;
use serde_json::{Map, Value};

use super::settings::Settings;
use crate::action::Action;
use crate::script::Script;
use crate::template::{Condition, Prepared, Templates};

/// An agent, loaded and checked.
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
    /// `models`, `providers`, and `settings.llm` as what holds for all of them.
    pub models: Configured,
    /// `budget`, for one run.
    pub budget: Budget,
    /// `agents`, and what they share.
    pub team: Option<Arc<Team>>,
    /// `initial_state`.
    pub initial_state: Map<String, Value>,
    pub(crate) templates: Templates,
    /// In the order of the file; places in it are what targets are.
    pub(crate) nodes: Vec<Node>,
    /// Where a run begins.
    pub(crate) start: Flow,
    /// What may not mean what the author of the file expects, in the order of the file.
    pub warnings: Vec<Problem>,
}

impl Agent {
    /// Whether the file has inline code in this language, so that its interpreter is needed.
    #[must_use]
    pub fn has_code_in(&self, language: Language) -> bool {
        self.blocks().any(|block| block.language == language)
    }

    /// The blocks of inline code, each with the interpreter that runs it, in the order of the file.
    pub fn blocks(&self) -> impl Iterator<Item = Block<'_>> {
        let mut blocks = Vec::new();
        for node in &self.nodes {
            node.add_blocks(&node.name, &mut blocks);
        }
        blocks.into_iter()
    }

    /// The names of the nodes, in the order of the file.
    pub fn node_names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.name.as_str())
    }
}

/// A block of inline code of an agent file.
#[derive(Debug, Clone)]
pub struct Block<'a> {
    /// The node; steps inside it are `node/step`.
    pub node: String,
    /// The code and the line on which it begins.
    pub script: &'a Script,
    /// What runs it: its own `language`, or else the `--python` of the command, or else
    /// `settings.python.runner`, or else the embedded interpreter.
    pub language: Language,
    /// The name of its node, or its node where that has none.
    pub place: &'a Place,
}

/// The language of inline code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Python, by the embedded interpreter.
    Python,
    /// Python, by the user's own interpreter.
    Python3,
    /// Lua, by the embedded interpreter.
    Lua,
}

impl Language {
    /// The names of what runs Python code.
    pub const RUNNERS: [&str; 2] = ["embedded", "python3"];

    /// The language that is run by the runner of this name; `None` for no name of
    /// [`RUNNERS`](Self::RUNNERS).
    #[must_use]
    pub fn of_runner(name: &str) -> Option<Self> {
        match name {
            "embedded" => Some(Self::Python),
            "python3" => Some(Self::Python3),
            _ => None,
        }
    }
}

/// A node, or a step of one.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) work: Work,
    pub(crate) output: Output,
    pub(crate) on_error: OnError,
    /// What comes after it; nothing for steps.
    pub(crate) flow: Flow,
}

impl Node {
    fn add_blocks<'a>(&'a self, path: &str, blocks: &mut Vec<Block<'a>>) {
        match &self.work {
            Work::Nothing | Work::Action { .. } => {}
            Work::Run { script, language } => blocks.push(Block {
                node: path.to_owned(),
                script,
                language: *language,
                place: &self.place,
            }),
            Work::Steps(steps) | Work::While { body: steps, .. } => {
                for step in steps {
                    step.add_blocks(&format!("{path}/{}", step.name), blocks);
                }
            }
            Work::FanOut(fan_out) => fan_out.branch.add_blocks(path, blocks),
            Work::Reflection(reflection) => {
                let Reflection {
                    generator,
                    evaluator,
                    corrector,
                    limits: _,
                } = &**reflection;
                let judge = match evaluator {
                    Evaluator::Schema(_) => None,
                    Evaluator::Model(node) | Evaluator::Code(node) => Some(node),
                };
                let parts = [Some(generator), judge, corrector.as_ref()];
                for part in parts.into_iter().flatten() {
                    part.add_blocks(&format!("{path}/{}", part.name), blocks);
                }
            }
            // The node that corrects is a node of the file.
            Work::Retries(retries) => {
                let validate = &retries.validate;
                validate.add_blocks(&format!("{path}/{}", validate.name), blocks);
            }
        }
    }
}

/// What a node does.
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
    Reflection(Box<Reflection>),
    Retries(Box<Retries>),
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nothing => f.write_str("Nothing"),
            Self::Run { language, .. } => write!(f, "Run({language:?})"),
            Self::Action { action, .. } => write!(f, "Action({:?})", action.about().names),
            Self::Steps(steps) => f.debug_tuple("Steps").field(steps).finish(),
            Self::While { body, .. } => f.debug_tuple("While").field(body).finish(),
            Self::FanOut(fan_out) => f.debug_tuple("FanOut").field(fan_out).finish(),
            Self::Reflection(it) => f.debug_tuple("Reflection").field(it).finish(),
            Self::Retries(it) => f.debug_tuple("Retries").field(it).finish(),
        }
    }
}

/// One branch per item.
#[derive(Debug)]
pub(crate) struct FanOut {
    pub(crate) items: Prepared,
    pub(crate) item: String,
    pub(crate) index: String,
    /// What each branch does; its own output is set in the branch.
    pub(crate) branch: Node,
    pub(crate) concurrency: Option<usize>,
    pub(crate) fail_fast: bool,
}

/// `reflection.loop`: an output that is made anew until it is valid.
#[derive(Debug)]
pub(crate) struct Reflection {
    pub(crate) generator: Node,
    pub(crate) evaluator: Evaluator,
    pub(crate) corrector: Option<Node>,
    /// `max_iterations` and `on_failure`.
    pub(crate) limits: Prepared,
}

/// Judges an output.
#[derive(Debug)]
pub(crate) enum Evaluator {
    /// By this JSON Schema.
    Schema(Prepared),
    /// By the answer of a model.
    Model(Node),
    /// By what a block returns.
    Code(Node),
}

/// `retry.loop`: a validation with corrections.
#[derive(Debug)]
pub(crate) struct Retries {
    pub(crate) validate: Node,
    /// The node that corrects.
    pub(crate) correct: usize,
    /// `max_retries` and `retry_delay`.
    pub(crate) limits: Prepared,
}

/// What becomes of a result.
#[derive(Debug)]
pub(crate) enum Output {
    /// A mapping is merged into the state; anything else but null is set as `result`.
    Merge,
    Key(String),
    /// Each set to a value made of `result`.
    Map(Vec<(String, Prepared)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Raise,
    Graceful,
    Retry,
}

#[derive(Debug, Clone)]
pub(crate) struct OnError {
    pub(crate) mode: Mode,
    pub(crate) max_retries: u32,
    pub(crate) delay: Duration,
    pub(crate) multiplier: f64,
    pub(crate) fallback: Option<usize>,
    /// The kinds that are tried again; those that say so themselves if left out.
    pub(crate) retryable: Option<Vec<String>>,
}

impl Default for OnError {
    fn default() -> Self {
        Self {
            mode: Mode::Raise,
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

/// What comes after a node.
#[derive(Debug)]
pub(crate) enum Flow {
    To(Target),
    /// The first rule that holds.
    Rules(Vec<Rule>),
    /// All branches that hold, then the node where they meet.
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
    /// The first node of the branch.
    pub(crate) head: usize,
    /// The way there.
    pub(crate) way: Flow,
}
