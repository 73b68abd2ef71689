//! Tickets: the exclusive permission, and the obligation, to run a call once.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cachalot_core::Spend;
use cachalot_store::Label;

use crate::body::Body;
use crate::engine::Engine;
use crate::flight::{Flight, ReaderGuard};
use crate::key::OwnedCall;
use crate::lease::LateLookup;
use crate::ledger::{CallStatus, PendingRow};
use crate::orphans::Orphans;
use crate::outcome::{Outcome, OutcomeState};
use crate::policy::{DEFAULT_LOOKUP_TIMEOUT, OrphanPolicy, Policy};
use crate::reason::{Failure, Reason};
use crate::stream::StreamEnd;
use crate::summary::{CacheStatus, CallSummary, RunEnd};
use crate::sync::{Mutex, lock, spawn};
use crate::witness::Witness;

use super::lookup::{Lookup, find_in_store};
use super::request::Request;
use super::run_start::RunStart;

/// The result of a run.
#[derive(Debug)]
pub struct RunResult {
    /// The answer; `None`: the concatenation of the emitted chunks.
    pub value: Option<Bytes>,
    /// The adapter's decision on storing the answer, with the reason if it must not be stored.
    pub storable: Result<(), Reason>,
    /// The cost of the run.
    pub spent: Spend,
    /// Additional labels for the entry.
    pub labels: Vec<Label>,
}

impl RunResult {
    /// Creates a product that may be stored.
    #[must_use]
    pub fn storable(value: Bytes, spent: Spend) -> Self {
        Self {
            value: Some(value),
            storable: Ok(()),
            spent,
            labels: Vec::new(),
        }
    }
}

/// The exclusive permission to run a call once, ended by [`Ticket::finish`] or [`Ticket::fail`].
///
/// If it is dropped before the first chunk, a waiting caller becomes the leader; if it is dropped later,
/// the readers get a failure. In both cases nothing is stored.
#[must_use = "a ticket that is dropped makes others wait for nothing"]
pub struct Ticket {
    pub(crate) engine: Arc<Engine>,
    pub(crate) flight: Arc<Flight>,
    pub(crate) call: OwnedCall,
    /// Boxed, because tickets should be small.
    pub(crate) policy: Box<Policy>,
    pub(crate) status: CacheStatus,
    /// Set to a reason if it is known before the run that the answer must not be stored.
    pub(crate) storable: Result<(), Reason>,
    /// Set if the key is not reserved because the store did not answer, or was not asked. The reservation is requested
    /// when there is an answer to store, unless the late answer to a first request brings it.
    pub(crate) unreserved: Option<LateLookup>,
    pub(crate) run_start: RunStart,
    /// Costs reported during the run. Boxed, because they are rarely used and tickets should be small.
    pub(crate) costs: Box<Mutex<RunCosts>>,
    pub(crate) stage: TicketStage,
}

/// Costs that a run reports while it runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunCosts {
    /// Tokens and money that the run was charged for.
    charged: Spend,
    /// The reason why a part of the charge has no known price.
    unpriced: Option<String>,
    /// The part of the run's costs for which nested calls have rows of their own in the ledger.
    nested: Spend,
    /// Set if the answer reports an error.
    is_error: bool,
    /// Set to the saving of the call if an expired entry answers it in place of the run.
    stale: Option<Spend>,
}

/// The lifecycle stage of a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TicketStage {
    /// Not handed out yet: nothing runs, and nothing is paid.
    Waiting,
    Running,
    /// The end is published to all readers and the ledger; the reservation may still have to be released.
    Published,
    Ended,
}

impl Ticket {
    pub(crate) fn new(
        request: &Request<'_>,
        flight: Arc<Flight>,
        status: CacheStatus,
        storable: Result<(), Reason>,
    ) -> Self {
        let access = &request.engine.access;
        Self {
            engine: Arc::clone(request.engine),
            flight,
            call: OwnedCall::new(request.call),
            policy: Box::new(Policy {
                hit: request.hit.clone(),
                run: request.run.clone(),
            }),
            status,
            storable,
            unreserved: None,
            run_start: RunStart::now(None, access.clock.now()),
            costs: Box::default(),
            stage: TicketStage::Waiting,
        }
    }

    /// Marks the ticket as running and starts its clock.
    pub(crate) fn start(mut self) -> Self {
        // Nothing is stored and no caller can join, so no chunk has to be kept after it was read.
        if self.storable.is_err() && !self.flight.is_joinable() {
            self.flight.become_pipe(self.policy.run.max_bytes);
        }
        // The time before, in which the call may have waited for another process, is not part of the run.
        self.run_start = RunStart {
            erasures: self.run_start.erasures.take(),
            ..RunStart::now(self.run_start.erased, self.engine.access.clock.now())
        };
        self.stage = TicketStage::Running;
        self
    }

    /// The list in which the work records what it reads, before it reads it.
    #[must_use]
    pub fn witness(&self) -> &Witness {
        &self.flight.witness
    }

    /// The outcome of the lookup: a miss or a bypass, with the reason.
    #[must_use]
    pub fn status(&self) -> &CacheStatus {
        &self.status
    }

    /// The duration of the run so far.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.run_start.instant.elapsed()
    }

    /// Adds tokens and money that the run was charged for, whether it succeeds or fails. Calls and time are
    /// counted by the ticket itself.
    pub fn charge(&self, spent: Spend) {
        lock(&self.costs).charged += Spend {
            calls: 0,
            time: Duration::ZERO,
            ..spent
        };
    }

    /// Records the reason why a charge has no known price, for the ledger.
    pub fn explain_unpriced(&self, reason: String) {
        lock(&self.costs).unpriced = Some(reason);
    }

    /// Subtracts time, tokens and money from the ledger row of this run, because calls that it made have rows
    /// of their own for them. The cost in the entry stays the total.
    pub fn subtract_nested(&self, spent: Spend) {
        lock(&self.costs).nested += spent;
    }

    /// Records that the answer reports an error: if the run is charged nothing, the ledger counts it as
    /// failed, not as paid.
    pub fn mark_error(&self) {
        lock(&self.costs).is_error = true;
    }

    pub(crate) fn answers_with_an_error(&self) -> bool {
        lock(&self.costs).is_error
    }

    /// The total cost of the run, charges included; `spent` is what the run itself reports.
    pub(super) fn total_cost(&self, mut spent: Spend) -> Spend {
        spent += lock(&self.costs).charged;
        spent
    }

    /// The part of the total cost that goes into this call's own ledger row.
    pub(super) fn own_cost(&self, total_cost: Spend) -> Spend {
        total_cost.without(lock(&self.costs).nested)
    }

    /// Limits the time to live of the answer to `lifetime`, which its producer returned along with it. It
    /// shortens the policy's time to live and never extends it.
    pub fn limit_ttl(&mut self, lifetime: Duration) {
        let ttl = self.policy.run.ttl.unwrap_or(Duration::MAX);
        self.policy.run.ttl = Some(ttl.min(lifetime));
    }

    /// Returns the reading end of the run, for callers that drive the ticket themselves. It is to be called before
    /// the first chunk of a pipe ([`Ticket::is_pipe`]), which is freed if there are no readers.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.outcome_for_reader(self.flight.add_reader(), false)
    }

    pub(crate) fn outcome_for_reader(&self, reader: ReaderGuard, follower: bool) -> Outcome {
        Outcome {
            key: self.flight.key,
            status: self.status.clone(),
            state: OutcomeState::Running {
                ended: self.flight.ended.subscribe(),
                follower,
                witness: self.flight.witness.clone(),
            },
            body: Body::from_flight(reader),
            entry: None,
        }
    }

    /// Returns the expired entry of the call, if it expired less than [`crate::RunPolicy::stale_if_error`] ago and is valid
    /// otherwise, or the entry that was stored in the meantime. For a run that fails: the adapter answers with it, and
    /// ends the ticket with its bytes and a reason against storing them. The ledger then counts the call as answered
    /// by it. `None` after an erasure or a write to a domain, and in modes that serve no entry.
    pub async fn stale(&self) -> Option<Outcome> {
        let window = self.policy.run.stale_if_error;
        let serves = self.policy.hit.serves_entries();
        if window.is_zero() || !serves {
            return None;
        }
        let call = self.call.borrowed();
        let request = Request::new(
            &self.engine,
            self.flight.key,
            &call,
            &self.policy.hit,
            &self.policy.run,
        );
        // Looked up again: since the run began, the entry may have been replaced, erased or invalidated by a write.
        let (found, status) = match find_in_store(&request, None).await {
            Lookup::Hit(found) => (found, CacheStatus::Hit),
            Lookup::Miss(missed) => {
                let stale = missed.stale.filter(|stale| stale.is_within(window))?;
                (stale.front_entry, CacheStatus::Stale)
            }
        };
        // Checked after the lookup: an erasure revokes the flights before it erases the records, so that an entry which
        // was read in between is not served.
        if self.flight.is_revoked() {
            return None;
        }
        lock(&self.costs).stale = Some(found.entry.head.spent);
        Some(Outcome::from_entry(self.flight.key, &found.entry, status))
    }

    /// Sends a chunk to all readers; never waits. Past the policy's `max_bytes`, the answer is declined
    /// ([`Ticket::decline`]).
    pub fn emit(&self, chunk: Bytes) {
        let pushed = self.flight.push(chunk);
        let limit = self.policy.run.max_bytes;
        // Without readers, each chunk adds to the bytes that the bounds of orphan runs limit.
        if !pushed.has_readers {
            self.engine.orphans.enforce();
        }
        if pushed.bytes > limit && !pushed.is_pipe {
            let bytes = pushed.bytes;
            self.decline(Reason::TooLarge { bytes, limit });
        }
    }

    /// Declares that the answer will not be stored, and why. The run becomes a pipe:
    ///
    /// - New callers do not join it; they may run the call and store its answer.
    /// - A chunk is freed when every present reader has read it, unless a [`Body`] is held, which keeps everything.
    ///   [`Body::into_reader`] and [`Body::reader`] keep only what was not read.
    /// - A reader that falls more than the policy's `max_bytes` behind, and at least 1 MiB, gets a failure, unless a
    ///   [`Body`] is held. The run and the other readers do not wait for it.
    /// - [`Ticket::room`] waits for the fastest reader.
    /// - When the last reader leaves, [`Ticket::abandoned`] resolves at once, also under [`OrphanPolicy::Finish`].
    ///
    /// Only the first reason counts. The ticket is still to be ended; [`Ticket::finish`] needs no value.
    pub fn decline(&self, reason: Reason) {
        // Before the release: the ticker must not renew a lease that is being released.
        self.flight.stop_renewal();
        self.flight.decline(reason, self.policy.run.max_bytes);
        // Other processes need not wait for the end of the run. A leader of this process that takes the lease over in
        // the meantime releases it, too.
        if let (Some(lease), Ok(_)) = (self.flight.lease(), tokio::runtime::Handle::try_current()) {
            let (engine, flight) = (Arc::clone(&self.engine), Arc::clone(&self.flight));
            spawn(async move {
                engine.access.release(lease, DEFAULT_LOOKUP_TIMEOUT).await;
                flight.take_lease();
            });
        }
    }

    /// True if the run is a pipe: its answer is not stored, and not kept for further callers. It was declined
    /// ([`Ticket::decline`]), or callers cannot join it from the start (a bypass, [`crate::CacheMode::Off`]).
    #[must_use]
    pub fn is_pipe(&self) -> bool {
        self.flight.body.is_pipe()
    }

    /// Waits until there is room for further chunks. A run that may be stored always has room, because
    /// the policy's `max_bytes` bounds it. A pipe has room if its fastest reader has less than 1 MiB to read, if there
    /// are no readers, or if a [`Body`] is held, which keeps everything anyway.
    ///
    /// A run that awaits it before it receives more holds at most what its slowest reader may be behind, and one chunk.
    pub async fn room(&self) {
        self.flight.body.room().await;
    }

    /// Resolves when the orphan rule or [`crate::CacheBounds::orphan_runs`] stops the run: it had readers, and all of them
    /// have left.
    pub async fn abandoned(&self) {
        abandoned(&self.engine.orphans, &self.flight, self.policy.run.orphan).await;
    }

    /// Ends the run with its answer: publishes it to the readers, then stores it if it may be kept, every
    /// witness still holds, no epoch has passed and nothing revoked the run. Resolves when that is decided.
    pub fn finish(self, result: RunResult) -> impl Future<Output = CallSummary> + Send {
        super::finish(self, result)
    }

    /// Fails with the reason for which the answer was declined.
    pub(super) fn not_declined(&self) -> Result<(), Reason> {
        match self.flight.declined() {
            None => Ok(()),
            // The reason has the size at the chunk that exceeded the limit. The whole size is known only now.
            Some(Reason::TooLarge { limit, .. }) => Err(Reason::TooLarge {
                bytes: self.flight.body.bytes(),
                limit,
            }),
            Some(reason) => Err(reason),
        }
    }

    /// Ends the run with a failure, which every waiting reader gets; stores nothing. Returns the cost.
    pub fn fail(self, failure: Failure) -> impl Future<Output = CallSummary> + Send {
        super::fail(self, failure)
    }

    /// Removes the flight from the table, so that no caller finds it any more.
    pub(super) fn leave(&mut self) {
        self.engine.flights.leave(&self.flight);
        self.stage = TicketStage::Ended;
    }

    /// Publishes the end of the run. The ledger rows are sent first, so that a caller that sees the call as
    /// settled finds it in the ledger.
    pub(super) fn publish(
        &mut self,
        settled: CallSummary,
        mut run_cost: Spend,
        failure: Option<&Failure>,
    ) {
        // A failure is not an answer that is worth the cost of the run: its followers saved nothing.
        if failure.is_some() || self.answers_with_an_error() {
            run_cost = Spend::default();
        }
        // A ticket that was not handed out ran nothing. Its call gets a row when an entry serves it.
        if self.stage == TicketStage::Running {
            self.record_run(&settled, failure);
        }
        self.stage = TicketStage::Published;
        for row in self.flight.followers.close(run_cost) {
            self.engine.ledger.send(row);
        }
        let ended = RunEnd { settled, run_cost };
        self.flight.ended.send_replace(Some(ended));
    }

    fn record_run(&self, settled: &CallSummary, failure: Option<&Failure>) {
        let ledger = &self.engine.ledger;
        if !ledger.is_enabled() {
            return;
        }
        let stale = lock(&self.costs).stale;
        let is_answered = failure.is_none()
            && settled.stored != Err(Reason::Abandoned)
            && !self.answers_with_an_error();
        let (access, call) = (&self.engine.access, self.call.borrowed());
        let answered = match stale {
            Some(_) => CallStatus::Stale,
            None => CallStatus::from_status(&self.status),
        };
        ledger.send(PendingRow {
            reason: self.status.reason().map(ToString::to_string),
            not_stored: settled.stored.as_ref().err().map(ToString::to_string),
            failure: failure.map(ToString::to_string),
            unpriced: lock(&self.costs).unpriced.clone(),
            failed: !is_answered && settled.paid.is_free() && stale.is_none(),
            paid: settled.paid,
            saved: stale.unwrap_or(settled.saved),
            ..PendingRow::new(
                access,
                &call,
                self.flight.key,
                &self.policy.hit,
                &self.policy.run,
                answered,
            )
        });
    }

    /// Publishes the end of a run whose ticket was dropped without `finish` or `fail`.
    pub(super) fn publish_abandoned(&mut self) {
        let spent = match self.stage {
            TicketStage::Waiting => Spend::default(),
            TicketStage::Running => self.total_cost(Spend::for_call(self.elapsed())),
            TicketStage::Published | TicketStage::Ended => return,
        };
        let settled = CallSummary::not_stored(Reason::Abandoned, self.own_cost(spent));
        self.publish(settled, Spend::default(), None);
        // Without a chunk, no reader has seen a part of the answer, so a waiting caller can run the call instead.
        let vacant = self.flight.body.is_empty();
        self.flight.body.end(if vacant {
            StreamEnd::Vacant
        } else {
            StreamEnd::Failed(Failure::dropped())
        });
    }
}

pub(crate) async fn abandoned(orphans: &Orphans, flight: &Arc<Flight>, orphan: OrphanPolicy) {
    loop {
        let known = flight.without_readers().await;
        if let OrphanPolicy::Finish { within } = orphan {
            let _counted = orphans.enter(flight);
            let joined = tokio::time::timeout(within, flight.readers_after(known)).await;
            if joined == Ok(true) {
                continue;
            }
        }
        // A caller may have joined since the wait ended.
        if flight.close_if_unread() {
            return;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        super::abandon(self);
    }
}
