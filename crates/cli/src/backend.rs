//! Selection of the store backend that an agent file configures.

use cachalot_core::{Problem, suggest};
use cachalot_workflow::format::{MemorySettings, UNSUPPORTED_BACKENDS};

/// Store backends of this build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    /// A SQLite file; the default.
    Sqlite,
    /// In-process store; its content is lost when the process ends.
    InProcess,
}

/// Names of the backends that can be configured.
const BUILT: [&str; 2] = ["sqlite", "in-process"];

impl Backend {
    /// Returns the backend that the settings name. An unknown or missing backend is an error: a run never
    /// continues silently without a store.
    pub(crate) fn from_settings(settings: &MemorySettings) -> Result<Self, Box<Problem>> {
        let name = match settings.backend.as_deref() {
            None | Some("sqlite") if settings.path.as_deref() == Some(":memory:") => {
                return Err(Box::new(at(no_file(), settings)));
            }
            None | Some("sqlite") => return Ok(Self::Sqlite),
            Some("in-process") => return Ok(Self::InProcess),
            Some(name) => name,
        };
        let problem = if UNSUPPORTED_BACKENDS.contains(&name) {
            Problem::new(
                "backend-not-built",
                format!("the store backend `{name}` is not part of this build"),
            )
            .help(format!("this build has: {}", BUILT.join(", ")))
        } else {
            Problem::new(
                "unknown-backend",
                format!("there is no store backend `{name}`"),
            )
            .help(suggest::did_you_mean(name, &BUILT))
        };
        Err(Box::new(at(problem, settings)))
    }
}

/// Returns the problem of the path `:memory:`. SQLite uses that name for a database that ends with its
/// process; here it would be a file of that name.
fn no_file() -> Problem {
    Problem::new("bad-value", "`:memory:` is not the path of a file")
        .help("use `backend: in-process` in place of the path for a store that ends with the run")
}

fn at(problem: Problem, settings: &MemorySettings) -> Problem {
    match &settings.place {
        Some(place) => problem.at(place),
        None => problem,
    }
}
