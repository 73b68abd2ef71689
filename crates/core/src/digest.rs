//! SHA-256 digests.

use std::fmt;
use std::str::FromStr;

use sha2::Digest as _;

/// A SHA-256 digest. Displays as 64 lower-case hex digits.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Computes the digest of `bytes`.
    #[must_use]
    pub fn sha256(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// Computes the digest of bytes that are given in chunks.
    #[must_use]
    pub fn sha256_of_chunks<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut hasher = sha2::Sha256::new();
        chunks.for_each(|chunk| hasher.update(chunk));
        Self(hasher.finalize().into())
    }

    /// Computes the digest of several parts as [`Digest::sha256_of_parts`] does; the last part, of `length` bytes, is
    /// given in chunks.
    #[must_use]
    pub fn sha256_of_parts_and_chunks<'a>(
        parts: &[&[u8]],
        length: usize,
        chunks: impl Iterator<Item = &'a [u8]>,
    ) -> Self {
        let mut hasher = sha2::Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        hasher.update((length as u64).to_le_bytes());
        chunks.for_each(|chunk| hasher.update(chunk));
        Self(hasher.finalize().into())
    }

    /// Computes the digest of several parts, each preceded by its length, so that different lists of parts
    /// have different digests.
    #[must_use]
    pub fn sha256_of_parts(parts: &[&[u8]]) -> Self {
        let mut hasher = sha2::Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    /// The 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the 64 lower-case hex digits.
    #[must_use]
    pub fn to_hex(&self) -> String {
        hex::encode(self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0_u8; 64];
        hex::encode_to_slice(self.0, &mut text).map_err(|_| fmt::Error)?;
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The number of hex digits of a shown digest.
const SHOWN_DIGITS: usize = 10;

/// The minimum number of hex digits that stand for a digest in an argument.
const MIN_DIGITS: usize = 4;

/// Returns the text with 10 hex digits of the digest that it ends with: `cache:sum:json.transform:50e309da65`.
/// A text without a digest is returned whole.
#[must_use]
pub fn abbreviate(text: &str) -> &str {
    match before_digest(text) {
        Some(before) => &text[..before.len() + SHOWN_DIGITS],
        None => text,
    }
}

/// True if `short` may stand for `whole`: it is the same, or `whole` ends with a digest, and `short` with at
/// least 4 of its first digits. The part before the digest is the same, or left out.
#[must_use]
pub fn is_abbreviation(short: &str, whole: &str) -> bool {
    let is_prefix = |before: &str| {
        let digits = short.strip_prefix(before).unwrap_or(short);
        digits.len() >= MIN_DIGITS && whole[before.len()..].starts_with(digits)
    };
    short == whole || before_digest(whole).is_some_and(is_prefix)
}

/// True if the text ends with digits that may stand for a digest.
#[must_use]
pub fn may_be_abbreviation(text: &str) -> bool {
    let digits = text.rsplit(':').next().unwrap_or_default();
    (MIN_DIGITS..64).contains(&digits.len()) && digits.bytes().all(is_digit)
}

/// Returns the part of a key or handle before the digest that it ends with.
fn before_digest(text: &str) -> Option<&str> {
    let (before, digest) = text.split_at_checked(text.len().checked_sub(64)?)?;
    let is_whole = before.is_empty() || before.ends_with(':');
    (is_whole && digest.bytes().all(is_digit)).then_some(before)
}

fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// The error of parsing a text that is not 64 hex digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a digest: expected 64 hex digits")]
pub struct InvalidDigest;

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| InvalidDigest)?;
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_at_the_end_are_abbreviated() {
        let digest = "0123456789abcdef".repeat(4);
        let handle = format!("cache:a:shell.run:{digest}");
        assert_eq!(abbreviate(&digest), "0123456789");
        assert_eq!(abbreviate(&handle), "cache:a:shell.run:0123456789");
        for other in ["", "cache:a:key", "é", &format!("x{digest}"), &digest[1..]] {
            assert_eq!(abbreviate(other), other);
        }
        for short in ["0123", "0123456789", &digest] {
            assert!(is_abbreviation(short, &digest), "{short}");
        }
        assert!(is_abbreviation("cache:a:shell.run:0123", &handle));
        assert!(is_abbreviation("0123456789", &handle));
        assert!(is_abbreviation("cache:a:key", "cache:a:key"));
        for short in [
            "012",
            "1234",
            "",
            "cache:a:shell.run:",
            "cache:a:shell.run:012",
        ] {
            assert!(!is_abbreviation(short, &digest), "{short}");
            assert!(!is_abbreviation(short, &handle), "{short}");
        }
        assert!(!is_abbreviation("cache:a:ke", "cache:a:key"));
        assert!(may_be_abbreviation("cache:a:b:0123") && may_be_abbreviation("beef"));
        assert!(!may_be_abbreviation("cache:a:key") && !may_be_abbreviation(&digest));
    }
}
