//! Why a turn could not be carried out.

use std::fmt;

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Nothing was said.
    Input,
    /// The agent's definition names something that is not there: a model, an agent, a file.
    Definition,
    /// The model could not be asked, or did not answer.
    Model,
    /// The session could not be kept.
    Session,
    /// The session was continued elsewhere in the middle of the turn. The next turn goes on from there.
    Conflict,
    /// Tools could not be made ready.
    Tools,
    /// A fork cannot be made, or has not what it is to inherit.
    Fork,
}

/// Why a turn could not be carried out.
#[derive(Debug, Clone, thiserror::Error)]
pub struct Error {
    /// What kind of failure it is.
    pub kind: ErrorKind,
    /// What happened, to what, and what to do.
    pub message: String,
    /// The failure of the model, if it was one.
    #[source]
    pub model: Option<cachalot_model::Error>,
}

impl Error {
    /// A failure that is known by its kind and a sentence.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            model: None,
        }
    }

    pub(crate) fn session(error: &cachalot_prompt::Error) -> Self {
        let kind = match error.kind {
            cachalot_prompt::ErrorKind::Conflict => ErrorKind::Conflict,
            _ => ErrorKind::Session,
        };
        Self::new(kind, error.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
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
