//! Serialization of digests: 64 hex digits in human-readable formats, 32 bytes in binary ones.

use cachalot_core::Digest;
use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

pub(crate) fn serialize<S: Serializer>(digest: &Digest, to: S) -> Result<S::Ok, S::Error> {
    if to.is_human_readable() {
        to.collect_str(digest)
    } else {
        digest.serialize(to)
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Digest, D::Error> {
    if from.is_human_readable() {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    } else {
        Digest::deserialize(from)
    }
}
