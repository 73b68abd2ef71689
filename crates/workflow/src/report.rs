//! Events of a run. The command line renders them; tests collect them.

use std::time::Duration;

use cachalot_core::Spend;

/// Outcome of a call that ran without giving an answer (it failed, or answered with an error) and cost
/// only time. It does not count as paid.
pub const FAILED: &str = "failed";

/// The cache outcome of a memoized step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memoized {
    /// The outcome: `hit`, `miss`, `coalesced`, `bypass`, or [`FAILED`].
    pub outcome: &'static str,
    /// The handle as shown to users.
    pub handle: Option<String>,
    /// The reason why the cache did not answer, or why the result was not stored.
    pub reason: Option<String>,
    /// The cost of the call. For a failed call, the time it took.
    pub paid: Spend,
    /// The cost that the cache saved.
    pub saved: Spend,
}

/// An event of a run.
#[derive(Debug, Clone)]
pub enum Event {
    /// A node started.
    Started {
        /// The node's name. Steps inside it are `node/step`, branches `node[3]`.
        node: String,
    },
    /// A node succeeded.
    Finished {
        /// The node's name.
        node: String,
        /// The duration of the node.
        time: Duration,
    },
    /// A node failed. Its `on_error` determines if the run continues.
    Failed {
        /// The node's name.
        node: String,
        /// The duration of the node.
        time: Duration,
        /// The failure message.
        message: String,
    },
    /// A failed node is retried.
    Retrying {
        /// The node's name.
        node: String,
        /// The number of the next attempt, from 2.
        attempt: u32,
        /// The delay before the next attempt.
        after: Duration,
        /// The failure message of the last attempt.
        message: String,
    },
    /// A fan-out has finished `done` of `total` branches.
    Progress {
        /// The node's name.
        node: String,
        /// Finished branches.
        done: usize,
        /// All branches.
        total: usize,
    },
    /// A memoized action returned a result, from the cache or by running. Reported before the node
    /// ends.
    Answered {
        /// The node's name.
        node: String,
        /// The cache outcome.
        memoized: Memoized,
    },
    /// Inline code wrote to its output.
    Printed {
        /// The node's name.
        node: String,
        /// The output, without the last line break.
        text: String,
    },
    /// A warning for the user that is not a failure.
    Warning {
        /// The message.
        message: String,
    },
}

/// Receiver of events. Implementations never block for long and may be called from any thread.
pub trait Reporter: Send + Sync {
    /// Handles an event.
    fn report(&self, event: Event);
}

tokio::task_local! {
    /// The node that the current task works for. Attributes events from inside an action to that node.
    pub static NODE: String;
}

/// Returns the node that the current task works for; empty outside of a run.
#[must_use]
pub fn current_node() -> String {
    NODE.try_with(Clone::clone).unwrap_or_default()
}
