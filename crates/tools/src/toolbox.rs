//! What a turn loop needs of tools, and no more.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_core::{Millis, Spend, Witnesses};
use cachalot_model::ToolDefinition;
use cachalot_operation::Touches;

use crate::tool::{Arguments, Context, Origin, Output};

/// A call as a model made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The provider's name for it; the result carries it.
    pub id: String,
    /// The tool, as the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them: JSON text.
    pub arguments: String,
}

/// A call that has been looked up, cast and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// The call.
    pub call: Call,
    /// What became of it.
    pub verdict: Verdict,
}

/// What became of a call before it runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It can run.
    Ready {
        /// Its arguments, cast to the schema's types, defaults not filled in.
        arguments: Arguments,
        /// Where its tool comes from.
        origin: Origin,
        /// Whether its tool changes nothing, as far as we vouch for it.
        read_only: bool,
        /// What it touches; what rules, hooks and approvals are matched on.
        touches: Touches,
    },
    /// It must not run; this is its result.
    Refused(Output),
}

/// How a call was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    /// The tool ran. The reason why, if something else could have answered: `changed since: …`.
    Ran(Option<String>),
    /// An earlier result was served.
    Hit,
    /// The result of the same call, running at the same time.
    Coalesced,
    /// It did not run: unknown tool, wrong arguments, no permission.
    Refused,
}

/// `ran`, `hit`, `coalesced`, `refused`.
impl std::fmt::Display for Answered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ran(_) => "ran",
            Self::Hit => "hit",
            Self::Coalesced => "coalesced",
            Self::Refused => "refused",
        })
    }
}

/// A call with its result.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The call.
    pub call: Call,
    /// Its result.
    pub output: Output,
    /// How it was answered.
    pub how: Answered,
    /// How long that took.
    pub elapsed: Duration,
    /// What was saved.
    pub saved: Spend,
    /// What its result was built from, beside the arguments: for whatever is built from results in
    /// its turn. Known only where nothing else can have decided it.
    pub witnesses: Witnesses,
    /// Until when its result is as good as a new one; `None` if nobody gave it an end. What is built
    /// from it lasts no longer.
    pub expires: Option<Millis>,
}

/// Who is told what happens to the calls of a batch, as it happens.
pub trait Watcher: Send + Sync {
    /// A call begins.
    fn began(&self, call: &Call) {
        let _ = call;
    }

    /// A call ended.
    fn ended(&self, answer: &Answer) {
        let _ = answer;
    }
}

/// Nobody is told.
impl Watcher for () {}

/// What surrounds a batch of calls.
#[derive(Clone)]
pub struct Batch {
    /// What every call is given; each gets a witness of its own.
    pub context: Context,
    /// The ids of earlier calls whose results are, in full and verbatim, in the very request that
    /// made these calls.
    pub verbatim: Arc<BTreeSet<String>>,
    /// Who is told.
    pub watcher: Arc<dyn Watcher>,
}

/// What a turn loop needs of tools.
#[async_trait]
pub trait Toolbox: Send + Sync {
    /// What a model is shown, in a stable order: built-in tools by name, then MCP by server and name.
    fn definitions(&self) -> Vec<ToolDefinition>;

    /// Looks a call up, casts and checks its arguments. What is wrong becomes the call's result.
    fn prepare(&self, call: Call) -> Prepared;

    /// Runs calls and gives their results in call order, one for each. Consecutive calls of
    /// concurrency-safe tools run beside each other, every other call alone. Dropping the future
    /// cancels what runs.
    async fn run(&self, calls: Vec<Prepared>, batch: &Batch) -> Vec<Answer>;

    /// A session begins or ends, or its workspace changes: what was kept for it is let go.
    async fn reset(&self, session: &str) {
        let _ = session;
    }
}
