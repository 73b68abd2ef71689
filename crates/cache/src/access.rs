//! The store as the engine uses it: within limits of time, with faults reported once, and with its own clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use cachalot_core::{Clock, Millis, SecretSet};
use cachalot_store::{Error, ErrorKind, Label, Lease, Store, StoreReply};

use crate::Reason;
use crate::breaker::{Access, Breaker, is_unavailable};
use crate::policy::DEFAULT_LOOKUP_TIMEOUT;
use crate::sync::{Mutex, lock};

/// Maximum time to wait for a late lease in order to release it, and maximum time for the release.
pub(crate) const RELEASE_TIMEOUT: Duration = Duration::from_secs(30);

/// The store, and the clock and secrets of the engine.
pub(crate) struct StoreAccess {
    store: Option<Arc<dyn Store>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) secret_set: Arc<SecretSet>,
    /// The store's time minus this machine's time, in milliseconds, as last observed.
    clock_offset: AtomicI64,
    /// Set when the last write to the store timed out: the next one gets no more time than a lookup.
    store_timed_out: AtomicBool,
    /// Reads are answered while writes wait, and the reverse.
    reads: Arc<Breaker>,
    writes: Arc<Breaker>,
    warn: Arc<dyn Fn(&str) + Send + Sync>,
    /// The time of the last warning per kind of fault, so that a store that stays down is reported once.
    warned: Mutex<Vec<(ErrorKind, Millis)>>,
}

impl StoreAccess {
    pub(crate) fn new(
        store: Option<Arc<dyn Store>>,
        clock: Arc<dyn Clock>,
        secret_set: Arc<SecretSet>,
        warn: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Self {
        Self {
            store,
            clock,
            secret_set,
            clock_offset: AtomicI64::new(0),
            store_timed_out: AtomicBool::new(false),
            reads: Breaker::new(Access::Read),
            writes: Breaker::new(Access::Write),
            warn,
            warned: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn store(&self) -> Result<&Arc<dyn Store>, Reason> {
        self.store.as_ref().ok_or(Reason::NoStore)
    }

    /// True while calls do not wait for reads of the store, and for writes to it.
    pub(crate) fn left_out(&self) -> (bool, bool) {
        (self.reads.is_open(), self.writes.is_open())
    }

    /// Reports one sentence to the user, with secrets redacted.
    pub(crate) fn report(&self, sentence: &str) {
        (self.warn)(&self.secret_set.redact(sentence));
    }

    /// Waits for a read of the store within the time budget; reports a fault as a warning and returns it as a reason.
    pub(crate) async fn await_read<T: Send>(
        &self,
        answer: StoreReply<'_, T>,
        budget: &TimeBudget,
    ) -> Result<T, Reason> {
        self.await_store(&self.reads, answer, budget).await
    }

    /// Waits for a write to the store, like [`StoreAccess::await_read`].
    pub(crate) async fn await_write<T: Send>(
        &self,
        answer: StoreReply<'_, T>,
        budget: &TimeBudget,
    ) -> Result<T, Reason> {
        self.await_store(&self.writes, answer, budget).await
    }

    async fn await_store<T: Send>(
        &self,
        breaker: &Arc<Breaker>,
        answer: StoreReply<'_, T>,
        budget: &TimeBudget,
    ) -> Result<T, Reason> {
        let remaining = budget.remaining();
        // A fault has used the whole budget up: the later steps of a call do not wait for the store again.
        if remaining.is_zero() {
            let why = "it failed or was too slow before".to_owned();
            return Err(if budget.failed.load(Ordering::Relaxed) {
                Reason::StoreFault(why)
            } else {
                Reason::StoreUnavailable(why)
            });
        }
        let answer = match answer {
            // The breaker counts only answers that have to be waited for: an inline answer costs a call no time.
            StoreReply::Now(answer) => answer,
            later @ StoreReply::Later(_) => {
                if !breaker.permits() {
                    budget.exhaust();
                    return Err(Reason::StoreUnavailable(
                        "it did not answer several times in a row, and is asked in the background until it does"
                            .to_owned(),
                    ));
                }
                let asked = tokio::time::Instant::now();
                let answer = later.within(remaining).await;
                budget.consume(asked.elapsed());
                match &answer {
                    Err(error) if is_unavailable(error) => {
                        if let Some(store) = &self.store {
                            breaker.failed(store, remaining);
                        }
                    }
                    // An error is an answer, too: the store can be reached.
                    _ => breaker.answered(),
                }
                answer
            }
        };
        answer.map_err(|error| {
            budget.exhaust();
            budget
                .failed
                .store(!is_unavailable(&error), Ordering::Relaxed);
            self.fault(&error)
        })
    }

    /// The current time by the store's clock, which expiries refer to.
    pub(crate) fn now(&self) -> Millis {
        self.store_time(self.clock.now())
    }

    /// Converts a time by this machine's clock to the store's clock.
    pub(crate) fn store_time(&self, at: Millis) -> Millis {
        at.saturating_add(self.clock_offset.load(Ordering::Relaxed))
    }

    /// Records the offset of the store's clock from an answer with the store's time `now`, requested at
    /// `asked` by this machine's clock. A difference that the answer's latency can explain does not count as
    /// an offset.
    pub(crate) fn record_clock_offset(&self, asked: Millis, now: Millis) {
        let answered = self.clock.now();
        let clock_offset = now.saturating_sub(now.clamp(asked.min(answered), asked.max(answered)));
        self.clock_offset.store(clock_offset, Ordering::Relaxed);
    }

    /// The time budget for storing an answer.
    pub(crate) fn store_budget(&self, timeout: Duration) -> TimeBudget {
        let store_timed_out = self.store_timed_out.load(Ordering::Relaxed);
        // After a timeout, a store that stays slow costs each run no more time than a lookup.
        TimeBudget::new(if store_timed_out {
            timeout.min(DEFAULT_LOOKUP_TIMEOUT)
        } else {
            timeout
        })
    }

    /// Records whether storing an answer ran out of time.
    pub(crate) fn record_store_timeout(&self, ran_out: bool) {
        self.store_timed_out.store(ran_out, Ordering::Relaxed);
    }

    pub(crate) fn fault(&self, error: &Error) -> Reason {
        // One fault for users: a server that cannot be reached answers late in one call, and not at all in the next.
        let kind = match error.kind {
            ErrorKind::TimedOut => ErrorKind::Unavailable,
            kind => kind,
        };
        tracing::debug!(
            kind = error.kind.name(),
            error = %self.secret_set.redact(&error.to_string()),
            "the store failed"
        );
        if self.is_new_fault(kind) {
            self.report(&format!(
                "the cache's store failed; continuing without a cache: {error}"
            ));
        }
        if is_unavailable(error) {
            Reason::StoreUnavailable(error.to_string())
        } else {
            Reason::StoreFault(error.to_string())
        }
    }

    /// True if that kind of fault was not reported in the last ten minutes.
    fn is_new_fault(&self, kind: ErrorKind) -> bool {
        const REPEAT_AFTER: Millis = 600_000;
        let now = self.clock.now();
        let mut warned = lock(&self.warned);
        let is_new = warned
            .iter()
            .all(|(known, at)| *known != kind || now.saturating_sub(*at) >= REPEAT_AFTER);
        warned.retain(|(known, _)| *known != kind);
        warned.push((kind, now));
        is_new
    }

    /// Releases a reservation; one that cannot be released expires soon. If the release takes longer than
    /// `budget`, it continues in the background.
    pub(crate) async fn release(&self, lease: Lease, budget: Duration) {
        let Ok(store) = self.store().map(Arc::clone) else {
            return;
        };
        let mut releasing =
            Box::pin(async move { store.release(lease).within(RELEASE_TIMEOUT).await });
        let slow = StoreReply::later(&mut releasing).within(budget).await;
        let Err(error) = slow else { return };
        self.fault(&error);
        if error.kind == ErrorKind::TimedOut
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(releasing);
        }
    }

    /// True if a label contains a secret: such labels are never sent to the store.
    pub(crate) fn has_secret_label(&self, labels: &[Label]) -> bool {
        let holds = |text: &str| self.secret_set.occurs_in(text.as_bytes());
        !self.secret_set.is_empty()
            && labels
                .iter()
                .any(|label| holds(&label.name) || holds(&label.value))
    }
}

/// The remaining time that a call may wait for the store, in total. A fault uses all of it up.
pub(crate) struct TimeBudget {
    full: Duration,
    nanoseconds: AtomicU64,
    /// True if the store used it up by an answer that is an error.
    failed: AtomicBool,
}

impl TimeBudget {
    pub(crate) fn new(time: Duration) -> Self {
        Self {
            full: time,
            nanoseconds: AtomicU64::new(nanoseconds(time)),
            failed: AtomicBool::new(false),
        }
    }

    /// The time at the beginning.
    pub(crate) fn full(&self) -> Duration {
        self.full
    }

    pub(crate) fn remaining(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }

    /// Restores the full budget unless it is used up: waiting for another process is not waiting for the
    /// store.
    pub(crate) fn refill(&self) {
        if !self.remaining().is_zero() {
            self.nanoseconds
                .store(nanoseconds(self.full), Ordering::Relaxed);
        }
    }

    pub(crate) fn consume(&self, time: Duration) {
        let remaining = self.remaining().saturating_sub(time);
        self.nanoseconds
            .store(nanoseconds(remaining), Ordering::Relaxed);
    }

    fn exhaust(&self) {
        self.nanoseconds.store(0, Ordering::Relaxed);
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
