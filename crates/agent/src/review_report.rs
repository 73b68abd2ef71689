//! Results of reviews.

use std::time::Duration;

use cachalot_model::Usage;

use crate::definition::ReviewKind;
use crate::report::UsageTotals;

/// The result of a review.
#[derive(Debug, Clone, PartialEq)]
pub struct ReviewReport {
    /// The subject of the review.
    pub kind: ReviewKind,
    /// Calls that stored or changed a long-term memory.
    pub memories: u32,
    /// Calls that stored or changed a skill.
    pub skills: u32,
    /// The final text of the review.
    pub text: String,
    /// The reason why it did not complete.
    pub failure: Option<String>,
    /// Its usage.
    pub sum: UsageTotals,
    /// Usage of its first request, if the provider reported it.
    pub first: Option<Usage>,
    /// Usage of the chat's last request before the review; `None` if the review does not inherit all of that
    /// request.
    pub parent: Option<Usage>,
    /// Tools that it called but may not use, without duplicates.
    pub denied: Vec<String>,
    /// The ID of its session; empty if it has none.
    pub session: String,
    /// Duration of the review.
    pub elapsed: Duration,
}

impl ReviewReport {
    /// A one-word result: `none`, `memory`, `skill`, `memory+skill` or `error`.
    #[must_use]
    pub fn result(&self) -> &'static str {
        match (&self.failure, self.memories, self.skills) {
            (Some(_), _, _) => "error",
            (None, 0, 0) => "none",
            (None, _, 0) => "memory",
            (None, 0, _) => "skill",
            (None, _, _) => "memory+skill",
        }
    }
}
