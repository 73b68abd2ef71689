//! Results of commands: exit codes and final messages.

use std::collections::BTreeMap;
use std::process::ExitCode;

use cachalot_core::Problem;

/// Texts of the files that problems refer to, by name.
pub(crate) type Sources = BTreeMap<String, String>;

/// Failure of a command.
pub(crate) enum CommandError {
    /// The file or the command line is invalid: exit code 2.
    Usage {
        /// All problems.
        problems: Vec<Problem>,
        /// Texts that the problems refer to.
        sources: Sources,
    },
    /// The command ran and failed: exit code 1.
    Failed {
        /// The kind of failure, for JSON documents; `failed` if there is no other.
        code: &'static str,
        /// Error message.
        message: String,
        /// The error with its place in a file, if it has one.
        problem: Option<Box<(Problem, Sources)>>,
    },
    /// The user interrupted the command: exit code 130. The text states what is kept and how to continue.
    Interrupted(String),
    /// The reader of stdout is gone: no message, exit code 141, as for a command that SIGPIPE ends.
    BrokenPipe,
}

/// The code of a failure without a kind.
pub(crate) const FAILED: &str = "failed";

pub(crate) type Result<T> = std::result::Result<T, CommandError>;

impl CommandError {
    pub(crate) fn failed(message: impl std::fmt::Display) -> Self {
        Self::failed_with(FAILED, message)
    }

    /// Creates a failure of this kind.
    pub(crate) fn failed_with(code: &'static str, message: impl std::fmt::Display) -> Self {
        Self::Failed {
            code,
            message: message.to_string(),
            problem: None,
        }
    }

    pub(crate) fn usage(problem: Problem) -> Self {
        Self::Usage {
            problems: vec![problem],
            sources: Sources::new(),
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage { .. } => 2,
            Self::Failed { .. } => 1,
            Self::Interrupted(_) => 130,
            Self::BrokenPipe => 141,
        })
    }
}

impl From<std::io::Error> for CommandError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::failed(error),
        }
    }
}

impl From<cachalot_store::Error> for CommandError {
    fn from(error: cachalot_store::Error) -> Self {
        Self::failed(error)
    }
}

impl From<serde_json::Error> for CommandError {
    fn from(error: serde_json::Error) -> Self {
        Self::failed(error)
    }
}

impl From<cachalot_cache::LedgerError> for CommandError {
    fn from(error: cachalot_cache::LedgerError) -> Self {
        Self::failed(error)
    }
}

impl From<cachalot_prompt::Error> for CommandError {
    fn from(error: cachalot_prompt::Error) -> Self {
        Self::failed(error)
    }
}

impl std::fmt::Display for CommandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Usage { problems, .. } => {
                let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
                f.write_str(&told.join("; "))
            }
            Self::Failed { message, .. } => f.write_str(message),
            Self::Interrupted(how) => write!(f, "interrupted: {how}"),
            Self::BrokenPipe => f.write_str("the reader of the output is gone"),
        }
    }
}
