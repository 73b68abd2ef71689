//! Names in keys and indexes, whose entries have a limited size. The function `cachalot_indexed` of the database
//! converts labels in the same way.
//!
//! A name of at most [`LONGEST_INDEXED`] bytes is indexed as it is. The indexed form of a longer one is its first
//! [`BEGINNING`] bytes, the byte 0xFF, which no UTF-8 text contains, and its SHA-256. The rows of records and counters
//! have the whole name beside it.
//!
//! The order of names is that of their indexed forms: long names with the same beginning come after the shorter ones,
//! in the order of their hashes.

use std::borrow::Cow;

use ring::digest::{SHA256, digest};

/// Maximum length of a name that is indexed as it is, in bytes: four of them have to fit into one entry of an index
/// (2,704 bytes).
pub(super) const LONGEST_INDEXED: usize = 600;

/// The number of bytes at the beginning of a longer name's indexed form.
pub(super) const BEGINNING: usize = 560;

/// The byte between the beginning and the hash.
pub(super) const SEPARATOR: u8 = 0xFF;

/// Returns the indexed form of a name.
pub(super) fn indexed(name: &str) -> Cow<'_, [u8]> {
    let name = name.as_bytes();
    if name.len() <= LONGEST_INDEXED {
        return Cow::Borrowed(name);
    }
    let hash = digest(&SHA256, name);
    Cow::Owned([&name[..BEGINNING], &[SEPARATOR], hash.as_ref()].concat())
}

/// Returns the prefix of the indexed forms of all names that begin with `prefix`. Only for a prefix of up to
/// [`BEGINNING`] bytes, they are the only names with it.
pub(super) fn indexed_prefix(prefix: &str) -> &[u8] {
    let prefix = prefix.as_bytes();
    &prefix[..prefix.len().min(BEGINNING)]
}
