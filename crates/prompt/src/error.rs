//! Errors of sessions.

use std::sync::Arc;

/// The kind of an error, to match on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is no valid session name.
    BadName,
    /// A session with this name already exists.
    Exists,
    /// Several session names begin with this text.
    Ambiguous,
    /// Another writer changed the session after it was opened here. Nothing was written; the session has
    /// to be opened again.
    Conflict,
    /// The session was removed after it was opened here. Nothing was written.
    Removed,
    /// Another writer held the session's lease for too long. Nothing was written.
    Busy,
    /// The stored data is damaged.
    Damaged,
    /// Written by a newer version of Cachalot.
    TooNew,
    /// A message exceeds the size limit of the store.
    TooLarge,
    /// The prompt does not begin with the saved one: pieces that were sent would be rewritten.
    NotAnExtension,
    /// A message contains something that the format cannot express and that must not be lost.
    Inexpressible,
    /// The store failed. The outcome of the last change is unknown; repeating it is safe.
    Memory,
}

/// An error of a session. Never contains content of the session.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The kind.
    pub kind: ErrorKind,
    /// The session, if known.
    pub session: Option<String>,
    /// The failure, the session, and the fix.
    pub message: String,
    /// True if repeating the same call may succeed.
    pub is_retryable: bool,
    /// The cause.
    #[source]
    pub source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, session: &str, message: impl Into<String>) -> Self {
        Self {
            kind,
            session: Some(session.to_owned()),
            message: message.into(),
            is_retryable: kind == ErrorKind::Busy,
            source: None,
        }
    }

    pub(crate) fn store(session: &str, doing: &str, error: cachalot_store::Error) -> Self {
        let kind = match error.kind {
            cachalot_store::ErrorKind::TooLarge => ErrorKind::TooLarge,
            cachalot_store::ErrorKind::TooNew => ErrorKind::TooNew,
            _ => ErrorKind::Memory,
        };
        let whose = match session {
            "" => String::new(),
            _ => format!(" the session `{session}`"),
        };
        Self {
            kind,
            session: Some(session.to_owned()).filter(|session| !session.is_empty()),
            message: format!("{doing}{whose}: {error}"),
            is_retryable: error.is_retryable(),
            source: Some(Arc::new(error)),
        }
    }

    pub(crate) fn damaged(session: &str, location: &str, what: &str) -> Self {
        Self::new(
            ErrorKind::Damaged,
            session,
            format!(
                "the session `{session}` cannot be read: {what}; remove it, or restore {location} \
                 from a backup"
            ),
        )
    }
}
