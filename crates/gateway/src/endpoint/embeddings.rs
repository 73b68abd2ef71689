//! OpenAI embeddings.

use super::{Cacheability, DAY, Object};

/// Judges a request: embeddings are not sampled.
pub(super) fn judge(_: &Object) -> Cacheability {
    Cacheability::Repeatable { ttl: DAY }
}
