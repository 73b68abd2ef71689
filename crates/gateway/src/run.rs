//! A run of a call: forwards the request, sends what arrives to all readers, and judges the answer at its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use cachalot_cache::{Failure, Reason, RunResult, Ticket};
use cachalot_core::Spend;
use cachalot_model::Catalog;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::oneshot;

use crate::answer::{AnswerReader, AnswerReport, charge};
use crate::budget::Reservation;
use crate::client::UpstreamClient;
use crate::delivery::Delivery;
use crate::endpoint::Endpoint;
use crate::error_body::ErrorBody;
use crate::header;
use crate::metrics::{Metrics, Payment};
use crate::outbound::Outbound;
use crate::payer::Payer;
use crate::price_bound;
use crate::recorded::{ChunkMark, Recorded, RecordedHead};

/// The reason why a sampled answer is not stored.
pub(crate) const SAMPLED: &str =
    "the answer is sampled; temperature 0, a seed or the base URL /p/AGENT/ makes it storable";

/// The condition under which a complete answer is stored.
#[derive(Clone)]
pub(crate) enum Keeping {
    /// None.
    Always,
    /// None; its delivery is tracked.
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

/// What a run needs to send its request and to account for its answer.
#[derive(Clone)]
pub(crate) struct RunContext {
    pub(crate) client: UpstreamClient,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) endpoint: Endpoint,
    /// Name of the upstream.
    pub(crate) upstream: String,
    /// The requested model.
    pub(crate) model: String,
    /// The key of the gateway that pays for the run.
    pub(crate) payer: Option<Payer>,
    /// True if a stream of events was asked for.
    pub(crate) is_streamed: bool,
    /// Maximum time between two chunks of an answer.
    pub(crate) idle_timeout: Duration,
    /// Maximum size of an answer that is read by others than its first client.
    pub(crate) max_bytes: u64,
}

/// The beginning of an upstream's answer, for the client whose request it answers.
pub(crate) type RunHead = Result<(StatusCode, HeaderMap), ErrorBody>;

/// The error of a run whose upstream did not answer to the end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct RunError(pub(crate) String);

impl RunContext {
    /// Runs the call of a ticket. The head goes to `head`, too, with all headers.
    pub(crate) async fn run(
        self,
        ticket: Ticket,
        outbound: Result<Outbound, ErrorBody>,
        head: oneshot::Sender<RunHead>,
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
        };
        let mut reader = AnswerReader::new(
            self.endpoint,
            self.is_streamed,
            parts.status,
            &parts.headers,
        );
        ticket.emit(recorded.encode());
        let _ = head.send(Ok((parts.status, header::for_client(&parts.headers))));
        let length = header::content_length(&parts.headers);
        if let (Some(delivery), Some(length)) = (keeping.delivery(), length) {
            delivery.expect(length);
        }
        let mut record = BodyRecord::new();
        loop {
            let chunk = match next_chunk(&mut body, self.idle_timeout).await {
                None => break,
                Some(Ok(chunk)) => chunk,
                Some(Err(error)) => {
                    self.account_unfinished(&ticket, parts.status, reservation)
                        .await;
                    ticket.fail(Failure::new(error)).await;
                    return;
                }
            };
            reader.push(&chunk);
            record.push(&chunk);
            if let Some(delivery) = keeping.delivery()
                && reader.is_complete()
            {
                delivery.expect(record.bytes);
            }
            if record.bytes > self.max_bytes {
                let message = format!("the answer is longer than {} bytes", self.max_bytes);
                self.account_unfinished(&ticket, parts.status, reservation)
                    .await;
                ticket.fail(Failure::new(RunError(message))).await;
                return;
            }
            ticket.emit(chunk);
        }
        if let Some(delivery) = keeping.delivery() {
            delivery.expect(record.bytes);
        }
        let report = reader.finish();
        let spent = self
            .account(&ticket, parts.status, &report, reservation)
            .await;
        let storable = match report.refusal {
            Some(reason) => Err(Reason::Declined(reason)),
            None => keeping.decide().await,
        };
        let result = RunResult {
            value: Some(record.finish(recorded)),
            storable,
            spent,
            labels: Vec::new(),
        };
        ticket.finish(result).await;
    }

    /// Reserves the maximum cost of a request, sends it, and waits for the head of the response.
    ///
    /// # Errors
    /// The response to the client.
    pub(crate) async fn send(
        &self,
        outbound: &Outbound,
    ) -> Result<(Response<Incoming>, Option<Reservation>), ErrorBody> {
        let reservation = match &self.payer {
            Some(payer) => payer.reserve().await?,
            None => None,
        };
        let sent = self.client.send(outbound).await;
        match (sent, reservation) {
            (Ok(response), reservation) => Ok((response, reservation)),
            // The provider may have received the request.
            (Err(fault), _) if fault.status == StatusCode::GATEWAY_TIMEOUT => Err(fault),
            (Err(fault), reservation) => {
                if let Some(reservation) = reservation {
                    reservation.settle(0).await;
                }
                Err(fault)
            }
        }
    }

    /// Accounts for an answer that was received to its end; returns its cost. Providers do not charge for errors.
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
        let spent = Spend {
            calls: 1,
            time: ticket.elapsed(),
            ..match status {
                StatusCode::OK => self.charge(report),
                _ => Spend::default(),
            }
        };
        let payment = Payment {
            upstream: &self.upstream,
            model: &self.model,
            key: self.payer.as_ref().map_or("", |payer| payer.key.name()),
        };
        self.metrics.pay(payment, spent);
        if let Some(payer) = &self.payer {
            payer.count(spent);
        }
        // What an unknown price leaves open stays reserved.
        if let (Some(reservation), Some(cost)) = (reservation, price_bound::picodollars(spent.cost))
        {
            reservation.settle(cost).await;
        }
        spent
    }

    /// Accounts for an answer whose end was not received: the provider may have charged for it, so what was reserved
    /// stays reserved.
    pub(crate) async fn account_unfinished(
        &self,
        ticket: &Ticket,
        status: StatusCode,
        reservation: Option<Reservation>,
    ) {
        if status == StatusCode::OK {
            self.charge_unknown(ticket);
        } else if let Some(reservation) = reservation {
            reservation.settle(0).await;
        }
    }

    /// Adds an unknown cost to the ledger row of a run.
    pub(crate) fn charge_unknown(&self, ticket: &Ticket) {
        ticket.charge(self.charge(&AnswerReport::default()));
    }

    fn charge(&self, report: &AnswerReport) -> Spend {
        charge(
            &self.catalog,
            self.endpoint,
            &self.upstream,
            &self.model,
            report,
        )
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
    chunks: Vec<Bytes>,
    marks: Vec<ChunkMark>,
    bytes: u64,
    last: Instant,
}

impl BodyRecord {
    fn new() -> Self {
        Self {
            chunks: Vec::new(),
            marks: Vec::new(),
            bytes: 0,
            last: Instant::now(),
        }
    }

    fn push(&mut self, chunk: &Bytes) {
        let now = Instant::now();
        let pause = now.saturating_duration_since(self.last).as_millis();
        self.last = now;
        self.bytes += chunk.len() as u64;
        self.marks.push(ChunkMark {
            after_ms: u32::try_from(pause).unwrap_or(u32::MAX),
            bytes: chunk.len() as u32,
        });
        self.chunks.push(chunk.clone());
    }

    fn finish(self, head: RecordedHead) -> Bytes {
        let body = match self.chunks.as_slice() {
            [only] => only.clone(),
            chunks => {
                let mut body = BytesMut::with_capacity(self.bytes as usize);
                chunks
                    .iter()
                    .for_each(|chunk| body.extend_from_slice(chunk));
                body.freeze()
            }
        };
        let recorded = Recorded {
            head,
            chunks: self.marks,
            body,
        };
        recorded.encode()
    }
}
