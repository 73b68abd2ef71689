//! Encoded values that several inputs share.

use std::sync::OnceLock;

use bytes::Bytes;

use super::{Canonical, Parts};

/// The canonical bytes of a value that is a part of several inputs, such as a message that each request of a conversation
/// repeats. Contains no secrets as digests.
pub struct SharedValue {
    bytes: Bytes,
    /// The form for display ([`Canonical::shown`]) without known secrets; `None` if it is long.
    pub(super) shown: OnceLock<Option<Box<str>>>,
}

impl SharedValue {
    /// Creates a shared value; `None` if it contains secrets as digests.
    #[must_use]
    pub fn new(value: Canonical) -> Option<Self> {
        let is_plain = !value.holds_secrets;
        let bytes = match value.parts {
            Parts::One(bytes) => bytes,
            Parts::Many(..) => value.as_bytes().into_owned().into(),
        };
        is_plain.then_some(Self {
            bytes,
            shown: OnceLock::new(),
        })
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::fmt::Debug for SharedValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedValue({} bytes)", self.bytes.len())
    }
}
