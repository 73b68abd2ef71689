//! Errors of storage.

use std::sync::Arc;

/// Error kinds of storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Nothing exists at this address.
    NotFound,
    /// The address is a directory, or a prefix in an object store, where a file or object is required.
    IsDirectory,
    /// Permission denied: by the file mode, or because of missing or rejected credentials.
    Denied,
    /// The address or the request is invalid.
    Invalid,
    /// The server is unreachable or failed, or the transfer was interrupted.
    Unavailable,
    /// The content is larger than the caller's limit.
    TooLarge,
    /// The hash algorithm does not exist.
    UnknownAlgorithm,
    /// The URI scheme is not supported.
    UnknownScheme,
    /// The guard refuses requests to this address.
    Refused,
}

/// An error of storage. Its text names the URI, with credentials masked, and the remedy.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The message: what failed, on what, and what to do. Never contains a credential.
    pub message: String,
    /// The HTTP status, if a server returned one that is an error.
    pub status: Option<u16>,
    retry: bool,
    /// The cause, without URLs that might contain credentials.
    #[source]
    pub source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Creates an error that a retry does not resolve.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            status: None,
            retry: false,
            source: None,
        }
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    pub(crate) fn retrying(mut self, retry: bool) -> Self {
        self.retry = retry;
        self
    }

    pub(crate) fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// True if an exchange with a server began and broke off: the server may have received the request.
    #[must_use]
    pub fn is_broken_exchange(&self) -> bool {
        let source = self.source.as_deref();
        let error = source.and_then(|source| source.downcast_ref::<reqwest::Error>());
        error
            .is_some_and(|error| !error.is_connect() && !error.is_builder() && !error.is_redirect())
    }

    /// True if the same call may succeed on a retry: the network or the server failed (timeouts, broken
    /// connections, status 408, 425, 429, 5xx), not the request.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.retry
    }
}

/// Creates the error for content larger than the caller's limit.
pub(crate) fn too_large(shown: &str, size: Option<u64>, max_bytes: u64) -> Error {
    let size = size.map_or_else(
        || "too large".to_owned(),
        |size| format!("{size} bytes large"),
    );
    Error::new(
        ErrorKind::TooLarge,
        format!("`{shown}` is {size}; at most {max_bytes} bytes are read here"),
    )
}
