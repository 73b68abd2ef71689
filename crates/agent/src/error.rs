//! Why a turn could not be carried out.

use std::fmt;

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The agent's definition names something that is not there: a model, an agent, a file.
    Definition,
    /// The model could not be asked, or did not answer.
    Model,
    /// The session could not be kept.
    Session,
    /// Tools could not be made ready.
    Tools,
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
        Self::new(ErrorKind::Session, error.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<cachalot_model::Error> for Error {
    fn from(error: cachalot_model::Error) -> Self {
        Self {
            kind: ErrorKind::Model,
            message: error.to_string(),
            model: Some(error),
        }
    }
}
