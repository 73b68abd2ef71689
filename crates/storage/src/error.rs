//! What can go wrong between a URI and its bytes.

use std::sync::Arc;

/// The kind of a fault, to match on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is nothing at this address.
    NotFound,
    /// A directory, or a prefix of an object store, where bytes were asked for.
    IsDirectory,
    /// No permission: file mode, missing or refused credentials.
    Denied,
    /// The address or the request makes no sense.
    Invalid,
    /// Not reachable, broken off, or failing on its own side.
    Unavailable,
    /// More bytes than the caller takes.
    TooLarge,
    /// No hash algorithm of this name.
    UnknownAlgorithm,
    /// No URI scheme of this name.
    UnknownScheme,
    /// The guard does not let a request go to this address.
    Refused,
}

/// A fault of storage. Its text names the URI, with credentials masked, and what to do about it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What kind of fault.
    pub kind: ErrorKind,
    /// What happened, to what, and what to do; never holds a credential.
    pub message: String,
    /// The HTTP status, where a server gave one that is an error.
    pub status: Option<u16>,
    retry: bool,
    /// The cause, without addresses that could hold credentials.
    #[source]
    pub source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// A fault that trying again does not cure.
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

    /// The same fault, with its cause.
    #[must_use]
    pub fn because(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
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

    /// Whether the same call may succeed if it is simply made again: the network or the server
    /// failed (timeouts, broken connections, status 408, 425, 429, 5xx), not the request.
    #[must_use]
    pub fn worth_retrying(&self) -> bool {
        self.retry
    }
}
