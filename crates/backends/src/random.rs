//! Random numbers that need not be secret.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};

/// Returns another number with each call, also in another process.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
