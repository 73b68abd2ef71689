//! Answers: immutable, shared, possibly still growing.

use std::sync::Arc;

use bytes::Bytes;

use crate::decoded::{DecodeError, Decoded};
use crate::flight::ReaderGuard;
use crate::reason::Failure;
use crate::stream::{CompleteBody, StreamEnd};

/// An immutable, shared answer that may still be growing. Cheap to clone.
#[derive(Clone)]
pub struct Body(Inner);

#[derive(Clone)]
enum Inner {
    Complete(Arc<CompleteBody>),
    /// The guard counts as a reader of the flight.
    Streaming(ReaderGuard),
}

impl Body {
    pub(crate) fn from_complete(whole: Arc<CompleteBody>) -> Self {
        Self(Inner::Complete(whole))
    }

    pub(crate) fn from_flight(reader: ReaderGuard) -> Self {
        Self(Inner::Streaming(reader))
    }

    /// Creates a reader that starts at the first byte, however late it joins.
    #[must_use]
    pub fn reader(&self) -> BodyReader {
        BodyReader {
            body: self.clone(),
            next: 0,
            ended: false,
        }
    }

    /// The whole answer, once it is complete.
    ///
    /// # Errors
    /// The failure of the run.
    pub async fn whole(&self) -> Result<Bytes, Failure> {
        Ok(self.complete().await?.bytes.clone())
    }

    async fn complete(&self) -> Result<Arc<CompleteBody>, Failure> {
        match &self.0 {
            Inner::Complete(whole) => Ok(Arc::clone(whole)),
            // Large, and not needed for a hit.
            Inner::Streaming(reader) => Box::pin(reader.flight().body.whole()).await,
        }
    }

    /// Returns the complete answer, decoded once per entry and shared by all readers that decode the same
    /// type. A form that is too large for [`crate::CacheBounds::front_bytes`] is decoded for each reader.
    ///
    /// # Errors
    /// The failure of the run, or of `decode` (as a [`Failure`] caused by [`DecodeError`]).
    pub async fn decoded<T: Decoded>(
        &self,
        decode: fn(&[u8]) -> Result<T, DecodeError>,
    ) -> Result<Arc<T>, Failure> {
        self.complete().await?.decode(decode)
    }
}

/// Reads an answer chunk by chunk.
pub struct BodyReader {
    body: Body,
    next: usize,
    ended: bool,
}

impl BodyReader {
    /// Returns the next chunk; `None` at the end. A failed run yields its failure as the last item.
    pub async fn next(&mut self) -> Option<Result<Bytes, Failure>> {
        if self.ended {
            return None;
        }
        let growing = match &self.body.0 {
            Inner::Complete(whole) => {
                self.ended = true;
                return (!whole.bytes.is_empty()).then(|| Ok(whole.bytes.clone()));
            }
            Inner::Streaming(reader) => &reader.flight().body,
        };
        let next = self.next;
        let step = growing
            .wait_for(|state| match (state.chunks.get(next), &state.end) {
                (Some(chunk), _) => Some(Step::Chunk(chunk.clone())),
                (None, Some(end)) => Some(Step::End(end.clone(), next == 0)),
                (None, None) => None,
            })
            .await;
        match step {
            Step::Chunk(chunk) => {
                self.next += 1;
                Some(Ok(chunk))
            }
            Step::End(end, nothing_read) => {
                self.ended = true;
                match end.into_complete() {
                    // An answer that was never emitted in chunks is one chunk.
                    Ok(whole) if nothing_read && !whole.bytes.is_empty() => {
                        Some(Ok(whole.bytes.clone()))
                    }
                    Ok(_) => None,
                    Err(failure) => Some(Err(failure)),
                }
            }
        }
    }
}

enum Step {
    Chunk(Bytes),
    End(StreamEnd, bool),
}
