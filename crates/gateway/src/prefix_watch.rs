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
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::answer::AnswerReport;
use crate::checksum;
use crate::metrics::{Metrics, Payment as PaymentLabels};
use crate::pieces::PieceBody;

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
    /// A name that no other process with the same store has.
    pub(crate) process: String,
}

/// A request that is sent to an upstream.
pub(crate) struct SentRequest {
    pub(crate) tenant: String,
    pub(crate) session: Option<String>,
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
        }
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
        let Ok(LivePlacement {
            conversation,
            prefix,
            diagnosis: Some(found),
            ..
        }) = placed
        else {
            return;
        };
        if !found.is_break() {
            return;
        }
        let mut known = record::members(usage, Some(&found));
        known.insert("session".to_owned(), json!(conversation));
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

/// Calls `analyze` with a request as its provider compares it. Upstreams have separate caches.
fn live<T>(request: &SentRequest, analyze: impl FnOnce(LiveRequest<'_>) -> T) -> T {
    let tenant = format!("{}\n{}", request.upstream, request.tenant);
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
