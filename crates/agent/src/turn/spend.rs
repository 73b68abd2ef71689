//! The spend of a turn.

use cachalot_core::Spend;

use crate::chat_state::ChatState;
use crate::report::UsageTotals;

/// Separates the spend of a turn from the other spend of its chat.
pub(super) struct TurnSpend {
    /// Spend before the turn, and spend within it that is not part of answering.
    baseline: Spend,
    /// Model calls answered by fallbacks before the turn.
    fallback_calls_before: u32,
}

impl TurnSpend {
    /// Begins to count.
    pub(super) fn begin(shared: &ChatState) -> Self {
        Self {
            baseline: spent(shared),
            fallback_calls_before: shared.totals().fallback_calls,
        }
    }

    /// Spend and savings since the turn began, without what is not part of answering.
    pub(super) fn worth(&self, shared: &ChatState) -> Spend {
        since(self.baseline, shared)
    }

    /// Excludes the spend since `then` from the worth of the answer.
    pub(super) fn exclude_since(&mut self, then: Spend, shared: &ChatState) {
        self.baseline += since(then, shared);
    }

    /// True if a fallback has answered a model call of the turn.
    pub(super) fn used_fallback(&self, shared: &ChatState) -> bool {
        shared.totals().fallback_calls > self.fallback_calls_before
    }
}

/// Spend and savings so far.
pub(super) fn spent(shared: &ChatState) -> Spend {
    let UsageTotals { paid, saved, .. } = shared.totals();
    let mut spent = paid;
    spent += saved;
    spent
}

/// Spend and savings since `then`.
fn since(then: Spend, shared: &ChatState) -> Spend {
    let now = spent(shared);
    Spend {
        calls: now.calls.saturating_sub(then.calls),
        ..now.without(then)
    }
}
