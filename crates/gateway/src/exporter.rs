//! The task that sends spans to their collector, in batches. Requests never wait for it.

mod otlp;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cachalot_core::causes::root_cause;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use prometheus_client::metrics::counter::Counter;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::body;
use crate::client::UpstreamClient;
use crate::collector::Collector;
use crate::telemetry::queue::QueuedSpan;

/// The maximum number of spans in a batch.
const MAX_BATCH: usize = 512;
/// The maximum time for which a span waits for others.
const MAX_DELAY: Duration = Duration::from_secs(2);
/// The maximum time for one attempt to send a batch.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause before the second attempt.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The maximum size of a collector's answer that is read, in bytes.
const MAX_ANSWER: usize = 64 << 10;

/// The task that exports spans.
pub(crate) struct Exporter {
    pub(crate) spans: mpsc::Receiver<QueuedSpan>,
    pub(crate) client: UpstreamClient,
    /// A name that no other process has.
    pub(crate) instance: String,
    /// Counts the spans that could not be sent.
    pub(crate) dropped: Counter,
    /// Shows a warning to the operator.
    pub(crate) warn: Arc<dyn Fn(&str) + Send + Sync>,
}

/// A running exporter. Dropping it sends the spans that wait, and ends it.
pub(crate) struct Exporting {
    running: watch::Sender<()>,
    task: JoinHandle<()>,
}

impl Exporting {
    /// Sends the spans that wait, and ends the task.
    pub(crate) async fn end(self) {
        drop(self.running);
        // An error means that the runtime ends.
        let _ = self.task.await;
    }
}

/// A batch that the collector did not take.
struct SendError {
    cause: String,
    /// True if the same request may succeed later.
    may_retry: bool,
}

impl Exporter {
    /// Starts the task.
    pub(crate) fn start(self) -> Exporting {
        let (running, ended) = watch::channel(());
        let task = tokio::spawn(self.run(ended));
        Exporting { running, task }
    }

    /// Sends batches until `ended` is closed and no span waits.
    async fn run(mut self, mut ended: watch::Receiver<()>) {
        let mut is_failing = false;
        loop {
            let batch = self.next_batch(&mut ended).await;
            if batch.is_empty() {
                return;
            }
            let same =
                |one: &QueuedSpan, two: &QueuedSpan| Arc::ptr_eq(&one.collector, &two.collector);
            // A reload of the settings may have changed the collector.
            for part in batch.chunk_by(same) {
                self.export(part, &mut ended, &mut is_failing).await;
            }
        }
    }

    /// Waits for the next batch; an empty one is the last.
    async fn next_batch(&mut self, ended: &mut watch::Receiver<()>) -> Vec<QueuedSpan> {
        let mut batch = Vec::new();
        let mut deadline = None;
        while batch.len() < MAX_BATCH {
            let room = MAX_BATCH - batch.len();
            let delay = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                received = self.spans.recv_many(&mut batch, room) => {
                    if received == 0 {
                        break;
                    }
                    deadline.get_or_insert_with(|| Instant::now() + MAX_DELAY);
                }
                () = delay => break,
                _ = ended.changed() => {
                    while batch.len() < MAX_BATCH && let Ok(span) = self.spans.try_recv() {
                        batch.push(span);
                    }
                    break;
                }
            }
        }
        batch
    }

    /// Sends spans of one collector, with one retry.
    async fn export(
        &self,
        part: &[QueuedSpan],
        ended: &mut watch::Receiver<()>,
        is_failing: &mut bool,
    ) {
        let Some(first) = part.first() else { return };
        let collector = &first.collector;
        let spans = part.iter().map(|queued| &queued.span);
        let document = otlp::encode(&collector.service_name, &self.instance, spans);
        let document = Bytes::from(document);
        let mut sent = self.send(collector, document.clone()).await;
        if sent.as_ref().is_err_and(|error| error.may_retry) {
            // At the end, there is no pause.
            let _ = timeout(RETRY_PAUSE, ended.changed()).await;
            sent = self.send(collector, document).await;
        }
        match sent {
            Ok(rejected) => {
                self.dropped.inc_by(rejected);
                *is_failing = false;
            }
            Err(error) => {
                self.dropped.inc_by(part.len() as u64);
                // One warning until the collector accepts spans again.
                if !std::mem::replace(is_failing, true) {
                    let (url, cause) = (&collector.traces, &error.cause);
                    (self.warn)(&format!(
                        "spans are dropped, because {url} does not accept them: {cause}"
                    ));
                }
            }
        }
    }

    /// Sends a document, and returns the number of spans that the collector rejected.
    async fn send(&self, collector: &Collector, document: Bytes) -> Result<u64, SendError> {
        let retryable = |cause: String| SendError {
            cause,
            may_retry: true,
        };
        let mut request = Request::new(body::full(document));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = collector.traces.clone();
        let headers = request.headers_mut();
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        let agent = concat!("cachalot/", env!("CARGO_PKG_VERSION"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        if let Some(authorization) = &collector.authorization {
            headers.insert(header::AUTHORIZATION, authorization.clone());
        }
        let answer = async {
            let response = self.client.request_other(request).await;
            let response = response.map_err(|error| root_cause(&error))?;
            let status = response.status();
            // Read to its end, so that the connection can be used again.
            let read = Limited::new(response.into_body(), MAX_ANSWER)
                .collect()
                .await;
            Ok((
                status,
                read.map(|collected| collected.to_bytes())
                    .unwrap_or_default(),
            ))
        };
        let answer = timeout(SEND_TIMEOUT, answer).await;
        let answer = answer
            .unwrap_or_else(|_| Err(format!("no answer within {} s", SEND_TIMEOUT.as_secs())));
        let (status, text) = answer.map_err(retryable)?;
        if status.is_success() {
            Ok(rejected_spans(&text))
        } else {
            Err(SendError {
                cause: format!("status {}", status.as_u16()),
                may_retry: matches!(
                    status,
                    StatusCode::TOO_MANY_REQUESTS
                        | StatusCode::BAD_GATEWAY
                        | StatusCode::SERVICE_UNAVAILABLE
                        | StatusCode::GATEWAY_TIMEOUT
                ),
            })
        }
    }
}

/// Returns the number of spans that an `ExportTraceServiceResponse` rejects.
fn rejected_spans(answer: &[u8]) -> u64 {
    let document: Value = serde_json::from_slice(answer).unwrap_or_default();
    let rejected = document.pointer("/partialSuccess/rejectedSpans");
    let rejected =
        rejected.and_then(|count| count.as_u64().or_else(|| count.as_str()?.parse().ok()));
    rejected.unwrap_or(0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use hyper_util::client::proxy::matcher::Matcher;

    use super::*;
    use crate::telemetry::queue::SpanQueue;
    use crate::telemetry::span::{Attributes, Span, SpanKind};

    fn push(queue: &SpanQueue, count: usize) {
        let collector = Arc::new(Collector {
            traces: "http://127.0.0.1:1/v1/traces".parse().unwrap(),
            authorization: None,
            service_name: "service".into(),
        });
        for _ in 0..count {
            let span = Span {
                trace: [1; 16],
                id: [2; 8],
                parent: None,
                has_remote_parent: false,
                name: "span".into(),
                kind: SpanKind::Client,
                start: 0,
                end: 1,
                attributes: Attributes::default(),
                has_failed: false,
            };
            queue.push(Arc::clone(&collector), span);
        }
    }

    #[test]
    fn spans_that_find_the_queue_full_are_dropped_and_counted() {
        let dropped = Counter::default();
        let (queue, mut waiting) = SpanQueue::with_capacity(3, dropped.clone());
        push(&queue, 5);
        assert_eq!(dropped.get(), 2);
        let received = std::iter::from_fn(|| waiting.try_recv().ok()).count();
        assert_eq!(received, 3);
    }

    #[tokio::test]
    async fn batches_are_limited_and_the_rest_is_sent_at_the_end() {
        let dropped = Counter::default();
        let (queue, spans) = SpanQueue::new(dropped.clone());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let mut exporter = Exporter {
            spans,
            client: UpstreamClient::new(tls, Matcher::builder().build(), SEND_TIMEOUT),
            instance: "run".into(),
            dropped: dropped.clone(),
            warn: Arc::new(|_| {}),
        };
        let (running, mut ended) = watch::channel(());
        push(&queue, 1_100);
        assert_eq!(exporter.next_batch(&mut ended).await.len(), MAX_BATCH);
        drop(running);
        for expected in [MAX_BATCH, 76, 0] {
            assert_eq!(exporter.next_batch(&mut ended).await.len(), expected);
        }
        // Spans that no collector takes are counted.
        push(&queue, 2);
        exporter.run(ended).await;
        assert_eq!(dropped.get(), 2);
    }

    #[test]
    fn rejected_spans_are_read() {
        for (answer, rejected) in [
            (
                r#"{"partialSuccess": {"rejectedSpans": "3", "errorMessage": "x"}}"#,
                3,
            ),
            (r#"{"partialSuccess": {"rejectedSpans": 3}}"#, 3),
            (r#"{"partialSuccess": {}}"#, 0),
            ("{}", 0),
            ("", 0),
        ] {
            assert_eq!(rejected_spans(answer.as_bytes()), rejected, "{answer}");
        }
    }
}
