//! Fork points: the states from which forks start.

use std::sync::Arc;

use cachalot_model::{Block, Extra, ToolResult, Usage};
use parking_lot::Mutex;

use crate::conversation::{Snapshot, mark_changed};
use crate::prefix_warmup::PrefixWarmup;

/// Replaces the result of a call whose result the fork does not see.
const OPEN_CALL_RESULT: &str =
    "The call is carried out elsewhere; its result does not come back here.";

/// The state from which a fork starts. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ForkPoint {
    pub(crate) snapshot: Snapshot,
    /// Usage of the last request.
    pub(crate) usage: Option<Usage>,
    /// The warm-up that all forks from this state share.
    pub(crate) prefix_warmup: PrefixWarmup,
}

impl ForkPoint {
    /// Returns results for the calls that are open here; the fork's first message begins with them.
    ///
    /// A fork that a tool call starts could also start before the answer with that call. But then the
    /// answered message would be unanswered in the fork, and an answer that the model never gave would have
    /// to follow it before the fork's message. Therefore the answer stays, including its reasoning. The sent
    /// prefix is the same in both cases, this variant keeps more of the conversation, and every provider
    /// accepts results followed by text. All results have the same text, so that forks of one answer share
    /// them, too.
    pub(crate) fn open_call_results(&self) -> Vec<Block> {
        let open = self.snapshot.open_calls().into_iter();
        open.map(|id| {
            let mut result = ToolResult {
                id,
                content: vec![Block::text(OPEN_CALL_RESULT)],
                is_error: false,
                extra: Extra::new(),
            };
            // Later calls cannot refer to this substitute.
            mark_changed(&mut result);
            Block::ToolResult(result)
        })
        .collect()
    }
}

/// The fork point of a turn while its calls run. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct CurrentForkPoint(Arc<Mutex<Option<ForkPoint>>>);

impl CurrentForkPoint {
    /// Sets the fork point for the calls of another answer.
    pub(crate) fn set(&self, fork_point: ForkPoint) {
        *self.0.lock() = Some(fork_point);
    }

    /// Returns the fork point; `None` before the first calls.
    pub(crate) fn fork_point(&self) -> Option<ForkPoint> {
        self.0.lock().clone()
    }
}
