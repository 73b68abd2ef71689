//! What a fork may use.

use std::sync::Arc;

use super::ForkSpec;
use crate::account::Account;

/// What a fork may use in all, whoever works on its behalf included.
#[derive(Clone)]
pub(crate) struct Allowance {
    holder: Arc<str>,
    input: Option<u64>,
    output: Option<u64>,
    account: Account,
}

impl Allowance {
    /// Of a fork whose use is counted in this account.
    pub(super) fn of(spec: &ForkSpec, account: &Account) -> Self {
        Self {
            holder: spec.holder.as_str().into(),
            input: spec.max_input_tokens,
            output: spec.max_output_tokens,
            account: account.clone(),
        }
    }

    /// Why no further request may be made that sends at least so many tokens.
    pub(crate) fn over(&self, next: u64) -> Option<String> {
        let used = self.account.sum().usage;
        let sent = used.total_input();
        let holder = &self.holder;
        let input = self.input.filter(|most| {
            let least = sent.saturating_add(next);
            sent >= *most || least > *most
        });
        if let Some(most) = input {
            return Some(format!(
                "the {most} input tokens (`max_input_tokens`) of {holder} are used up: {sent} were sent, and the next request sends {next} or more"
            ));
        }
        let most = self.output.filter(|most| used.output >= *most)?;
        Some(format!(
            "the {most} output tokens (`max_output_tokens`) of {holder} are used up: {} were made",
            used.output
        ))
    }
}
