//! Endpoints in stored answers: numbers that must not change.

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

use super::Endpoint;

/// Names of endpoints at the places by which stored answers name them. New ones stand at the end.
const NAMES: [&str; 13] = [
    "chat",
    "responses",
    "embeddings",
    "messages",
    "count_tokens",
    "gemini",
    "models",
    "other",
    "input_tokens",
    "compact",
    "interactions",
    "gemini_count_tokens",
    "gemini_embeddings",
];
/// The place of any other path. An answer of an endpoint without a place is stored, and converted to no other form.
const OTHER: usize = 7;

impl Serialize for Endpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let place = NAMES.iter().position(|name| *name == self.name());
        serializer.serialize_u32(place.unwrap_or(OTHER) as u32)
    }
}

impl<'de> Deserialize<'de> for Endpoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let place = u32::deserialize(deserializer)? as usize;
        let endpoint = NAMES.get(place).and_then(|name| Self::of_name(name));
        endpoint.ok_or_else(|| D::Error::custom("the endpoint is not known to this version"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cachalot_model::wire;

    use super::*;

    #[test]
    fn stored_answers_name_endpoints_by_numbers_that_stay() {
        for (number, name) in NAMES.into_iter().enumerate() {
            let endpoint = Endpoint::of_name(name).unwrap();
            let stored = postcard::to_stdvec(&endpoint).unwrap();
            // The bytes of a variant of an enumeration, which it was before.
            assert_eq!(stored, [number as u8], "{name}");
            assert_eq!(postcard::from_bytes::<Endpoint>(&stored).unwrap(), endpoint);
        }
        assert_eq!(NAMES[OTHER], "other");
        assert!(postcard::from_bytes::<Endpoint>(&[13]).is_err());
        for (_, endpoint) in wire::endpoints() {
            assert!(NAMES.contains(&endpoint.name.as_str()), "{}", endpoint.name);
        }
    }
}
