//! How a command ends: its exit code, and what is said on the way out.

use std::collections::BTreeMap;
use std::process::ExitCode;

use cachalot_core::Problem;

/// The texts of the files that problems point into, by name.
pub(crate) type Sources = BTreeMap<String, String>;

/// Why a command failed.
pub(crate) enum Trouble {
    /// The file or the usage is wrong: exit code 2.
    Usage {
        /// Everything that is wrong.
        problems: Vec<Problem>,
        /// What it points into.
        sources: Sources,
    },
    /// It was tried, and failed: exit code 1.
    Failed {
        /// What happened.
        message: String,
        /// The same with its place in a file, if it has one.
        problem: Option<Box<(Problem, Sources)>>,
    },
    /// Interrupted by the user: exit code 130. What is kept, and how to go on.
    Interrupted(String),
    /// Whoever read our output has gone: nothing is said, exit code 141 as of a command that
    /// SIGPIPE ends.
    BrokenPipe,
}

pub(crate) type Result<T> = std::result::Result<T, Trouble>;

impl Trouble {
    pub(crate) fn failed(message: impl std::fmt::Display) -> Self {
        Self::Failed {
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

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::failed(error),
        }
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Usage { problems, .. } => {
                let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
                f.write_str(&told.join("; "))
            }
            Self::Failed { message, .. } => f.write_str(message),
            Self::Interrupted(how) => write!(f, "interrupted: {how}"),
            Self::BrokenPipe => f.write_str("nobody reads the output any more"),
        }
    }
}
