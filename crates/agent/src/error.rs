//! Errors of a turn.

/// Error kinds of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The message is empty, or an attachment cannot be sent.
    Input,
    /// The agent's definition names a model, an agent or a file that does not exist.
    Definition,
    /// The model could not be called or did not answer.
    Model,
    /// The session could not be stored.
    Session,
    /// Another writer appended to the session during the turn. The next turn continues from there.
    Conflict,
    /// The tools could not be initialized.
    Tools,
    /// A fork cannot be made, or lacks something that it must inherit.
    Fork,
}

/// An error of a turn.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The message: what failed, on what, and what to do.
    pub message: String,
    /// The model's error, if it caused this one.
    #[source]
    pub model: Option<cachalot_model::Error>,
}

impl Error {
    /// Creates an error from a kind and a message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            model: None,
        }
    }
}

impl From<cachalot_prompt::Error> for Error {
    fn from(error: cachalot_prompt::Error) -> Self {
        let kind = match error.kind {
            cachalot_prompt::ErrorKind::Conflict => ErrorKind::Conflict,
            _ => ErrorKind::Session,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<cachalot_model::Error> for Error {
    fn from(error: cachalot_model::Error) -> Self {
        let kind = match error.kind {
            cachalot_model::ErrorKind::Configuration => ErrorKind::Definition,
            _ => ErrorKind::Model,
        };
        Self {
            kind,
            message: error.to_string(),
            model: Some(error),
        }
    }
}
