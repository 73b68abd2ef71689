//! Budgets: limits on the money, tokens and time that a run or a chat may spend.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::config::{Custom, ParameterKind as Kind, Settings};
use cachalot_core::tree::Node;
use cachalot_core::{Clock, Cost, Millis};
use parking_lot::Mutex;

use crate::duration::DURATION;
use crate::error::{Error, ErrorKind};
use crate::{Model, Unpriced, Usage};
use cachalot_accounting::decimal::{amount, amount_schema, check_amount, parse_amount};

/// Decimal places of a dollar amount: the twelfth is a picodollar.
const DECIMALS: usize = 12;

/// The maximum that a run or a chat may spend.
///
/// `None` means no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Settings)]
#[settings(name = "`budget`")]
pub struct Budget {
    /// The maximum cost in US dollars.
    ///
    /// In picodollars (10⁻¹² $).
    #[setting(kind = Kind::Custom(&DOLLARS), with = dollars)]
    pub max_cost: Option<u64>,
    /// The maximum number of tokens, input and output of all calls.
    ///
    /// Includes input that the provider read from its cache.
    pub max_tokens: Option<u64>,
    /// The maximum time on the wall clock, such as `10m` or `1h30m`.
    #[setting(kind = DURATION)]
    pub max_time: Option<Duration>,
}

/// An amount in US dollars, exact to a picodollar. [`dollars`] reads it.
pub static DOLLARS: Custom = Custom {
    schema: Some(amount_schema),
    check: |entry, problems| check_amount(entry, DECIMALS, problems),
};

/// Returns an amount in US dollars as picodollars; `None` for a node that [`DOLLARS`] refuses.
#[must_use]
pub fn dollars(node: &Node) -> Option<u64> {
    amount(node, DECIMALS)
}

/// Returns an amount in US dollars, such as `0.50` or `$0.50`, as picodollars; `None` for another text.
#[must_use]
pub fn parse_dollars(text: &str) -> Option<u64> {
    parse_amount(text, DECIMALS).ok()
}

impl Budget {
    /// Returns true if no limit is set.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

/// Counts the spending against a budget. Cheap to clone; clones share their counts and may be used from any
/// thread.
///
/// Callers check the meter before each call and record the call afterwards. [`Meter::reserve`] sets aside
/// the tokens that a call in progress is expected to use, so that concurrent calls exceed the budget no
/// further than sequential ones: only the last call may go beyond it, by the tokens that it uses. Money is
/// not reserved.
#[derive(Debug, Clone)]
pub struct Meter {
    shared: Arc<MeterState>,
}

#[derive(Debug)]
struct MeterState {
    budget: Budget,
    clock: Arc<dyn Clock>,
    started_at: Millis,
    counted: Mutex<MeterCounts>,
}

#[derive(Debug, Default)]
struct MeterCounts {
    spent: Spending,
    /// Tokens that are reserved for calls in progress.
    reserved: u64,
    /// Calls in progress that were registered with [`Meter::start_call`].
    calls_in_progress: u64,
    /// The reasons of calls without a price.
    unpriced: BTreeSet<String>,
}

/// Guard of a call in progress; dropping it ends the call.
#[must_use]
pub struct CallGuard(Arc<MeterState>);

impl Drop for CallGuard {
    fn drop(&mut self) {
        let mut counted = self.0.counted.lock();
        counted.calls_in_progress = counted.calls_in_progress.saturating_sub(1);
    }
}

/// Tokens that are reserved for a call. Drop it when the call was recorded or has failed; dropping releases
/// the tokens.
#[derive(Debug)]
#[must_use]
pub struct Reservation {
    shared: Arc<MeterState>,
    tokens: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut counted = self.shared.counted.lock();
        counted.reserved = counted.reserved.saturating_sub(self.tokens);
    }
}

/// Spending so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spending {
    /// Calls that ended with an answer.
    pub calls: u64,
    /// Input and output tokens.
    pub tokens: u64,
    /// Calls whose answer did not report token usage.
    pub uncounted: u64,
    /// Cost.
    pub cost: Cost,
}

impl Meter {
    /// Creates a meter with zero counts. Its time starts now.
    #[must_use]
    pub fn new(budget: Budget, clock: Arc<dyn Clock>) -> Self {
        let started_at = clock.now();
        Self {
            shared: Arc::new(MeterState {
                budget,
                clock,
                started_at,
                counted: Mutex::default(),
            }),
        }
    }

    /// Returns the budget.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.shared.budget
    }

    /// Records a paid call: its usage, if the provider reported it, and its cost. Answers from a cache cost
    /// nothing and are not recorded.
    pub fn record(&self, usage: Option<&Usage>, cost: Cost) {
        let spent = &mut self.shared.counted.lock().spent;
        spent.calls = spent.calls.saturating_add(1);
        match usage {
            Some(usage) => {
                let tokens = usage.total_input().saturating_add(usage.output);
                spent.tokens = spent.tokens.saturating_add(tokens);
            }
            None => spent.uncounted = spent.uncounted.saturating_add(1),
        }
        spent.cost += cost;
    }

    /// Records a reason of a call without a price. Returns true if it is the first call with this reason.
    #[must_use]
    pub fn is_first_without_price(&self, reason: &Unpriced) -> bool {
        /// The reasons contain names from answers.
        const MAX_REASONS: usize = 100;
        let known = &mut self.shared.counted.lock().unpriced;
        known.len() < MAX_REASONS && known.insert(reason.to_string())
    }

    /// Registers a call in progress, until the guard is dropped.
    pub fn start_call(&self) -> CallGuard {
        let mut counted = self.shared.counted.lock();
        counted.calls_in_progress = counted.calls_in_progress.saturating_add(1);
        CallGuard(Arc::clone(&self.shared))
    }

    /// Returns the number of calls in progress. The provider may charge for such a call even if it is
    /// aborted.
    #[must_use]
    pub fn calls_in_progress(&self) -> u64 {
        self.shared.counted.lock().calls_in_progress
    }

    /// Returns the spending so far.
    #[must_use]
    pub fn spent(&self) -> Spending {
        self.shared.counted.lock().spent
    }

    /// Returns the time since the meter was created.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        let elapsed = self
            .shared
            .clock
            .now()
            .saturating_sub(self.shared.started_at);
        // A clock that is set back gives a negative time.
        Duration::from_millis(u64::try_from(elapsed).unwrap_or(0))
    }

    /// Returns the remaining time; `None` if time is not limited. For callers that also abort the call in
    /// progress at the deadline.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        let limit = self.shared.budget.max_time?;
        Some(limit.saturating_sub(self.elapsed()))
    }

    /// Checks that one more call may start, in addition to those in progress.
    ///
    /// # Errors
    /// [`ErrorKind::OverBudget`], with the limit and the spending so far; also if a limit cannot be
    /// enforced because an earlier call reported no usage or has no known price.
    pub fn check(&self) -> Result<(), Error> {
        self.allows(&self.shared.counted.lock())
    }

    fn allows(&self, counted: &MeterCounts) -> Result<(), Error> {
        let Budget {
            max_cost,
            max_tokens,
            max_time,
        } = self.shared.budget;
        let MeterCounts {
            spent, reserved, ..
        } = *counted;
        if let Some(limit) = max_cost {
            let shown = Cost::from_picodollars(limit).exact_amount();
            if spent.cost.unpriced > 0 {
                return Err(over_budget(format!(
                    "the budget of {shown} (`max_cost`) cannot be enforced: the price of {} is unknown, beside {} spent. Set `cost: {{input: …, output: …}}` of the model, or remove `max_cost`",
                    calls(spent.cost.unpriced),
                    spent.cost.amount()
                )));
            }
            if spent.cost.picodollars >= limit {
                return Err(over_budget(format!(
                    "the budget of {shown} (`max_cost`) is used up: {} spent on {}",
                    spent.cost.amount(),
                    calls(spent.calls)
                )));
            }
        }
        if let Some(limit) = max_tokens {
            if spent.uncounted > 0 {
                return Err(over_budget(format!(
                    "the budget of {limit} tokens (`max_tokens`) cannot be enforced: the provider reported no usage for {}, beside {} counted. Remove `max_tokens`, or make the provider report usage",
                    calls(spent.uncounted),
                    spent.tokens
                )));
            }
            if spent.tokens.saturating_add(reserved) >= limit {
                let aside = match reserved {
                    0 => String::new(),
                    tokens => format!(", and about {tokens} more by calls under way"),
                };
                return Err(over_budget(format!(
                    "the budget of {limit} tokens (`max_tokens`) is used up: {} tokens in {}{aside}",
                    spent.tokens,
                    calls(spent.calls)
                )));
            }
        }
        if let Some(limit) = max_time {
            let elapsed = self.elapsed();
            if elapsed >= limit {
                return Err(over_budget(format!(
                    "the budget of {limit:?} (`max_time`) is used up: {elapsed:?} have passed"
                )));
            }
        }
        Ok(())
    }

    /// Checks that one more call of this model may start: [`Meter::check`], and, if money is limited, that
    /// the price of the model is known before anything is paid.
    ///
    /// # Errors
    /// [`ErrorKind::OverBudget`].
    pub fn check_for(&self, model: &Model) -> Result<(), Error> {
        self.check()?;
        self.check_price_known(model)
    }

    /// Performs [`Meter::check_for`] and reserves `tokens` for the call. Check and reservation are one
    /// atomic step.
    ///
    /// # Errors
    /// [`ErrorKind::OverBudget`].
    pub fn reserve(&self, model: &Model, tokens: u64) -> Result<Reservation, Error> {
        let mut counted = self.shared.counted.lock();
        self.allows(&counted)?;
        self.check_price_known(model)?;
        counted.reserved = counted.reserved.saturating_add(tokens);
        Ok(Reservation {
            shared: Arc::clone(&self.shared),
            tokens,
        })
    }

    fn check_price_known(&self, model: &Model) -> Result<(), Error> {
        match self.shared.budget.max_cost {
            Some(limit) if model.price().is_none() => Err(over_budget(format!(
                "the budget of {} (`max_cost`) cannot be enforced: the price of the model `{}` of {} is unknown. Set `cost: {{input: …, output: …}}` (0 if free), or remove `max_cost`",
                Cost::from_picodollars(limit).exact_amount(),
                model.name(),
                model.provider()
            ))),
            _ => Ok(()),
        }
    }
}

fn over_budget(message: String) -> Error {
    Error::new(ErrorKind::OverBudget, message)
}

fn calls(count: u64) -> String {
    match count {
        1 => "1 call".to_owned(),
        more => format!("{more} calls"),
    }
}
