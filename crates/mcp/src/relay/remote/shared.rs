//! The state of a connection to a server behind HTTP.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::HeaderValue;
use parking_lot::Mutex;
use reqwest::Response;
use sse_stream::Sse;
use tokio::sync::{Notify, mpsc};

use super::cursor::Cursor;
use super::endpoint::{Endpoint, Failure, Opening};
use super::session::{Session, SessionHeaders};
use crate::Reporter;
use crate::relay::calls::{Calls, Destination};
use crate::relay::{Frame, RequestContext};

/// The state of a connection, with at most one session.
pub(super) struct Shared {
    /// The name of the server in messages.
    pub(super) name: String,
    pub(super) endpoint: Endpoint,
    pub(super) calls: Calls,
    /// Ends the tasks of requests in flight.
    pub(super) aborts: Mutex<HashMap<u64, Arc<Notify>>>,
    pub(super) session: Mutex<Session>,
    /// The number of times that announcements may have been lost.
    pub(super) losses: AtomicU64,
    reporter: Arc<dyn Reporter>,
    unattached: mpsc::Sender<Frame>,
}

impl Shared {
    pub(super) fn new(
        name: String,
        endpoint: Endpoint,
        reporter: Arc<dyn Reporter>,
        unattached: mpsc::Sender<Frame>,
    ) -> Self {
        Self {
            name,
            endpoint,
            calls: Calls::default(),
            aborts: Mutex::default(),
            session: Mutex::default(),
            losses: AtomicU64::new(0),
            reporter,
            unattached,
        }
    }

    /// Posts a message in the session.
    pub(super) async fn post(
        &self,
        message: &Frame,
        context: &RequestContext,
    ) -> Result<Response, Failure> {
        let headers = self.session_headers();
        self.endpoint.post(message, headers, context).await
    }

    /// Opens a stream of the session with GET.
    pub(super) async fn open_stream(&self, cursor: &Cursor, context: &RequestContext) -> Opening {
        let headers = self.session_headers();
        self.endpoint.open_stream(cursor, &headers, context).await
    }

    fn session_headers(&self) -> SessionHeaders {
        self.session.lock().headers.clone()
    }

    /// Notes that announcements may have been lost.
    pub(super) fn note_loss(&self) {
        self.losses.fetch_add(1, Ordering::SeqCst);
    }

    /// Forgets the session. What the server announces before the next one listens is lost.
    pub(super) fn forget_session(&self) {
        let old = std::mem::take(&mut *self.session.lock());
        if old.listening.is_some() {
            self.note_loss();
        }
    }

    /// Notes the revision of a session.
    pub(super) fn open(&self, response: &Frame) {
        let version = response.result_member("protocolVersion");
        let version = version.and_then(|version| serde_json::from_str::<String>(version).ok());
        let version = version.and_then(|version| HeaderValue::try_from(version).ok());
        self.session.lock().headers.version = version;
    }

    /// Passes on a message of the server.
    pub(super) async fn pass(&self, message: Frame, on: Option<u64>) {
        match self.calls.received(message, on) {
            Destination::Call(sender, message) => {
                sender.send(message);
            }
            Destination::Client(message) => {
                // An error means that the client is gone.
                let _ = self.unattached.send(message).await;
            }
            Destination::None => {}
        }
    }

    /// Reads the message of an event; `None` if it has none.
    pub(super) fn message(&self, event: &Sse) -> Option<Frame> {
        if !matches!(event.event.as_deref(), None | Some("" | "message")) {
            return None;
        }
        let data = event
            .data
            .as_deref()
            .filter(|data| !data.trim().is_empty())?;
        match Frame::parse(Bytes::copy_from_slice(data.as_bytes())) {
            Ok(message) => Some(message),
            Err(error) => {
                self.note_loss();
                self.reporter.warning(&format!(
                    "the MCP server `{}` sent an event that is no message: {error}",
                    self.name
                ));
                None
            }
        }
    }

    /// Sends a notification or a response.
    pub(super) async fn tell(&self, message: Frame, context: &RequestContext) {
        let failure = match self.post(&message, context).await {
            Ok(response) if response.status().is_success() => return,
            Ok(response) => format!("HTTP {}", response.status()),
            Err(Failure::NotSent(why) | Failure::Lost(why)) => why,
            Err(Failure::Refused(_)) => return,
        };
        let what = match message.method() {
            "" => "a response of the client",
            method => method,
        };
        self.reporter.warning(&format!(
            "the MCP server `{}` did not accept {what}: {failure}",
            self.name
        ));
    }

    /// Cancels a request.
    pub(super) async fn cancel(&self, number: u64, context: &RequestContext) {
        let params = format!(r#"{{"requestId":{number}}}"#);
        let notification = Frame::notification("notifications/cancelled", &params);
        self.tell(notification, context).await;
    }
}
