//! The run loop: nodes one after the other, in loops, in parallel branches, with retries; and the
//! plan, which walks the same way and runs nothing.
//!
//! - State is one mapping: `initial_state`, then the input over it, then what each node sets, merged
//!   one level deep. A branch sees the state from before the fan-out and what it has set itself.
//! - After a node comes what its `goto` says, else its edges, else the next node of the file.
//! - `parallel_results` has one mapping per branch, in the order of the branches: `branch` (its
//!   name), `index`, `success`, `state` (what the branch has set), and for a branch that failed
//!   `error` and `error_type`; a branch of a fan-out per item also has its `result`. Inline code and
//!   templates find more in it: what the branch saw besides what it has set, and the fields of its
//!   state as fields of the result.
//! - Dropping the future of a run cancels everything in it.

mod branches;
mod failure;
mod node;
mod plan;
mod rounds;
mod walk;
mod work;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::Runtime;
use crate::format::Agent;
use crate::report::Event;
use crate::script::ScriptRunner;
use crate::template::{State, Surroundings};

pub use failure::RunFailure;
pub use plan::{Plan, PlannedNode, What, plan};

/// What runs inline code.
#[derive(Clone)]
pub struct Scripts {
    /// `language: python`, the default.
    pub python: Arc<dyn ScriptRunner>,
    /// `language: lua`.
    pub lua: Arc<dyn ScriptRunner>,
    /// `language: python3`.
    pub python3: Arc<dyn ScriptRunner>,
}

/// How many nodes a run may execute one after the other, so that a `goto` in a circle ends.
pub const MOST_NODES: usize = 10_000;

/// How many branches run at a time where the file does not say.
pub const BRANCHES_AT_A_TIME: usize = 16;

/// Runs an agent from its beginning; returns its final state.
///
/// # Errors
/// The failure of the node that ended the run. Secrets are masked in it.
pub async fn run(
    agent: &Agent,
    input: Map<String, Value>,
    runtime: &Arc<Runtime>,
    scripts: &Scripts,
) -> Result<Map<String, Value>, RunFailure> {
    let surroundings = Surroundings::of(runtime, &agent.variables);
    let state = initial_state(agent, input);
    let runner = Runner {
        agent,
        runtime,
        scripts,
        surroundings,
        inputs: state.clone(),
    };
    let ended = runner.walk(&agent.start, state, Vec::new()).await?;
    Ok(ended.into_fields())
}

fn initial_state(agent: &Agent, input: Map<String, Value>) -> State {
    let mut fields = agent.initial_state.clone();
    fields.extend(input);
    State::new(fields)
}

/// One run.
struct Runner<'r> {
    agent: &'r Agent,
    runtime: &'r Arc<Runtime>,
    scripts: &'r Scripts,
    surroundings: Surroundings,
    /// The state at the beginning.
    inputs: State,
}

impl Runner<'_> {
    fn tell(&self, event: Event) {
        self.runtime.reporter.report(event);
    }

    /// The text without secrets.
    fn masked(&self, text: &str) -> String {
        masked(self.runtime, text)
    }
}

/// The text without secrets, and without what looks like one.
fn masked(runtime: &Runtime, text: &str) -> String {
    cachalot_core::secret::mask_credentials(&runtime.seals.redact(text)).into_owned()
}
