//! Storing an answer.

use std::sync::Arc;

use bytes::Bytes;
use cachalot_core::{Millis, Spend};
use cachalot_memory::{Filter, Label, Page, Put, Record, space};

use crate::Reason;
use crate::engine::{Patience, Shared};
use crate::entry::Head;
use crate::flight::Flight;
use crate::outcome::Revision;
use crate::policy::{Mode, Policy};
use crate::share::SHARE_LABEL;
use crate::ticket::Ticket;
use crate::witness::{BEFORE_STORING, Watched};

/// The label that carries a call's name.
pub(crate) const NAME_LABEL: &str = "name";

/// The labels that were known before the run.
fn labels_of<'a>(flight: &'a Flight, policy: &'a Policy) -> impl Iterator<Item = Label> + 'a {
    let share = policy.share.iter();
    let share = share.map(|share| Label::new(SHARE_LABEL, &share.name));
    flight.labels.iter().cloned().chain(share)
}

impl Shared {
    /// Stores what a ticket produced if everything that it was built from still holds.
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
        let patience = &ticket.patience;
        let epochs = self.epochs_unpassed(ticket, patience).await?;
        let now = self.clock.now();
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
            epochs,
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
        let lease = flight.lease();
        if flight.is_revoked() || (lease.is_none() && memory.about().reservations) {
            return Err(Reason::Revoked);
        }
        let stored = memory.put(space::CACHE, record, lease.as_ref());
        match self.ask(stored, patience).await? {
            Put::Overtaken => Err(Reason::Revoked),
            Put::Stored { revision } => {
                // The memory ended the lease in the same step.
                flight.take_lease();
                if flight.is_revoked() {
                    self.take_back(&flight.key.to_string()).await;
                    return Err(Reason::Revoked);
                }
                self.after_store(&flight.key).await;
                if let Some(share) = &policy.share {
                    self.keep_within(share).await;
                }
                Ok((Revision(revision), expires))
            }
        }
    }

    /// Whether a label holds a secret: such labels never reach the memory.
    pub(crate) fn secrets_in(&self, labels: &[Label]) -> bool {
        let holds = |text: &str| self.seals.occur_in(text.as_bytes());
        !self.seals.is_empty()
            && labels
                .iter()
                .any(|label| holds(&label.name) || holds(&label.value))
    }

    /// The epochs under which the work began, unless one has passed or is passing.
    async fn epochs_unpassed(
        &self,
        ticket: &Ticket,
        patience: &Patience,
    ) -> Result<Vec<(String, u64)>, Reason> {
        let domains = &ticket.policy.domains;
        if domains.is_empty() {
            return Ok(Vec::new());
        }
        let moment = self.epochs.moment(domains);
        if let Some(domain) = &moment.being_written {
            return Err(Reason::Written(domain.to_string()));
        }
        if moment != ticket.flight.moment {
            return Err(Reason::Written(domains[0].to_string()));
        }
        let Some(before) = &ticket.flight.epochs else {
            return Err(Reason::MemoryFault(
                "the epochs could not be read".to_owned(),
            ));
        };
        let counters: Vec<String> = domains.iter().map(|domain| domain.counter()).collect();
        let names: Vec<&str> = counters.iter().map(String::as_str).collect();
        let memory = Arc::clone(self.memory()?);
        let key = ticket.flight.key.to_string();
        let now = self
            .ask(memory.get(space::CACHE, &key, &names), patience)
            .await?;
        if let Some(passed) = before
            .iter()
            .zip(&now.counters)
            .position(|(then, now)| then != now)
        {
            return Err(Reason::Written(domains[passed].to_string()));
        }
        Ok(counters.into_iter().zip(before.iter().copied()).collect())
    }

    /// Erases an entry that an invalidation overtook in a memory without reservations.
    async fn take_back(&self, key: &str) {
        let Ok(memory) = self.memory() else { return };
        let filter = Filter {
            prefix: key,
            ..Filter::default()
        };
        let erased = memory
            .erase(space::CACHE, &filter, Page::keys(1))
            .settle()
            .await;
        if let Err(error) = erased {
            self.fault(&error);
        }
    }
}
