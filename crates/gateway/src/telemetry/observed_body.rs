//! A body whose end is observed.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Frame, SizeHint};

use crate::body::{Body, BodyError};
use crate::header;

/// The end of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyEnd {
    /// All of it was handed over.
    Complete,
    /// It was cut off.
    Failed,
    /// It was dropped before: the receiver has left.
    Left,
}

/// A body that reports its end, once.
struct ObservedBody<F: FnOnce(BodyEnd)> {
    body: Body,
    /// Number of bytes with which it is complete, if it is announced.
    length: Option<u64>,
    handed: u64,
    /// Set at the end of the stream.
    end: Option<BodyEnd>,
    observe: Option<F>,
}

/// Returns the response with a body that calls `observe` at its end.
pub(super) fn observed(
    response: Response<Body>,
    observe: impl FnOnce(BodyEnd) + Send + Unpin + 'static,
) -> Response<Body> {
    let announced = header::content_length(response.headers());
    response.map(|body| {
        let observed = ObservedBody {
            length: body.size_hint().exact().or(announced),
            body,
            handed: 0,
            end: None,
            observe: Some(observe),
        };
        observed.boxed_unsync()
    })
}

impl<F: FnOnce(BodyEnd)> Drop for ObservedBody<F> {
    fn drop(&mut self) {
        // A receiver that has all bytes of a body of known length may not ask for the end of the stream.
        let is_complete =
            self.body.is_end_stream() || self.length.is_some_and(|length| self.handed >= length);
        let end = self.end.unwrap_or(if is_complete {
            BodyEnd::Complete
        } else {
            BodyEnd::Left
        });
        if let Some(observe) = self.observe.take() {
            observe(end);
        }
    }
}

impl<F: FnOnce(BodyEnd) + Unpin> hyper::body::Body for ObservedBody<F> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                self.handed += frame.data_ref().map_or(0, Bytes::len) as u64;
            }
            Poll::Ready(Some(Err(_))) => self.end = Some(BodyEnd::Failed),
            Poll::Ready(None) if self.end.is_none() => self.end = Some(BodyEnd::Complete),
            Poll::Ready(None) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
