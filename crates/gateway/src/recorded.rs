//! Recorded answers: the head and the bytes of a response, as the engine stores them.
//!
//! While a run lasts, its first chunk is the head, and each further chunk contains the bytes of the body as they
//! arrived. A stored entry is one piece:
//!
//! | bytes | content |
//! |---|---|
//! | 1 | the kind: `h` for a head alone, `e` for an entry |
//! | 1 | entry only: number of the form |
//! | 4 | length of the head, little endian |
//! | … | the head, in postcard |
//! | 4 | entry only: length of the list of chunks |
//! | … | entry only: the list, in postcard: milliseconds since the last chunk, and number of bytes |
//! | … | entry only: the bytes of the body |

use bytes::{BufMut as _, Bytes, BytesMut};
use cachalot_cache::DecodeError;
use serde::{Deserialize, Serialize};

use crate::endpoint::Endpoint;

/// The head of a recorded response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordedHead {
    pub(crate) status: u16,
    /// Headers that are sent with a hit.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) endpoint: Endpoint,
    /// Number of the form.
    pub(crate) form: u8,
}

/// A chunk of a body: milliseconds since the one before, and its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChunkMark {
    pub(crate) after_ms: u32,
    pub(crate) bytes: u32,
}

/// A recorded response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) head: RecordedHead,
    pub(crate) chunks: Vec<ChunkMark>,
    pub(crate) body: Bytes,
}

const HEAD: u8 = b'h';
const ENTRY: u8 = b'e';

impl RecordedHead {
    /// Returns the first chunk of a run.
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u8(HEAD);
        put(&mut out, self);
        out.freeze()
    }
}

/// Returns the entry of an answer whose body arrived in these chunks. The bytes of the body are copied once.
pub(crate) fn encode_entry(head: &RecordedHead, marks: &[ChunkMark], body: &[Bytes]) -> Bytes {
    let length: usize = body.iter().map(Bytes::len).sum();
    let mut out = BytesMut::with_capacity(length + 4 * marks.len() + 256);
    out.put_u8(ENTRY);
    // The form comes before the head, so that `form_number` reads it without decoding the head.
    out.put_u8(head.form);
    put(&mut out, head);
    put(&mut out, marks);
    body.iter().for_each(|chunk| out.extend_from_slice(chunk));
    out.freeze()
}

/// The first chunk of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FirstChunk {
    /// The head of an answer that is being received.
    Head(RecordedHead),
    /// A whole answer.
    Entry(Recorded),
}

impl FirstChunk {
    /// Decodes the first chunk; an entry's body shares its bytes.
    ///
    /// # Errors
    /// The bytes are no first chunk.
    pub(crate) fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        let mut rest = bytes.clone();
        let kind = rest.split_to(rest.len().min(1));
        match kind.as_ref() {
            [HEAD] => Ok(Self::Head(take(&mut rest)?)),
            [ENTRY] => {
                let _ = rest.split_to(rest.len().min(1));
                let (head, chunks) = (take(&mut rest)?, take::<Vec<ChunkMark>>(&mut rest)?);
                let marked: u64 = chunks.iter().map(|chunk| u64::from(chunk.bytes)).sum();
                // A body that is cut off, or has bytes after it, is refused.
                if marked != rest.len() as u64 {
                    return Err(DecodeError("the chunks do not cover the body".into()));
                }
                Ok(Self::Entry(Recorded {
                    head,
                    chunks,
                    body: rest,
                }))
            }
            _ => Err(DecodeError("neither a head nor an entry".into())),
        }
    }
}

/// Returns the number of the form of an entry.
pub(crate) fn form_number(entry: &Bytes) -> Option<u8> {
    match entry.as_ref() {
        [ENTRY, form, ..] => Some(*form),
        _ => None,
    }
}

fn put(out: &mut BytesMut, part: &(impl Serialize + ?Sized)) {
    // Cannot fail: the parts have no maps, and memory grows.
    let part = postcard::to_stdvec(part).unwrap_or_default();
    out.put_u32_le(part.len() as u32);
    out.extend_from_slice(&part);
}

fn take<T: for<'de> Deserialize<'de>>(rest: &mut Bytes) -> Result<T, DecodeError> {
    let short = || DecodeError("cut off".into());
    let length = rest.get(..4).ok_or_else(short)?;
    let length = length
        .iter()
        .rev()
        .fold(0_usize, |sum, byte| (sum << 8) | usize::from(*byte));
    let _ = rest.split_to(4);
    if length > rest.len() {
        return Err(short());
    }
    let part = rest.split_to(length);
    postcard::from_bytes(&part).map_err(|error| DecodeError(error.to_string()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn recorded() -> impl Strategy<Value = Recorded> {
        let headers = prop::collection::vec(
            ("[a-z-]{1,8}", prop::collection::vec(any::<u8>(), 0..8)),
            0..3,
        );
        let chunks = prop::collection::vec(
            (any::<u32>(), prop::collection::vec(any::<u8>(), 0..20)),
            0..6,
        );
        (100..600_u16, headers, chunks).prop_map(|(status, headers, chunks)| Recorded {
            head: RecordedHead {
                status,
                headers,
                endpoint: Endpoint::chat(),
                form: 1,
            },
            chunks: chunks
                .iter()
                .map(|(after_ms, bytes)| ChunkMark {
                    after_ms: *after_ms,
                    bytes: bytes.len() as u32,
                })
                .collect(),
            body: chunks.iter().flat_map(|(_, bytes)| bytes.clone()).collect(),
        })
    }

    proptest! {
        #[test]
        fn answers_survive_recording(recorded in recorded()) {
            let halves = [recorded.body.slice(..recorded.body.len() / 2), recorded.body.slice(recorded.body.len() / 2..)];
            let bytes = encode_entry(&recorded.head, &recorded.chunks, &halves);
            prop_assert_eq!(FirstChunk::decode(&bytes).unwrap(), FirstChunk::Entry(recorded.clone()));
            let head = FirstChunk::decode(&recorded.head.encode()).unwrap();
            prop_assert_eq!(head, FirstChunk::Head(recorded.head.clone()));
            // Cut at every byte: an error, never another answer.
            for end in 0..bytes.len() {
                prop_assert!(FirstChunk::decode(&bytes.slice(..end)).is_err(), "{}", end);
            }
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = FirstChunk::decode(&bytes.into());
        }
    }
}
