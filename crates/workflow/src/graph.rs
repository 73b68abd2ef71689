//! The run loop, which executes nodes in sequence, in loops, in parallel branches, and with retries; and
//! the plan, which walks the same graph and runs nothing.
//!
//! - State is one mapping: `initial_state`, then the input over it, then the fields that each node sets,
//!   merged one level deep. A branch sees the state from before the fan-out and the fields that it has set
//!   itself.
//! - The successor of a node is determined by its `goto`, else by its edges, else it is the next node of
//!   the file.
//! - `parallel_results` has one mapping per branch, in the order of the branches: `branch` (its name),
//!   `index`, `success`, `state` (the fields that the branch has set), and for a failed branch `error` and
//!   `error_type`. A branch of a fan-out per item also has its `result`. Inline code and templates can
//!   read more from it: in `state`, the fields that the branch saw but did not set; in the result itself,
//!   the fields of its state.
//! - Dropping the future of a run cancels everything in it.

mod branches;
mod failure;
mod loops;
mod node;
mod plan;
mod subgraph;
mod walk;
mod work;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::Runtime;
use crate::format::Agent;
use crate::report::Event;
use crate::script::ScriptRunner;
use crate::template::{Prepared, Scope, State, TemplateContext};

pub use failure::RunFailure;
pub use plan::{Plan, PlannedNode, PlannedOutcome, plan};

/// The runners of inline code.
#[derive(Clone)]
pub struct Scripts {
    /// Runner of `language: python`, the default.
    pub python: Arc<dyn ScriptRunner>,
    /// Runner of `language: lua`.
    pub lua: Arc<dyn ScriptRunner>,
    /// Runner of `language: python3`.
    pub python3: Arc<dyn ScriptRunner>,
}

/// The maximum number of nodes that a run executes in sequence, so that an endless `goto` cycle stops.
pub const MAX_NODES: usize = 10_000;

/// The maximum number of concurrent branches if the file sets no limit.
pub const DEFAULT_CONCURRENCY: usize = 16;

/// Returns the state of a run before its first node: `initial_state` of the file, and `input` over it.
#[must_use]
pub fn initial_state(agent: &Agent, input: Map<String, Value>) -> State {
    let mut fields = agent.initial_state.clone();
    fields.extend(input);
    State::new(fields)
}

/// Runs an agent file from its start. Returns the final state.
///
/// # Errors
/// The errors of [`run_in`].
pub async fn run(
    agent: &Agent,
    input: Map<String, Value>,
    runtime: &Arc<Runtime>,
    scripts: &Scripts,
) -> Result<Map<String, Value>, RunFailure> {
    let mut state = initial_state(agent, input);
    run_in(agent, &mut state, runtime, scripts).await?;
    Ok(state.into_fields())
}

/// Runs an agent file from its start, with a state from [`initial_state`]. If the run fails or its future is
/// dropped, `state` has the fields that were set until then.
///
/// # Errors
/// The failure of the node that ended the run, with secrets masked; or `needs_approval` before the first
/// node, if nodes need an approval that [`Agent::approve`] has not given.
pub async fn run_in(
    agent: &Agent,
    state: &mut State,
    runtime: &Arc<Runtime>,
    scripts: &Scripts,
) -> Result<(), RunFailure> {
    if let Some(failure) = unapproved(agent) {
        return Err(failure);
    }
    let context = runtime
        .template_context(&agent.variables)
        .with_inputs(state);
    let runner = Runner {
        agent,
        runtime,
        scripts,
        context,
        inputs: state.clone(),
        prefix: String::new(),
    };
    runner.walk(&agent.start, state, Vec::new()).await
}

/// Returns the failure of a run that lacks approvals.
fn unapproved(agent: &Agent) -> Option<RunFailure> {
    let problem = agent.needs_approval()?;
    let node = agent.unapproved().next().unwrap_or_default();
    let failure = RunFailure::new(node, "needs_approval", problem.message);
    Some(RunFailure {
        place: problem.place,
        ..failure
    })
}

/// State of one run.
struct Runner<'r> {
    agent: &'r Agent,
    runtime: &'r Arc<Runtime>,
    scripts: &'r Scripts,
    context: TemplateContext,
    /// The state at the beginning of the run; in a subgraph, the part of it that the run did not change.
    inputs: State,
    /// The beginning of the paths of all nodes: empty, or the branch that runs this subgraph and `/`.
    prefix: String,
}

impl Runner<'_> {
    /// Returns the path of a node of the file.
    fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn emit(&self, event: Event) {
        self.runtime.reporter.report(event);
    }

    /// Renders a value of the node at `path`.
    async fn render(
        &self,
        prepared: &Prepared,
        path: &str,
        scope: &Scope,
    ) -> Result<Value, RunFailure> {
        let rendered = self.agent.templates.render(prepared, scope).await;
        rendered.map_err(|failure| RunFailure::from_template(path, failure))
    }

    /// Masks secrets in the text.
    fn masked(&self, text: &str) -> String {
        self.runtime.masked(text)
    }
}
