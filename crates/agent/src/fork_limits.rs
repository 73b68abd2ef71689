//! Limits on the usage of a fork.

use std::sync::Arc;

use crate::account::Account;
use crate::report::Stop;
use parking_lot::Mutex;

/// Limits on the total usage of a fork, including its sub-agents. Clones share the counts.
#[derive(Clone)]
pub(crate) struct ForkLimits {
    holder: Arc<str>,
    calls: u32,
    input: Option<u64>,
    output: Option<u64>,
    account: Account,
    in_flight: Arc<Mutex<InFlight>>,
}

/// Requests that are not answered yet.
#[derive(Default)]
struct InFlight {
    calls: u32,
    /// Estimated input tokens.
    input: u64,
}

/// The reservation for one request. It is dropped after the usage of the request was added to the account, or
/// when the request failed.
#[must_use]
pub(crate) struct ForkReservation {
    in_flight: Arc<Mutex<InFlight>>,
    input: u64,
}

impl Drop for ForkReservation {
    fn drop(&mut self) {
        let mut in_flight = self.in_flight.lock();
        in_flight.calls = in_flight.calls.saturating_sub(1);
        in_flight.input = in_flight.input.saturating_sub(self.input);
    }
}

impl ForkLimits {
    /// Creates the limits of a fork whose usage is counted in `account`.
    pub(crate) fn new(
        holder: &str,
        max_iterations: u32,
        max_input_tokens: Option<u64>,
        max_output_tokens: Option<u64>,
        account: &Account,
    ) -> Self {
        Self {
            holder: holder.into(),
            calls: max_iterations,
            input: max_input_tokens,
            output: max_output_tokens,
            account: account.clone(),
            in_flight: Arc::default(),
        }
    }

    /// Reserves one model call with about `next` input tokens, atomically.
    ///
    /// # Errors
    /// The limit that the request would exceed.
    pub(crate) fn reserve(&self, next: u64) -> Result<ForkReservation, Stop> {
        // Usage is added to the account before the reservation is dropped, so that it is never missing in
        // between.
        let mut in_flight = self.in_flight.lock();
        self.check(&in_flight, next)?;
        in_flight.calls = in_flight.calls.saturating_add(1);
        in_flight.input = in_flight.input.saturating_add(next);
        Ok(ForkReservation {
            in_flight: Arc::clone(&self.in_flight),
            input: next,
        })
    }

    fn check(&self, in_flight: &InFlight, next: u64) -> Result<(), Stop> {
        let sum = self.account.totals();
        if sum.model_calls.saturating_add(in_flight.calls) >= self.calls {
            return Err(Stop::Iterations(self.calls));
        }
        let (used, holder) = (sum.usage, &self.holder);
        let sent = used.total_input();
        let taken = sent.saturating_add(in_flight.input);
        // The first condition refuses a request whose estimate is 0, too, once the limit is reached.
        let input = self
            .input
            .filter(|maximum| taken >= *maximum || taken.saturating_add(next) > *maximum);
        if let Some(maximum) = input {
            let aside = match in_flight.input {
                0 => String::new(),
                tokens => format!(", about {tokens} more by requests under way"),
            };
            return Err(Stop::Budget(format!(
                "the {maximum} input tokens (`max_input_tokens`) of {holder} are used up: {sent} were sent{aside}, and the next request sends about {next}"
            )));
        }
        match self.output.filter(|maximum| used.output >= *maximum) {
            None => Ok(()),
            Some(maximum) => Err(Stop::Budget(format!(
                "the {maximum} output tokens (`max_output_tokens`) of {holder} are used up: {} were made",
                used.output
            ))),
        }
    }
}
