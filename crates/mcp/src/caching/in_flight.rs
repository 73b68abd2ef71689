//! Requests that a client may cancel by a notification.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::json_members::text_value;
use crate::relay::{ExchangeSender, Frame};

/// The session and the id of a request.
type Name = (Option<Arc<str>>, Box<str>);

/// The notification that cancels a request, once it has arrived.
type Cancellation = watch::Sender<Option<Frame>>;

type Table = Mutex<HashMap<Name, Arc<Cancellation>>>;

/// The requests that have no response yet. A cancellation goes to the task of its request, which knows if the server has
/// the request, and if other clients wait for the same answer.
#[derive(Default)]
pub(super) struct InFlight(Arc<Table>);

/// A request that has no response yet. Removed from the table when it is dropped.
pub(super) struct RequestInFlight {
    table: Arc<Table>,
    name: Name,
    cancellation: Arc<Cancellation>,
}

/// The client's side of a request.
pub(super) struct Caller {
    pub(super) sender: ExchangeSender,
    pub(super) call: Arc<RequestInFlight>,
}

impl Caller {
    /// Resolves when the client has cancelled the request, or is gone.
    pub(super) async fn left(&self) {
        tokio::select! {
            _ = self.call.cancelled() => {}
            () = self.sender.cancelled() => {}
        }
    }
}

impl InFlight {
    /// Enters a request. A cancellation that arrives from here on is remembered.
    pub(super) fn enter(&self, session: Option<Arc<str>>, request: &Frame) -> RequestInFlight {
        let name = (session, canonical(request.id().unwrap_or_default()));
        let cancellation = Arc::new(watch::Sender::new(None));
        self.0
            .lock()
            .insert(name.clone(), Arc::clone(&cancellation));
        RequestInFlight {
            table: Arc::clone(&self.0),
            name,
            cancellation,
        }
    }

    /// Cancels the request that a notification is about. Returns false if it is not here.
    pub(super) fn cancel(&self, session: Option<&Arc<str>>, notification: &Frame) -> bool {
        let Some(id) = notification.request_id() else {
            return false;
        };
        let name = (session.cloned(), canonical(id));
        let found = self.0.lock().get(&name).cloned();
        match found {
            Some(cancellation) => {
                cancellation.send_replace(Some(notification.clone()));
                true
            }
            None => false,
        }
    }
}

impl RequestInFlight {
    /// Resolves when the client has cancelled the request, also if it did so earlier. Returns its notification.
    pub(super) async fn cancelled(&self) -> Frame {
        let mut receiver = self.cancellation.subscribe();
        loop {
            let notification = receiver.borrow_and_update().clone();
            if let Some(notification) = notification {
                return notification;
            }
            if receiver.changed().await.is_err() {
                // Never: the sender is a part of `self`.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns true if the client has cancelled the request.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancellation.borrow().is_some()
    }
}

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        let mut requests = self.table.lock();
        // A client may use an id again.
        let is_own = |known: &Arc<Cancellation>| Arc::ptr_eq(known, &self.cancellation);
        if requests.get(&self.name).is_some_and(is_own) {
            requests.remove(&self.name);
        }
    }
}

/// Returns an id in one spelling, so that escapes do not tell equal strings apart.
fn canonical(id: &str) -> Box<str> {
    match text_value(id) {
        Some(text) => format!("\"{text}").into(),
        None => id.into(),
    }
}
