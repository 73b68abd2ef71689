//! The events of an HTTP response, with a maximum size.

use std::io;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _, future};
use reqwest::Response;
use sse_stream::{Sse, SseStream};

use crate::http::EventSize;
use crate::relay::MAX_MESSAGE_BYTES;

/// The events of a response.
pub(super) type Events = BoxStream<'static, Result<Sse, sse_stream::Error>>;

/// Returns the events of a body. A message that is too large ends them with an error.
pub(super) fn event_stream(response: Response) -> Events {
    let bounded = bounded(response.bytes_stream());
    SseStream::from_bytes_stream(bounded).boxed()
}

/// Returns true for a stream that was cut off, and false for one with an event that cannot be read.
pub(super) fn is_cut(error: &sse_stream::Error) -> bool {
    let sse_stream::Error::Body(error) = error else {
        return false;
    };
    let error = error.downcast_ref::<io::Error>();
    error.is_none_or(|error| error.kind() != io::ErrorKind::InvalidData)
}

fn bounded(
    chunks: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let size = Some(EventSize::new(MAX_MESSAGE_BYTES));
    chunks.scan(size, |size, chunk| {
        // Nothing is read after a message that is too large.
        let Some(mut counted) = size.take() else {
            return future::ready(None);
        };
        future::ready(Some(match chunk {
            Err(error) => Err(io::Error::other(error)),
            Ok(chunk) if counted.fits(&chunk) => {
                *size = Some(counted);
                Ok(chunk)
            }
            Ok(_) => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a message of more than {} MiB", MAX_MESSAGE_BYTES >> 20),
            )),
        }))
    })
}
