//! Fork points: the states from which forks start.

use std::sync::{Arc, Mutex, PoisonError};

use cachalot_model::{Block, Extra, ToolResult, Usage};

use super::Flock;
use crate::conversation::{Tip, changed};

/// Replaces the result of a call whose result the fork does not see.
const ELSEWHERE: &str = "The call is carried out elsewhere; its result does not come back here.";

/// The state from which a fork starts. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Branch {
    pub(crate) tip: Tip,
    /// Usage of the last request.
    pub(crate) usage: Option<Usage>,
    /// The warm-up that all forks from this state share.
    pub(crate) flock: Flock,
}

impl Branch {
    /// Returns results for the calls that are open here; the fork's first message begins with them.
    ///
    /// A fork that a tool call starts could also start before the answer with that call. But then the
    /// answered message would be unanswered in the fork, and an answer that the model never gave would have
    /// to follow it before the fork's message. Therefore the answer stays, including its reasoning. The sent
    /// prefix is the same in both cases, this variant keeps more of the conversation, and every provider
    /// accepts results followed by text. All results have the same text, so that forks of one answer share
    /// them, too.
    pub(crate) fn closing(&self) -> Vec<Block> {
        let open = self.tip.open_calls().into_iter();
        open.map(|id| {
            let mut result = ToolResult {
                id,
                content: vec![Block::text(ELSEWHERE)],
                is_error: false,
                extra: Extra::new(),
            };
            // Later calls cannot refer to this substitute.
            changed(&mut result);
            Block::ToolResult(result)
        })
        .collect()
    }
}

/// The fork point of a turn while its calls run. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Trunk(Arc<Mutex<Option<Branch>>>);

impl Trunk {
    /// Sets the fork point for the calls of another answer.
    pub(crate) fn grow(&self, branch: Branch) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(branch);
    }

    /// Returns the fork point; `None` before the first calls.
    pub(crate) fn branch(&self) -> Option<Branch> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
