//! Sends an answer at the configured pace, and breaks it off for a fault.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;

use crate::received::RequestLog;
use crate::reply::FaultKind;
use crate::script::Pace;

/// Timing and faults of the delivery of an answer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Delivery {
    pub(crate) first_byte: Duration,
    pub(crate) per_event: Duration,
    pub(crate) cut_after: Option<usize>,
    pub(crate) error_after: Option<usize>,
    pub(crate) is_malformed: bool,
}

impl Delivery {
    pub(crate) fn new(pace: Pace, fault: Option<&FaultKind>) -> Self {
        let mut delivery = Self {
            first_byte: pace.first_byte,
            per_event: pace.per_event,
            ..Self::default()
        };
        match fault {
            Some(FaultKind::Slow {
                first_byte,
                per_event,
            }) => {
                delivery.first_byte = *first_byte;
                delivery.per_event = *per_event;
            }
            Some(FaultKind::Cut { after_events }) => delivery.cut_after = Some(*after_events),
            Some(FaultKind::ErrorEvent { after_events }) => {
                delivery.error_after = Some(*after_events);
            }
            Some(FaultKind::Malformed) => delivery.is_malformed = true,
            Some(FaultKind::Status { .. }) | None => {}
        }
        delivery
    }
}

/// Records a client that disconnects before its answer is complete: the guard is then dropped without
/// [`DisconnectGuard::end`].
pub(crate) struct DisconnectGuard {
    record: Arc<RequestLog>,
    number: u64,
    is_over: bool,
}

impl DisconnectGuard {
    pub(crate) fn new(record: Arc<RequestLog>, number: u64) -> Self {
        Self {
            record,
            number,
            is_over: false,
        }
    }

    /// Marks the end: the answer is complete, or the server broke it off.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
    }
}

impl Drop for DisconnectGuard {
    fn drop(&mut self) {
        if !self.is_over {
            self.record.disconnect(self.number);
        }
    }
}

/// Creates a body of the events of a stream. `error` creates the event that reports an error, given its
/// number; `frame` converts each event to the bytes to send.
pub(crate) fn stream_body(
    events: Vec<Bytes>,
    delivery: Delivery,
    disconnect_guard: DisconnectGuard,
    error: impl FnOnce(usize) -> Bytes,
    frame: fn(Bytes) -> Bytes,
) -> Body {
    let mut events = events;
    if delivery.is_malformed {
        truncate_event(&mut events);
    }
    if let Some(after) = delivery.error_after {
        let after = after.min(events.len());
        events.truncate(after);
        events.push(error(after));
    }
    if let Some(after) = delivery.cut_after {
        events.truncate(after);
    }
    let is_cut = delivery.cut_after.is_some();
    let chunks = events.into_iter().map(frame).map(Ok);
    let chunks = chunks.chain(is_cut.then(|| Err(broken())));
    body(chunks, delivery.per_event, disconnect_guard)
}

/// Creates a body that breaks off in the middle, although its length is announced.
pub(crate) fn truncated_body(whole: &Bytes, disconnect_guard: DisconnectGuard) -> Body {
    let half = whole.slice(..whole.len() / 2);
    let chunks = [Ok(half), Err(broken())].into_iter();
    body(chunks, Duration::ZERO, disconnect_guard)
}

/// Truncates the JSON of the event in the middle of the stream.
fn truncate_event(events: &mut [Bytes]) {
    let middle = events.len() / 2;
    let Some(event) = events.get_mut(middle) else {
        return;
    };
    let end = event.len() - event.len().min(3);
    let text = String::from_utf8_lossy(&event[..end]);
    let start = text.find("data: ").map_or(0, |at| at + "data: ".len());
    let half = text.floor_char_boundary(start + (text.len() - start) / 2);
    *event = Bytes::from(format!("{}\n\n", &text[..half.max(start)]));
}

fn broken() -> io::Error {
    io::Error::other("the script cuts the connection here")
}

/// Creates a body of these chunks, up to the first error.
fn body(
    chunks: impl Iterator<Item = io::Result<Bytes>> + Send + 'static,
    per_event: Duration,
    disconnect_guard: DisconnectGuard,
) -> Body {
    let stream = stream::unfold(
        (chunks, disconnect_guard, false),
        move |(mut chunks, mut disconnect_guard, has_begun)| async move {
            let chunk = chunks.next();
            match &chunk {
                Some(Ok(_)) if has_begun && !per_event.is_zero() => {
                    tokio::time::sleep(per_event).await;
                }
                Some(Ok(_)) => {}
                Some(Err(_)) => {
                    // Lets the client receive the data sent so far.
                    tokio::task::yield_now().await;
                    disconnect_guard.end();
                }
                None => disconnect_guard.end(),
            }
            Some((chunk?, (chunks, disconnect_guard, true)))
        },
    );
    Body::from_stream(stream)
}
