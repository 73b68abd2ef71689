//! Selection of the store backend that an agent file configures.

use cachalot_backends::{BACKENDS, Backend as ServerBackend, StoreUrl};
use cachalot_core::{Problem, suggest};
use cachalot_workflow::format::{MemorySettings, UNSUPPORTED_BACKENDS};

/// Store backends of this build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    /// A SQLite file, the default, or a database on a server: what [`crate::home::Home`] names.
    Lasting,
    /// In-process store; its content is lost when the process ends.
    InProcess,
}

/// Returns the names of the backends that can be configured.
fn built() -> Vec<&'static str> {
    let servers = BACKENDS.iter().filter(|backend| backend.is_built());
    let servers = servers.map(|backend| backend.name);
    ["sqlite"]
        .into_iter()
        .chain(servers)
        .chain(["in-process"])
        .collect()
}

impl Backend {
    /// Returns the backend that the settings name. An unknown or missing backend is an error: a run never
    /// continues silently without a store.
    pub(crate) fn from_settings(settings: &MemorySettings) -> Result<Self, Box<Problem>> {
        let name = match settings.backend.as_deref() {
            None | Some("sqlite") if settings.path.as_deref() == Some(":memory:") => {
                return Err(Box::new(at(no_file(), settings)));
            }
            Some("sqlite") if url(settings).is_some() => {
                return Err(Box::new(at(no_path(), settings)));
            }
            None | Some("sqlite") => return Ok(Self::Lasting),
            Some("in-process") => return Ok(Self::InProcess),
            Some(name) if built().contains(&name) => {
                return match url(settings) {
                    Some(url) if url.backend() == Some(name) => Ok(Self::Lasting),
                    _ => Err(Box::new(at(no_url(name), settings))),
                };
            }
            Some(name) => name,
        };
        let is_known = ServerBackend::named(name).is_some() || UNSUPPORTED_BACKENDS.contains(&name);
        let problem = if is_known {
            Problem::new(
                "backend-not-built",
                format!("the store backend `{name}` is not part of this build"),
            )
            .help(format!("this build has: {}", built().join(", ")))
        } else {
            Problem::new(
                "unknown-backend",
                format!("there is no store backend `{name}`"),
            )
            .help(suggest::did_you_mean(name, &built()))
        };
        Err(Box::new(at(problem, settings)))
    }
}

fn url(settings: &MemorySettings) -> Option<StoreUrl> {
    StoreUrl::recognize(settings.path.as_deref()?)
}

fn no_path() -> Problem {
    Problem::new("bad-value", "`backend: sqlite` with the URL of a server")
        .help("a SQLite file is named by `path`; for a server, leave `backend` out")
}

fn no_url(name: &str) -> Problem {
    let message = format!("`backend: {name}` without the URL of such a server");
    let example = ServerBackend::named(name).map_or("", |backend| backend.example);
    Problem::new("bad-value", message).help(format!(
        "for example `url: ${{STORE_URL}}`, or `url: {example}`"
    ))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_names_every_backend() {
        let reference = include_str!("../../../docs/YAML_REFERENCE.md");
        let mut lines = reference.lines();
        let line = lines.find(|line| line.contains("`settings.ltm.backend`"));
        for backend in &BACKENDS {
            let name = format!("`{}`", backend.name);
            assert!(line.is_some_and(|line| line.contains(&name)), "{name}");
        }
    }
}
