//! The interface between a turn loop and the tools.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_core::{Millis, Spend, Witnesses};
use cachalot_model::ToolDefinition;
use cachalot_operation::ResourceAccess;

use cachalot_cache::Witness;
use cachalot_operation::{Arguments, LiveOutput, Origin, ToolContext, ToolOutput};

/// A call as the model wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The provider's ID of the call; the result carries it.
    pub id: String,
    /// The name of the tool, as the model wrote it.
    pub name: String,
    /// The arguments, as the model wrote them: JSON text.
    pub arguments: String,
}

/// A call that has been looked up, cast and checked.
#[derive(Debug, Clone, PartialEq)]
pub enum PreparedCall {
    /// The call can run.
    Ready(ReadyCall),
    /// The call must not run.
    Refused(RefusedCall),
}

/// A call that can run.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadyCall {
    /// The call.
    pub call: ToolCall,
    /// The arguments, cast to the schema's types, defaults not filled in.
    pub arguments: Arguments,
    /// The origin of the tool.
    pub origin: Origin,
    /// True if the tool is known to change nothing (not only by a server's annotation).
    pub read_only: bool,
    /// The files, commands and URLs that the call touches; rules, hooks and approvals match on them.
    pub resource_access: ResourceAccess,
}

/// A call that must not run.
#[derive(Debug, Clone, PartialEq)]
pub struct RefusedCall {
    /// The call.
    pub call: ToolCall,
    /// Its result.
    pub output: ToolOutput,
}

impl PreparedCall {
    /// Returns the call.
    #[must_use]
    pub fn call(&self) -> &ToolCall {
        match self {
            Self::Ready(ready) => &ready.call,
            Self::Refused(refused) => &refused.call,
        }
    }

    /// Returns the call if it can run.
    #[must_use]
    pub fn ready(&self) -> Option<&ReadyCall> {
        match self {
            Self::Ready(ready) => Some(ready),
            Self::Refused(_) => None,
        }
    }
}

impl RefusedCall {
    /// Creates a call with an error as its result.
    #[must_use]
    pub fn new(call: ToolCall, why: impl Into<String>) -> Self {
        let output = ToolOutput::error(why.into());
        Self { call, output }
    }
}

/// The way in which a call was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallOutcome {
    /// The tool ran, with the reason if it could have been answered otherwise: `changed since: …`.
    Ran(Option<String>),
    /// An earlier result was served.
    Hit,
    /// With the result of the same call that ran concurrently.
    Coalesced,
    /// It did not run: unknown tool, wrong arguments, no permission.
    Refused,
}

/// `ran`, `hit`, `coalesced`, `refused`.
impl std::fmt::Display for CallOutcome {
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
pub struct ToolCallResult {
    /// The call.
    pub call: ToolCall,
    /// The result.
    pub output: ToolOutput,
    /// The way in which it was answered.
    pub outcome: CallOutcome,
    /// The duration.
    pub elapsed: Duration,
    /// The cost that was saved.
    pub saved: Spend,
    /// The witnesses of the result besides the arguments, for results that are built from it. Known only if
    /// nothing else can have influenced the result.
    pub witnesses: Witnesses,
    /// The time until which the result is as good as a new one; `None`: no limit. Results that are built from
    /// it expire no later.
    pub expires: Option<Millis>,
}

/// An observer of the calls of a batch while they run.
pub trait CallObserver: Send + Sync {
    /// A call begins. `output` is its output while it runs.
    fn call_started(&self, call: &ToolCall, output: &LiveOutput) {
        let _ = (call, output);
    }

    /// A call ended.
    fn call_finished(&self, answer: &ToolCallResult) {
        let _ = answer;
    }
}

/// Ignores all events.
impl CallObserver for () {}

/// The environment of a batch of calls.
#[derive(Clone)]
pub struct BatchContext {
    /// The context of every call; each call gets a witness and a live output of its own.
    pub context: ToolContext,
    /// The IDs of earlier calls whose results are contained, in full and verbatim, in the request that made
    /// these calls.
    pub verbatim: Arc<BTreeSet<String>>,
    /// The observer.
    pub observer: Arc<dyn CallObserver>,
}

impl BatchContext {
    /// Reports to the observer that a call begins, and returns it with its context. A call that the gate
    /// denies is refused.
    pub(crate) fn begin(&self, prepared: PreparedCall) -> (PreparedCall, ToolContext) {
        let context = ToolContext {
            witness: Witness::default(),
            output: LiveOutput::default(),
            ..self.context.clone()
        };
        let call = prepared.call();
        self.observer.call_started(call, &context.output);
        let prepared = match context.denial(&call.name) {
            Some(output) => PreparedCall::Refused(RefusedCall {
                call: call.clone(),
                output,
            }),
            None => prepared,
        };
        (prepared, context)
    }
}

/// The tools as a turn loop uses them.
#[async_trait]
pub trait Toolbox: Send + Sync {
    /// Returns the definitions for the model in a stable order: built-in tools by name, then MCP tools by
    /// server and name.
    fn definitions(&self) -> Vec<ToolDefinition>;

    /// Returns the names of the tools that are not known to be read-only.
    fn writing_tools(&self) -> Vec<String>;

    /// Looks a call up, and casts and checks its arguments. An error becomes the call's result.
    fn prepare(&self, call: ToolCall) -> PreparedCall;

    /// Casts and checks arguments that a hook has set in place of those that the model wrote. The result has their
    /// text.
    fn prepare_rewritten(&self, call: &ToolCall, arguments: Arguments) -> PreparedCall;

    /// Runs calls and returns one result for each, in call order. Consecutive calls of concurrency-safe tools
    /// run concurrently, every other call alone. Dropping the future cancels the running calls.
    async fn run(&self, calls: Vec<PreparedCall>, batch: &BatchContext) -> Vec<ToolCallResult>;

    /// Returns texts of third parties about the tools (the instructions of MCP servers), which end the system
    /// prompt. By default none.
    fn instructions(&self) -> Vec<String> {
        Vec::new()
    }

    /// Drops the state that is kept for a session: to be called when it begins or ends, or its workspace
    /// changes.
    async fn reset(&self, session: &str) {
        let _ = session;
    }
}
