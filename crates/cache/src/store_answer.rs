//! Storage of answers.

use std::sync::Arc;

use bytes::Bytes;
use cachalot_core::{Millis, Spend};
use cachalot_store::{Label, Lease, PutResult, Record, Stale, Store, counter, space};
use tokio::time::Instant;

use crate::Reason;
use crate::engine::{Engine, TimeBudget};
use crate::entry::EntryHead;
use crate::flight::Flight;
use crate::outcome::Revision;
use crate::policy::{CacheMode, Policy};
use crate::quota::QUOTA_LABEL;
use crate::reserve::{LateLookup, Reservation, ReservationRequest};
use crate::ticket::Ticket;
use crate::witness::{ObservationSet, STORE_CHECK_TIMEOUT};

/// The label with the name of the call.
pub(crate) const NAME_LABEL: &str = "name";

/// The label with the kind of the call. Entries of earlier versions have none.
pub(crate) const KIND_LABEL: &str = "kind";

/// The labels that were known before the run.
fn labels_of<'a>(flight: &'a Flight, policy: &'a Policy) -> impl Iterator<Item = Label> + 'a {
    let quota = policy.quota.iter();
    let quota = quota.map(|quota| Label::new(QUOTA_LABEL, &quota.name));
    flight.labels.iter().cloned().chain(quota)
}

impl Engine {
    /// Stores the answer of a ticket if everything that it was built from still holds.
    pub(crate) async fn store_answer(
        self: Arc<Self>,
        ticket: &Ticket,
        answer: &Bytes,
        spent: Spend,
        labels: Vec<Label>,
    ) -> Result<(Revision, Option<Millis>), Reason> {
        let policy = &ticket.policy;
        match policy.mode {
            CacheMode::Off => return Err(Reason::Off),
            CacheMode::ReadOnly | CacheMode::Frozen => return Err(Reason::ReadOnly),
            CacheMode::On | CacheMode::Refresh => {}
        }
        let store = Arc::clone(self.store()?);
        let limit = policy
            .max_bytes
            .min(store.about().largest_value)
            .min(self.bounds.bytes)
            .min(policy.quota.as_ref().map_or(u64::MAX, |quota| quota.bytes));
        if answer.len() as u64 > limit {
            return Err(Reason::TooLarge {
                bytes: answer.len() as u64,
                limit,
            });
        }
        let flight = &ticket.flight;
        if let Some(why) = flight.witness.incomplete() {
            return Err(Reason::Declined(why));
        }
        let observations = ObservationSet::new(flight.witness.observed());
        observations
            .check(STORE_CHECK_TIMEOUT)
            .await
            .map_err(Reason::Changed)?;
        let epochs = self.current_epochs(ticket)?;
        let now = self.now();
        let expires = policy
            .ttl
            .map(|ttl| now.saturating_add(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX)));
        let head = EntryHead {
            key: flight.key.digest(),
            kind: ticket.call.kind,
            scope: ticket.call.scope.to_string(),
            name: ticket.call.name.clone(),
            created: now,
            expires,
            epochs: epochs.clone(),
            observed: observations.current(),
            spent,
            sealed: ticket.call.input.holds_secrets(),
        };
        let record = Record {
            key: flight.key.to_string(),
            value: head.encode(answer)?,
            labels: labels_of(flight, policy).chain(labels).collect(),
            expires,
            revision: 0,
            updated: 0,
        };
        if self.secret_set.occurs_in(&record.value) || self.has_secret_label(&record.labels) {
            return Err(Reason::HoldsSecret);
        }
        let (began, budget) = (Instant::now(), self.store_budget(policy));
        let most = budget.remaining();
        let stored = self.put(ticket, &store, record, &epochs, &budget).await;
        self.record_store_timeout(stored.is_err() && began.elapsed() >= most);
        let revision = stored?;
        self.after_store(&flight.key).await;
        if let Some(quota) = &policy.quota {
            self.enforce_quota(quota).await;
        }
        Ok((Revision(revision), expires))
    }

    /// Writes the record if the run still has the right to, and the epochs of its domains are unchanged.
    async fn put(
        self: &Arc<Self>,
        ticket: &Ticket,
        store: &Arc<dyn Store>,
        record: Record,
        epochs: &[(String, u64)],
        budget: &TimeBudget,
    ) -> Result<u64, Reason> {
        let flight = &ticket.flight;
        let (lease, erased) = self.acquire_right_to_store(ticket, store, budget).await?;
        let counters: Vec<(&str, u64)> = epochs
            .iter()
            .map(|(counter, epoch)| (counter.as_str(), *epoch))
            .chain(erased.map(|erased| (counter::ERASED, erased)))
            .collect();
        let stored = store.put(space::CACHE, record, lease.as_ref(), &counters);
        match self.await_store(stored, budget).await? {
            PutResult::LeaseLost => Err(self.overtaken(ticket, store, budget).await),
            PutResult::CounterChanged { counter } => {
                Err(match ticket.policy.domains.get(counter) {
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
    async fn overtaken(
        &self,
        ticket: &Ticket,
        store: &Arc<dyn Store>,
        budget: &TimeBudget,
    ) -> Reason {
        let text = ticket.flight.key.text();
        let names = [counter::ERASED];
        let found = self
            .await_store(store.get(space::CACHE, &text, &names), budget)
            .await;
        let erased = found.ok().and_then(|found| found.counters.first().copied());
        match erased {
            Some(erased) if ticket.run_start.erased == Some(erased) => Reason::LeaseLost,
            _ => Reason::Revoked,
        }
    }

    /// Acquires the proof that nothing erased since the start of the run is stored again: the flight's
    /// reservation, which an erasure revokes, or, without one, the counter of erasures. The lease is read
    /// once, because a run that supersedes this one may take it from the flight at any time.
    async fn acquire_right_to_store(
        self: &Arc<Self>,
        ticket: &Ticket,
        store: &Arc<dyn Store>,
        budget: &TimeBudget,
    ) -> Result<(Option<Lease>, Option<u64>), Reason> {
        let (flight, run_start) = (&ticket.flight, &ticket.run_start);
        if flight.is_revoked() {
            return Err(Reason::Revoked);
        }
        if let Some(lease) = flight.lease() {
            return Ok((Some(lease), None));
        }
        let reservations = store.about().reservations;
        let late = match &ticket.unreserved {
            None if reservations => return Err(Reason::Revoked),
            None if run_start.erased.is_some() => return Ok((None, run_start.erased)),
            // The store did not answer before the run.
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
                    self.get_or_reserve(store, key, &names, request, budget)
                        .await?
                }
            };
            match reservation {
                Some(Reservation::Held(lease)) => lease.claim(flight),
                Some(Reservation::Busy { .. }) | None => return Err(Reason::BusyElsewhere),
            }
            found
        } else {
            let text = key.text();
            let found = store.get(space::CACHE, &text, &names);
            self.await_store(found, budget).await?
        };
        // The counter of erasures is the last one that a lookup reads.
        let erased = found.counters.last().copied().unwrap_or(u64::MAX);
        let lease = flight.lease();
        let may_be_stored = lease.is_some() || !reservations;
        if may_be_stored && run_start.nothing_erased_since(erased, found.now, self.clock.now()) {
            Ok((lease, Some(erased)))
        } else {
            Err(Reason::Revoked)
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

    /// Returns the epochs under which the work began, unless this process knows of a later or current write
    /// to one of the domains.
    fn current_epochs(&self, ticket: &Ticket) -> Result<Vec<(String, u64)>, Reason> {
        let domains = &ticket.policy.domains;
        let local_epochs = self.epochs.local_epochs(domains);
        if let Some(domain) = &local_epochs.being_written {
            return Err(Reason::Written(domain.to_string()));
        }
        if let (Some(domain), true) = (domains.first(), local_epochs != ticket.flight.local_epochs)
        {
            return Err(Reason::Written(domain.to_string()));
        }
        let Some(before) = &ticket.flight.epochs else {
            return Err(Reason::StoreFault(
                "the epochs could not be read".to_owned(),
            ));
        };
        let counters = domains.iter().map(|domain| domain.counter());
        Ok(counters.zip(before.iter().copied()).collect())
    }
}
