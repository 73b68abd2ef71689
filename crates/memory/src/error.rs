//! What can go wrong in a memory.

/// The kind of a fault, to match on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Not reachable, or an I/O error.
    Unavailable,
    /// Another process held the lock for too long.
    Busy,
    /// No answer in the time that the caller had.
    TimedOut,
    /// No space left.
    Full,
    /// The stored data is damaged.
    Corrupt,
    /// Written by a newer version of Cachalot.
    TooNew,
    /// No permission.
    Denied,
    /// The value is larger than the memory takes.
    TooLarge,
    /// The request makes no sense, or the memory cannot do this at all.
    Unsupported,
}

/// A fault of a memory.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What kind of fault.
    pub kind: ErrorKind,
    /// What happened, to what; never holds a value or a credential.
    pub message: String,
    /// The cause.
    #[source]
    pub source: Option<std::sync::Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// A fault without a further cause.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// The same fault, with its cause.
    #[must_use]
    pub fn because(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(std::sync::Arc::new(source));
        self
    }

    /// Whether the same call may succeed if it is simply made again.
    #[must_use]
    pub fn worth_retrying(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Unavailable | ErrorKind::Busy | ErrorKind::TimedOut
        )
    }
}
