//! Storage of answers.

use std::sync::Arc;

use bytes::Bytes;
use cachalot_core::{Millis, Spend};
use cachalot_memory::{Label, Lease, Memory, Put, Record, Stale, counter, space};
use tokio::time::Instant;

use crate::Reason;
use crate::engine::{Patience, Shared};
use crate::entry::Head;
use crate::flight::Flight;
use crate::outcome::Revision;
use crate::policy::{Mode, Policy};
use crate::reserve::{Grant, Late, Wanted};
use crate::share::SHARE_LABEL;
use crate::ticket::Ticket;
use crate::witness::{BEFORE_STORING, Watched};

/// The label with the name of the call.
pub(crate) const NAME_LABEL: &str = "name";

/// The label with the kind of the call. Entries of earlier versions have none.
pub(crate) const KIND_LABEL: &str = "kind";

/// The labels that were known before the run.
fn labels_of<'a>(flight: &'a Flight, policy: &'a Policy) -> impl Iterator<Item = Label> + 'a {
    let share = policy.share.iter();
    let share = share.map(|share| Label::new(SHARE_LABEL, &share.name));
    flight.labels.iter().cloned().chain(share)
}

impl Shared {
    /// Stores the answer of a ticket if everything that it was built from still holds.
    pub(crate) async fn store(
        self: Arc<Self>,
        ticket: &Ticket,
        answer: &Bytes,
        spent: Spend,
        labels: Vec<Label>,
    ) -> Result<(Revision, Option<Millis>), Reason> {
        let policy = &ticket.policy;
        match policy.mode {
            Mode::Off => return Err(Reason::Off),
            Mode::ReadOnly | Mode::Frozen => return Err(Reason::ReadOnly),
            Mode::On | Mode::Refresh => {}
        }
        let memory = Arc::clone(self.memory()?);
        let limit = policy
            .max_bytes
            .min(memory.about().largest_value)
            .min(self.bounds.bytes)
            .min(policy.share.as_ref().map_or(u64::MAX, |share| share.bytes));
        if answer.len() as u64 > limit {
            return Err(Reason::TooLarge {
                bytes: answer.len() as u64,
                limit,
            });
        }
        let flight = &ticket.flight;
        if let Some(why) = flight.witness.spoilt() {
            return Err(Reason::Declined(why));
        }
        let watched = Watched::new(flight.witness.observed());
        watched
            .check(BEFORE_STORING)
            .await
            .map_err(Reason::Changed)?;
        let epochs = self.epochs_unpassed(ticket)?;
        let now = self.now();
        let expires = policy
            .ttl
            .map(|ttl| now.saturating_add(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX)));
        let head = Head {
            key: flight.key.digest(),
            kind: ticket.errand.kind,
            scope: ticket.errand.scope.to_string(),
            name: ticket.errand.name.clone(),
            created: now,
            expires,
            epochs: epochs.clone(),
            observed: watched.current(),
            spent,
            sealed: ticket.errand.input.holds_secrets(),
        };
        let record = Record {
            key: flight.key.to_string(),
            value: head.encode(answer)?,
            labels: labels_of(flight, policy).chain(labels).collect(),
            expires,
            revision: 0,
            updated: 0,
        };
        if self.seals.occur_in(&record.value) || self.secrets_in(&record.labels) {
            return Err(Reason::HoldsSecret);
        }
        let (began, time) = (Instant::now(), self.time_to_store(policy));
        let most = time.left();
        let stored = self.put(ticket, &memory, record, &epochs, &time).await;
        self.note_store(stored.is_err() && began.elapsed() >= most);
        let revision = stored?;
        self.after_store(&flight.key).await;
        if let Some(share) = &policy.share {
            self.keep_within(share).await;
        }
        Ok((Revision(revision), expires))
    }

    /// Writes the record if the run still has the right to, and the epochs of its domains are unchanged.
    async fn put(
        self: &Arc<Self>,
        ticket: &Ticket,
        memory: &Arc<dyn Memory>,
        record: Record,
        epochs: &[(String, u64)],
        time: &Patience,
    ) -> Result<u64, Reason> {
        let flight = &ticket.flight;
        let (lease, erased) = self.right_to_store(ticket, memory, time).await?;
        let counters: Vec<(&str, u64)> = epochs
            .iter()
            .map(|(counter, epoch)| (counter.as_str(), *epoch))
            .chain(erased.map(|erased| (counter::ERASED, erased)))
            .collect();
        let stored = memory.put(space::CACHE, record, lease.as_ref(), &counters);
        match self.ask(stored, time).await? {
            Put::Overtaken => Err(self.overtaken(ticket, memory, time).await),
            Put::Outdated { counter } => Err(match ticket.policy.domains.get(counter) {
                Some(domain) => Reason::Written(domain.to_string()),
                None => Reason::Revoked,
            }),
            Put::Stored { revision } => {
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
        memory: &Arc<dyn Memory>,
        time: &Patience,
    ) -> Reason {
        let text = ticket.flight.key.text();
        let names = [counter::ERASED];
        let found = self
            .ask(memory.get(space::CACHE, &text, &names), time)
            .await;
        let erased = found.ok().and_then(|found| found.counters.first().copied());
        match erased {
            Some(erased) if ticket.beginning.erased == Some(erased) => Reason::Overtaken,
            _ => Reason::Revoked,
        }
    }

    /// Acquires the proof that nothing erased since the start of the run is stored again: the flight's
    /// reservation, which an erasure revokes, or, without one, the counter of erasures. The lease is read
    /// once, because a run that supersedes this one may take it from the flight at any time.
    async fn right_to_store(
        self: &Arc<Self>,
        ticket: &Ticket,
        memory: &Arc<dyn Memory>,
        time: &Patience,
    ) -> Result<(Option<Lease>, Option<u64>), Reason> {
        let (flight, beginning) = (&ticket.flight, &ticket.beginning);
        if flight.is_revoked() {
            return Err(Reason::Revoked);
        }
        if let Some(lease) = flight.lease() {
            return Ok((Some(lease), None));
        }
        let reservations = memory.about().reservations;
        let late = match &ticket.unreserved {
            None if reservations => return Err(Reason::Revoked),
            None if beginning.erased.is_some() => return Ok((None, beginning.erased)),
            // The store did not answer before the run.
            late => late,
        };
        let (key, names) = (&flight.key, [counter::ERASED]);
        let found = if reservations {
            // The first request may have reserved the key since, so its answer is awaited before a second
            // request.
            let answered = match late {
                Some(late) => late.wait(time).await,
                None => None,
            };
            let (found, grant) = match answered {
                Some((found, Some(Grant::Held(lease)))) => (found, Some(Grant::Held(lease))),
                _ => {
                    let wanted = Wanted {
                        labels: &flight.labels,
                        stale: Stale::Any,
                        late: &Late::default(),
                    };
                    self.enter(memory, key, &names, wanted, time).await?
                }
            };
            match grant {
                Some(Grant::Held(lease)) => lease.claim(flight),
                Some(Grant::Busy { .. }) | None => return Err(Reason::BusyElsewhere),
            }
            found
        } else {
            let text = key.text();
            let found = memory.get(space::CACHE, &text, &names);
            self.ask(found, time).await?
        };
        // The counter of erasures is the last one that a lookup reads.
        let erased = found.counters.last().copied().unwrap_or(u64::MAX);
        let lease = flight.lease();
        let may_be_stored = lease.is_some() || !reservations;
        if may_be_stored && beginning.follows(erased, found.now, self.clock.now()) {
            Ok((lease, Some(erased)))
        } else {
            Err(Reason::Revoked)
        }
    }

    /// True if a label contains a secret: such labels are never sent to the store.
    pub(crate) fn secrets_in(&self, labels: &[Label]) -> bool {
        let holds = |text: &str| self.seals.occur_in(text.as_bytes());
        !self.seals.is_empty()
            && labels
                .iter()
                .any(|label| holds(&label.name) || holds(&label.value))
    }

    /// Returns the epochs under which the work began, unless this process knows of a later or current write
    /// to one of the domains.
    fn epochs_unpassed(&self, ticket: &Ticket) -> Result<Vec<(String, u64)>, Reason> {
        let domains = &ticket.policy.domains;
        let moment = self.epochs.moment(domains);
        if let Some(domain) = &moment.being_written {
            return Err(Reason::Written(domain.to_string()));
        }
        if let (Some(domain), true) = (domains.first(), moment != ticket.flight.moment) {
            return Err(Reason::Written(domain.to_string()));
        }
        let Some(before) = &ticket.flight.epochs else {
            return Err(Reason::MemoryFault(
                "the epochs could not be read".to_owned(),
            ));
        };
        let counters = domains.iter().map(|domain| domain.counter());
        Ok(counters.zip(before.iter().copied()).collect())
    }
}
