//! Which kind of memory an agent file asks for.

use cachalot_core::{Problem, suggest};
use cachalot_workflow::format::MemorySettings;

/// The memories of this build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    /// A SQLite file, the default.
    Sqlite,
    /// In the process: gone at its end.
    InProcess,
}

/// Those that can be chosen, and those that are known by name only.
const BUILT: [&str; 2] = ["sqlite", "in-process"];
const NOT_BUILT: [&str; 8] = [
    "redis",
    "postgres",
    "duckdb",
    "turso",
    "blob-sqlite",
    "firestore",
    "litestream",
    "sqlalchemy",
];

impl Backend {
    /// The backend that the settings name. One that is not there is a problem, never a run without a
    /// memory that nobody was told of.
    pub(crate) fn of(settings: &MemorySettings) -> Result<Self, Box<Problem>> {
        let name = match settings.backend.as_deref() {
            None | Some("sqlite") => return Ok(Self::Sqlite),
            Some("in-process") => return Ok(Self::InProcess),
            Some(name) => name,
        };
        let problem = if NOT_BUILT.contains(&name) {
            Problem::new(
                "backend-not-built",
                format!("the memory backend `{name}` is not part of this build"),
            )
            .help(format!("this build has: {}", BUILT.join(", ")))
        } else {
            Problem::new(
                "unknown-backend",
                format!("there is no memory backend `{name}`"),
            )
            .help(suggest::did_you_mean(name, &BUILT))
        };
        Err(Box::new(match &settings.place {
            Some(place) => problem.at(place),
            None => problem,
        }))
    }
}
