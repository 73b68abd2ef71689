//! A request whose answer may be stored: served by the engine, or run on behalf of all callers of the same request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cachalot_cache::{
    BeginResult, Cache, CacheMode, CacheStatus, Call, CallKind, Domain, Failure, HANDLE_LABEL,
    HitPolicy, Key, KeyedCall, OrphanPolicy, Outcome, Policy, Reason, RunPolicy, RunResult, Scope,
    SingleFlight, Ticket,
};
use cachalot_core::{Canonical, Millis, Spend};
use cachalot_store::Label;
use parking_lot::Mutex;

use super::in_flight::{Caller, RequestInFlight};
use super::judgment::{Judgment, Rule};
use super::mark::Mark;
use super::pass::{Learns, PassError, Passed};
use super::session_order::{Place, Turn};
use super::shared::Shared;
use super::stored_response::{self, NOT_SHARED, NOTIFICATION};
use super::witness_plan::WitnessPlan;
use crate::relay::{
    AccountCompletion, CacheAccount, ExchangeSender, Frame, FrameKind, RequestContext,
};

/// Maximum size of a stored answer. Larger ones are passed on.
const MAX_BYTES: u64 = 16 << 20;
/// The number of digits of a key that are shown.
const KEY_DIGITS: usize = 10;

/// A request whose answer may be stored.
pub(super) struct CachedRequest {
    pub(super) request: Frame,
    pub(super) context: RequestContext,
    pub(super) scope: Scope,
    /// The name of the call.
    pub(super) name: String,
    pub(super) input: Canonical,
    pub(super) domains: Vec<Domain>,
    pub(super) ttl: Option<Duration>,
    pub(super) plan: WitnessPlan,
    pub(super) rule: Rule,
    /// The client that learns the tools of the answer.
    pub(super) learns_for: Option<String>,
    /// True if the client asks for log messages.
    pub(super) wants_logs: bool,
}

impl CachedRequest {
    /// Returns the call of this request in a scope.
    fn call<'a>(&'a self, scope: &'a Scope) -> Call<'a> {
        Call {
            kind: CallKind::Request,
            scope,
            name: &self.name,
            input: &self.input,
        }
    }

    fn hit_policy(&self, mode: CacheMode) -> HitPolicy {
        HitPolicy {
            mode,
            domains: self.domains.clone(),
            session: self.context.session.clone(),
            accepts: Some(stored_response::is_readable),
        }
    }

    fn run_policy(&self, shared: &Shared, key: &str) -> RunPolicy {
        let server = shared.identity.name.as_str();
        let what = self.name.split_once('/').map_or("", |(_, what)| what);
        RunPolicy {
            ttl: self.ttl,
            join: SingleFlight::Process,
            orphan: OrphanPolicy::Cancel,
            max_bytes: MAX_BYTES,
            labels: vec![
                Label::new(HANDLE_LABEL, format!("{server}/{what}/{key}")),
                Label::new("server", server),
                Label::new("tool", what),
            ],
            ..RunPolicy::default()
        }
    }

    /// Returns true if the cache answers the call in this scope.
    pub(super) async fn has_entry(&self, shared: &Shared, scope: &Scope) -> bool {
        let policy = Policy {
            hit: self.hit_policy(shared.mode),
            run: RunPolicy::default(),
        };
        let call = self.call(scope);
        shared.cache.probe(&call, &policy).await.is_ok()
    }

    /// Answers the request in its turn, unless the client cancels it.
    pub(super) async fn answer(self, shared: &Arc<Shared>, caller: Caller, turn: Turn) {
        let this = Arc::new(self);
        let place = tokio::select! {
            biased;
            () = caller.left() => return,
            place = turn.wait() => place,
        };
        let Caller { sender, call } = caller;
        let waiting = Arc::new(WaitingRequests(Mutex::new(Some(place))));
        tokio::select! {
            biased;
            // Leaving the run cancels it if it has no other caller.
            _ = call.cancelled() => {}
            () = this.answer_from_cache(shared, sender, &call, &waiting) => {}
        }
    }

    async fn answer_from_cache(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        sender: ExchangeSender,
        call_in_flight: &Arc<RequestInFlight>,
        waiting: &Arc<WaitingRequests>,
    ) {
        let this = self;
        let call = this.call(&this.scope);
        let key = Key::for_call(&call);
        let shown_key = key.to_string();
        let shown_key = &shown_key[..KEY_DIGITS];
        let is_answered = Arc::new(AtomicBool::new(false));
        let hit = this.hit_policy(shared.mode);
        let begun = shared.cache.through_with(
            KeyedCall::new(&call, key),
            &hit,
            || this.run_policy(shared, shown_key),
            |ticket| {
                let leader = Leader {
                    shared: Arc::clone(shared),
                    cached: Arc::clone(this),
                    sender: sender.clone(),
                    call: Arc::clone(call_in_flight),
                    waiting: Arc::clone(waiting),
                    is_answered: Arc::clone(&is_answered),
                };
                leader.run(ticket)
            },
        );
        let outcome = tokio::select! {
            outcome = begun => outcome,
            () = sender.cancelled() => return,
        };
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(miss) => {
                let id = this.request.id().unwrap_or("null");
                // Internal error: no server was asked.
                let error = Frame::error_response(id, -32603, &miss.to_string());
                sender.send(error);
                return;
            }
        };
        let unusable = match &outcome.status {
            CacheStatus::Hit | CacheStatus::LocalHit(_) | CacheStatus::Stale => {
                let now = shared.clock.now();
                let mark = mark_of_entry(&outcome, now, shown_key);
                match this.stored(&outcome, &mark).await {
                    Some(frame) => {
                        sender.send(frame);
                        return;
                    }
                    None => "its stored answer cannot be read".to_owned(),
                }
            }
            CacheStatus::Coalesced => {
                // The server has the request, or gets it from the caller that leads.
                waiting.release();
                let followed = this.follow(shared, &outcome, &sender, shown_key);
                match followed.await {
                    Followed::Answered | Followed::Cancelled => return,
                    Followed::Unusable(why) => why,
                }
            }
            CacheStatus::Miss(_) | CacheStatus::Bypass(_) => {
                wait_as_leader(outcome, &sender, &is_answered).await;
                return;
            }
        };
        drop(outcome);
        let caller = Caller {
            sender,
            call: Arc::clone(call_in_flight),
        };
        this.alone(shared, caller, unusable).await;
    }

    /// Returns the stored answer as the response to this request.
    async fn stored(&self, outcome: &Outcome, mark: &Mark<'_>) -> Option<Frame> {
        let stored = outcome.body.whole().await.ok()?;
        stored_response::decode(&stored, self.request.id()?, mark)
    }

    /// Waits for the answer of the run of another caller.
    async fn follow(
        &self,
        shared: &Shared,
        outcome: &Outcome,
        sender: &ExchangeSender,
        key: &str,
    ) -> Followed {
        let settled = outcome.settled();
        let mut reader = outcome.body.reader();
        loop {
            let chunk = tokio::select! {
                chunk = reader.next() => chunk,
                () = sender.cancelled() => return Followed::Cancelled,
            };
            match chunk {
                Some(Ok(chunk)) => {
                    // Anything else is the whole answer.
                    let kind = chunk.first();
                    if kind == Some(&NOTIFICATION) && !self.pass_notification(&chunk, sender) {
                        return Followed::Cancelled;
                    }
                    if kind == Some(&NOT_SHARED) {
                        let why = "the server asked the client of the other call something";
                        return Followed::Unusable(why.to_owned());
                    }
                }
                Some(Err(failure)) => return Followed::Unusable(failure.to_string()),
                None => break,
            }
        }
        drop(reader);
        // An answer that is not stored may be older than this request: its files may have changed before.
        let settled = tokio::select! {
            settled = settled => settled,
            () = sender.cancelled() => return Followed::Cancelled,
        };
        if let Err(reason) = settled.stored {
            return Followed::Unusable(reason.to_string());
        }
        let now = shared.clock.now();
        let mark = Mark {
            status: CacheStatus::Coalesced.as_str(),
            age_ms: 0,
            ttl_ms: settled.expires.map(|expires| until(now, expires)),
            key,
        };
        match self.stored(outcome, &mark).await {
            Some(frame) => {
                sender.send(frame);
                Followed::Answered
            }
            None => Followed::Unusable("its answer cannot be read".to_owned()),
        }
    }

    /// Passes a notification of the run on, with the progress token of this request. Returns false if the caller is
    /// gone.
    fn pass_notification(&self, chunk: &Bytes, sender: &ExchangeSender) -> bool {
        let Ok(frame) = Frame::parse(chunk.slice(1..)) else {
            return true;
        };
        let frame = match frame.method() {
            "notifications/progress" => match self.request.progress_token() {
                Some(token) => frame.with_ids(None, Some(token)),
                // It did not ask for progress.
                None => return true,
            },
            "notifications/message" if !self.wants_logs => return true,
            _ => frame,
        };
        sender.send(frame)
    }

    /// Runs the request for this caller only.
    async fn alone(&self, shared: &Arc<Shared>, caller: Caller, why: String) {
        let Caller {
            sender,
            call: call_in_flight,
        } = caller;
        let policy = Policy {
            hit: self.hit_policy(shared.mode),
            run: RunPolicy::default(),
        };
        let reason = Reason::Declined(why);
        let call = self.call(&self.scope);
        let ticket = shared.cache.bypass(&call, &policy, reason);
        let passed = Passed {
            request: self.request.clone(),
            context: self.context.clone(),
            sender,
            call: call_in_flight,
            is_write: false,
            ticket: Some(ticket),
            learns: self.learns(),
        };
        passed.run(shared).await;
    }

    fn learns(&self) -> Learns {
        match self.learns_for.clone() {
            Some(client) => Learns::Tools { client },
            None => Learns::Nothing,
        }
    }
}

/// Later requests of the session, which wait until the server has this one, or until it is known not to get it.
struct WaitingRequests(Mutex<Option<Place>>);

impl WaitingRequests {
    /// Lets them go on.
    fn release(&self) {
        drop(self.0.lock().take());
    }
}

/// The end of following a run.
enum Followed {
    Answered,
    Cancelled,
    /// The answer is not for this request, and why.
    Unusable(String),
}

/// Counts as a reader of the run until it is stored, or until the caller leaves without an answer.
async fn wait_as_leader(outcome: Outcome, sender: &ExchangeSender, is_answered: &AtomicBool) {
    let settled = outcome.settled();
    tokio::pin!(settled);
    tokio::select! {
        biased;
        _ = &mut settled => return,
        () = sender.cancelled() => {}
    }
    if is_answered.load(Ordering::SeqCst) {
        // The caller has its answer. The run is not abandoned before it is stored.
        settled.await;
    }
    drop(outcome);
}

/// Returns the mark of an answer of an entry.
fn mark_of_entry<'a>(outcome: &Outcome, now: Millis, key: &'a str) -> Mark<'a> {
    let entry = outcome.entry.as_ref();
    let created = entry.map_or(now, |entry| entry.created);
    let expires = entry.and_then(|entry| entry.expires);
    Mark {
        status: match outcome.status {
            CacheStatus::Stale => "stale",
            _ => "hit",
        },
        age_ms: until(created, now),
        ttl_ms: expires.map(|expires| until(now, expires)),
        key,
    }
}

/// Returns the milliseconds between two times; zero if they are in the other order.
fn until(from: Millis, to: Millis) -> u64 {
    u64::try_from(to.saturating_sub(from)).unwrap_or(0)
}

/// The run of a request, on behalf of the caller that leads it and of all that follow.
struct Leader {
    shared: Arc<Shared>,
    cached: Arc<CachedRequest>,
    /// The exchange of the caller that leads.
    sender: ExchangeSender,
    /// The request of that caller, which it may cancel while others follow.
    call: Arc<RequestInFlight>,
    waiting: Arc<WaitingRequests>,
    /// Set when that caller gets its response.
    is_answered: Arc<AtomicBool>,
}

impl Leader {
    async fn run(self, ticket: Ticket) {
        let (shared, cached) = (&self.shared, &self.cached);
        // Before the server reads the files.
        if !cached.plan.is_empty() && !observe(&ticket, cached).await {
            ticket
                .witness()
                .mark_incomplete("its files could not be recorded");
        }
        let generation = shared.definitions.generation();
        let asked_before = shared.server_requests.load(Ordering::SeqCst);
        let (request, context) = (cached.request.clone(), cached.context.clone());
        let ends = shared.upstream.ends();
        let mut exchange = shared.upstream.request(request, context).await;
        self.waiting.release();
        let response = loop {
            match exchange.next().await {
                Some(frame) if frame.kind() == FrameKind::Response => break frame,
                Some(frame) if frame.kind() == FrameKind::Request => {
                    let why = "the server asked the client something";
                    ticket.decline(Reason::Declined(why.to_owned()));
                    ticket.emit(Bytes::from_static(&[NOT_SHARED]));
                    shared.notice(&frame);
                    if !self.send(frame) {
                        // Only the client that leads can answer.
                        ticket.fail(Failure::new(PassError(why))).await;
                        return;
                    }
                }
                Some(frame) => {
                    shared.notice(&frame);
                    if !ticket.is_pipe() {
                        let mut chunk = Vec::with_capacity(1 + frame.bytes().len());
                        chunk.push(NOTIFICATION);
                        chunk.extend_from_slice(frame.bytes());
                        ticket.emit(chunk.into());
                    }
                    self.send(frame);
                }
                None => {
                    if shared.upstream.ends() != ends {
                        shared.restarted();
                    }
                    let failure = Failure::new(PassError("no response"));
                    ticket.fail(failure).await;
                    return;
                }
            }
        };
        let asked = shared.server_requests.load(Ordering::SeqCst) != asked_before;
        if let Some(client) = &cached.learns_for {
            shared.learn_tools(client, &cached.request, &response, generation);
        }
        if shared.upstream.ends() != ends {
            shared.restarted();
        }
        // Before it is sent: a caller that has read its response may leave at once.
        self.is_answered.store(true, Ordering::SeqCst);
        let (response, completion) = self.with_account(response, &ticket);
        self.send(response.clone());
        let stored = self.finish(ticket, &response, asked).await;
        if let Some(completion) = completion {
            let refusal = stored.err();
            completion.complete(refusal.map(|reason| shared.shown_reason(&reason)));
        }
    }

    /// Attaches the account of the run to its response.
    fn with_account(&self, response: Frame, ticket: &Ticket) -> (Frame, Option<AccountCompletion>) {
        let Some(reason) = ticket.status().reason() else {
            return (response, None);
        };
        let (account, completion) = CacheAccount::miss(self.shared.shown_reason(reason));
        (response.with_cache_account(account), Some(completion))
    }

    /// Passes a message on to the caller that leads. Returns false if it has cancelled its request, or is gone.
    fn send(&self, frame: Frame) -> bool {
        !self.call.is_cancelled() && self.sender.send(frame)
    }

    /// Stores the answer if it may be stored.
    ///
    /// # Errors
    /// The reason why it is not stored.
    async fn finish(
        &self,
        mut ticket: Ticket,
        response: &Frame,
        asked: bool,
    ) -> Result<(), Reason> {
        let judgment = Judgment::new(response, &self.cached.rule, MAX_BYTES);
        if response.error().is_some() {
            let failure = Failure::new(PassError("an error response"));
            return ticket.fail(failure).await.stored.map(|_| ());
        }
        if judgment.is_error {
            ticket.mark_error();
        }
        if let Some(lifetime) = judgment.lifetime {
            ticket.limit_ttl(lifetime);
        }
        let storable = if asked {
            let why = "the server asked a client something in the meantime";
            Err(Reason::Declined(why.to_owned()))
        } else {
            judgment.storable
        };
        let spent = Spend::for_call(ticket.elapsed());
        let is_shared = storable.is_ok() && judgment.is_public && !self.is_shared();
        let result = RunResult {
            storable,
            ..RunResult::storable(judgment.stored.clone(), spent)
        };
        let settled = ticket.finish(result).await;
        if is_shared && settled.stored.is_ok() {
            self.share(judgment.stored, judgment.lifetime, spent).await;
        }
        settled.stored.map(|_| ())
    }

    fn is_shared(&self) -> bool {
        matches!(
            self.cached.rule,
            Rule::Tool { .. }
                | Rule::Hinted {
                    is_shared: true,
                    ..
                }
        )
    }

    /// Stores an answer that the server declares public for all clients, too.
    async fn share(&self, stored: Bytes, lifetime: Option<Duration>, spent: Spend) {
        let (shared, cached) = (&self.shared, &self.cached);
        // Without a lookup: another client may have stored it at the same time.
        let mode = match shared.mode {
            CacheMode::On | CacheMode::Refresh => CacheMode::Refresh,
            _ => return,
        };
        let call = cached.call(&Scope::Global);
        let key = Key::for_call(&call);
        let hit = cached.hit_policy(mode);
        let run = cached.run_policy(shared, &key.to_string()[..KEY_DIGITS]);
        let cache: &Cache = &shared.cache;
        let begun = cache
            .begin_with(KeyedCall::new(&call, key), &hit, || &run)
            .await;
        if let Ok(BeginResult::Run(mut ticket)) = begun {
            // An announcement since the run began, but before this ticket, has expired the entry of the run.
            if !cached.has_entry(shared, &cached.scope).await {
                return;
            }
            if let Some(lifetime) = lifetime {
                ticket.limit_ttl(lifetime);
            }
            // The run has its own row in the ledger.
            ticket.subtract_nested(spent);
            ticket.finish(RunResult::storable(stored, spent)).await;
        }
    }
}

/// Records the state of the files that a call depends on, on a thread that may block.
async fn observe(ticket: &Ticket, cached: &Arc<CachedRequest>) -> bool {
    let (witness, cached) = (ticket.witness().clone(), Arc::clone(cached));
    witness.read_by_other_process();
    let observed = tokio::task::spawn_blocking(move || cached.plan.observe(&witness));
    observed.await.is_ok()
}
