//! What can go wrong with sessions.

use std::sync::Arc;

/// The kind of a fault, to match on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is no name for a session.
    BadName,
    /// There is a session of this name already.
    Exists,
    /// Several sessions begin so.
    Ambiguous,
    /// The session was continued by somebody else after it was opened here. Nothing was written; it
    /// has to be opened again.
    Conflict,
    /// The session was removed after it was opened here. Nothing was written.
    Removed,
    /// Somebody else was writing to the session for too long. Nothing was written.
    Busy,
    /// What is stored is damaged.
    Damaged,
    /// Written by a newer version of Cachalot.
    TooNew,
    /// A message is larger than the memory takes.
    TooLarge,
    /// What was sent would have been rewritten: the prompt does not begin with what is saved.
    NotAnExtension,
    /// A message holds something that the format has no words for and that must not be lost.
    Unsayable,
    /// The memory failed. It is not known whether the last change was made; doing it again is safe.
    Memory,
}

/// A fault with a session. Never holds content of one.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What kind of fault.
    pub kind: ErrorKind,
    /// The session, if it is known.
    pub session: Option<String>,
    /// What happened, to which session, and what to do.
    pub message: String,
    /// Whether the same call may succeed if it is simply made again.
    pub worth_retrying: bool,
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
            worth_retrying: kind == ErrorKind::Busy,
            source: None,
        }
    }

    pub(crate) fn memory(session: &str, doing: &str, error: cachalot_memory::Error) -> Self {
        let kind = match error.kind {
            cachalot_memory::ErrorKind::TooLarge => ErrorKind::TooLarge,
            cachalot_memory::ErrorKind::TooNew => ErrorKind::TooNew,
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
            worth_retrying: error.worth_retrying(),
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
