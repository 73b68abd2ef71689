//! Payment for a run by a key of the gateway.

use std::sync::Arc;
use std::time::Instant;

use cachalot_core::Spend;

use crate::budget::{Budgets, Reservation};
use crate::error_body::ErrorBody;
use crate::virtual_key::VirtualKey;

/// The key that pays for a run, and the maximum that it may pay, in picodollars.
#[derive(Clone)]
pub(crate) struct Payer {
    pub(crate) key: Arc<VirtualKey>,
    pub(crate) budgets: Budgets,
    pub(crate) max_cost: u64,
}

impl Payer {
    /// Reserves the maximum cost.
    ///
    /// # Errors
    /// The response to the client.
    pub(crate) async fn reserve(&self) -> Result<Option<Reservation>, ErrorBody> {
        let (name, limits) = (self.key.name(), self.key.config.budget);
        self.budgets.reserve(name, limits, self.max_cost).await
    }

    /// Counts the tokens that were paid for.
    pub(crate) fn count(&self, spent: Spend) {
        let tokens = spent.input_tokens.saturating_add(spent.output_tokens);
        self.key.rate.count_tokens(tokens, Instant::now());
    }
}
