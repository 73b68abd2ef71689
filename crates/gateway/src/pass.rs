//! Requests that are passed on without storing their answers.

use bytes::Bytes;
use cachalot_cache::{Failure, Reason, RunResult, Ticket};
use cachalot_core::{Cost, Spend};
use futures_util::stream;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;

use crate::answer::AnswerReader;
use crate::body::{self, Body, BodyError};
use crate::cache_status;
use crate::client::UpstreamClient;
use crate::error_body::ErrorBody;
use crate::header;
use crate::run::{RunContext, RunError, next_chunk};

/// Passes a request on. Its answer is not read.
pub(crate) async fn unread(
    client: &UpstreamClient,
    request: Request<Body>,
    status: HeaderValue,
) -> Result<Response<Body>, ErrorBody> {
    let (parts, incoming) = client.send(request).await?.into_parts();
    let mut response = Response::new(body::passed(incoming));
    *response.status_mut() = parts.status;
    *response.headers_mut() = header::for_client(&parts.headers);
    response.headers_mut().append(cache_status::HEADER, status);
    Ok(response)
}

/// Passes a request on, and reads the answer for the ledger. A client that leaves ends the request, as without a
/// gateway.
pub(crate) async fn read(
    context: RunContext,
    request: Request<Body>,
    ticket: Ticket,
    reason: Reason,
    status: HeaderValue,
) -> Result<Response<Body>, ErrorBody> {
    let (parts, incoming) = match context.client.send(request).await {
        Ok(response) => response.into_parts(),
        Err(fault) => {
            ticket
                .fail(Failure::new(RunError(fault.message.clone())))
                .await;
            return Err(fault);
        }
    };
    let passing = Passing {
        reader: AnswerReader::new(
            context.endpoint,
            context.is_streamed,
            parts.status,
            &parts.headers,
        ),
        context,
        incoming,
        status: parts.status,
        reason,
        rest: header::content_length(&parts.headers),
        ticket: Some(ticket),
    };
    let mut response = Response::new(body::stream(stream::unfold(passing, Passing::next)));
    *response.status_mut() = parts.status;
    *response.headers_mut() = header::for_client(&parts.headers);
    response.headers_mut().append(cache_status::HEADER, status);
    Ok(response)
}

/// An answer that is being passed on.
struct Passing {
    context: RunContext,
    incoming: Incoming,
    reader: AnswerReader,
    status: StatusCode,
    reason: Reason,
    /// Number of bytes that are still to come, if the upstream has announced it.
    rest: Option<u64>,
    /// `None` once the answer is complete.
    ticket: Option<Ticket>,
}

impl Passing {
    async fn next(mut self) -> Option<(Result<Bytes, BodyError>, Self)> {
        match next_chunk(&mut self.incoming, self.context.idle_timeout).await {
            Some(Ok(chunk)) => {
                self.reader.push(&chunk);
                if let Some(rest) = &mut self.rest {
                    *rest = rest.saturating_sub(chunk.len() as u64);
                }
                // The client may read no further than to here.
                if self.rest == Some(0) || self.reader.is_complete() {
                    self.end().await;
                }
                Some((Ok(chunk), self))
            }
            Some(Err(error)) => {
                if let Some(ticket) = self.ticket.take() {
                    ticket.charge(unknown_cost(self.status));
                    ticket.fail(Failure::new(error.clone())).await;
                }
                Some((Err(error.into()), self))
            }
            None => {
                self.end().await;
                None
            }
        }
    }

    async fn end(&mut self) {
        let Some(ticket) = self.ticket.take() else {
            return;
        };
        let reader = std::mem::replace(&mut self.reader, AnswerReader::none());
        let report = reader.finish();
        let spent = match self.status {
            StatusCode::OK => self.context.charge(&report),
            _ => Spend::default(),
        };
        if !self.status.is_success() {
            ticket.mark_error();
        }
        let spent = Spend {
            calls: 1,
            time: ticket.elapsed(),
            ..spent
        };
        self.context.metrics.pay(&self.context.upstream, spent);
        let result = RunResult {
            value: Some(Bytes::new()),
            storable: Err(self.reason.clone()),
            spent,
            labels: Vec::new(),
        };
        ticket.finish(result).await;
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        // The client has left. The provider charges for what it has generated.
        if let Some(ticket) = &self.ticket {
            ticket.charge(unknown_cost(self.status));
        }
    }
}

/// Returns the charge for an answer that was not received to its end.
fn unknown_cost(status: StatusCode) -> Spend {
    match status {
        StatusCode::OK => Spend {
            cost: Cost::UNPRICED,
            ..Spend::default()
        },
        _ => Spend::default(),
    }
}
