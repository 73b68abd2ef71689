//! Metadata of the bytes behind a URI.

use cachalot_core::Millis;

/// Metadata of the bytes behind a URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Number of bytes.
    pub size: u64,
    /// The time of the last modification, if known.
    pub modified: Option<Millis>,
    /// The server's ETag, as received; `None` for files.
    pub etag: Option<String>,
}
