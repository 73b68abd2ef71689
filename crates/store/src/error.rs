//! Errors of a store.

/// The kind of an error, to match on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Not reachable, or an I/O error.
    Unavailable,
    /// Another process held the lock for too long.
    Busy,
    /// No answer within the caller's time limit.
    TimedOut,
    /// No space left.
    Full,
    /// The stored data is damaged.
    Corrupt,
    /// Written by a newer version of Cachalot.
    TooNew,
    /// No permission.
    Denied,
    /// The value is larger than the store accepts.
    TooLarge,
    /// The request is invalid, or the store does not support it.
    Unsupported,
}

impl ErrorKind {
    /// The name in statistics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Busy => "busy",
            Self::TimedOut => "timed_out",
            Self::Full => "full",
            Self::Corrupt => "corrupt",
            Self::TooNew => "too_new",
            Self::Denied => "denied",
            Self::TooLarge => "too_large",
            Self::Unsupported => "unsupported",
        }
    }
}

/// An error of a store.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}{}", .remedy.map(|remedy| format!(": {remedy}")).unwrap_or_default())]
pub struct Error {
    /// The kind of the error.
    pub kind: ErrorKind,
    /// The failure and the object that it concerns; never contains a value or a credential.
    pub message: String,
    /// The change of the server or of its settings without which no call succeeds, if that is known.
    pub remedy: Option<&'static str>,
    /// The cause.
    #[source]
    pub source: Option<std::sync::Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Creates an error without a further cause.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            remedy: None,
            source: None,
        }
    }

    /// Adds the change without which no call succeeds.
    #[must_use]
    pub fn with_remedy(self, remedy: &'static str) -> Self {
        Self {
            remedy: Some(remedy),
            ..self
        }
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(std::sync::Arc::new(source));
        self
    }

    /// True if a retry of the same call may succeed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Unavailable | ErrorKind::Busy | ErrorKind::TimedOut
        )
    }
}
