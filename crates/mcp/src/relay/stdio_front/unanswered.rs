//! The requests of a client whose responses are to come.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use crate::relay::Frame;
use crate::relay::calls::LISTEN;

/// The requests in flight that have a response to come soon: subscriptions have none, and cancelled requests need none.
#[derive(Default)]
pub(super) struct Unanswered {
    requests: Arc<watch::Sender<HashMap<u64, Box<str>>>>,
    last: AtomicU64,
}

/// A request in flight, until it is dropped.
pub(super) struct Entry {
    number: u64,
    requests: Arc<watch::Sender<HashMap<u64, Box<str>>>>,
}

impl Unanswered {
    /// Enters a request; `None` for a subscription.
    pub(super) fn enter(&self, request: &Frame) -> Option<Entry> {
        if request.method() == LISTEN {
            return None;
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let id = request.id().unwrap_or("null").into();
        self.requests
            .send_modify(|requests| drop(requests.insert(number, id)));
        Some(Entry {
            number,
            requests: Arc::clone(&self.requests),
        })
    }

    /// Takes note of a message that may cancel a request.
    pub(super) fn note_cancelled(&self, message: &Frame) {
        if let Some(id) = message.request_id() {
            self.requests
                .send_modify(|requests| requests.retain(|_, known| **known != *id));
        }
    }

    /// Waits until there is none.
    pub(super) async fn answered(&self) {
        // The sender is here, so there is no error.
        let _ = self.requests.subscribe().wait_for(HashMap::is_empty).await;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.requests
            .send_modify(|requests| drop(requests.remove(&self.number)));
    }
}
