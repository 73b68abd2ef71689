//! The messages to one server, in their order.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::relay::program::CONNECTION_CLOSED;
use crate::relay::{Exchange, Frame, RequestContext, Upstream};

/// Maximum number of messages that wait for a server.
const MAX_WAITING: usize = 4_096;

/// Maximum size of the messages that wait for a server, in bytes; the last one may exceed it.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// Sends messages to a server, each after the server has accepted the one before. Callers do not wait for that, so that
/// a server that is slow to accept messages does not delay those to other servers.
pub(super) struct MessageQueue(Arc<Shared>);

struct Shared {
    /// The name of the server in messages.
    server: String,
    upstream: Arc<dyn Upstream>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// True while a message is sent: later ones wait.
    is_sending: bool,
    waiting: VecDeque<Message>,
    waiting_bytes: usize,
}

struct Message {
    frame: Frame,
    context: RequestContext,
    /// Takes the exchange of a request; `None` for a message without one.
    answer: Option<oneshot::Sender<Exchange>>,
}

impl MessageQueue {
    /// Creates the queue of a server.
    pub(super) fn new(server: String, upstream: Arc<dyn Upstream>) -> Self {
        Self(Arc::new(Shared {
            server,
            upstream,
            state: Mutex::default(),
        }))
    }

    /// Sends a request. Returns the receiver of its exchange, which is closed without one if the request is withdrawn.
    /// A request whose receiver is dropped before its turn is not sent. To be called within a runtime.
    pub(super) fn request(
        &self,
        request: Frame,
        context: RequestContext,
    ) -> oneshot::Receiver<Exchange> {
        let (answer, exchange) = oneshot::channel();
        let refused = self.0.push(Message {
            frame: request,
            context,
            answer: Some(answer),
        });
        if let Some(Message {
            frame,
            answer: Some(answer),
            ..
        }) = refused
        {
            let id = frame.id().unwrap_or("null");
            let why = format!("the MCP server `{}` has not yet accepted", self.0.server);
            let why = format!("{why} {MAX_WAITING} earlier messages; try again later");
            let error = Frame::error_response(id, CONNECTION_CLOSED, &why);
            // The receiver is here.
            let _ = answer.send(Exchange::answered(error));
        }
        exchange
    }

    /// Sends a notification or a response. Returns it if it is dropped, because too many messages wait. To be called
    /// within a runtime.
    pub(super) fn notify(&self, message: Frame, context: RequestContext) -> Option<Frame> {
        let message = Message {
            frame: message,
            context,
            answer: None,
        };
        self.0.push(message).map(|dropped| dropped.frame)
    }

    /// Removes the newest waiting request of a session with this id. Returns false if there is none.
    pub(super) fn withdraw(&self, id: &str, session: Option<&Arc<str>>) -> bool {
        let mut state = self.0.state.lock();
        let at = state.waiting.iter().rposition(|message| {
            message.answer.is_some()
                && message.frame.id() == Some(id)
                && message.context.session.as_ref() == session
        });
        at.and_then(|at| state.remove(at)).is_some()
    }
}

impl Shared {
    /// Sends a message, or lets it wait for its turn. Returns a message for which there is no room.
    fn push(self: &Arc<Self>, message: Message) -> Option<Message> {
        let mut state = self.state.lock();
        if state.is_sending {
            return state.add(message);
        }
        state.is_sending = true;
        drop(state);
        let mut sending = Box::pin(Arc::clone(self).send_from(message));
        // A server that accepts it at once has it when this returns.
        if sending.as_mut().now_or_never().is_none() {
            tokio::spawn(sending);
        }
        None
    }

    /// Sends a message, and those that wait.
    async fn send_from(self: Arc<Self>, first: Message) {
        let mut next = Some(first);
        while let Some(message) = next {
            self.send(message).await;
            next = self.next();
        }
    }

    /// Returns the message whose turn it is; without one, the next message is sent when it arrives.
    fn next(&self) -> Option<Message> {
        let mut state = self.state.lock();
        let next = state.remove(0);
        state.is_sending = next.is_some();
        next
    }

    async fn send(&self, message: Message) {
        let Message {
            frame,
            context,
            answer,
        } = message;
        let Some(answer) = answer else {
            return self.upstream.notify(frame, context).await;
        };
        if answer.is_closed() {
            // Cancelled by its caller.
            return;
        }
        let exchange = self.upstream.request(frame, context).await;
        // An exchange whose caller has gone in the meantime is dropped, which cancels the request after it was sent.
        drop(answer.send(exchange));
    }
}

impl State {
    /// Lets a message wait. Returns it if there is no room.
    fn add(&mut self, message: Message) -> Option<Message> {
        if self.waiting.len() >= MAX_WAITING || self.waiting_bytes >= MAX_WAITING_BYTES {
            return Some(message);
        }
        self.waiting_bytes += message.frame.bytes().len();
        self.waiting.push_back(message);
        None
    }

    fn remove(&mut self, at: usize) -> Option<Message> {
        let message = self.waiting.remove(at)?;
        self.waiting_bytes -= message.frame.bytes().len();
        Some(message)
    }
}
