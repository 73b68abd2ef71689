//! Hashes of values in memory.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash};

/// Returns the same hash for equal values. Another version of the program may return another one.
pub(crate) fn hash(value: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}
