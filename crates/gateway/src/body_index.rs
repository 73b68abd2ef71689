//! An index of parsed bodies by their bytes: a request that was answered from the cache is likely to be sent again, and
//! is then neither parsed nor judged again. Keys and controls are checked as for a new body.

use std::sync::Arc;

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::endpoint::Endpoint;
use crate::parsed_body::ParsedBody;

/// Maximum size of all parsed bodies together, in bytes.
const CAPACITY: u64 = 16 << 20;
/// Maximum size of one body, in bytes of its text.
const MAX_TEXT: usize = 256 << 10;
/// Estimated number of bodies, by which the index is divided: small, so that the parsed form of a large body fits into
/// one part.
const ESTIMATED_BODIES: usize = 64;

/// Parsed bodies by endpoint and bytes. The hash of the bytes has a random key; a body is found only if all bytes are
/// equal.
pub(crate) struct BodyIndex(Cache<(Endpoint, Bytes), Arc<ParsedBody>, ByWeight>);

#[derive(Clone)]
struct ByWeight;

impl Weighter<(Endpoint, Bytes), Arc<ParsedBody>> for ByWeight {
    fn weight(&self, (_, text): &(Endpoint, Bytes), parsed: &Arc<ParsedBody>) -> u64 {
        (text.len() + parsed.weight(text)) as u64
    }
}

impl BodyIndex {
    pub(crate) fn new() -> Self {
        Self(Cache::with_weighter(ESTIMATED_BODIES, CAPACITY, ByWeight))
    }

    /// Returns the parsed form of a body that was kept.
    pub(crate) fn get(&self, endpoint: Endpoint, text: &Bytes) -> Option<Arc<ParsedBody>> {
        if text.len() <= MAX_TEXT {
            self.0.get(&(endpoint, text.clone()))
        } else {
            None
        }
    }

    /// Keeps the parsed form of a body, unless it is too large.
    pub(crate) fn keep(&self, endpoint: Endpoint, text: &Bytes, parsed: &Arc<ParsedBody>) {
        if text.len() <= MAX_TEXT {
            // A copy, because the text may be a part of a larger buffer.
            let text = Bytes::copy_from_slice(text);
            self.0.insert((endpoint, text), Arc::clone(parsed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(endpoint: Endpoint, text: &Bytes) -> Arc<ParsedBody> {
        Arc::new(ParsedBody::of(endpoint, text, Arc::default()))
    }

    #[test]
    fn body_is_found_by_all_its_bytes_and_its_endpoint() {
        let index = BodyIndex::new();
        let text = Bytes::from_static(br#"{"a": 1, "stream": true}"#);
        let kept = parsed(Endpoint::chat(), &text);
        assert!(index.get(Endpoint::chat(), &text).is_none());
        index.keep(Endpoint::chat(), &text, &kept);
        let found = index.get(Endpoint::chat(), &text);
        assert!(found.is_some_and(|found| Arc::ptr_eq(&found, &kept)));
        assert!(index.get(Endpoint::gemini(), &text).is_none());
        let other = Bytes::from_static(br#"{"a": 2, "stream": true}"#);
        assert!(index.get(Endpoint::chat(), &other).is_none());
    }

    #[test]
    fn index_is_bounded() {
        let index = BodyIndex::new();
        for number in 0..2_000 {
            let text = Bytes::from(format!(
                r#"{{"number": {number}, "text": "{}"}}"#,
                "x".repeat(20_000)
            ));
            let kept = parsed(Endpoint::chat(), &text);
            index.keep(Endpoint::chat(), &text, &kept);
            index.get(Endpoint::chat(), &text);
        }
        assert!(index.0.weight() <= CAPACITY);
        assert!(index.0.len() > 100, "{}", index.0.len());
        let large = Bytes::from(format!(r#"{{"a": "{}"}}"#, "x".repeat(MAX_TEXT)));
        index.keep(Endpoint::chat(), &large, &parsed(Endpoint::chat(), &large));
        assert!(index.get(Endpoint::chat(), &large).is_none());
    }
}
