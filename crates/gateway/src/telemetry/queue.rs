//! The spans that wait for their export. Adding one never waits.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use tokio::sync::mpsc;

use super::span::Span;
use crate::collector::Collector;

/// The maximum number of spans that wait.
pub(crate) const CAPACITY: usize = 4_096;

/// A span and the collector for which it is.
#[derive(Debug)]
pub(crate) struct QueuedSpan {
    pub(crate) collector: Arc<Collector>,
    pub(crate) span: Span,
}

/// The sending end of the queue.
#[derive(Clone)]
pub(crate) struct SpanQueue {
    spans: mpsc::Sender<QueuedSpan>,
    dropped: Counter,
}

impl SpanQueue {
    /// Creates a queue, and its receiving end. `dropped` counts the spans that find it full.
    pub(crate) fn new(dropped: Counter) -> (Self, mpsc::Receiver<QueuedSpan>) {
        Self::with_capacity(CAPACITY, dropped)
    }

    pub(crate) fn with_capacity(
        capacity: usize,
        dropped: Counter,
    ) -> (Self, mpsc::Receiver<QueuedSpan>) {
        let (spans, waiting) = mpsc::channel(capacity);
        (Self { spans, dropped }, waiting)
    }

    /// Adds a span, or drops it if the queue is full.
    pub(crate) fn push(&self, collector: Arc<Collector>, span: Span) {
        if self.spans.try_send(QueuedSpan { collector, span }).is_err() {
            self.dropped.inc();
        }
    }
}
