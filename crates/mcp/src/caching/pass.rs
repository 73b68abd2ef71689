//! Requests that are passed on: their answers are not stored.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cachalot_cache::{Failure, RunResult, Ticket, WriteGuard};
use cachalot_core::Spend;
use tokio::time::Instant;

use super::in_flight::RequestInFlight;
use super::invalidation::end;
use super::shared::Shared;
use crate::relay::{CacheAccount, Exchange, ExchangeSender, Frame, FrameKind, RequestContext};

/// Maximum time for which a call that may change anything counts as running after its client has cancelled it, or its
/// connection broke: the server may go on with it.
const AFTER_LOSS: Duration = Duration::from_secs(3_600);

/// A request that is passed on.
pub(super) struct Passed {
    pub(super) request: Frame,
    pub(super) context: RequestContext,
    pub(super) sender: ExchangeSender,
    pub(super) call: Arc<RequestInFlight>,
    /// True if the request may change anything.
    pub(super) is_write: bool,
    /// The account of the request in the ledger.
    pub(super) ticket: Option<Ticket>,
    pub(super) learns: Learns,
}

/// State that is learned from the response.
pub(super) enum Learns {
    Nothing,
    /// The handshake of a session.
    Session,
    /// The tools that a client sees.
    Tools {
        client: String,
    },
}

/// The error of a request in the ledger.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct PassError(pub(super) &'static str);

/// A request that the server has.
pub(super) struct StartedRequest {
    request: Frame,
    session: Option<Arc<str>>,
    sender: ExchangeSender,
    call: Arc<RequestInFlight>,
    sent: SentRequest,
    ticket: Option<Ticket>,
    learns: Learns,
    /// The state of the definitions before the request.
    generation: u64,
}

/// The server's side of a request.
struct SentRequest {
    exchange: Exchange,
    /// The circumstances in which it was sent.
    context: RequestContext,
    guard: Option<WriteGuard>,
    /// The number of ends of the server before the request.
    ends: u64,
}

impl Passed {
    /// Sends the request to the server. Awaited before the next message of the client is sent, so that messages keep
    /// their order. `None` if the client has cancelled it already.
    pub(super) async fn start(self, shared: &Shared) -> Option<StartedRequest> {
        let Self {
            request,
            mut context,
            sender,
            call,
            is_write,
            ticket,
            learns,
        } = self;
        if call.is_cancelled() {
            return None;
        }
        let generation = shared.definitions.generation();
        let guard = if is_write {
            Some(shared.invalidation.begin_write().await)
        } else {
            None
        };
        let session = context.session.clone();
        if is_write && session.is_none() {
            // The ids of clients without sessions may be equal: the session tells their requests apart, so that one can
            // be cancelled while its exchange is read.
            context.session = Some(shared.name_of_write().into());
        }
        let ends = shared.upstream.ends();
        let exchange = shared
            .upstream
            .request(request.clone(), context.clone())
            .await;
        Some(StartedRequest {
            request,
            session,
            sender,
            call,
            sent: SentRequest {
                exchange,
                context,
                guard,
                ends,
            },
            ticket,
            learns,
            generation,
        })
    }

    /// Passes the request on, and all messages of its exchange back.
    pub(super) async fn run(self, shared: &Shared) {
        if let Some(started) = self.start(shared).await {
            started.finish(shared).await;
        }
    }
}

impl StartedRequest {
    /// Passes all messages of the exchange back.
    pub(super) async fn finish(self, shared: &Shared) {
        let Self {
            request,
            session,
            sender,
            call,
            mut sent,
            ticket,
            learns,
            generation,
        } = self;
        let response = loop {
            let frame = tokio::select! {
                biased;
                notification = call.cancelled() => {
                    // The client gets nothing more, and may use the id again.
                    drop((sender, call));
                    shared.upstream.notify(notification, sent.context.clone()).await;
                    return sent.drain(shared).await;
                }
                () = sender.cancelled() => return sent.leave(shared, &request).await,
                frame = sent.exchange.next() => frame,
            };
            match frame {
                Some(frame) if frame.kind() == FrameKind::Response => break frame,
                Some(frame) => {
                    shared.notice(&frame);
                    if !sender.send(frame) {
                        return sent.leave(shared, &request).await;
                    }
                }
                None => {
                    let has_ended = sent.note_end(shared);
                    drop(sender);
                    if let Some(ticket) = ticket {
                        ticket.fail(Failure::new(PassError("no response"))).await;
                    }
                    return sent.end_without_response(has_ended, Instant::now()).await;
                }
            }
        };
        match learns {
            Learns::Nothing => {}
            Learns::Session => {
                if shared.sessions.learn(session.as_ref(), &request, &response) {
                    // The session began anew: what the server remembered of it is lost.
                    shared.restarted();
                }
            }
            Learns::Tools { client } => {
                shared.learn_tools(&client, &request, &response, generation);
            }
        }
        // Before the client has the response: its next request finds the end of the write.
        sent.end_with(shared, &response).await;
        end(shared.open_tasks.take_ended(&request, &response)).await;
        let is_error = response.error().is_some();
        let reason = ticket.as_ref().and_then(|ticket| ticket.status().reason());
        let response = match reason.map(|reason| shared.shown_reason(reason)) {
            Some(reason) => response.with_cache_account(CacheAccount::bypass(reason)),
            None => response,
        };
        if !call.is_cancelled() {
            sender.send(response);
        }
        if let Some(ticket) = ticket {
            if is_error {
                ticket
                    .fail(Failure::new(PassError("an error response")))
                    .await;
            } else {
                // A bypass stores nothing, so that its row in the ledger needs no content.
                let spent = Spend::for_call(ticket.elapsed());
                ticket
                    .finish(RunResult::storable(Bytes::new(), spent))
                    .await;
            }
        }
    }
}

impl SentRequest {
    /// Cancels the request, because its client has gone without a notification.
    async fn leave(self, shared: &Shared, request: &Frame) {
        if self.guard.is_none() {
            // Dropping the exchange cancels the request.
            return;
        }
        // The exchange is read further: only it shows when the server has ended the call.
        let id = request.id().unwrap_or("null");
        let params = format!("{{\"requestId\":{id}}}");
        let notification = Frame::notification("notifications/cancelled", &params);
        shared
            .upstream
            .notify(notification, self.context.clone())
            .await;
        self.drain(shared).await;
    }

    /// Reads the exchange of a cancelled request to its end. The server may go on with the call, so that the write ends
    /// no earlier.
    async fn drain(mut self, shared: &Shared) {
        let cancelled = Instant::now();
        let reading = async {
            loop {
                match self.exchange.next().await {
                    Some(frame) if frame.kind() == FrameKind::Response => return Some(frame),
                    Some(frame) => {
                        shared.notice(&frame);
                        // A request of the server or a log message need not belong to this call: by stdio, it goes to the
                        // only one that is open.
                        if frame.method() != "notifications/progress" {
                            shared.pass_unattached(frame);
                        }
                    }
                    None => return None,
                }
            }
        };
        let read = tokio::time::timeout(AFTER_LOSS, reading).await;
        match read {
            Ok(Some(response)) => self.end_with(shared, &response).await,
            Ok(None) => {
                let has_ended = self.note_end(shared);
                self.end_without_response(has_ended, cancelled).await;
            }
            Err(_) => end(self.guard).await,
        }
    }

    /// Expires the answers of a server that has ended since the request was sent. Returns true if it has.
    fn note_end(&self, shared: &Shared) -> bool {
        let has_ended = shared.upstream.ends() != self.ends;
        if has_ended {
            shared.restarted();
        }
        has_ended
    }

    /// Ends a request that was answered.
    async fn end_with(&mut self, shared: &Shared, response: &Frame) {
        let has_ended = self.note_end(shared);
        let Some(guard) = self.guard.take() else {
            return;
        };
        if response.has_unknown_effect() && !has_ended {
            tokio::spawn(async move {
                tokio::time::sleep(AFTER_LOSS).await;
                end(Some(guard)).await;
            });
        } else {
            end(shared.open_tasks.keep(response, guard)).await;
        }
    }

    /// Ends a request without a response: the server ended, or its connection shows nothing of a cancelled request, which
    /// the server may still work on.
    async fn end_without_response(self, has_ended: bool, since: Instant) {
        if !has_ended && self.guard.is_some() {
            tokio::time::sleep_until(since + AFTER_LOSS).await;
        }
        end(self.guard).await;
    }
}
