//! Codings of request bodies: a compressed body is decompressed to be judged, and passed on as it was sent.

use std::io::Read;

use bytes::Bytes;
use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use http::{HeaderMap, header};
use ruzstd::decoding::StreamingDecoder;

use crate::error_body::ErrorBody;

/// The coding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    None,
    Gzip,
    Deflate,
    Zstd,
    /// One that is not read, or several.
    Unknown,
}

impl Coding {
    /// Returns the coding that the headers announce.
    pub(crate) fn of_body(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(header::CONTENT_ENCODING).iter();
        match (
            values.next().map(http::HeaderValue::as_bytes),
            values.next(),
        ) {
            (None, _) => Self::None,
            (Some(_), Some(_)) => Self::Unknown,
            (Some(coding), None) => match coding.to_ascii_lowercase().as_slice() {
                b"identity" => Self::None,
                b"gzip" | b"x-gzip" => Self::Gzip,
                b"deflate" => Self::Deflate,
                b"zstd" => Self::Zstd,
                _ => Self::Unknown,
            },
        }
    }

    /// Returns true for a coding that [`Coding::decode`] decompresses.
    pub(crate) fn is_compressed(self) -> bool {
        matches!(self, Self::Gzip | Self::Deflate | Self::Zstd)
    }

    /// Decodes a body; `None` if it is compressed, and longer than `limit` when it is decompressed.
    ///
    /// # Errors
    /// The response to a body that is malformed.
    pub(crate) fn decode(self, body: &Bytes, limit: usize) -> Option<Result<Bytes, ErrorBody>> {
        match self {
            Self::None | Self::Unknown => Some(Ok(body.clone())),
            // All members: servers differ in reading more than the first.
            Self::Gzip => read(&mut MultiGzDecoder::new(body.as_ref()), limit),
            Self::Deflate => {
                let mut decoder = ZlibDecoder::new(body.as_ref());
                let decoded = read(&mut decoder, limit)?;
                Some(decoded.and_then(|decoded| at_end(decoded, decoder.get_ref())))
            }
            // One frame: further ones would have to be decompressed within the same limit.
            Self::Zstd => {
                // The decoder holds a whole window before it returns a byte, however small the limit.
                if zstd_window(body).is_some_and(|window| window > limit as u64) {
                    return None;
                }
                let mut rest = body.as_ref();
                let decoded = match StreamingDecoder::new(&mut rest) {
                    Ok(mut decoder) => read(&mut decoder, limit)?,
                    Err(error) => Err(malformed(&error)),
                };
                Some(decoded.and_then(|decoded| at_end(decoded, rest)))
            }
        }
    }
}

/// Returns the size of the window of a frame (RFC 8878, section 3.1.1.1): that of its content, if it has no window of its
/// own. `None` for what is no frame.
fn zstd_window(body: &[u8]) -> Option<u64> {
    let (magic, header) = body.split_at_checked(4)?;
    if magic != [0x28, 0xb5, 0x2f, 0xfd] {
        return None;
    }
    let (descriptor, rest) = header.split_first()?;
    let is_single_segment = descriptor & 0x20 != 0;
    if !is_single_segment {
        let window = u64::from(*rest.first()?);
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * (window & 7));
    }
    let id_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size_bytes = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let size = rest.get(id_bytes..id_bytes + size_bytes)?;
    let size = size
        .iter()
        .rev()
        .fold(0, |sum, byte| (sum << 8) | u64::from(*byte));
    Some(if size_bytes == 2 { size + 256 } else { size })
}

/// Refuses a body with bytes behind its end.
fn at_end(decoded: Bytes, rest: &[u8]) -> Result<Bytes, ErrorBody> {
    if rest.is_empty() {
        Ok(decoded)
    } else {
        Err(malformed(&"bytes follow its end"))
    }
}

fn read(decoder: impl Read, limit: usize) -> Option<Result<Bytes, ErrorBody>> {
    let mut decoded = Vec::new();
    // One byte more shows that the limit is exceeded, without decompressing the rest.
    let read = decoder.take(limit as u64 + 1).read_to_end(&mut decoded);
    match read {
        Ok(length) if length <= limit => Some(Ok(decoded.into())),
        Ok(_) => None,
        Err(error) => Some(Err(malformed(&error))),
    }
}

/// Returns the response to a body that is longer than `limit` bytes when it is decompressed.
pub(crate) fn too_large(limit: usize) -> ErrorBody {
    ErrorBody::too_large(format!(
        "the decompressed body is longer than {limit} bytes"
    ))
}

fn malformed(reason: &dyn std::fmt::Display) -> ErrorBody {
    let message = format!("the body cannot be decompressed: {reason}");
    ErrorBody::bad_request("malformed_body", message)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::*;

    fn coding(values: &[&str]) -> Coding {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("content-encoding", value.parse().unwrap());
        }
        Coding::of_body(&headers)
    }

    #[test]
    fn codings_are_recognized() {
        assert_eq!(coding(&[]), Coding::None);
        assert_eq!(coding(&["identity"]), Coding::None);
        assert_eq!(coding(&["GZIP"]), Coding::Gzip);
        assert_eq!(coding(&["deflate"]), Coding::Deflate);
        assert_eq!(coding(&["zstd"]), Coding::Zstd);
        for several in [&["br"][..], &["gzip, gzip"], &["gzip", "identity"], &[""]] {
            assert_eq!(coding(several), Coding::Unknown, "{several:?}");
        }
    }

    #[test]
    fn bodies_are_decompressed_under_the_limit() {
        let compressed = |bytes: &[u8]| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(bytes).unwrap();
            Bytes::from(encoder.finish().unwrap())
        };
        let decode = |coding: Coding, bytes: &Bytes| coding.decode(bytes, 1_000).unwrap();
        let small = compressed(b"{}");
        assert_eq!(decode(Coding::Gzip, &small).unwrap(), "{}");
        let bomb = compressed(&vec![b' '; 1_001]);
        assert!(bomb.len() < 100);
        assert!(Coding::Gzip.decode(&bomb, 1_000).is_none());
        for cut in 0..small.len() {
            assert!(decode(Coding::Gzip, &small.slice(..cut)).is_err(), "{cut}");
        }
        assert!(decode(Coding::Deflate, &small).is_err());
        let two = [&small[..], &compressed(b" []")].concat();
        let decoded = decode(Coding::Gzip, &two.into()).unwrap();
        assert_eq!(decoded, "{} []", "both members");
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(b"{}").unwrap();
        let mut deflated = encoder.finish().unwrap();
        let whole = decode(Coding::Deflate, &deflated.clone().into());
        assert_eq!(whole.unwrap(), "{}");
        deflated.push(0);
        assert!(decode(Coding::Deflate, &deflated.into()).is_err());
    }

    #[test]
    fn a_body_in_zstd_is_decompressed_under_the_limit() {
        const LIMIT: usize = 512 << 10;
        let compressed = |bytes: &[u8]| {
            let level = ruzstd::encoding::CompressionLevel::Fastest;
            ruzstd::encoding::compress_to_vec(bytes, level)
        };
        let decode = |bytes: &[u8]| Coding::Zstd.decode(&Bytes::copy_from_slice(bytes), LIMIT);
        let small = compressed(b"{}");
        assert_eq!(decode(&small).unwrap().unwrap(), "{}");
        assert!(decode(&compressed(&vec![b' '; LIMIT + 1])).is_none());
        for cut in 0..small.len() {
            assert!(decode(&small[..cut]).unwrap().is_err(), "{cut}");
        }
        // Windows of 2 TiB and of 1 MiB, and a content of 1 MiB; each block repeats a byte 131,072 times.
        for header in [
            &[0x00, 0xf8][..],
            &[0x00, 0x50],
            &[0xa0, 0x00, 0x00, 0x10, 0x00],
        ] {
            let block = [0x02, 0x00, 0x10, 0x20];
            let bomb = [&[0x28, 0xb5, 0x2f, 0xfd][..], header, &block.repeat(8)].concat();
            assert!(decode(&bomb).is_none(), "{header:?}");
        }
        let followed = [&small[..], b"x"].concat();
        assert!(decode(&followed).unwrap().is_err());
    }
}
