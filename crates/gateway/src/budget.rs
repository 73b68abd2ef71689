//! Budgets of keys: money is reserved before a request and settled after its answer, in counters of the store, so that
//! gateways with the same store share them.
//!
//! Counters only grow. For each key and period there are two: what was reserved in total, and what was returned of it.
//! The difference is spent, or reserved for requests in progress. A process that is killed returns nothing: its
//! requests count with their maximum until the period ends.
//!
//! A store that starts again or fails over may lose its last writes. Each call compares the counters with what this
//! process has seen, and raises those that are less.
//!
//! While the store does not answer, requests of a key are refused, or, if its budget is fail-open, counted here:
//! the process adds to what it has last seen, and sends the sum when the store answers again. Several processes together
//! may exceed the budget then. What the store has counted without its answer arriving counts twice.

use std::sync::Arc;
use std::time::Duration;

use cachalot_core::clock::iso8601;
use cachalot_core::{Clock, Cost, Millis};
use cachalot_store::{Error, Store, space};
use http::StatusCode;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::BudgetConfig;
use crate::error_body::ErrorBody;
use crate::owed_counts::OwedCounts;
use crate::seen_counts::{Counts, SeenCounts};

/// Maximum time that a request waits for the store.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);
/// The same for a budget that is fail-open.
const FAIL_OPEN_TIMEOUT: Duration = Duration::from_millis(250);
/// Time after a fault in which requests with such a budget do not ask the store.
const FAIL_OPEN_PAUSE: Duration = Duration::from_secs(1);
/// The error of a store that does not answer.
const UNAVAILABLE: &str = "budget_unavailable";
/// The value at which a counter of a store stays.
const MAX_COUNTER: u64 = i64::MAX as u64;
const DAY: Millis = 24 * 60 * 60 * 1_000;

/// The budgets of all keys.
#[derive(Clone)]
pub(crate) struct Budgets {
    store: Option<Arc<dyn Store>>,
    clock: Arc<dyn Clock>,
    seen: Arc<SeenCounts>,
    owed: Arc<OwedCounts>,
    /// The time of the last fault that requests with fail-open budgets have met, until the store answers again.
    fault: Arc<Mutex<Option<Instant>>>,
    timeout: Duration,
    warn: Arc<dyn Fn(&str) + Send + Sync>,
}

/// Money that is reserved for one request. Dropping it leaves it reserved: the provider may have charged for the
/// request.
pub(crate) struct Reservation {
    budgets: Budgets,
    periods: Vec<Period>,
    /// In picodollars.
    amount: u64,
}

/// A day or a month, and its limit in picodollars.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Period {
    noun: &'static str,
    limit: u64,
    key: String,
    /// The counters of all periods of this kind, without the date.
    budget: String,
    date: String,
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
    pub(crate) fn new(
        store: Option<Arc<dyn Store>>,
        clock: Arc<dyn Clock>,
        warn: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Self {
        Self {
            store,
            clock,
            seen: Arc::default(),
            owed: Arc::default(),
            fault: Arc::default(),
            timeout: STORE_TIMEOUT,
            warn,
        }
    }

    /// Warns the operator if the store may lose what it has counted.
    pub(crate) async fn warn_about_losses(self) {
        let Some(store) = &self.store else { return };
        // A store that does not answer is reported by its first use.
        let findings = store.inspect().within(STORE_TIMEOUT).await;
        for finding in findings.unwrap_or_default() {
            if let ("budgets", Some(remedy)) = (finding.topic, &finding.remedy) {
                (self.warn)(&format!("budgets of keys: {}: {remedy}", finding.state));
            }
        }
    }

    /// Checks that the budget of a key is not used up.
    ///
    /// # Errors
    /// The response to the client; also if the store does not answer, unless the budget is fail-open.
    pub(crate) async fn check(&self, key: &str, limits: BudgetConfig) -> Result<(), ErrorBody> {
        let periods = self.periods(key, limits);
        if periods.is_empty() {
            return Ok(());
        }
        let used = if limits.is_fail_open() {
            let budgets = self.fail_open();
            match self.unless_paused(budgets.used(&periods)).await {
                Some(used) => used?,
                None => self.known(&periods),
            }
        } else {
            self.used(&periods).await?
        };
        match used
            .iter()
            .zip(&periods)
            .find(|(used, period)| **used >= period.limit)
        {
            Some((used, period)) => Err(used_up(period, *used)),
            None => Ok(()),
        }
    }

    /// Reserves the maximum cost of a request; `None` if the key has no budget.
    ///
    /// # Errors
    /// The response to the client: the budget does not suffice, or the store does not answer and the budget is not
    /// fail-open.
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
        let reserved = if limits.is_fail_open() {
            let asked = self.fail_open().reserve_in_store(periods.clone(), amount);
            match self.unless_paused(asked).await {
                Some(reserved) => reserved?,
                None => self.reserve_here(periods, amount)?,
            }
        } else {
            self.clone().reserve_in_store(periods, amount).await?
        };
        Ok(Some(reserved))
    }

    /// These budgets with the time limit of those that are fail-open.
    fn fail_open(&self) -> Self {
        Self {
            timeout: FAIL_OPEN_TIMEOUT,
            ..self.clone()
        }
    }

    /// Returns the answer of the store; `None` if there is none, or it did not answer a moment ago.
    async fn unless_paused<T>(
        &self,
        asked: impl Future<Output = Result<T, ErrorBody>>,
    ) -> Option<Result<T, ErrorBody>> {
        let last = *self.fault.lock();
        if last.is_some_and(|at| at.elapsed() < FAIL_OPEN_PAUSE) {
            return None;
        }
        match asked.await {
            Err(error) if error.code == UNAVAILABLE => {
                tracing::debug!("the store does not answer; a fail-open budget is counted here");
                if self.fault.lock().replace(Instant::now()).is_none() {
                    (self.warn)(&format!(
                        "{}; keys whose budget has `when_unavailable: allow` are counted in this process until it can be",
                        error.message
                    ));
                }
                None
            }
            answer => {
                *self.fault.lock() = None;
                Some(answer)
            }
        }
    }

    /// Returns what this process knows to be spent or reserved.
    fn known(&self, periods: &[Period]) -> Vec<u64> {
        let known = periods.iter().map(|period| {
            let seen = difference(self.seen.get(&period.budget, &period.date));
            seen.saturating_add(self.owed.get(&period.reserved))
        });
        known.collect()
    }

    /// Reserves without the store.
    fn reserve_here(&self, periods: Vec<Period>, amount: u64) -> Result<Reservation, ErrorBody> {
        check_room(&periods, &self.known(&periods), amount)?;
        self.owed.add(reserved_counters(&periods), amount);
        Ok(Reservation {
            budgets: self.fail_open(),
            periods,
            amount,
        })
    }

    /// Sends what the store does not know of yet, before the process ends.
    pub(crate) async fn finish(&self) {
        // A store that does not answer has been reported.
        let _ = self.add(&[], [0; 2]).await;
    }

    async fn reserve_in_store(
        self,
        periods: Vec<Period>,
        amount: u64,
    ) -> Result<Reservation, ErrorBody> {
        // Before anything is counted: counters only grow, and refused requests must not fill them.
        let used = self.used(&periods).await?;
        check_room(&periods, &used, amount)?;
        let reservation = Reservation {
            budgets: self.clone(),
            periods,
            amount,
        };
        let counts = self.add(&reservation.periods, [amount, 0]).await;
        // After a timeout the store may have counted the amount. It stays reserved, so that the budget is never
        // exceeded.
        let counts = counts.map_err(unavailable)?;
        let mut pairs = reservation.periods.iter().zip(counts);
        // Compared again, because other requests may have reserved since. Each of them adds first and compares then, so
        // that all together they stay within the limit.
        let exceeded = pairs.find(|(period, counts)| difference(*counts) > period.limit);
        let refusal = exceeded.map(|(period, counts)| {
            too_little(period, amount, difference(counts).saturating_sub(amount))
        });
        match refusal {
            None => Ok(reservation),
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
        // Before the request: what other requests of this process note meanwhile may be later than its answer.
        let minimums = self.minimums(periods, [0; 2]);
        let names = periods
            .iter()
            .flat_map(|period| [&*period.reserved, &*period.returned]);
        let names: Vec<&str> = names.collect();
        // No record has this key: only the counters are read.
        let store = self.store()?;
        let found = store.get(space::GATEWAY, "budget", &names);
        let found = found.within(self.timeout).await.map_err(unavailable)?;
        let counts = self
            .accept(store, periods, &minimums, &found.counters)
            .await;
        let counts = counts.map_err(unavailable)?;
        let pairs = counts.into_iter().zip(periods);
        let used = pairs.map(|(counts, period)| {
            difference(counts).saturating_add(self.owed.get(&period.reserved))
        });
        Ok(used.collect())
    }

    /// Adds to both counters of each period in one step, so that what they have is of one moment. Sends what is owed to
    /// them with it.
    async fn add(&self, periods: &[Period], more: Counts) -> Result<Vec<Counts>, Error> {
        let Some(store) = &self.store else {
            return Ok(Vec::new());
        };
        let minimums = self.minimums(periods, more);
        let [reserved, returned] = more;
        // Those of other keys stay: their requests have not seen what the store has counted, and count it here. At the
        // end of the process, all are sent.
        let own: Vec<&str> = reserved_counters(periods).collect();
        let sending = self.owed.send((!periods.is_empty()).then_some(&*own));
        let owed = &sending.amounts;
        let owed_to = |counter: &String| owed.get(counter).copied().unwrap_or(0);
        let additions = periods.iter().flat_map(|period| {
            let reserved = reserved.saturating_add(owed_to(&period.reserved));
            let reserved = (period.reserved.as_str(), reserved);
            [reserved, (period.returned.as_str(), returned)]
        });
        let others = owed.iter().filter(|(counter, amount)| {
            **amount > 0 && reserved_counters(periods).all(|own| own != *counter)
        });
        let others = others.map(|(counter, amount)| (counter.as_str(), *amount));
        let additions: Vec<_> = additions.chain(others).collect();
        if additions.is_empty() {
            return Ok(Vec::new());
        }
        let added = store.add(space::GATEWAY, &additions);
        let added = added.within(self.timeout).await?;
        sending.settle();
        self.accept(store, periods, &minimums, &added).await
    }

    /// Returns the least counts that a store can have which has lost nothing, after `more` is added.
    fn minimums(&self, periods: &[Period], more: Counts) -> Vec<Counts> {
        let [more_reserved, more_returned] = more;
        let sum = |seen: u64, more: u64| seen.saturating_add(more).min(MAX_COUNTER);
        let minimum_of = |period: &Period| {
            let [reserved, returned] = self.seen.get(&period.budget, &period.date);
            [sum(reserved, more_reserved), sum(returned, more_returned)]
        };
        periods.iter().map(minimum_of).collect()
    }

    /// Notes the counters of a store. Those that are less than they can be, because the store has lost writes, are raised.
    async fn accept(
        &self,
        store: &Arc<dyn Store>,
        periods: &[Period],
        minimums: &[Counts],
        found: &[u64],
    ) -> Result<Vec<Counts>, Error> {
        let mut accepted = Vec::new();
        let mut found = found.chunks_exact(2);
        for (period, minimums) in periods.iter().zip(minimums) {
            let pair = found.next().and_then(|pair| Counts::try_from(pair).ok());
            // A store that answers with too few counters must not admit anything.
            let mut counts = pair.unwrap_or([MAX_COUNTER; 2]);
            let is_less = counts
                .iter()
                .zip(minimums)
                .any(|(count, minimum)| count < minimum);
            if is_less {
                (self.warn)(&format!(
                    "the store has lost writes: the budget of the key `{}` for this {} counts what this process knows of",
                    period.key, period.noun
                ));
                let names = [&period.reserved, &period.returned];
                // Raised and not added to: several processes may repair the same loss.
                for ((name, count), minimum) in names.into_iter().zip(&mut counts).zip(minimums) {
                    let raised = store.raise_to(space::GATEWAY, name, *minimum);
                    *count = raised.within(self.timeout).await?;
                }
            }
            self.seen.note(&period.budget, &period.date, counts);
            accepted.push(counts);
        }
        Ok(accepted)
    }

    fn store(&self) -> Result<&Arc<dyn Store>, ErrorBody> {
        self.store.as_ref().ok_or_else(|| {
            ErrorBody::unavailable(
                UNAVAILABLE,
                "the key has a budget, but there is no store that counts it",
            )
        })
    }

    fn periods(&self, key: &str, limits: BudgetConfig) -> Vec<Period> {
        let now = self.clock.now();
        let date = iso8601(now);
        let of = |noun: &'static str, limit: Option<u64>, end: usize, ends_in: Millis| {
            let budget = format!("budget:{key}:{noun}");
            let date = date.get(..end).unwrap_or(&date).to_owned();
            Some(Period {
                noun,
                limit: limit?,
                key: key.to_owned(),
                reserved: format!("{budget}:{date}:reserved"),
                returned: format!("{budget}:{date}:returned"),
                budget,
                date,
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
        // As long as the store does not know of the reservation, less is sent. Only the sum matters.
        let unspent = self.amount.saturating_sub(spent);
        let owed = &self.budgets.owed;
        if unspent > 0 && owed.take_back(reserved_counters(&self.periods), unspent) {
            return;
        }
        // A cost above the reserved amount is reserved now, so that the budget counts all of it.
        let more = match spent.checked_sub(self.amount) {
            Some(more) if more > 0 => [more, 0],
            _ => [0, unspent],
        };
        let _ = self.budgets.add(&self.periods, more).await;
    }
}

/// The counters of what was reserved.
fn reserved_counters(periods: &[Period]) -> impl Iterator<Item = &str> + Clone {
    periods.iter().map(|period| period.reserved.as_str())
}

/// Checks that an amount is left in each period.
fn check_room(periods: &[Period], used: &[u64], amount: u64) -> Result<(), ErrorBody> {
    let mut pairs = used.iter().zip(periods);
    let exceeded = pairs.find(|(used, period)| used.saturating_add(amount) > period.limit);
    match exceeded {
        Some((used, period)) => Err(too_little(period, amount, *used)),
        None => Ok(()),
    }
}

/// Returns what was reserved and not returned.
fn difference([reserved, returned]: Counts) -> u64 {
    // A counter stays at its maximum, where it says nothing any more.
    if reserved.max(returned) < MAX_COUNTER {
        reserved.saturating_sub(returned)
    } else {
        u64::MAX
    }
}

fn used_up(period: &Period, used: u64) -> ErrorBody {
    let message = format!(
        "the budget of the key for this {} is used up: {} of {}",
        period.noun,
        amount(used),
        amount(period.limit)
    );
    ErrorBody::new(StatusCode::TOO_MANY_REQUESTS, "budget_used_up", message)
        .retry_after(period.ends_in)
}

fn too_little(period: &Period, cost: u64, used: u64) -> ErrorBody {
    let message = format!(
        "the request may cost up to {}, and {} of the key's budget for this {} is left; a smaller limit of output tokens makes it cheaper",
        amount(cost),
        amount(period.limit.saturating_sub(used)),
        period.noun
    );
    ErrorBody::new(StatusCode::TOO_MANY_REQUESTS, "budget_used_up", message)
        .retry_after(period.ends_in)
}

fn amount(picodollars: u64) -> String {
    Cost::from_picodollars(picodollars).exact_amount()
}

fn unavailable(error: Error) -> ErrorBody {
    ErrorBody::unavailable(
        UNAVAILABLE,
        format!("the budget of the key cannot be counted: {error}"),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cachalot_core::ManualClock;
    use cachalot_store::in_process::InProcessStore;

    use super::*;
    use crate::config::WhenUnavailable;

    const LIMITS: BudgetConfig = BudgetConfig {
        day: Some(100),
        month: Some(150),
        when_unavailable: None,
    };
    const FAIL_OPEN: BudgetConfig = BudgetConfig {
        when_unavailable: Some(WhenUnavailable::Allow),
        ..LIMITS
    };

    fn budgets(now: Millis) -> (Budgets, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at(now));
        let store = InProcessStore::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let clock_of_budgets = Arc::clone(&clock) as Arc<dyn Clock>;
        let budgets = Budgets::new(Some(Arc::new(store)), clock_of_budgets, Arc::new(|_| {}));
        (budgets, clock)
    }

    #[tokio::test]
    async fn reservations_are_settled_by_their_cost() {
        // 2026-11-30, one hour before midnight.
        let (budgets, clock) = budgets(1_796_079_600_000);
        let used = async || {
            let states = budgets.states("a", LIMITS).await.unwrap();
            states.iter().map(|state| state.used).collect::<Vec<u64>>()
        };
        let first = budgets.reserve("a", LIMITS, 60).await.unwrap().unwrap();
        let error = budgets.reserve("a", LIMITS, 60).await.err().unwrap();
        assert_eq!(error.status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(error.retry_after, Some(Duration::from_secs(3_600)));
        let amounts = "the request may cost up to $0.00000000006, and $0.00000000004 of the key's budget for this day is left";
        assert!(error.message.starts_with(amounts), "{}", error.message);
        assert_eq!(used().await, [60, 60], "the refused one is returned");
        first.settle(10).await;
        assert_eq!(used().await, [10, 10]);
        let second = budgets.reserve("a", LIMITS, 90).await.unwrap().unwrap();
        // A cost above the maximum is counted, too.
        second.settle(95).await;
        assert_eq!(used().await, [105, 105]);
        let error = budgets.check("a", LIMITS).await.unwrap_err();
        let amounts = "$0.000000000105 of $0.0000000001";
        assert!(error.message.ends_with(amounts), "{}", error.message);
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
        let budgets = Budgets::new(None, clock, Arc::new(|_| {}));
        assert!(budgets.check("a", LIMITS).await.is_err());
        assert!(budgets.check("a", BudgetConfig::default()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_fail_open_budget_is_counted_here_while_the_store_is_away() {
        let (mut here, _) = budgets(0);
        let warnings: Arc<Mutex<Vec<String>>> = Arc::default();
        let warned = Arc::clone(&warnings);
        here.warn = Arc::new(move |warning| warned.lock().push(warning.to_owned()));
        let store = here.store.clone();
        let used = async |budgets: &Budgets| budgets.states("a", LIMITS).await.unwrap()[0].used;
        let first = here.reserve("a", FAIL_OPEN, 40).await.unwrap().unwrap();
        first.settle(10).await;
        let open = here.reserve("a", FAIL_OPEN, 20).await.unwrap().unwrap();
        let mut away = here.clone();
        away.store = None;
        assert!(away.check("a", LIMITS).await.is_err(), "the default");
        away.check("a", FAIL_OPEN).await.unwrap();
        let one = away.reserve("a", FAIL_OPEN, 30).await.unwrap().unwrap();
        let two = away.reserve("a", FAIL_OPEN, 40).await.unwrap().unwrap();
        // 10 are spent, 20 and 70 reserved.
        let refused = away.reserve("a", FAIL_OPEN, 1).await.err().unwrap();
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
        assert!(away.check("a", FAIL_OPEN).await.is_err());
        one.settle(5).await;
        assert_eq!(away.known(&away.periods("a", LIMITS)), [75, 75]);
        assert_eq!(warnings.lock().len(), 1, "{:?}", warnings.lock());
        tokio::time::advance(FAIL_OPEN_PAUSE).await;
        // The store answers again: the next addition has everything.
        assert_eq!(used(&here).await, 75, "what is owed counts here at once");
        open.settle(0).await;
        let (mut other, _) = budgets(0);
        other.store = store;
        let sent = used(&other).await;
        here.finish().await;
        assert_eq!((sent, used(&other).await), (30, 55));
        two.settle(40).await;
        assert_eq!((used(&here).await, used(&other).await), (55, 55));
        here.check("a", FAIL_OPEN).await.unwrap();
        assert!(here.fault.lock().is_none());
    }

    /// A failover leads to a server that lacks the last writes.
    #[tokio::test]
    async fn money_that_a_store_has_lost_is_counted() {
        let (mut budgets, clock) = budgets(0);
        let warnings: Arc<Mutex<Vec<String>>> = Arc::default();
        let warned = Arc::clone(&warnings);
        budgets.warn = Arc::new(move |warning| warned.lock().push(warning.to_owned()));
        let used = async |budgets: &Budgets| {
            let states = budgets.states("a", LIMITS).await.unwrap();
            states.iter().map(|state| state.used).collect::<Vec<u64>>()
        };
        let first = budgets.reserve("a", LIMITS, 40).await.unwrap().unwrap();
        first.settle(10).await;
        let open = budgets.reserve("a", LIMITS, 20).await.unwrap().unwrap();
        assert_eq!(used(&budgets).await, [30, 30]);
        assert!(warnings.lock().is_empty());
        for lost_all in [true, false] {
            let store = Arc::new(InProcessStore::new(Arc::clone(&clock) as Arc<dyn Clock>));
            if !lost_all {
                let reserved = ("budget:a:day:1970-01-01:reserved", 40);
                let returned = ("budget:a:day:1970-01-01:returned", 0);
                let additions = [reserved, returned];
                let added = store.add(space::GATEWAY, &additions);
                added.settle().await.unwrap();
            }
            budgets.store = Some(Arc::clone(&store) as Arc<dyn Store>);
            assert_eq!(used(&budgets).await, [30, 30]);
            assert!(budgets.reserve("a", LIMITS, 80).await.is_err());
            // Other processes count it, too.
            let (mut other, _) = self::budgets(0);
            other.store = Some(store);
            assert_eq!(used(&other).await, [30, 30]);
        }
        assert_eq!(warnings.lock().len(), 4, "{:?}", warnings.lock());
        // A reservation of before is settled as before.
        let store = InProcessStore::new(Arc::clone(&clock) as Arc<dyn Clock>);
        budgets.store = Some(Arc::new(store));
        let mut open = open;
        open.budgets.store.clone_from(&budgets.store);
        open.settle(5).await;
        assert_eq!(used(&budgets).await, [15, 15]);
    }
}
