//! (De)serializes digests as 64 hex digits.

use cachalot_core::Digest;
use serde::{Deserialize as _, Deserializer, Serializer, de};

pub(crate) fn serialize<S: Serializer>(digest: &Digest, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(digest)
}

pub(crate) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Digest, D::Error> {
    std::borrow::Cow::<'a, str>::deserialize(from)?
        .parse()
        .map_err(de::Error::custom)
}

/// A digest in this form, for options and lists.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub(crate) struct HexDigest(#[serde(with = "crate::hex_digest")] pub(crate) Digest);
