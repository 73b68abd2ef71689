//! Where forks begin.

use std::sync::{Arc, Mutex, PoisonError};

use cachalot_model::{Block, Extra, ToolResult, Usage};

use super::Flock;
use crate::conversation::{Tip, changed};

/// What stands for the result of a call that the fork does not see the result of.
const ELSEWHERE: &str = "The call is carried out elsewhere; its result does not come back here.";

/// Where a fork begins. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Branch {
    pub(crate) tip: Tip,
    /// What the last request used.
    pub(crate) usage: Option<Usage>,
    /// The others that begin here.
    pub(crate) flock: Flock,
}

impl Branch {
    /// Results for the calls that are open here: the fork's first message begins with them.
    ///
    /// A fork that is made by a tool call could also begin before the answer that makes the call. But
    /// then the message that was answered would stand there unanswered, and something that the model
    /// never said would have to follow it, before the fork could say anything. So the answer stays,
    /// with everything that was thought in it: what was sent is the beginning in either case, this
    /// keeps the most of what was said, and every provider takes results with something said behind
    /// them. All results have the same text, so that forks of one answer have them in common, too.
    pub(crate) fn closing(&self) -> Vec<Block> {
        let open = self.tip.open_calls().into_iter();
        open.map(|id| {
            let mut result = ToolResult {
                id,
                content: vec![Block::text(ELSEWHERE)],
                is_error: false,
                extra: Extra::new(),
            };
            // It is no result to refer to.
            changed(&mut result);
            Block::ToolResult(result)
        })
        .collect()
    }
}

/// Where forks of a turn begin, while its calls are made. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Trunk(Arc<Mutex<Option<Branch>>>);

impl Trunk {
    /// The calls of another answer are made.
    pub(crate) fn grow(&self, branch: Branch) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(branch);
    }

    /// Where forks begin; `None` before there were calls.
    pub(crate) fn branch(&self) -> Option<Branch> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
