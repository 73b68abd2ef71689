//! Agent files: workflows, which are run, and teams of agents, which are talked to.

use std::path::{Path, PathBuf};

use cachalot_core::suggest::nearest;
use cachalot_core::tree::Node;
use cachalot_core::{Problem, tree};

use crate::outcome::{Result, Sources, Trouble};
use crate::wiring::Surroundings;

/// The text of an agent file.
pub(crate) struct AgentFile {
    /// As the user named it.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// What an agent file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nodes that are run.
    Workflow,
    /// Agents that are talked to.
    Team,
}

impl Kind {
    /// What the file is meant to be, also if the key that tells is misspelt.
    pub(crate) fn of(root: &Node) -> Self {
        let entries = root.as_map().unwrap_or_default();
        let has = |key: &str| entries.iter().any(|entry| entry.key == key);
        let is_nearly = |key: &str| {
            let named = |name: &str| nearest(name, ["nodes", "agents"]) == Some(key);
            entries.iter().any(|entry| named(&entry.key))
        };
        match (has("nodes"), has("agents")) {
            (true, _) => Self::Workflow,
            (false, true) => Self::Team,
            (false, false) if is_nearly("agents") && !is_nearly("nodes") => Self::Team,
            (false, false) => Self::Workflow,
        }
    }
}

impl AgentFile {
    /// Reads it.
    ///
    /// # Errors
    /// It is not there, or not text.
    pub(crate) fn read(file: &Path, surroundings: &Surroundings) -> Result<Self> {
        let name = file.to_string_lossy().into_owned();
        let path = surroundings.directory.join(file);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Self { name, path, text }),
            Err(error) => Err(Trouble::usage(unreadable(&name, &error))),
        }
    }

    /// Parses it.
    ///
    /// # Errors
    /// It is no YAML.
    pub(crate) fn parse(&self) -> std::result::Result<Node, Vec<Problem>> {
        tree::parse(&self.name, &self.text)
    }

    /// What is wrong with it.
    pub(crate) fn wrong(self, problems: Vec<Problem>) -> Trouble {
        Trouble::Usage {
            problems,
            sources: self.sources(),
        }
    }

    /// What problems point into.
    pub(crate) fn sources(self) -> Sources {
        Sources::from([(self.name, self.text)])
    }
}

/// Why a file that the user named cannot be read.
pub(crate) fn unreadable(name: &str, error: &std::io::Error) -> Problem {
    match error.kind() {
        std::io::ErrorKind::InvalidData => {
            Problem::new("not-utf8", format!("{name} is not UTF-8 text"))
        }
        kind => {
            let problem = Problem::new("unreadable-file", format!("{name}: {error}"));
            match kind {
                std::io::ErrorKind::NotFound => {
                    problem.help("check the path; a relative one starts at the current directory")
                }
                std::io::ErrorKind::IsADirectory => problem.help("name a file in the directory"),
                std::io::ErrorKind::PermissionDenied => problem.help("check who may read the file"),
                _ => problem,
            }
        }
    }
}

/// Puts problems into the order of the file.
pub(crate) fn in_order(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| problem.place.as_ref().map(|place| place.start));
    problems
}
