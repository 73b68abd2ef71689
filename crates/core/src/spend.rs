//! What work cost.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a run cost, or what an answer from the cache saved. Sums with `+=`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spend {
    /// How often the work ran.
    pub calls: u64,
    /// How long it took, on the wall clock.
    pub time: Duration,
}

impl Spend {
    /// One call that took `time`.
    #[must_use]
    pub fn one(time: Duration) -> Self {
        Self { calls: 1, time }
    }
}

impl std::ops::AddAssign for Spend {
    fn add_assign(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.time = self.time.saturating_add(other.time);
    }
}
