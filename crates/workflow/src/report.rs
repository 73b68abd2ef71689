//! What a run tells while it runs. The command line renders it; tests collect it.

use std::time::Duration;

use cachalot_core::Spend;

/// Outcome of a call that ran, gave no answer (it failed, or answered with an error) and cost nothing
/// but time. It is not paid.
pub const FAILED: &str = "failed";

/// How a memoized step was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memoized {
    /// `hit`, `miss`, `coalesced`, `bypass`, or [`FAILED`].
    pub outcome: String,
    /// The handle, as users see it.
    pub handle: Option<String>,
    /// Why not answered from the cache, or why not stored.
    pub reason: Option<String>,
    /// What it cost; of a call that failed, the time it took.
    pub paid: Spend,
    /// What was saved.
    pub saved: Spend,
}

/// Something that happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// A node began.
    Started {
        /// The node's name; steps inside it are `node/step`, branches `node[3]`.
        node: String,
    },
    /// A node ended well.
    Finished {
        /// The node's name.
        node: String,
        /// How long it took.
        time: Duration,
    },
    /// A node failed (and the run goes on or not, by its `on_error`).
    Failed {
        /// The node's name.
        node: String,
        /// How long it took.
        time: Duration,
        /// Why.
        message: String,
    },
    /// A failed node is tried again.
    Retrying {
        /// The node's name.
        node: String,
        /// Which attempt comes now, from 2.
        attempt: u32,
        /// After how long.
        after: Duration,
        /// Why the last one failed.
        message: String,
    },
    /// A fan-out has `done` of `total` branches behind it.
    Progress {
        /// The node's name.
        node: String,
        /// Branches that have ended.
        done: usize,
        /// All branches.
        total: usize,
    },
    /// A memoized action was answered, by the cache or by running; comes before the node's end.
    Answered {
        /// The node's name.
        node: String,
        /// How.
        memoized: Memoized,
    },
    /// Inline code printed.
    Printed {
        /// The node's name.
        node: String,
        /// What, without the last line break.
        text: String,
    },
    /// Something the user should know, that is no failure.
    Warning {
        /// What.
        message: String,
    },
}

/// Who is told what happens. Never blocks for long; called from any thread.
pub trait Reporter: Send + Sync {
    /// Told.
    fn report(&self, event: Event);
}

tokio::task_local! {
    /// The node that the current task works for, so that what happens inside an action can be told
    /// of the right node.
    pub static NODE: String;
}

/// The node that the current task works for; empty outside of a run.
#[must_use]
pub fn current_node() -> String {
    NODE.try_with(Clone::clone).unwrap_or_default()
}
