//! Budgets of keys: money is reserved before a request and settled after its answer, in counters of the store, so that
//! gateways with the same store share them.
//!
//! Counters only grow. For each key and period there are two: what was reserved in total, and what was returned of it.
//! The difference is spent, or reserved for requests in progress. A process that is killed returns nothing: its
//! requests count with their maximum until the period ends.

use std::sync::Arc;
use std::time::Duration;

use cachalot_core::clock::iso8601;
use cachalot_core::{Clock, Millis};
use cachalot_store::Store;
use http::StatusCode;

use crate::config::BudgetConfig;
use crate::error_body::ErrorBody;

/// The space of the counters.
const SPACE: &str = "gateway";
/// Maximum time that a request waits for the store.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);
/// The value at which a counter of a store stays.
const MAX_COUNTER: u64 = i64::MAX as u64;
const DAY: Millis = 24 * 60 * 60 * 1_000;

/// The budgets of all keys.
#[derive(Clone)]
pub(crate) struct Budgets {
    store: Option<Arc<dyn Store>>,
    clock: Arc<dyn Clock>,
}

/// Money that is reserved for one request. Dropping it leaves it reserved: the provider may have charged for the
/// request.
pub(crate) struct Reservation {
    store: Arc<dyn Store>,
    periods: Vec<Period>,
    /// In picodollars.
    amount: u64,
}

/// A day or a month, and its limit in picodollars.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Period {
    noun: &'static str,
    limit: u64,
    reserved: String,
    returned: String,
    ends_in: Duration,
}

/// The state of a budget, in picodollars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BudgetState {
    /// `day` or `month`.
    pub(crate) period: &'static str,
    pub(crate) limit: u64,
    /// Spent, or reserved for requests in progress.
    pub(crate) used: u64,
}

impl Budgets {
    pub(crate) fn new(store: Option<Arc<dyn Store>>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    /// Checks that the budget of a key is not used up.
    ///
    /// # Errors
    /// The response to the client; also if the store does not answer.
    pub(crate) async fn check(&self, key: &str, limits: BudgetConfig) -> Result<(), ErrorBody> {
        let periods = self.periods(key, limits);
        if periods.is_empty() {
            return Ok(());
        }
        let used = self.used(&periods).await?;
        match used
            .iter()
            .zip(&periods)
            .find(|(used, it)| **used >= it.limit)
        {
            Some((_, period)) => Err(used_up(period)),
            None => Ok(()),
        }
    }

    /// Reserves the maximum cost of a request; `None` if the key has no budget.
    ///
    /// # Errors
    /// The response to the client: the budget does not suffice, or the store does not answer.
    pub(crate) async fn reserve(
        &self,
        key: &str,
        limits: BudgetConfig,
        amount: u64,
    ) -> Result<Option<Reservation>, ErrorBody> {
        let periods = self.periods(key, limits);
        if periods.is_empty() {
            return Ok(None);
        }
        // Before anything is counted: counters only grow, and refused requests must not fill them.
        let used = self.used(&periods).await?;
        let mut pairs = used.iter().zip(&periods);
        let exceeded = pairs.find(|(used, it)| used.saturating_add(amount) > it.limit);
        if let Some((_, period)) = exceeded {
            return Err(too_little(period));
        }
        let store = Arc::clone(self.store()?);
        let reservation = Reservation {
            store,
            periods,
            amount,
        };
        let mut additions = Vec::new();
        for period in &reservation.periods {
            additions.push((period.reserved.as_str(), amount));
            additions.push((period.returned.as_str(), 0));
        }
        let added = reservation.store.add(SPACE, &additions);
        let counts = added.within(STORE_TIMEOUT).await.map_err(unavailable)?;
        let mut pairs = reservation.periods.iter().zip(counts.chunks(2));
        let exceeded = pairs.find(|(period, counts)| difference(counts) > period.limit);
        match exceeded.map(|(period, _)| too_little(period)) {
            None => Ok(Some(reservation)),
            Some(error) => {
                reservation.settle(0).await;
                Err(error)
            }
        }
    }

    /// Returns the states of a key's budgets.
    ///
    /// # Errors
    /// The store does not answer.
    pub(crate) async fn states(
        &self,
        key: &str,
        limits: BudgetConfig,
    ) -> Result<Vec<BudgetState>, ErrorBody> {
        let periods = self.periods(key, limits);
        if periods.is_empty() {
            return Ok(Vec::new());
        }
        let used = self.used(&periods).await?;
        let states = periods.iter().zip(used).map(|(period, used)| BudgetState {
            period: period.noun,
            limit: period.limit,
            used,
        });
        Ok(states.collect())
    }

    async fn used(&self, periods: &[Period]) -> Result<Vec<u64>, ErrorBody> {
        let names = periods.iter().flat_map(|it| [&*it.reserved, &*it.returned]);
        let names: Vec<&str> = names.collect();
        // No record has this key: only the counters are read.
        let found = self.store()?.get(SPACE, "budget", &names);
        let found = found.within(STORE_TIMEOUT).await.map_err(unavailable)?;
        Ok(found.counters.chunks(2).map(difference).collect())
    }

    fn store(&self) -> Result<&Arc<dyn Store>, ErrorBody> {
        self.store.as_ref().ok_or_else(|| {
            ErrorBody::unavailable(
                "budget_unavailable",
                "the key has a budget, but there is no store that counts it",
            )
        })
    }

    fn periods(&self, key: &str, limits: BudgetConfig) -> Vec<Period> {
        let now = self.clock.now();
        let date = iso8601(now);
        let of = |noun: &'static str, limit: Option<u64>, end: usize, ends_in: Millis| {
            let period = format!("budget:{key}:{noun}:{}", date.get(..end).unwrap_or(&date));
            Some(Period {
                noun,
                limit: limit?,
                reserved: format!("{period}:reserved"),
                returned: format!("{period}:returned"),
                ends_in: Duration::from_millis(ends_in.unsigned_abs()),
            })
        };
        let rest_of_day = DAY - now.rem_euclid(DAY);
        let is_this_month = |time: Millis| iso8601(time).get(..7) == date.get(..7);
        let mut rest_of_month = rest_of_day;
        while is_this_month(now + rest_of_month) {
            rest_of_month += DAY;
        }
        let periods = [
            of("day", limits.day, 10, rest_of_day),
            of("month", limits.month, 7, rest_of_month),
        ];
        periods.into_iter().flatten().collect()
    }
}

impl Reservation {
    /// Returns what the request did not cost, in picodollars. A fault of the store leaves it reserved.
    pub(crate) async fn settle(self, spent: u64) {
        // In a task of its own: the request may be given up in the meantime.
        let settled = tokio::spawn(self.settle_now(spent));
        let _ = settled.await;
    }

    async fn settle_now(self, spent: u64) {
        let mut additions = Vec::new();
        for period in &self.periods {
            match spent.checked_sub(self.amount) {
                Some(more) if more > 0 => additions.push((period.reserved.as_str(), more)),
                _ => additions.push((period.returned.as_str(), self.amount.saturating_sub(spent))),
            }
        }
        let _ = self
            .store
            .add(SPACE, &additions)
            .within(STORE_TIMEOUT)
            .await;
    }
}

/// Returns what was reserved and not returned.
fn difference(counts: &[u64]) -> u64 {
    match counts {
        // A counter stays at its maximum, where it says nothing any more.
        [reserved, returned] if reserved.max(returned) < &MAX_COUNTER => {
            reserved.saturating_sub(*returned)
        }
        // A store that answers with too few counters must not admit anything.
        _ => u64::MAX,
    }
}

fn used_up(period: &Period) -> ErrorBody {
    let message = format!("the budget of the key for this {} is used up", period.noun);
    ErrorBody::new(StatusCode::TOO_MANY_REQUESTS, "budget_used_up", message)
        .retry_after(period.ends_in)
}

fn too_little(period: &Period) -> ErrorBody {
    let message = format!(
        "the rest of the key's budget for this {} is less than the request may cost; a smaller limit of output tokens makes it cheaper",
        period.noun
    );
    ErrorBody::new(StatusCode::TOO_MANY_REQUESTS, "budget_used_up", message)
        .retry_after(period.ends_in)
}

fn unavailable(error: cachalot_store::Error) -> ErrorBody {
    ErrorBody::unavailable(
        "budget_unavailable",
        format!("the budget of the key cannot be counted: {error}"),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cachalot_core::ManualClock;
    use cachalot_store::in_process::InProcessStore;

    use super::*;

    const LIMITS: BudgetConfig = BudgetConfig {
        day: Some(100),
        month: Some(150),
    };

    fn budgets(now: Millis) -> (Budgets, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at(now));
        let store = InProcessStore::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let budgets = Budgets::new(Some(Arc::new(store)), Arc::clone(&clock) as Arc<dyn Clock>);
        (budgets, clock)
    }

    #[tokio::test]
    async fn reservations_are_settled_by_their_cost() {
        // 2026-11-30, one hour before midnight.
        let (budgets, clock) = budgets(1_796_079_600_000);
        let used = async || {
            let states = budgets.states("a", LIMITS).await.unwrap();
            states.iter().map(|it| it.used).collect::<Vec<u64>>()
        };
        let first = budgets.reserve("a", LIMITS, 60).await.unwrap().unwrap();
        let error = budgets.reserve("a", LIMITS, 60).await.err().unwrap();
        assert_eq!(error.status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(error.retry_after, Some(Duration::from_secs(3_600)));
        assert_eq!(used().await, [60, 60], "the refused one is returned");
        first.settle(10).await;
        assert_eq!(used().await, [10, 10]);
        let second = budgets.reserve("a", LIMITS, 90).await.unwrap().unwrap();
        // A cost above the maximum is counted, too.
        second.settle(95).await;
        assert_eq!(used().await, [105, 105]);
        assert!(budgets.check("a", LIMITS).await.is_err());
        assert!(budgets.check("b", LIMITS).await.is_ok(), "another key");
        clock.advance(Duration::from_secs(3_600));
        assert_eq!(used().await, [0, 0], "a new day and a new month");
        drop(budgets.reserve("a", LIMITS, 40).await.unwrap());
        assert_eq!(
            used().await,
            [40, 40],
            "a request that was not settled counts"
        );
    }

    #[tokio::test]
    async fn concurrent_requests_do_not_exceed_the_budget() {
        let (budgets, _) = budgets(0);
        let requests = (0..40).map(|_| {
            let budgets = budgets.clone();
            tokio::spawn(async move { budgets.reserve("a", LIMITS, 7).await.ok().flatten() })
        });
        let requests: Vec<_> = requests.collect();
        let mut admitted = Vec::new();
        for request in requests {
            admitted.extend(request.await.unwrap());
        }
        assert!(
            !admitted.is_empty() && admitted.len() <= 14,
            "{}",
            admitted.len()
        );
    }

    #[tokio::test]
    async fn refused_requests_never_enlarge_a_budget() {
        let (budgets, _) = budgets(0);
        for amount in [u64::MAX, i64::MAX as u64, 101, 1 << 62] {
            for _ in 0..5 {
                assert!(
                    budgets.reserve("a", LIMITS, amount).await.is_err(),
                    "{amount}"
                );
            }
        }
        drop(budgets.reserve("a", LIMITS, 60).await.unwrap());
        assert!(budgets.reserve("a", LIMITS, 60).await.is_err());
        assert_eq!(budgets.states("a", LIMITS).await.unwrap()[0].used, 60);
        // A settlement far above the reservation fills the counter: the budget is used up.
        let small = budgets.reserve("a", LIMITS, 1).await.unwrap().unwrap();
        small.settle(u64::MAX).await;
        assert!(budgets.check("a", LIMITS).await.is_err());
        assert!(budgets.reserve("a", LIMITS, 1).await.is_err());
    }

    #[tokio::test]
    async fn without_a_store_a_budget_refuses() {
        let clock = Arc::new(ManualClock::at(0));
        let budgets = Budgets::new(None, clock);
        assert!(budgets.check("a", LIMITS).await.is_err());
        assert!(budgets.check("a", BudgetConfig::default()).await.is_ok());
    }
}
