//! Requests that are passed on without storing their answers.

use bytes::Bytes;
use cachalot_cache::{Failure, Reason, RunResult, Ticket};
use futures_util::stream;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;

use crate::answer::AnswerReader;
use crate::body::{self, Body, BodyError};
use crate::budget::Reservation;
use crate::cache_status;
use crate::client::UpstreamClient;
use crate::error_body::ErrorBody;
use crate::header;
use crate::outbound::Outbound;
use crate::run::{RunContext, RunError, next_chunk};
use crate::telemetry::upstream_span::UpstreamSpan;
use crate::upstream::Upstream;
use crate::usage_filter::UsageFilter;

/// Passes a request on. Its answer is not read.
pub(crate) async fn unread(
    client: &UpstreamClient,
    upstream: &Upstream,
    request: Request<Body>,
    status: HeaderValue,
    span: UpstreamSpan,
) -> Result<Response<Body>, ErrorBody> {
    let sent = client.send_once(upstream, request, &span).await;
    let (parts, incoming) = sent?.into_parts();
    let mut response = Response::new(body::passed(incoming));
    *response.status_mut() = parts.status;
    // Requests that are not read are never sent with a credential of the operator.
    *response.headers_mut() = header::for_client(&parts.headers, false);
    response.headers_mut().append(cache_status::HEADER, status);
    Ok(span.until_end(response))
}

/// Passes a request on, and reads the answer for the ledger. A client that leaves ends the request, as without a
/// gateway.
pub(crate) async fn read(
    context: RunContext,
    outbound: &Outbound,
    ticket: Ticket,
    reason: Reason,
    status: HeaderValue,
) -> Result<Response<Body>, ErrorBody> {
    let ((parts, incoming), reservation) = match context.send(outbound).await {
        Ok((response, reservation)) => (response.into_parts(), reservation),
        Err(fault) => {
            ticket
                .fail(Failure::new(RunError(fault.message.clone())))
                .await;
            return Err(fault);
        }
    };
    let reader = AnswerReader::new(
        context.endpoint,
        context.form.is_events(),
        parts.status,
        &parts.headers,
    )
    .with_kept_ids(context.kept_for.is_some());
    let headers = header::for_client(&parts.headers, context.is_of_operator);
    let passing = Passing {
        filter: context.usage_filter(&parts.headers),
        context,
        incoming,
        status: parts.status,
        reason,
        rest: header::content_length(&parts.headers),
        unfinished: Some((ticket, reader)),
        reservation,
    };
    let mut response = Response::new(body::stream(stream::unfold(passing, Passing::next)));
    *response.status_mut() = parts.status;
    *response.headers_mut() = headers;
    response.headers_mut().append(cache_status::HEADER, status);
    Ok(response)
}

/// An answer that is being passed on.
struct Passing {
    context: RunContext,
    incoming: Incoming,
    status: StatusCode,
    reason: Reason,
    /// Number of bytes that are still to come, if the upstream has announced it.
    rest: Option<u64>,
    /// Removes the usage that the client did not ask for.
    filter: Option<UsageFilter>,
    /// `None` once the answer is complete.
    unfinished: Option<(Ticket, AnswerReader)>,
    reservation: Option<Reservation>,
}

impl Passing {
    async fn next(mut self) -> Option<(Result<Bytes, BodyError>, Self)> {
        loop {
            let Some(passed) = self.next_passed().await else {
                let rest = self.filter.take().map(UsageFilter::finish);
                let rest = rest.filter(|rest| !rest.is_empty())?;
                return Some((Ok(rest), self));
            };
            let is_held_back = self.filter.is_some() && passed.as_ref().is_ok_and(Bytes::is_empty);
            if !is_held_back {
                return Some((passed, self));
            }
        }
    }

    /// Returns the next bytes for the client, which may be none.
    async fn next_passed(&mut self) -> Option<Result<Bytes, BodyError>> {
        match next_chunk(&mut self.incoming, self.context.idle_timeout).await {
            Some(Ok(chunk)) => {
                let mut is_complete = false;
                if let Some((_, reader)) = &mut self.unfinished {
                    reader.push(&chunk);
                    is_complete = reader.is_complete();
                }
                if let Some(rest) = &mut self.rest {
                    *rest = rest.saturating_sub(chunk.len() as u64);
                }
                // The client may read no further than to here.
                if self.rest == Some(0) || is_complete {
                    self.end().await;
                }
                Some(Ok(match &mut self.filter {
                    Some(filter) => filter.push(&chunk),
                    None => chunk,
                }))
            }
            Some(Err(error)) => {
                if let Some((ticket, _)) = self.unfinished.take() {
                    self.context.account_unfinished(&ticket, self.status);
                    ticket.fail(Failure::new(error.clone())).await;
                }
                Some(Err(error.into()))
            }
            None => {
                self.end().await;
                None
            }
        }
    }

    async fn end(&mut self) {
        let Some((ticket, reader)) = self.unfinished.take() else {
            return;
        };
        let reservation = self.reservation.take();
        let report = reader.finish();
        let spent = self
            .context
            .account(&ticket, self.status, &report, reservation);
        let spent = spent.await;
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
        // The client has left. What was reserved stays reserved.
        if let Some((ticket, _)) = &self.unfinished {
            self.context.account_unfinished(ticket, self.status);
        }
    }
}
