//! The use that the gateway of a command makes of recorded answers.

use crate::arguments::Exec;

/// The use that the gateway of a command makes of recorded answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    /// Nothing: it meters, and keeps answers that repeat.
    Meter,
    /// Answers from the recording, and adds what is not in it.
    Record {
        /// Name of the recording.
        name: String,
        /// Set if everything is asked for anew.
        is_fresh: bool,
    },
    /// Answers from the recording of this name only.
    Replay(String),
}

impl Mode {
    /// Returns the mode that the arguments select.
    pub(super) fn new(arguments: &Exec) -> Self {
        match (&arguments.record, &arguments.replay) {
            (Some(name), _) => Self::Record {
                name: name.clone(),
                is_fresh: arguments.fresh,
            },
            (None, Some(name)) => Self::Replay(name.clone()),
            (None, None) => Self::Meter,
        }
    }

    /// Returns the name of the recording.
    pub(super) fn recording(&self) -> Option<&str> {
        match self {
            Self::Meter => None,
            Self::Record { name, .. } | Self::Replay(name) => Some(name),
        }
    }
}
