//! Observation of prefixes: a thread recognizes the conversations of all clients, and records their breaks in the
//! ledger and in the statistics.
//!
//! A response never waits for it. A request is handed over when its answer is complete; if the thread is too far
//! behind, the request is left out and counted.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

use bytes::Bytes;
use cachalot_cache::{Key, Ledger, Payment, Scope};
use cachalot_core::{Canonical, Millis, SecretSet, Spend};
use cachalot_model::Catalog;
use cachalot_prefix::diagnosis::Diagnosis;
use cachalot_prefix::log::{
    LiveAnalyzer, LiveAnswer, LiveBody, LivePlacement, LiveRequest, OpenLimits,
};
use cachalot_prefix::record;
use http::HeaderValue;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::answer::AnswerReport;
use crate::checksum;
use crate::cold_prefix::{self, Refusals};
use crate::config::KeepAliveConfig;
use crate::error_body::ErrorBody;
use crate::metrics::{Metrics, Payment as PaymentLabels};
use crate::pieces::PieceBody;
use crate::renewal_notice::{AnsweredRequest, Notice, Renew};

/// Name of the header of a response.
pub(crate) const HEADER: &str = "x-cachalot-prefix";

/// Maximum size of a body that is analyzed, in bytes.
const MAX_BODY: usize = 8 << 20;
/// Maximum size of all bodies that wait for their answers or for the thread, in units.
const ROOM: usize = (64 << 20) / UNIT;
/// Bytes for which one permit stands.
const UNIT: usize = 1_024;
/// Maximum number of requests that wait for the thread.
const MAX_WAITING: usize = 1_024;
/// Time for which the thread waits for further answers, so that it is not woken for each of them.
const BATCH_DELAY: Duration = Duration::from_millis(20);
/// Maximum time for which a request waits for the guard.
const GUARD_WITHIN: Duration = Duration::from_millis(500);
/// Limits for the conversations.
const LIMITS: OpenLimits = OpenLimits {
    conversations: 256,
    bytes: 24 << 20,
};

/// Hands requests over to the thread.
pub(crate) struct PrefixWatch {
    sender: SyncSender<Message>,
    thread: Thread,
    room: Arc<Semaphore>,
    metrics: Arc<Metrics>,
}

/// Parts of a gateway that the thread needs.
pub(crate) struct WatchParts {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) secret_set: Arc<SecretSet>,
    pub(crate) ledger: Ledger,
    pub(crate) metrics: Arc<Metrics>,
    /// Receives the answered requests whose prefixes may be renewed.
    pub(crate) keep_alive: mpsc::Sender<Notice>,
    /// A name that no other process with the same store has.
    pub(crate) process: String,
}

/// A request that is sent to an upstream.
pub(crate) struct SentRequest {
    pub(crate) tenant: String,
    pub(crate) session: Option<String>,
    /// The sub-agent that the request is of.
    pub(crate) sub_agent: Option<String>,
    /// Name of the upstream.
    pub(crate) upstream: String,
    /// True if the upstream does not compare the checksum of Claude Code.
    pub(crate) ignores_checksum: bool,
    pub(crate) model: String,
    /// Name of the client's key of the gateway; empty without one.
    pub(crate) key: String,
    /// The key of the call, under which the ledger has the request.
    pub(crate) call: Key,
    pub(crate) body: SentBody,
    /// Size of the body in bytes.
    pub(crate) bytes: usize,
    pub(crate) at: Millis,
    /// The request that renews its prefix, if the operator wants that.
    pub(crate) keep_alive: Option<(KeepAliveConfig, Arc<dyn Renew>)>,
    /// True if requests with an expired prefix are refused.
    pub(crate) is_guarded: bool,
}

impl SentRequest {
    fn live<'a>(&'a self, tenant: &'a str, body: LiveBody<'a>) -> LiveRequest<'a> {
        LiveRequest {
            tenant,
            session: self.session.as_deref(),
            body,
            at: self.at,
        }
    }
}

/// A body as it is sent.
pub(crate) enum SentBody {
    Text(Bytes),
    Pieces(Arc<PieceBody>),
}

/// A sent request, and room for its body until it is analyzed.
#[derive(Clone)]
pub(crate) struct WatchedRequest {
    watch: Arc<PrefixWatch>,
    held: Arc<Held>,
}

struct Held {
    request: SentRequest,
    _room: OwnedSemaphorePermit,
}

/// The value of [`HEADER`], once it is known.
pub(crate) type PreviousBreak = Arc<OnceLock<HeaderValue>>;

enum Message {
    /// A request was sent: which break had the one before?
    Sent(Arc<Held>, PreviousBreak),
    Answered(Arc<Held>, LiveAnswer),
    /// A request will be sent: has its prefix expired, which costs more than these picodollars? The answer is what to
    /// refuse it with.
    Guarded(Arc<Held>, u64, oneshot::Sender<Option<ErrorBody>>),
    /// The upstream has begun to answer: the prefix of the conversation was read.
    Begun(Arc<Held>),
    /// The prefix of the conversation with this number was read.
    Renewed(u64, Millis),
}

impl PrefixWatch {
    /// Starts the thread, which ends when the watch and all watched requests are dropped.
    ///
    /// # Errors
    /// The system has no room for a thread.
    pub(crate) fn start(parts: WatchParts) -> io::Result<Arc<Self>> {
        let (sender, receiver) = sync_channel(MAX_WAITING);
        let metrics = Arc::clone(&parts.metrics);
        let recorder = Recorder {
            analyzer: LiveAnalyzer::new(
                parts.catalog,
                Arc::clone(&parts.secret_set),
                LIMITS,
                &parts.process,
            ),
            secret_set: parts.secret_set,
            ledger: parts.ledger,
            metrics: parts.metrics,
            keep_alive: parts.keep_alive,
            refusals: Refusals::default(),
        };
        let handle = thread::Builder::new()
            .name("prefix-watch".to_owned())
            .spawn(move || recorder.run(&receiver))?;
        Ok(Arc::new(Self {
            sender,
            thread: handle.thread().clone(),
            room: Arc::new(Semaphore::new(ROOM)),
            metrics,
        }))
    }

    /// Watches a request. `None` if its body is too long, or other requests take all room.
    pub(crate) fn watch(self: &Arc<Self>, request: SentRequest) -> Option<WatchedRequest> {
        let units = request.bytes / UNIT + 1;
        // Never waits for room: the analysis must not delay a request.
        let room = if request.bytes <= MAX_BODY {
            Arc::clone(&self.room).try_acquire_many_owned(units as u32)
        } else {
            Err(tokio::sync::TryAcquireError::NoPermits)
        };
        let Ok(room) = room else {
            self.metrics.prefix_skipped.inc();
            return None;
        };
        Some(WatchedRequest {
            watch: Arc::clone(self),
            held: Arc::new(Held {
                request,
                _room: room,
            }),
        })
    }

    /// Waits until all watched requests are analyzed, for a limited time.
    pub(crate) async fn finish(&self, within: Duration) {
        // All room is free only when no watched request is left.
        let all = self.room.acquire_many(ROOM as u32);
        // Requests that are left at the end are not recorded.
        let _ = tokio::time::timeout(within, all).await;
    }

    /// Notes that the prefix of a conversation was read by a request that is none of it.
    pub(crate) fn renewed(&self, conversation: u64, at: Millis) {
        // At worst, the next request is taken for one with an expired prefix.
        let _ = self.sender.try_send(Message::Renewed(conversation, at));
    }

    fn send(&self, message: Message) {
        if self.sender.try_send(message).is_err() {
            self.metrics.prefix_skipped.inc();
        }
    }
}

impl WatchedRequest {
    /// Asks for the break of the request before in the conversation.
    pub(crate) fn ask_for_previous(&self, previous: &PreviousBreak) {
        let message = Message::Sent(Arc::clone(&self.held), Arc::clone(previous));
        // Without an answer, the response has no header.
        let _ = self.watch.sender.try_send(message);
        self.watch.thread.unpark();
    }

    /// Refuses a request once that would write an expired prefix again, if that costs more than `above` picodollars.
    ///
    /// # Errors
    /// The response to the client.
    pub(crate) async fn guard(&self, above: u64) -> Result<(), ErrorBody> {
        let (sender, refusal) = oneshot::channel();
        let message = Message::Guarded(Arc::clone(&self.held), above, sender);
        if self.watch.sender.try_send(message).is_err() {
            return Ok(());
        }
        self.watch.thread.unpark();
        // A request never waits for long: without an answer in time, it is sent.
        match tokio::time::timeout(GUARD_WITHIN, refusal).await {
            Ok(Ok(Some(refusal))) => Err(refusal),
            _ => Ok(()),
        }
    }

    /// Notes that the upstream has begun to answer, for the guard and for renewals: the client may not read the answer to
    /// its end.
    pub(crate) fn begun(&self) {
        let request = &self.held.request;
        if request.is_guarded || request.keep_alive.is_some() {
            // Without it, the conversation counts as idle until the answer is complete.
            let _ = self
                .watch
                .sender
                .try_send(Message::Begun(Arc::clone(&self.held)));
        }
    }

    /// Records that the request was answered.
    pub(crate) fn answered(&self, report: &AnswerReport) {
        let answer = LiveAnswer {
            usage: report.usage,
            id: report.id.clone(),
            verdict: report.verdict,
        };
        self.watch
            .send(Message::Answered(Arc::clone(&self.held), answer));
    }
}

/// The state of the thread.
struct Recorder {
    analyzer: LiveAnalyzer,
    secret_set: Arc<SecretSet>,
    ledger: Ledger,
    metrics: Arc<Metrics>,
    keep_alive: mpsc::Sender<Notice>,
    refusals: Refusals,
}

impl Recorder {
    fn run(mut self, receiver: &Receiver<Message>) {
        while let Ok(message) = receiver.recv() {
            let may_wait = matches!(message, Message::Answered(..));
            self.handle(message);
            // Waits for further answers. A request that asks for a header wakes the thread (`ask_for_previous`).
            if may_wait {
                thread::park_timeout(BATCH_DELAY);
            }
            receiver.try_iter().for_each(|message| self.handle(message));
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Sent(held, previous) => self.look(&held.request, &previous),
            Message::Answered(held, answer) => self.record(&held.request, answer),
            // The request was sent in the meantime.
            Message::Guarded(_, _, sender) if sender.is_closed() => {}
            Message::Begun(held) => self.begin(&held.request),
            Message::Guarded(held, above, sender) => {
                // The client may have left.
                let _ = sender.send(self.guard(&held.request, above));
            }
            Message::Renewed(number, at) => self.analyzer.renew(number, at),
        }
    }

    fn begin(&mut self, request: &SentRequest) {
        let continued = live(request, |live| self.analyzer.begin(live));
        if let Ok(Some(number)) = continued {
            // If the task is behind, a renewal may be sent that is not needed.
            let notice = Notice::Continued(number, request.at);
            let _ = self.keep_alive.try_send(notice);
        }
    }

    /// Returns what to refuse a request with.
    fn guard(&mut self, request: &SentRequest, above: u64) -> Option<ErrorBody> {
        let found = live(request, |live| self.analyzer.cold_prefix(live));
        let (conversation, cold) = found.ok()??;
        let cost = cold.cost.filter(|cost| cost.picodollars > above)?;
        if !self.refusals.refuse(conversation, request.at) {
            return None;
        }
        self.metrics.prefix_refusals.inc();
        Some(cold_prefix::refusal(&cold, cost))
    }

    fn look(&mut self, request: &SentRequest, previous: &PreviousBreak) {
        let found = live(request, |live| {
            let found = self.analyzer.last_break(live).ok()??;
            HeaderValue::from_str(&header(found)).ok()
        });
        if let Some(value) = found {
            let _ = previous.set(value);
        }
    }

    fn record(&mut self, request: &SentRequest, answer: LiveAnswer) {
        let usage = answer.usage;
        let placed = live(request, |live| self.analyzer.take(live, answer));
        let Ok(placed) = placed else { return };
        if let Some((config, renewal)) = &request.keep_alive {
            let answered = AnsweredRequest {
                number: placed.number,
                previous_number: placed.previous_number,
                at: request.at,
                client: request.tenant.clone(),
                conversation: placed.conversation.clone(),
                prefix: placed.prefix,
                cached: placed.cached,
                read: usage.map_or(0, |usage| usage.cache_read),
                config: *config,
                renewal: Arc::clone(renewal),
            };
            // If the task is behind, the prefix expires.
            let _ = self
                .keep_alive
                .try_send(Notice::Answered(Box::new(answered)));
        }
        let LivePlacement {
            conversation,
            prefix,
            diagnosis: Some(found),
            ..
        } = placed
        else {
            return;
        };
        if !found.is_break() {
            return;
        }
        let mut known = record::members(usage, Some(&found));
        known.insert("session".to_owned(), json!(conversation));
        if let Some(sub_agent) = &request.sub_agent {
            known.insert("sub_agent".to_owned(), json!(sub_agent));
        }
        known.insert("upstream".to_owned(), json!(request.upstream));
        known.insert("request".to_owned(), json!(request.call.to_string()));
        self.ledger.record_payment(Payment {
            at: request.at,
            model: &format!("{}/{}", request.upstream, request.model),
            scope: &Scope::User(request.tenant.clone()),
            session: &conversation,
            on_behalf_of: None,
            prefix,
            input: Canonical::value(&known.into()),
            reason: Some(found.to_string()),
            // The row of the request itself has its cost.
            paid: Spend::default(),
            saved: Spend::default(),
            secret_set: &self.secret_set,
        });
        let labels = PaymentLabels {
            upstream: &request.upstream,
            model: &request.model,
            key: &request.key,
        };
        self.metrics
            .count_break(labels, found.reason.as_str(), found.lost_tokens);
    }
}

/// Calls `analyze` with a request as its provider compares it. Upstreams have separate caches, and sub-agents of a session
/// separate conversations.
fn live<T>(request: &SentRequest, analyze: impl FnOnce(LiveRequest<'_>) -> T) -> T {
    let sub_agent = request.sub_agent.as_deref().unwrap_or_default();
    let tenant = format!("{}\n{}\n{sub_agent}", request.upstream, request.tenant);
    match &request.body {
        SentBody::Pieces(body) => body.with_parts(|parts| {
            let body = LiveBody::Parts(parts);
            analyze(request.live(&tenant, body))
        }),
        SentBody::Text(body) => {
            let changed = if request.ignores_checksum {
                checksum::without_checksum(body)
            } else {
                None
            };
            let body = LiveBody::Text(changed.as_deref().unwrap_or(body));
            analyze(request.live(&tenant, body))
        }
    }
}

/// Returns the value of the header: an item with parameters (RFC 8941), without texts of the conversation.
fn header(found: &Diagnosis) -> String {
    let cause = found.cause.map(|cause| format!("; cause={}", cause.code()));
    format!(
        "previous; reason={}{}; lost_tokens={}",
        found.reason,
        cause.unwrap_or_default(),
        found.lost_tokens
    )
}
