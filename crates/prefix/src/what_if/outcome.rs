//! The cost of one request.

use cachalot_core::Cost;

use super::request::AnsweredRequest;

/// The cost of one request under a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Without the additional requests.
    pub(super) cost: Cost,
    pub(super) requests: u64,
    pub(super) requests_cost: Cost,
    pub(super) read_instead: u64,
}

impl Outcome {
    /// Returns the outcome as paid.
    pub(super) fn paid(request: &AnsweredRequest) -> Self {
        Self {
            cost: request.cost,
            requests: 0,
            requests_cost: Cost::default(),
            read_instead: 0,
        }
    }

    /// Adds a request that the policy sends.
    pub(super) fn add_request(&mut self, cost: Cost) {
        self.requests += 1;
        self.requests_cost += cost;
    }
}
