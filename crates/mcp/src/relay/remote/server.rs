//! A connection to a server behind HTTP.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use http::Method;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use super::call::RemoteCall;
use super::listening::listen;
use super::shared::Shared;
use crate::relay::program::{CANCELLED_GRACE_PERIOD, CONNECTION_CLOSED};
use crate::relay::{Close, Exchange, Frame, FrameKind, RequestContext, Upstream};

/// Maximum time for the end of a session: for calls in flight, and again for the server's answer to the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum time for which later messages wait for the acknowledgment of a notification.
const NOTIFICATION_WAIT: Duration = Duration::from_secs(1);

/// A connection to a server behind HTTP.
pub(super) struct RemoteServer {
    shared: Arc<Shared>,
    unattached: Mutex<Option<mpsc::Receiver<Frame>>>,
}

impl RemoteServer {
    /// Creates a connection. `unattached` receives the messages that belong to no request.
    pub(super) fn new(shared: Shared, unattached: mpsc::Receiver<Frame>) -> Self {
        Self {
            shared: Arc::new(shared),
            unattached: Mutex::new(Some(unattached)),
        }
    }
}

#[async_trait]
impl Upstream for RemoteServer {
    async fn request(&self, request: Frame, context: RequestContext) -> Exchange {
        let (sender, exchange) = Exchange::new();
        let session = context.session.clone();
        let id = request.id().unwrap_or("null").to_owned();
        let Some(begun) = self.shared.calls.begin(request, session, sender.clone()) else {
            let why = format!(
                "the connection to the MCP server `{}` is closed",
                self.shared.name
            );
            return Exchange::answered(Frame::error_response(&id, CONNECTION_CLOSED, &why));
        };
        let shared = Arc::clone(&self.shared);
        let abort = Arc::new(Notify::new());
        shared
            .aborts
            .lock()
            .insert(begun.number, Arc::clone(&abort));
        tokio::spawn(async move {
            let number = begun.number;
            let is_modern = begun.request.protocol_version().is_some();
            let call = RemoteCall {
                shared: &shared,
                begun: &begun,
                context: &context,
            };
            tokio::select! {
                () = call.run() => {}
                () = abort.notified() => drop(shared.calls.forget(number)),
                () = sender.cancelled() => {
                    // Without sessions, closing the stream is the cancellation.
                    if shared.calls.forget(number) && !is_modern {
                        shared.cancel(number, &context).await;
                    }
                }
            }
            shared.aborts.lock().remove(&number);
        });
        exchange
    }

    async fn notify(&self, message: Frame, context: RequestContext) {
        let shared = &self.shared;
        if message.kind() == FrameKind::Response {
            let Some(response) = shared.calls.client_response(&message) else {
                return;
            };
            let shared = Arc::clone(shared);
            // The server may acknowledge it late, and later messages must not wait for that.
            tokio::spawn(async move { shared.tell(response, &context).await });
            return;
        }
        if message.request_id().is_some() {
            let session = context.session.as_ref();
            let Some((number, renamed)) = shared.calls.cancelled(&message, session) else {
                return;
            };
            let abort = shared.aborts.lock().get(&number).cloned();
            if shared.session.lock().is_open {
                let shared = Arc::clone(shared);
                tokio::spawn(async move {
                    shared.tell(renamed, &context).await;
                    tokio::time::sleep(CANCELLED_GRACE_PERIOD).await;
                    if let Some(abort) = abort {
                        abort.notify_one();
                    }
                });
            } else if let Some(abort) = abort {
                abort.notify_one();
            }
            return;
        }
        let is_initialized = message.method() == "notifications/initialized";
        let telling = {
            let (shared, context) = (Arc::clone(shared), context.clone());
            tokio::spawn(async move { shared.tell(message, &context).await })
        };
        // A server that acknowledges it late must not keep later messages waiting.
        let _ = tokio::time::timeout(NOTIFICATION_WAIT, telling).await;
        if is_initialized {
            listen(shared, &context);
        }
    }

    fn take_unattached(&self) -> Option<mpsc::Receiver<Frame>> {
        self.unattached.lock().take()
    }

    fn losses(&self) -> u64 {
        self.shared.losses.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Close for RemoteServer {
    async fn close(&self) {
        let shared = &self.shared;
        let finished = async {
            while shared.calls.in_flight() > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, finished).await;
        let session = std::mem::take(&mut *shared.session.lock());
        if session.headers.id.is_some() {
            let context = RequestContext::default();
            let ending =
                shared
                    .endpoint
                    .send(Method::DELETE, &session.headers, &context, |request| {
                        request
                    });
            // The server may refuse that clients end sessions.
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, ending).await;
        }
        for (sender, id) in shared.calls.close() {
            let why = format!(
                "the connection to the MCP server `{}` was closed",
                shared.name
            );
            let error = Frame::error_response(&id, CONNECTION_CLOSED, &why);
            // The end of a session need not end its calls.
            sender.send(error.with_unknown_effect());
        }
        for abort in std::mem::take(&mut *shared.aborts.lock()).into_values() {
            abort.notify_one();
        }
    }
}
