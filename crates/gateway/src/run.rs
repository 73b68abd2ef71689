//! A run of a call: forwards the request, sends what arrives to all readers, and judges the answer at its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cachalot_cache::{EntryProvenance, Failure, Reason, RunResult, Ticket};
use cachalot_core::Spend;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::oneshot;

use crate::answer::{AnswerReader, AnswerReport};
use crate::answer_form::AnswerForm;
use crate::billing::{Billing, Charged};
use crate::budget::Reservation;
use crate::call_ids::has_any;
use crate::client::{self, UpstreamClient};
use crate::config::GuardConfig;
use crate::delivery::Delivery;
use crate::endpoint::Endpoint;
use crate::error_body::ErrorBody;
use crate::header;
use crate::kept_answers::{KeptAnswers, Receiver, References};
use crate::metrics::{Metrics, Payment};
use crate::outbound::Outbound;
use crate::payer::Payer;
use crate::prefix_watch::WatchedRequest;
use crate::price_bound;
use crate::recorded::{self, ChunkMark, RecordedHead};
use crate::telemetry::upstream_span::UpstreamSpan;
use crate::usage_filter::UsageFilter;

/// The reason why a sampled answer is not stored.
pub(crate) const SAMPLED: &str =
    "the answer is sampled; temperature 0, a seed or the base URL /p/AGENT/ makes it storable";

/// The status of a request that the provider refuses for what it contains: it would refuse it again.
pub(crate) const REFUSAL: StatusCode = StatusCode::BAD_REQUEST;

/// The condition under which a complete answer is stored.
#[derive(Clone)]
pub(crate) enum Keeping {
    /// Stored in any case.
    Always,
    /// Stored in any case; its delivery is tracked.
    Tracked(Arc<Delivery>),
    /// The client has left before the end.
    IfUndelivered(Arc<Delivery>),
}

impl Keeping {
    fn delivery(&self) -> Option<&Delivery> {
        match self {
            Self::Always => None,
            Self::Tracked(delivery) | Self::IfUndelivered(delivery) => Some(delivery),
        }
    }

    /// Decides about an answer, once its client has it or has left.
    async fn decide(&self) -> Result<(), Reason> {
        match self {
            Self::IfUndelivered(delivery) if delivery.is_delivered().await => {
                Err(Reason::Declined(SAMPLED.into()))
            }
            _ => Ok(()),
        }
    }
}

/// The context in which a run sends its request and accounts for its answer.
pub(crate) struct RunContext {
    pub(crate) client: UpstreamClient,
    pub(crate) billing: Billing,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) endpoint: Endpoint,
    /// Name of the upstream.
    pub(crate) upstream: String,
    /// The requested model.
    pub(crate) model: String,
    /// The key of the gateway that pays for the run.
    pub(crate) payer: Option<Payer>,
    /// True if a credential of the operator is sent.
    pub(crate) is_of_operator: bool,
    /// True if the gateway has asked for the usage of the stream, and the client has not.
    pub(crate) hides_usage: bool,
    /// The form that was asked for.
    pub(crate) form: AnswerForm,
    /// The request, if its prefix is analyzed.
    pub(crate) watched: Option<WatchedRequest>,
    /// The guard before an expired prefix.
    pub(crate) guard: Option<GuardConfig>,
    /// What a request of a recording names of earlier answers.
    pub(crate) references: Option<References>,
    /// Who gets the answer, if the provider keeps it for later requests.
    pub(crate) kept_for: Option<(KeptAnswers, Receiver)>,
    /// The IDs of calls that the key of the request has by their order only.
    pub(crate) numbered_calls: Vec<String>,
    /// True in a recording: a refusal of the request is a part of it.
    pub(crate) keeps_refusals: bool,
    /// Maximum time between two chunks of an answer.
    pub(crate) idle_timeout: Duration,
    pub(crate) span: UpstreamSpan,
}

/// The beginning of an answer, for the client whose request it answers.
pub(crate) enum RunHead {
    /// Status and headers of the upstream's response.
    Upstream(StatusCode, HeaderMap),
    /// The expired entry that is served in place of an error.
    Stale(EntryProvenance),
}

/// The error of a run whose upstream did not answer to the end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct RunError(pub(crate) String);

impl RunContext {
    /// Runs the call of a ticket. The head of the answer also goes to `head`.
    pub(crate) async fn run(
        self,
        ticket: Ticket,
        outbound: Result<Outbound, ErrorBody>,
        head: oneshot::Sender<Result<RunHead, ErrorBody>>,
        keeping: Keeping,
    ) {
        let _counted = RunCount::new(&self.metrics);
        if let Some(delivery) = keeping.delivery() {
            delivery.begin_run();
        }
        let sent = match outbound {
            Ok(outbound) => self.send(&outbound).await,
            Err(fault) => Err(fault),
        };
        let is_failure = match &sent {
            Ok((response, _)) => response.status().is_server_error(),
            Err(fault) => fault.is_of_upstream(),
        };
        // Before the head is sent: the client receives the expired entry in place of the error.
        if is_failure && let Some((provenance, entry)) = expired_entry(&ticket).await {
            // The client may have left.
            let _ = head.send(Ok(RunHead::Stale(provenance)));
            self.span.close();
            let reason = "the upstream failed, and an expired answer was served";
            let result = RunResult {
                value: Some(entry),
                storable: Err(Reason::Declined(reason.into())),
                spent: Spend::for_call(ticket.elapsed()),
                labels: Vec::new(),
            };
            ticket.finish(result).await;
            return;
        }
        let (response, reservation) = match sent {
            Ok(sent) => sent,
            Err(fault) => {
                let failure = Failure::new(RunError(fault.message.clone()));
                // The client may have left.
                let _ = head.send(Err(fault));
                ticket.fail(failure).await;
                return;
            }
        };
        let (parts, mut body) = response.into_parts();
        let recorded = RecordedHead {
            status: parts.status.as_u16(),
            headers: header::stored(&parts.headers),
            endpoint: self.endpoint,
            form: self.form.number(),
        };
        let mut reader = AnswerReader::new(
            self.endpoint,
            self.form.is_events(),
            parts.status,
            &parts.headers,
        )
        .with_kept_ids(self.kept_for.is_some());
        // Before the first chunk, so that no caller joins a run that answers with an error.
        let is_kept_refusal = self.keeps_refusals && parts.status == REFUSAL;
        if parts.status != StatusCode::OK && !is_kept_refusal {
            let reason = format!("the upstream answered {}", parts.status.as_u16());
            ticket.decline(Reason::Declined(reason));
        }
        ticket.emit(recorded.encode());
        let headers = header::for_client(&parts.headers, self.is_of_operator);
        let _ = head.send(Ok(RunHead::Upstream(parts.status, headers)));
        let length = header::content_length(&parts.headers);
        if let (Some(delivery), Some(length)) = (keeping.delivery(), length) {
            delivery.expect(length);
        }
        let mut unfinished = UnfinishedRun {
            context: &self,
            ticket: &ticket,
            status: Some(parts.status),
        };
        let filter = self.usage_filter(&parts.headers);
        let received = self
            .receive(&ticket, &mut body, &mut reader, filter, &keeping)
            .await;
        let record = match received {
            Ok(record) => record,
            Err(error) => {
                // Charges the ticket before it fails, so that its row in the ledger has the charge.
                drop(unfinished);
                ticket.fail(Failure::new(error)).await;
                return;
            }
        };
        unfinished.status = None;
        drop(unfinished);
        let report = reader.finish();
        let spent = self
            .account(&ticket, parts.status, &report, reservation)
            .await;
        // After the accounting, because it waits until the client has read the answer.
        let storable = match report.refusal {
            Some(_) if is_kept_refusal => Ok(()),
            Some(reason) => Err(Reason::Declined(reason)),
            // The engine has the reason.
            None if ticket.is_pipe() => Ok(()),
            None => keeping.decide().await,
        };
        let value = record.finish(&recorded);
        let names_a_call = |value: &Bytes| has_any(value, &self.numbered_calls);
        let storable = match &value {
            // To another request with the same key, it would name a call that it does not have.
            Some(value) if storable.is_ok() && names_a_call(value) => {
                let reason = "the answer has the ID of a call of its request";
                Err(Reason::Declined(reason.to_owned()))
            }
            _ => storable,
        };
        let result = RunResult {
            value,
            storable,
            spent,
            labels: Vec::new(),
        };
        ticket.finish(result).await;
    }

    /// Receives an answer to its end. A part of it is requested when there is room for it.
    async fn receive(
        &self,
        ticket: &Ticket,
        body: &mut Incoming,
        reader: &mut AnswerReader,
        mut filter: Option<UsageFilter>,
        keeping: &Keeping,
    ) -> Result<BodyRecord, RunError> {
        let mut record = BodyRecord::new();
        loop {
            if ticket.is_pipe() {
                record.discard();
            }
            ticket.room().await;
            let mut chunk = match next_chunk(body, self.idle_timeout).await {
                Some(chunk) => chunk?,
                None => match filter.take().map(UsageFilter::finish) {
                    Some(rest) if !rest.is_empty() => {
                        record.push(&rest);
                        ticket.emit(rest);
                        break;
                    }
                    _ => break,
                },
            };
            // Unfiltered: the charge needs the usage that the client does not receive.
            reader.push(&chunk);
            if let Some(filter) = &mut filter {
                chunk = filter.push(&chunk);
                if chunk.is_empty() {
                    continue;
                }
            }
            record.push(&chunk);
            // A client may leave once the answer is complete, before its body ends.
            if let Some(delivery) = keeping.delivery()
                && reader.is_complete()
            {
                delivery.expect(record.bytes);
            }
            ticket.emit(chunk);
        }
        if let Some(delivery) = keeping.delivery() {
            delivery.expect(record.bytes);
        }
        Ok(record)
    }

    /// Returns the filter for an answer with these headers, if the client must not get its usage.
    pub(crate) fn usage_filter(&self, headers: &HeaderMap) -> Option<UsageFilter> {
        let is_plain = header::media_type(headers) == "text/event-stream"
            && !headers.contains_key(http::header::CONTENT_ENCODING)
            && header::content_length(headers).is_none();
        (self.hides_usage && is_plain).then(UsageFilter::default)
    }

    /// Reserves the maximum cost of a request, sends it, and waits for the head of the response.
    ///
    /// # Errors
    /// The response to the client.
    pub(crate) async fn send(
        &self,
        outbound: &Outbound,
    ) -> Result<(Response<Incoming>, Option<Reservation>), ErrorBody> {
        if let Some(references) = &self.references {
            references.check().await?;
        }
        if let (Some(watched), Some(guard)) = (&self.watched, self.guard) {
            watched.guard(guard.above).await?;
        }
        let reservation = match &self.payer {
            Some(payer) => payer.reserve().await?,
            None => None,
        };
        let sent = self.client.send(outbound, &self.span).await;
        if let (Some(watched), Ok(response)) = (&self.watched, &sent)
            && response.status().is_success()
        {
            watched.begun();
        }
        match (sent, reservation) {
            // Providers do not charge for errors, and the client may not read this one to its end.
            (Ok(response), Some(reservation)) if !response.status().is_success() => {
                reservation.settle(0).await;
                Ok((response, None))
            }
            (Ok(response), reservation) => Ok((response, reservation)),
            (Err(fault), Some(reservation)) if is_unsent(&fault) => {
                reservation.settle(0).await;
                Err(fault)
            }
            // The provider may have received the request.
            (Err(fault), _) => Err(fault),
        }
    }

    /// Accounts for an answer that was received to its end: charges the ticket, and returns the rest of its cost.
    /// Providers do not charge for errors.
    pub(crate) async fn account(
        &self,
        ticket: &Ticket,
        status: StatusCode,
        report: &AnswerReport,
        reservation: Option<Reservation>,
    ) -> Spend {
        if !status.is_success() {
            ticket.mark_error();
        }
        if let Some((kept_answers, receiver)) = &self.kept_for {
            kept_answers.note(receiver, &report.kept_ids).await;
        }
        let charged = if status.is_success() {
            self.billing.charge(report)
        } else {
            Charged::default()
        };
        self.metrics.pay(self.payment(), &charged);
        let Charged {
            spend: charged,
            unpriced,
            ..
        } = charged;
        self.span.finish(report, charged, unpriced.as_deref());
        // Counts even if the run is abandoned before it ends.
        ticket.charge(charged);
        if let Some(reason) = unpriced {
            ticket.explain_unpriced(reason);
        }
        if let Some(payer) = &self.payer {
            payer.count(charged);
        }
        if let Some(watched) = &self.watched
            && status == StatusCode::OK
        {
            watched.answered(report);
        }
        // Without a known price, the maximum stays reserved.
        let cost = price_bound::picodollars(charged.cost).filter(|_| !report.is_usage_partial);
        if let (Some(reservation), Some(cost)) = (reservation, cost) {
            reservation.settle(cost).await;
        }
        Spend::for_call(ticket.elapsed())
    }

    /// Accounts for an answer whose end was not received: the provider may have charged for it.
    pub(crate) fn account_unfinished(&self, ticket: &Ticket, status: StatusCode) {
        self.span.cut_off();
        if status.is_success() {
            let mut charged = self.billing.charge(&AnswerReport::default());
            let reason = "the end of the answer was not received";
            charged.unpriced = charged.unpriced.map(|_| reason.to_owned());
            self.metrics.pay(self.payment(), &charged);
            ticket.charge(charged.spend);
            if let Some(reason) = charged.unpriced {
                ticket.explain_unpriced(reason);
            }
        }
    }

    fn payment(&self) -> Payment<'_> {
        Payment {
            upstream: &self.upstream,
            model: &self.model,
            key: self.payer.as_ref().map_or("", |payer| payer.key.name()),
        }
    }
}

/// Returns true if nothing was sent.
fn is_unsent(fault: &ErrorBody) -> bool {
    matches!(fault.code, client::UNREACHABLE | client::PAUSED)
}

/// Returns the expired entry of a call that may be served in place of an error.
async fn expired_entry(ticket: &Ticket) -> Option<(EntryProvenance, Bytes)> {
    let outcome = ticket.stale().await?;
    Some((outcome.entry?, outcome.body.whole().await.ok()?))
}

/// A run whose answer has begun. If it is dropped before the end, the provider may have charged for it.
struct UnfinishedRun<'a> {
    context: &'a RunContext,
    ticket: &'a Ticket,
    /// `None` once the answer was received to its end.
    status: Option<StatusCode>,
}

impl Drop for UnfinishedRun<'_> {
    fn drop(&mut self) {
        if let Some(status) = self.status {
            self.context.account_unfinished(self.ticket, status);
        }
    }
}

/// Counts a run in progress until it is dropped.
struct RunCount(Arc<Metrics>);

impl RunCount {
    fn new(metrics: &Arc<Metrics>) -> Self {
        metrics.runs.inc();
        Self(Arc::clone(metrics))
    }
}

impl Drop for RunCount {
    fn drop(&mut self) {
        self.0.runs.dec();
    }
}

/// Returns the next bytes of a body; trailers are dropped. `None` at the end.
pub(crate) async fn next_chunk(
    body: &mut Incoming,
    timeout: Duration,
) -> Option<Result<Bytes, RunError>> {
    loop {
        let frame = match tokio::time::timeout(timeout, body.frame()).await {
            Err(_) => {
                let message = format!("the upstream sent nothing for {} s", timeout.as_secs());
                return Some(Err(RunError(message)));
            }
            Ok(None) => return None,
            Ok(Some(Err(error))) => {
                let message = format!("the upstream's answer was cut off: {error}");
                return Some(Err(RunError(message)));
            }
            Ok(Some(Ok(frame))) => frame,
        };
        if let Ok(chunk) = frame.into_data()
            && !chunk.is_empty()
        {
            return Some(Ok(chunk));
        }
    }
}

/// A body as far as it has arrived, with its timing.
struct BodyRecord {
    /// `None` if the answer is not stored.
    kept: Option<(Vec<Bytes>, Vec<ChunkMark>)>,
    bytes: u64,
    last: Instant,
}

impl BodyRecord {
    fn new() -> Self {
        Self {
            kept: Some((Vec::new(), Vec::new())),
            bytes: 0,
            last: Instant::now(),
        }
    }

    /// Frees the bytes, and keeps none from now on.
    fn discard(&mut self) {
        self.kept = None;
    }

    fn push(&mut self, chunk: &Bytes) {
        let now = Instant::now();
        let pause = now.saturating_duration_since(self.last).as_millis();
        self.last = now;
        self.bytes += chunk.len() as u64;
        if let Some((chunks, marks)) = &mut self.kept {
            marks.push(ChunkMark {
                after_ms: u32::try_from(pause).unwrap_or(u32::MAX),
                bytes: chunk.len() as u32,
            });
            chunks.push(chunk.clone());
        }
    }

    /// Returns the entry; `None` if the answer is not stored.
    fn finish(self, head: &RecordedHead) -> Option<Bytes> {
        let (chunks, marks) = self.kept?;
        Some(recorded::encode_entry(head, &marks, &chunks))
    }
}
