//! Answers: immutable, shared, possibly still growing.

use std::sync::Arc;

use bytes::Bytes;

use crate::complete::CompleteBody;
use crate::decoded::{DecodeError, Decoded};
use crate::flight::ReaderGuard;
use crate::reason::Failure;
use crate::stream::Step;

/// An immutable, shared answer that may still be growing. Cheap to clone.
///
/// It keeps the whole answer in memory, so that it can be read from the first byte at any time. A caller that reads
/// a long answer once takes [`Body::into_reader`].
#[derive(Clone)]
pub struct Body(Inner);

#[derive(Clone)]
enum Inner {
    Complete(Arc<CompleteBody>),
    /// The guard counts as a reader of the flight, and holds all chunks.
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
        self.clone().into_reader()
    }

    /// Returns a reader that starts at the first byte. Of an answer that is not stored
    /// ([`crate::Ticket::decline`]), it keeps only the chunks that it has not read.
    #[must_use]
    pub fn into_reader(self) -> BodyReader {
        if let Inner::Streaming(reader) = &self.0 {
            reader.stop_holding();
        }
        BodyReader {
            source: self.0,
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
///
/// A reader of an answer that is not stored ([`crate::Ticket::decline`]) fails if it falls too far behind: at most
/// [`crate::RunPolicy::max_bytes`] that it has not read are kept for it, and at least 1 MiB. Other readers and the run do
/// not wait for it.
pub struct BodyReader {
    /// A guard holds only the chunks that are not read yet.
    source: Inner,
    ended: bool,
}

impl BodyReader {
    /// Returns the next chunk; `None` at the end. A failed run yields its failure as the last item.
    pub async fn next(&mut self) -> Option<Result<Bytes, Failure>> {
        if self.ended {
            return None;
        }
        let end = match &self.source {
            Inner::Complete(whole) => Ok(Some(Arc::clone(whole))),
            Inner::Streaming(reader) => match reader.next().await {
                Step::Chunk(chunk) => return Some(Ok(chunk)),
                Step::End(end) => end,
            },
        };
        self.ended = true;
        let whole = end.map(|end| end.map(|whole| whole.bytes.clone()));
        whole
            .map(|whole| whole.filter(|bytes| !bytes.is_empty()))
            .transpose()
    }
}
