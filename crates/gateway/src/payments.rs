//! Payments to upstreams since the start, by model.

use std::collections::BTreeMap;

use cachalot_core::Spend;

use crate::billing::Charged;

/// Maximum number of reasons for unknown costs that are counted for a model; further ones are left out.
const MAX_REASONS: usize = 16;

/// Payments to an upstream for the answers of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelPayments {
    /// Number of answers.
    pub answers: u64,
    /// Tokens and cost.
    pub paid: Spend,
    /// Input tokens that the provider read from its prompt cache; `paid` includes them.
    pub cache_read_tokens: u64,
    /// Reasons why the cost of an answer is not known, with the number of answers.
    pub unpriced: BTreeMap<String, u64>,
}

/// Payments by upstream and model.
pub type Payments = BTreeMap<(String, String), ModelPayments>;

impl ModelPayments {
    /// Adds the payment for an answer.
    pub(crate) fn add(&mut self, charged: &Charged) {
        self.answers += 1;
        self.paid += charged.spend;
        self.cache_read_tokens += charged.cache_read_tokens;
        if let Some(reason) = &charged.unpriced
            && (self.unpriced.len() < MAX_REASONS || self.unpriced.contains_key(reason))
        {
            *self.unpriced.entry(reason.clone()).or_default() += 1;
        }
    }
}
