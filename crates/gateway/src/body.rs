//! Bodies of requests to upstreams and of responses to clients.

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt as _};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};

/// An error of a body. What reads the body sees that it is cut off.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A body.
pub(crate) type Body = UnsyncBoxBody<Bytes, BodyError>;

/// Returns a body of known length.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// Returns a body whose bytes arrive over time.
pub(crate) fn stream(
    chunks: impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static,
) -> Body {
    StreamBody::new(chunks.map_ok(Frame::data)).boxed_unsync()
}

/// Returns a body that is passed on as it arrives.
pub(crate) fn passed(incoming: Incoming) -> Body {
    incoming.map_err(Into::into).boxed_unsync()
}
