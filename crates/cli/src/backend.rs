//! Which kind of memory an agent file asks for.

use cachalot_core::{Problem, suggest};
use cachalot_workflow::format::{BACKENDS_OF_OTHERS, MemorySettings};

/// The memories of this build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    /// A SQLite file, the default.
    Sqlite,
    /// In the process: gone at its end.
    InProcess,
}

/// The names of those that can be chosen.
const BUILT: [&str; 2] = ["sqlite", "in-process"];

impl Backend {
    /// The backend that the settings name. One that is not there is a problem, never a run without a
    /// memory that nobody was told of.
    pub(crate) fn of(settings: &MemorySettings) -> Result<Self, Box<Problem>> {
        let name = match settings.backend.as_deref() {
            None | Some("sqlite") if settings.path.as_deref() == Some(":memory:") => {
                return Err(Box::new(at(no_file(), settings)));
            }
            None | Some("sqlite") => return Ok(Self::Sqlite),
            Some("in-process") => return Ok(Self::InProcess),
            Some(name) => name,
        };
        let problem = if BACKENDS_OF_OTHERS.contains(&name) {
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
        Err(Box::new(at(problem, settings)))
    }
}

/// What SQLite calls a database that ends with its process would be a file of that name here.
fn no_file() -> Problem {
    Problem::new("bad-value", "`:memory:` is not the path of a file")
        .help("say `backend: in-process` in place of the path for a memory that ends with the run")
}

fn at(problem: Problem, settings: &MemorySettings) -> Problem {
    match &settings.place {
        Some(place) => problem.at(place),
        None => problem,
    }
}
