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

#[derive(serde::Serialize, serde::Deserialize)]
struct Hex(#[serde(with = "crate::hex_digest")] Digest);

/// The same, for an optional digest.
pub(crate) mod optional {
    use super::{Deserializer, Digest, Hex, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        digest: &Option<Digest>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        serde::Serialize::serialize(&digest.map(Hex), to)
    }

    pub(crate) fn deserialize<'a, D: Deserializer<'a>>(
        from: D,
    ) -> Result<Option<Digest>, D::Error> {
        let hex: Option<Hex> = serde::Deserialize::deserialize(from)?;
        Ok(hex.map(|hex| hex.0))
    }
}

/// The same, for a list of digests.
pub(crate) mod list {
    use super::{Deserializer, Digest, Hex, Serializer};

    pub(crate) fn serialize<S: Serializer>(digests: &[Digest], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(digests.iter().copied().map(Hex))
    }

    pub(crate) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<Digest>, D::Error> {
        let hex: Vec<Hex> = serde::Deserialize::deserialize(from)?;
        Ok(hex.into_iter().map(|hex| hex.0).collect())
    }
}
