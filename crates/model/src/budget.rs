//! Budgets: how much a run or a chat may cost, in money, tokens and time.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cachalot_core::tree::Section;
use cachalot_core::{Clock, Cost, Millis, Problem};

use crate::catalog::decimal::amount;
use crate::duration::duration;
use crate::error::{Error, ErrorKind};
use crate::{Model, Usage};

/// Decimals of an amount of dollars: the twelfth is a picodollar.
const DECIMALS: usize = 12;

/// What may be spent at most; `None`: as much as it takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Budget {
    /// `max_cost`, in picodollars (10⁻¹² $).
    pub max_cost: Option<u64>,
    /// `max_tokens`: input and output of all calls together, what the provider had cached included.
    pub max_tokens: Option<u64>,
    /// `max_time`, on the wall clock.
    pub max_time: Option<Duration>,
}

impl Budget {
    /// Reads `budget:`: `max_cost` in dollars, `max_tokens`, and `max_time` in seconds or as `10m`.
    /// All keys of the mapping are read.
    pub fn read(mut section: Section<'_>, problems: &mut Vec<Problem>) -> Self {
        let budget = Self {
            max_cost: amount(&mut section, "max_cost", DECIMALS, problems),
            max_tokens: section.integer("max_tokens", 0..=u64::MAX, problems),
            max_time: duration(&mut section, "max_time", problems),
        };
        section.finish(problems);
        budget
    }

    /// Whether there is no limit.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

/// Counts what has been spent of a budget. Cheap to clone; clones count together, from any thread.
///
/// It is asked before each call and told after it. Tokens that calls under way will take are set aside
/// ([`Meter::reserve`]), so that several at once go no further than one after the other: the last call
/// may go beyond the budget by as much as it takes. Of money nothing is set aside.
#[derive(Clone)]
pub struct Meter {
    shared: Arc<Shared>,
}

struct Shared {
    budget: Budget,
    clock: Arc<dyn Clock>,
    begun: Millis,
    counted: Mutex<Counted>,
}

#[derive(Default)]
struct Counted {
    spent: Spent,
    /// Tokens that are set aside for calls under way.
    reserved: u64,
    /// Calls under way, as far as [`Meter::calling`] was told.
    under_way: u64,
}

/// A call that is under way until this is dropped.
#[must_use]
pub struct Calling(Arc<Shared>);

impl Drop for Calling {
    fn drop(&mut self) {
        let mut counted = self.0.lock();
        counted.under_way = counted.under_way.saturating_sub(1);
    }
}

/// Tokens that are set aside for a call, until this is dropped: when the call was recorded, or came to
/// nothing.
#[must_use]
pub struct Reservation {
    shared: Arc<Shared>,
    tokens: u64,
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut counted = self.shared.lock();
        counted.reserved = counted.reserved.saturating_sub(self.tokens);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What has been spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Calls that have ended with an answer.
    pub calls: u64,
    /// Tokens, input and output.
    pub tokens: u64,
    /// Calls that did not say how many tokens they took.
    pub uncounted: u64,
    /// Money.
    pub cost: Cost,
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter")
            .field("budget", &self.shared.budget)
            .field("spent", &self.spent())
            .finish_non_exhaustive()
    }
}

impl Meter {
    /// A meter that has counted nothing. Its time begins now.
    #[must_use]
    pub fn new(budget: Budget, clock: Arc<dyn Clock>) -> Self {
        let begun = clock.now();
        Self {
            shared: Arc::new(Shared {
                budget,
                clock,
                begun,
                counted: Mutex::default(),
            }),
        }
    }

    /// The budget.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.shared.budget
    }

    /// Counts a call that was paid: what it used, if the provider said so, and what it cost. What
    /// came from a cache was not paid and is not counted.
    pub fn record(&self, usage: Option<&Usage>, cost: Cost) {
        let spent = &mut self.shared.lock().spent;
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

    /// Notes that a call is under way.
    pub fn calling(&self) -> Calling {
        let mut counted = self.shared.lock();
        counted.under_way = counted.under_way.saturating_add(1);
        Calling(Arc::clone(&self.shared))
    }

    /// Calls that are under way now: the provider may charge for one that is cut off.
    #[must_use]
    pub fn under_way(&self) -> u64 {
        self.shared.lock().under_way
    }

    /// What has been counted so far.
    #[must_use]
    pub fn spent(&self) -> Spent {
        self.shared.lock().spent
    }

    /// How long it has been running.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        let elapsed = self.shared.clock.now().saturating_sub(self.shared.begun);
        Duration::from_millis(u64::try_from(elapsed).unwrap_or(0))
    }

    /// How much of the time is left; `None` if it is not limited. For whoever also ends the call that
    /// is under way.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        let limit = self.shared.budget.max_time?;
        Some(limit.saturating_sub(self.elapsed()))
    }

    /// Whether one more call may be made, beside those that are under way.
    ///
    /// # Errors
    /// [`ErrorKind::OverBudget`], with the limit and what was used of it; also if a limit cannot be
    /// held, because a call did not say what it used or nobody knows what it cost.
    pub fn check(&self) -> Result<(), Error> {
        self.allows(&self.shared.lock())
    }

    fn allows(&self, counted: &Counted) -> Result<(), Error> {
        let Budget {
            max_cost,
            max_tokens,
            max_time,
        } = self.shared.budget;
        let Counted {
            spent, reserved, ..
        } = *counted;
        if let Some(limit) = max_cost {
            let shown = Cost::of_picodollars(limit);
            if spent.cost.unpriced > 0 {
                return Err(over(format!(
                    "the budget of {shown} (`max_cost`) cannot be held: the price of {} is not known, beside {} spent. Say what the model costs with `cost: {{input: …, output: …}}`, or take `max_cost` out",
                    calls(spent.cost.unpriced),
                    Cost::of_picodollars(spent.cost.picodollars)
                )));
            }
            if spent.cost.picodollars >= limit {
                return Err(over(format!(
                    "the budget of {shown} (`max_cost`) is used up: {} spent on {}",
                    spent.cost,
                    calls(spent.calls)
                )));
            }
        }
        if let Some(limit) = max_tokens {
            if spent.uncounted > 0 {
                return Err(over(format!(
                    "the budget of {limit} tokens (`max_tokens`) cannot be held: the provider did not say how many {} took, beside {} counted. Take `max_tokens` out, or have the provider report usage",
                    calls(spent.uncounted),
                    spent.tokens
                )));
            }
            if spent.tokens.saturating_add(reserved) >= limit {
                let aside = match reserved {
                    0 => String::new(),
                    tokens => format!(", and about {tokens} more by calls under way"),
                };
                return Err(over(format!(
                    "the budget of {limit} tokens (`max_tokens`) is used up: {} tokens in {}{aside}",
                    spent.tokens,
                    calls(spent.calls)
                )));
            }
        }
        if let Some(limit) = max_time {
            let elapsed = self.elapsed();
            if elapsed >= limit {
                return Err(over(format!(
                    "the budget of {limit:?} (`max_time`) is used up: {elapsed:?} have passed"
                )));
            }
        }
        Ok(())
    }

    /// Whether one more call of this model may be made: as of [`Meter::check`], and before anything
    /// is paid, that its price is known if money is limited.
    ///
    /// # Errors
    /// [`ErrorKind::OverBudget`].
    pub fn check_for(&self, model: &Model) -> Result<(), Error> {
        self.check()?;
        self.knows_price(model)
    }

    /// As of [`Meter::check_for`], and sets so many tokens aside for the call, in one step.
    ///
    /// # Errors
    /// [`ErrorKind::OverBudget`].
    pub fn reserve(&self, model: &Model, tokens: u64) -> Result<Reservation, Error> {
        let mut counted = self.shared.lock();
        self.allows(&counted)?;
        self.knows_price(model)?;
        counted.reserved = counted.reserved.saturating_add(tokens);
        Ok(Reservation {
            shared: Arc::clone(&self.shared),
            tokens,
        })
    }

    fn knows_price(&self, model: &Model) -> Result<(), Error> {
        match self.shared.budget.max_cost {
            Some(limit) if model.price().is_none() => Err(over(format!(
                "the budget of {} (`max_cost`) cannot be held: nobody knows what the model `{}` of {} costs. Say it with `cost: {{input: …, output: …}}` (0 if nothing), or take `max_cost` out",
                Cost::of_picodollars(limit),
                model.name(),
                model.provider()
            ))),
            _ => Ok(()),
        }
    }
}

fn over(message: String) -> Error {
    Error::new(ErrorKind::OverBudget, message)
}

fn calls(count: u64) -> String {
    match count {
        1 => "1 call".to_owned(),
        more => format!("{more} calls"),
    }
}
