//! Requests in flight, and the trait of what answers them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::{Frame, FrameKind};

/// Maximum size of the messages of an exchange that wait to be read, in bytes. Above it, notifications are dropped:
/// the reader of a connection must not wait for one caller that reads slowly.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// What a waiting message counts in addition to its bytes.
const MESSAGE_WEIGHT: usize = 256;

/// Circumstances of a request that are not in its message.
#[derive(Debug, Clone, Default)]
pub struct RequestContext {
    /// The session of the client, if the protocol revision has sessions or the client's transport is one connection.
    pub session: Option<Arc<str>>,
    /// The headers of a client that uses HTTP, with lower-case names; empty for stdio.
    pub headers: Arc<BTreeMap<String, String>>,
}

/// A server, or what stands in for it. A decorator, such as the one that caches, is a server for the relay.
///
/// Frames have the ids and progress tokens of the caller; an implementation that shares a connection renames them on its
/// own side, and back.
#[async_trait]
pub trait Upstream: Send + Sync {
    /// Sends a request. The exchange yields the messages that belong to it, and its response at last. A failure of the
    /// server is a response with an error, never a hang. Dropping the exchange cancels the request.
    async fn request(&self, request: Frame, context: RequestContext) -> Exchange;

    /// Sends a notification of the client, or its response to a request of the server.
    async fn notify(&self, message: Frame, context: RequestContext);

    /// Returns the messages of the server that belong to no request of the client: announcements of changes, and in older
    /// revisions requests of the server. They can be taken once; `None` after that.
    fn take_unattached(&self) -> Option<mpsc::Receiver<Frame>>;

    /// The number of times that the server has ended and lost what it remembered. A server that this process does not
    /// start has none.
    fn ends(&self) -> u64 {
        0
    }

    /// The number of times that announcements of the server may have been lost.
    fn losses(&self) -> u64 {
        0
    }
}

/// A request in flight: the messages that belong to it, in order.
#[derive(Debug)]
pub struct Exchange {
    messages: mpsc::UnboundedReceiver<Frame>,
    /// The size of the messages that wait.
    waiting: Arc<AtomicUsize>,
    is_answered: bool,
}

/// The sending end of an exchange.
#[derive(Debug, Clone)]
pub struct ExchangeSender {
    messages: mpsc::UnboundedSender<Frame>,
    waiting: Arc<AtomicUsize>,
}

impl Exchange {
    /// Creates an exchange and its sending end.
    #[must_use]
    pub fn new() -> (ExchangeSender, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let waiting = Arc::<AtomicUsize>::default();
        let sender = ExchangeSender {
            messages: sender,
            waiting: Arc::clone(&waiting),
        };
        let exchange = Self {
            messages: receiver,
            waiting,
            is_answered: false,
        };
        (sender, exchange)
    }

    /// Creates an exchange that is answered already.
    #[must_use]
    pub fn answered(response: Frame) -> Self {
        let (sender, exchange) = Self::new();
        // The reader is here.
        let _ = sender.messages.send(response);
        exchange
    }

    /// Returns the next message: a notification or a request of the server, or the response, which is the last one.
    /// `None` after the response, and if the upstream was dropped without one.
    pub async fn next(&mut self) -> Option<Frame> {
        if self.is_answered {
            return None;
        }
        let message = self.messages.recv().await?;
        let weight = weight(&message);
        let _ = self
            .waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
                Some(waiting.saturating_sub(weight))
            });
        self.is_answered = message.kind() == FrameKind::Response;
        Some(message)
    }
}

impl ExchangeSender {
    /// Passes a message on. A notification is dropped if the reader is more than 64 MiB behind. Returns
    /// false if the reader is gone, so that the request is to be cancelled.
    pub fn send(&self, frame: Frame) -> bool {
        let weight = weight(&frame);
        let is_full = self.waiting.load(Ordering::Relaxed) > MAX_WAITING_BYTES;
        if is_full && frame.kind() == FrameKind::Notification {
            return !self.messages.is_closed();
        }
        self.waiting.fetch_add(weight, Ordering::Relaxed);
        self.messages.send(frame).is_ok()
    }

    /// Resolves when the reader is gone.
    pub async fn cancelled(&self) {
        self.messages.closed().await;
    }
}

fn weight(frame: &Frame) -> usize {
    frame.bytes().len() + MESSAGE_WEIGHT
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_reader_loses_notifications_only() {
        let (sender, mut exchange) = Exchange::new();
        let note = Frame::notification("notifications/progress", "{}");
        let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(MAX_WAITING_BYTES));
        let large = Frame::notification("notifications/message", &large);
        assert!(sender.send(large));
        assert!(sender.send(note.clone()));
        assert!(sender.send(Frame::request("1", "ping", "{}")));
        assert!(sender.send(Frame::response("2", "{}")));
        let mut methods = Vec::new();
        while let Some(frame) = exchange.next().await {
            methods.push(frame.method().to_owned());
        }
        assert_eq!(methods, ["notifications/message", "ping", ""]);
        let (sender, exchange) = Exchange::new();
        drop(exchange);
        assert!(!sender.send(note));
    }
}
