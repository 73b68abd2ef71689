//! The finish phase: stores the answer of a run.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cachalot_core::{Millis, Spend};
use cachalot_store::{Label, Lease, PutResult, Record, Stale, Store, counter, space};
use tokio::time::Instant;

use crate::Reason;
use crate::access::{StoreAccess, TimeBudget};
use crate::engine::Engine;
use crate::entry::{EntryHead, QUOTA_LABEL};
use crate::flight::Flight;
use crate::key::OwnedCall;
use crate::lease::{LateLookup, Reservation, ReservationRequest, get_or_reserve};
use crate::local;
use crate::policy::{CacheMode, Policy, RunPolicy};
use crate::summary::Revision;
use crate::witness::{ObservationSet, STORE_CHECK_TIMEOUT};

use super::run_start::RunStart;

/// The run whose answer is stored.
pub(crate) struct FinishedRun<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) flight: &'a Flight,
    pub(crate) call: &'a OwnedCall,
    pub(crate) policy: &'a Policy,
    pub(crate) run_start: &'a RunStart,
    /// Set if the key is not reserved because the store did not answer, or was not asked.
    pub(crate) unreserved: Option<&'a LateLookup>,
}

/// The labels that were known before the run.
fn labels_of<'a>(flight: &'a Flight, policy: &'a RunPolicy) -> impl Iterator<Item = Label> + 'a {
    let quota = policy.quota.iter();
    let quota = quota.map(|quota| Label::new(QUOTA_LABEL, &quota.name));
    flight.labels.iter().cloned().chain(quota)
}

impl FinishedRun<'_> {
    fn access(&self) -> &StoreAccess {
        &self.engine.access
    }

    /// Stores the answer if everything that it was built from still holds.
    pub(crate) async fn store(
        &self,
        answer: &Bytes,
        spent: Spend,
        labels: Vec<Label>,
    ) -> Result<(Revision, Option<Millis>), Reason> {
        let (hit, policy) = (&self.policy.hit, &self.policy.run);
        match hit.mode {
            CacheMode::Off => return Err(Reason::Off),
            CacheMode::ReadOnly | CacheMode::Frozen => return Err(Reason::ReadOnly),
            CacheMode::On | CacheMode::Refresh => {}
        }
        let store = Arc::clone(self.access().store()?);
        // An entry that is larger than the cache or its quota would evict all others, and then itself.
        let limit = policy
            .max_bytes
            .min(store.about().largest_value)
            .min(self.engine.bounds.bytes)
            .min(policy.quota.as_ref().map_or(u64::MAX, |quota| quota.bytes));
        if answer.len() as u64 > limit {
            return Err(Reason::TooLarge {
                bytes: answer.len() as u64,
                limit,
            });
        }
        let flight = self.flight;
        if let Some(why) = flight.witness.incomplete() {
            return Err(Reason::Declined(why));
        }
        let observations = ObservationSet::new(flight.witness.observed());
        observations
            .check(STORE_CHECK_TIMEOUT)
            .await
            .map_err(Reason::changed)?;
        if flight.witness.is_read_by_others() {
            let unwritten = observations.check_unwritten().await;
            unwritten.map_err(Reason::changed)?;
        }
        let epochs = self.current_epochs()?;
        let now = self.access().now();
        let later = |at: Millis, time: Duration| {
            at.saturating_add(Millis::try_from(time.as_millis()).unwrap_or(Millis::MAX))
        };
        let expires = policy.ttl.map(|ttl| later(now, ttl));
        let head = EntryHead {
            key: flight.key.digest(),
            kind: self.call.kind,
            scope: self.call.scope.to_string(),
            name: self.call.name.clone(),
            created: now,
            expires,
            epochs: epochs.clone(),
            observed: observations.current(),
            spent,
            sealed: self.call.input.holds_secrets(),
        };
        let record = Record {
            key: flight.key.to_string(),
            value: head.encode(answer)?,
            labels: labels_of(flight, policy).chain(labels).collect(),
            // The record outlives its answer by the stale windows. The head has the expiry of the answer.
            expires: expires.map(|expires| later(expires, policy.longest_stale_window())),
            revision: 0,
            updated: 0,
        };
        // Checked on the encoded record, which contains every text that is stored except for the labels.
        if self.access().secret_set.occurs_in(&record.value)
            || self.access().has_secret_label(&record.labels)
        {
            return Err(Reason::HoldsSecret);
        }
        let timeout = self.engine.bounds.store_timeout_of(policy);
        let (began, budget) = (Instant::now(), self.access().store_budget(timeout));
        let time_limit = budget.remaining();
        let stored = self.put(&store, record.clone(), &epochs, &budget).await;
        self.access()
            .record_store_timeout(stored.is_err() && began.elapsed() >= time_limit);
        let stored = self.copy(stored, record).await;
        let revision = stored?;
        self.engine.eviction.after_store(&flight.key).await;
        if let Some(quota) = &policy.quota {
            self.engine.eviction.enforce_quota(quota).await;
        }
        Ok((Revision(revision), expires))
    }

    /// Copies a record to the local store, if calls like this one may be answered from there; otherwise no copy of an
    /// earlier one answers. Returns the reason why the store does not have it, and that it will be sent.
    async fn copy(&self, stored: Result<u64, Reason>, record: Record) -> Result<u64, Reason> {
        let Some(local) = &self.engine.local else {
            return stored;
        };
        let is_permitted =
            local::is_permitted(&self.policy.hit, &self.policy.run) && !self.flight.is_revoked();
        let erasures = self.run_start.erasures.as_deref().copied();
        match (stored, erasures.filter(|_| is_permitted)) {
            (Ok(revision), Some(erasures)) => {
                local.keep(record, erasures).await;
                Ok(revision)
            }
            (Ok(revision), None) => {
                local.forget(&record.key, None).await;
                Ok(revision)
            }
            (Err(Reason::StoreUnavailable(fault)), Some(erasures)) => Err(
                Reason::StoreUnavailable(if local.keep_unsent(record, erasures).await {
                    format!("{fault}; a local copy is sent when it answers again")
                } else {
                    fault
                }),
            ),
            (stored, _) => stored,
        }
    }

    /// Writes the record if the run still has the right to, and the epochs of its domains are unchanged.
    async fn put(
        &self,
        store: &Arc<dyn Store>,
        record: Record,
        epochs: &[(String, u64)],
        budget: &TimeBudget,
    ) -> Result<u64, Reason> {
        let flight = self.flight;
        // The counters are conditions of the put itself: a write or an erasure after the checks before is not missed.
        let (lease, erased) = self.acquire_right_to_store(store, budget).await?;
        let counters: Vec<(&str, u64)> = epochs
            .iter()
            .map(|(counter, epoch)| (counter.as_str(), *epoch))
            .chain(erased.map(|erased| (counter::ERASED, erased)))
            .collect();
        let stored = store.put(space::CACHE, record, lease.as_ref(), &counters);
        match self.access().await_write(stored, budget).await? {
            PutResult::LeaseLost => Err(self.overtaken(store, budget).await),
            PutResult::CounterChanged { counter } => {
                // The conditions have the order of the domains. The one behind them is the counter of erasures.
                Err(match self.policy.hit.domains.get(counter) {
                    Some(domain) => Reason::Written(domain.to_string()),
                    None => Reason::Revoked,
                })
            }
            PutResult::Stored { revision } => {
                // The store has ended the lease in the same step.
                flight.take_lease();
                // With a lease, a later erasure has erased the record, too.
                if lease.is_none() && flight.is_revoked() {
                    return Err(Reason::Revoked);
                }
                Ok(revision)
            }
        }
    }

    /// The reason why a reservation is no longer current: an erasure revoked it, or it expired and was taken
    /// over.
    async fn overtaken(&self, store: &Arc<dyn Store>, budget: &TimeBudget) -> Reason {
        let text = self.flight.key.text();
        let names = [counter::ERASED];
        let found = store.get(space::CACHE, &text, &names);
        let found = self.access().await_read(found, budget).await;
        let erased = found.ok().and_then(|found| found.counters.first().copied());
        // An erasure raises the counter. A lease that lapsed and was taken over leaves it unchanged.
        match erased {
            Some(erased) if self.run_start.erased == Some(erased) => Reason::LeaseLost,
            _ => Reason::Revoked,
        }
    }

    /// Acquires the proof that nothing erased since the start of the run is stored again: the flight's
    /// reservation, which an erasure revokes, or, without one, the counter of erasures. The lease is read
    /// once, because a run that supersedes this one may take it from the flight at any time.
    async fn acquire_right_to_store(
        &self,
        store: &Arc<dyn Store>,
        budget: &TimeBudget,
    ) -> Result<(Option<Lease>, Option<u64>), Reason> {
        let (flight, run_start) = (self.flight, self.run_start);
        if flight.is_revoked() {
            return Err(Reason::Revoked);
        }
        if let Some(lease) = flight.lease() {
            return Ok((Some(lease), None));
        }
        let reservations = store.about().reservations;
        let late = match self.unreserved {
            // The flight had a lease: a run that supersedes this one has taken it.
            None if reservations => return Err(Reason::Revoked),
            // Without reservations, the put compares the counter of erasures with the value that the lookup has read.
            None if run_start.erased.is_some() => return Ok((None, run_start.erased)),
            // The store did not answer before the run, or was not asked.
            late => late,
        };
        let (key, names) = (&flight.key, [counter::ERASED]);
        let found = if reservations {
            // The first request may have reserved the key since, so its answer is awaited before a second
            // request.
            let answered = match late {
                Some(late) => late.wait(budget).await,
                None => None,
            };
            let (found, reservation) = match answered {
                Some((found, Some(Reservation::Held(lease)))) => {
                    (found, Some(Reservation::Held(lease)))
                }
                _ => {
                    let request = ReservationRequest {
                        labels: &flight.labels,
                        stale: Stale::Any,
                        late: &LateLookup::default(),
                    };
                    get_or_reserve(&self.engine.access, store, key, &names, request, budget).await?
                }
            };
            match reservation {
                Some(Reservation::Held(lease)) => flight.set_lease(lease.claim()),
                Some(Reservation::Busy { .. }) | None => return Err(Reason::BusyElsewhere),
            }
            found
        } else {
            let text = key.text();
            let found = store.get(space::CACHE, &text, &names);
            self.access().await_read(found, budget).await?
        };
        // The counter of erasures is the last one that a lookup reads.
        // A missing counter proves nothing: the maximum equals no earlier value and is later than every time.
        let erased = found.counters.last().copied().unwrap_or(u64::MAX);
        let lease = flight.lease();
        let may_be_stored = lease.is_some() || !reservations;
        if may_be_stored
            && run_start.nothing_erased_since(erased, found.now, self.access().clock.now())
        {
            Ok((lease, Some(erased)))
        } else {
            Err(Reason::Revoked)
        }
    }

    /// Returns the epochs under which the work began, unless this process knows of a later or current write
    /// to one of the domains.
    fn current_epochs(&self) -> Result<Vec<(String, u64)>, Reason> {
        let domains = &self.policy.hit.domains;
        let local_epochs = self.engine.writes.local_epochs(domains);
        // This process also knows of writes that the store could not be informed of.
        if let Some(domain) = &local_epochs.being_written {
            return Err(Reason::Written(domain.to_string()));
        }
        if let (Some(domain), true) = (domains.first(), local_epochs != self.flight.local_epochs) {
            return Err(Reason::Written(domain.to_string()));
        }
        let Some(before) = &self.flight.epochs else {
            return Err(Reason::StoreFault(
                "the epochs could not be read".to_owned(),
            ));
        };
        let counters = domains.iter().map(|domain| domain.counter());
        Ok(counters.zip(before.iter().copied()).collect())
    }
}
