//! The requests in flight on a connection to a server, in both directions, and the ids that they have on each side.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{ExchangeSender, Frame, FrameKind, Renames};

/// The request that opens a stream of announcements, which is in flight until the stream ends.
pub(super) const LISTEN: &str = "subscriptions/listen";

/// Maximum number of requests of a server that wait for the client's response; the oldest is forgotten.
const MAX_SERVER_REQUESTS: usize = 4_096;

/// Maximum number of progress tokens that stay known after the response, because a task may go on.
const MAX_KEPT_TOKENS: usize = 1_024;

/// Requests of the client that a connection has in flight, and requests of the server.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// The last id that was given.
    last: Arc<AtomicU64>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    calls: HashMap<u64, Call>,
    /// Progress tokens of answered requests.
    kept_tokens: VecDeque<(u64, Box<str>)>,
    /// The ids of requests of the server, by the ids that the client sees.
    server_requests: HashMap<u64, Box<str>>,
    server_order: VecDeque<u64>,
    is_closed: bool,
}

/// A request in flight.
#[derive(Debug)]
struct Call {
    sender: ExchangeSender,
    /// The id that the caller uses.
    id: Box<str>,
    token: Option<Box<str>>,
    session: Option<Arc<str>>,
    is_listen: bool,
    /// Dropped with the entry, which ends the task that waits for the caller's end.
    _end: oneshot::Sender<()>,
}

/// A request that was entered into the table.
pub(super) struct Begun {
    /// The id on the connection to the server.
    pub(super) number: u64,
    /// The request with that id, which is also its progress token if it had one.
    pub(super) request: Frame,
    /// Closed when the request is no longer in flight.
    pub(super) end: oneshot::Receiver<()>,
}

/// The destination of a message of the server, with the ids of the caller.
#[derive(Debug)]
pub(super) enum Destination {
    /// A request in flight.
    Call(ExchangeSender, Frame),
    /// The client as such.
    Client(Frame),
    /// None: a late response, or one to no request.
    None,
}

impl Calls {
    /// Creates a table whose ids follow those of others that share the counter.
    pub(super) fn new(last: Arc<AtomicU64>) -> Self {
        Self {
            last,
            table: Mutex::default(),
        }
    }

    /// Enters a request. `None` if the connection has ended.
    pub(super) fn begin(
        &self,
        request: Frame,
        session: Option<Arc<str>>,
        sender: ExchangeSender,
    ) -> Option<Begun> {
        let number = self.number();
        let (kept, end) = oneshot::channel();
        let call = Call {
            sender,
            id: request.id().unwrap_or("null").into(),
            token: request.progress_token().map(Into::into),
            session,
            is_listen: request.method() == LISTEN,
            _end: kept,
        };
        let mut table = self.table.lock();
        if table.is_closed {
            return None;
        }
        table.calls.insert(number, call);
        drop(table);
        let id = number.to_string();
        Some(Begun {
            number,
            request: request.into_renamed(Renames {
                id: Some(&id),
                progress_token: Some(&id),
                ..Renames::default()
            }),
            end,
        })
    }

    fn number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Forgets a request. Returns true if it was in flight.
    pub(super) fn forget(&self, number: u64) -> bool {
        self.table.lock().calls.remove(&number).is_some()
    }

    /// Number of requests in flight that have a response to come soon: subscriptions have none.
    pub(super) fn in_flight(&self) -> usize {
        let table = self.table.lock();
        table.calls.values().filter(|call| !call.is_listen).count()
    }

    /// Returns the request that a caller cancels, and the notification with the id on this connection.
    pub(super) fn cancelled(
        &self,
        notification: &Frame,
        session: Option<&Arc<str>>,
    ) -> Option<(u64, Frame)> {
        let sought = canonical(notification.request_id()?);
        let table = self.table.lock();
        let newest = table
            .calls
            .iter()
            .filter(|(_, call)| call.session.as_ref() == session && canonical(&call.id) == sought)
            .map(|(number, _)| *number)
            .max()?;
        let renamed = notification.renamed(Renames {
            request_id: Some(&newest.to_string()),
            ..Renames::default()
        });
        Some((newest, renamed))
    }

    /// Gives the client's response to a request of the server the id that the server uses. `None` if the server has no
    /// such request.
    pub(super) fn client_response(&self, response: &Frame) -> Option<Frame> {
        let number = number_of(response.id()?)?;
        let mut table = self.table.lock();
        let id = table.server_requests.remove(&number)?;
        if let Some(at) = table.server_order.iter().position(|old| *old == number) {
            table.server_order.remove(at);
        }
        Some(response.with_ids(Some(&id), None))
    }

    /// Finds the destination of a message that arrived on the stream of a request, or (`on`: `None`) on a stream that
    /// all requests share.
    pub(super) fn received(&self, message: Frame, on: Option<u64>) -> Destination {
        match message.kind() {
            FrameKind::Response => self.response(message),
            FrameKind::Request => {
                let number = self.number();
                let mut table = self.table.lock();
                let id = message.id().unwrap_or("null").into();
                table.server_requests.insert(number, id);
                table.server_order.push_back(number);
                if table.server_order.len() > MAX_SERVER_REQUESTS
                    && let Some(oldest) = table.server_order.pop_front()
                {
                    table.server_requests.remove(&oldest);
                }
                let renamed = message.with_ids(Some(&number.to_string()), None);
                table.related(renamed, on)
            }
            FrameKind::Notification => self.notification(message, on),
        }
    }

    fn response(&self, response: Frame) -> Destination {
        let mut table = self.table.lock();
        let number = response.id().and_then(number_of);
        let Some((number, call)) =
            number.and_then(|number| Some((number, table.calls.remove(&number)?)))
        else {
            return Destination::None;
        };
        let subscription = response
            .subscription_id()
            .and_then(|id| table.subscription(id, Some((number, &call))));
        let renamed = response.into_renamed(Renames {
            id: Some(&call.id),
            subscription_id: subscription.as_deref(),
            ..Renames::default()
        });
        if let Some(token) = call.token {
            table.kept_tokens.push_back((number, token));
            if table.kept_tokens.len() > MAX_KEPT_TOKENS {
                table.kept_tokens.pop_front();
            }
        }
        Destination::Call(call.sender, renamed)
    }

    fn notification(&self, message: Frame, on: Option<u64>) -> Destination {
        let mut table = self.table.lock();
        if let Some(token) = message.progress_token() {
            let number = number_of(token);
            if let Some(call) = number.and_then(|number| table.calls.get(&number)) {
                let renamed = message.with_ids(None, call.token.as_deref());
                return Destination::Call(call.sender.clone(), renamed);
            }
            let mut kept = table.kept_tokens.iter();
            let kept = kept.find(|(known, _)| Some(*known) == number);
            return Destination::Client(match kept {
                Some((_, token)) => message.with_ids(None, Some(token)),
                None => message,
            });
        }
        if let Some(id) = message.subscription_id() {
            if let Some(new) = table.subscription(id, None) {
                let renamed = message.renamed(Renames {
                    subscription_id: Some(&new),
                    ..Renames::default()
                });
                let number = unquoted(id).parse().ok();
                if let Some(call) = number.and_then(|number: u64| table.calls.get(&number)) {
                    return Destination::Call(call.sender.clone(), renamed);
                }
            }
            return table.related(message, on);
        }
        if let Some(id) = message.request_id() {
            // The end of a subscription, or of a request of the server.
            let number = number_of(id);
            if let Some(number) = number
                && table.calls.get(&number).is_some_and(|call| call.is_listen)
                && let Some(call) = table.calls.remove(&number)
            {
                let renamed = message.renamed(Renames {
                    request_id: Some(&call.id),
                    ..Renames::default()
                });
                return Destination::Call(call.sender, renamed);
            }
            let sought = canonical(id);
            let mut asked = table.server_requests.iter();
            let asked = asked.find(|(_, known)| canonical(known) == sought);
            let renamed = match asked {
                Some((number, _)) => message.renamed(Renames {
                    request_id: Some(&number.to_string()),
                    ..Renames::default()
                }),
                None => message,
            };
            return table.related(renamed, on);
        }
        let is_announcement = message.method().ends_with("/list_changed")
            || message.method() == "notifications/resources/updated";
        if is_announcement && on.is_none() {
            return Destination::Client(message);
        }
        table.related(message, on)
    }

    /// Ends the table: returns all requests in flight with the ids of their callers. None can be entered afterwards.
    pub(super) fn close(&self) -> Vec<(ExchangeSender, Box<str>)> {
        let mut table = self.table.lock();
        table.is_closed = true;
        table.server_requests.clear();
        table.server_order.clear();
        let calls = std::mem::take(&mut table.calls).into_values();
        calls.map(|call| (call.sender, call.id)).collect()
    }

    /// Removes a request, and returns its sender and the id of its caller.
    pub(super) fn take(&self, number: u64) -> Option<(ExchangeSender, Box<str>)> {
        let call = self.table.lock().calls.remove(&number)?;
        Some((call.sender, call.id))
    }
}

impl Table {
    /// Returns the destination of a message that names no request: the request on whose stream it came; on a shared stream
    /// the only request in flight, which it then most likely belongs to.
    fn related(&self, message: Frame, on: Option<u64>) -> Destination {
        let call = match on {
            Some(number) => self.calls.get(&number),
            None => {
                let mut calls = self.calls.values().filter(|call| !call.is_listen);
                calls.next().filter(|_| calls.next().is_none())
            }
        };
        match call {
            Some(call) => Destination::Call(call.sender.clone(), message),
            None => Destination::Client(message),
        }
    }

    /// Returns the id of a subscription as the caller knows it. A server that writes the number as a string gets the
    /// caller's number as a string, too.
    fn subscription(&self, id: &str, answered: Option<(u64, &Call)>) -> Option<String> {
        let number: u64 = unquoted(id).parse().ok()?;
        let call = match answered {
            Some((answered, call)) if answered == number => call,
            _ => self.calls.get(&number)?,
        };
        Some(if id.starts_with('"') && !call.id.starts_with('"') {
            format!("\"{}\"", call.id)
        } else {
            call.id.to_string()
        })
    }
}

/// Returns the number of an id of ours.
fn number_of(id: &str) -> Option<u64> {
    id.parse().ok()
}

fn unquoted(id: &str) -> &str {
    id.strip_prefix('"')
        .and_then(|id| id.strip_suffix('"'))
        .unwrap_or(id)
}

/// Returns an id in one spelling, so that escapes do not tell equal strings apart.
fn canonical(id: &str) -> String {
    match serde_json::from_str::<String>(id) {
        Ok(text) => format!("\"{text}"),
        Err(_) => id.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::relay::Exchange;

    fn frame(text: &str) -> Frame {
        Frame::parse(text.to_owned().into()).unwrap()
    }

    fn text(destination: Destination) -> (bool, String) {
        let (is_call, frame) = match destination {
            Destination::Call(_, frame) => (true, frame),
            Destination::Client(frame) => (false, frame),
            Destination::None => return (false, String::new()),
        };
        (is_call, String::from_utf8(frame.bytes().to_vec()).unwrap())
    }

    #[test]
    fn ids_and_tokens_come_back_exactly() {
        let calls = Calls::default();
        let (sender, _exchange) = Exchange::new();
        let request =
            r#"{"id":1.0,"method":"tools/call","params":{"_meta":{"progressToken":"p\u0041"}}}"#;
        let begun = calls.begin(frame(request), None, sender).unwrap();
        assert_eq!(
            begun.request.bytes(),
            r#"{"id":1,"method":"tools/call","params":{"_meta":{"progressToken":1}}}"#
        );
        let progress =
            r#"{"method":"notifications/progress","params":{"progressToken":1,"progress":50.0}}"#;
        assert_eq!(
            text(calls.received(frame(progress), None)),
            (
                true,
                r#"{"method":"notifications/progress","params":{"progressToken":"p\u0041","progress":50.0}}"#.to_owned()
            )
        );
        assert_eq!(
            text(calls.received(frame(r#"{"id":1,"result":{}}"#), None)),
            (true, r#"{"id":1.0,"result":{}}"#.to_owned())
        );
        // Late, or to nothing.
        assert_eq!(
            text(calls.received(frame(r#"{"id":1,"result":{}}"#), None)),
            (false, String::new())
        );
        // A task may go on after the response.
        assert!(
            text(calls.received(frame(progress), None))
                .1
                .contains(r#""p\u0041""#)
        );
    }

    #[test]
    fn requests_of_the_server_and_their_responses() {
        let calls = Calls::default();
        let asked = frame(r#"{"id":"s","method":"sampling/createMessage","params":{"x":1}}"#);
        let (_, seen) = text(calls.received(asked, None));
        assert_eq!(
            seen,
            r#"{"id":1,"method":"sampling/createMessage","params":{"x":1}}"#
        );
        let cancelled = r#"{"method":"notifications/cancelled","params":{"requestId":"\u0073"}}"#;
        assert_eq!(
            text(calls.received(frame(cancelled), None)).1,
            r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#
        );
        let response = frame(r#"{"result":{"y":1},"id":1}"#);
        let back = calls.client_response(&response).unwrap();
        assert_eq!(back.bytes(), r#"{"result":{"y":1},"id":"s"}"#);
        assert!(calls.client_response(&response).is_none());
    }

    #[test]
    fn subscriptions_and_cancellations() {
        let calls = Calls::default();
        let (sender, _exchange) = Exchange::new();
        let session: Arc<str> = "s".into();
        let listen = frame(r#"{"id":"l","method":"subscriptions/listen"}"#);
        let begun = calls
            .begin(listen, Some(Arc::clone(&session)), sender)
            .unwrap();
        let changed = r#"{"method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}"#;
        let (is_call, seen) = text(calls.received(frame(changed), None));
        assert!(
            is_call && seen.ends_with(r#"/subscriptionId":"l"}}}"#),
            "{seen}"
        );
        let cancelled = frame(r#"{"method":"notifications/cancelled","params":{"requestId":"l"}}"#);
        assert!(calls.cancelled(&cancelled, None).is_none());
        let (number, renamed) = calls.cancelled(&cancelled, Some(&session)).unwrap();
        assert_eq!(number, begun.number);
        assert_eq!(
            renamed.bytes(),
            r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#
        );
        assert!(calls.forget(number) && !calls.forget(number));
    }
}
