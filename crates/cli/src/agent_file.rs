//! Agent files: workflows (`cachalot run`) and teams of agents (`cachalot chat`); configuration files of the gateway
//! (`cachalot serve`).

use std::path::{Path, PathBuf};

use cachalot_core::suggest::nearest;
use cachalot_core::tree::Node;
use cachalot_core::{Problem, tree};

use crate::command_error::{CommandError, Result, Sources};
use crate::wiring::ProcessEnvironment;

/// Name, path and text of an agent file.
pub(crate) struct AgentFile {
    /// Path as the user wrote it.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// Kinds of agent files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A graph of nodes, for `cachalot run`.
    Workflow,
    /// Agents, for `cachalot chat`.
    Team,
    /// The configuration of a gateway, for `cachalot serve`.
    Gateway,
}

impl Kind {
    /// Returns the kind by the top-level keys `nodes` and `agents`, also if the key is misspelled; a file with keys of a
    /// gateway has neither. With both or nothing of all that, the file is a workflow.
    pub(crate) fn from_root(root: &Node) -> Self {
        let entries = root.as_map().unwrap_or_default();
        let has = |key: &str| entries.iter().any(|entry| entry.key == key);
        let is_gateway = [
            "upstreams",
            "keys",
            "listen",
            "telemetry",
            "tls",
            "admin",
            "allow_hosts",
            "prefix",
            "unknown",
            "websockets",
            "clients",
            "ledger",
        ]
        .iter()
        .any(|key| has(key));
        if is_gateway && !has("nodes") && !has("agents") {
            return Self::Gateway;
        }
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
    /// Reads the file.
    ///
    /// # Errors
    /// The file cannot be read, or is not UTF-8 text.
    pub(crate) fn read(file: &Path, process_environment: &ProcessEnvironment) -> Result<Self> {
        let name = file.to_string_lossy().into_owned();
        let path = process_environment.directory.join(file);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Self { name, path, text }),
            Err(error) => Err(CommandError::usage(unreadable(&name, &error))),
        }
    }

    /// Parses the text.
    ///
    /// # Errors
    /// The text is not valid YAML.
    pub(crate) fn parse(&self) -> Result<Node> {
        tree::parse(&self.name, &self.text).map_err(|problems| self.wrong(problems))
    }

    /// Returns the error that reports `problems` in this file.
    pub(crate) fn wrong(&self, problems: Vec<Problem>) -> CommandError {
        CommandError::Usage {
            sources: self.sources(&problems),
            problems,
        }
    }

    /// Returns the texts that `problems` refer to, by name: this file, and files that it runs as subgraphs.
    /// A file that cannot be read any more is left out.
    pub(crate) fn sources(&self, problems: &[Problem]) -> Sources {
        let mut sources = Sources::from([(self.name.clone(), self.text.clone())]);
        for place in problems.iter().filter_map(|problem| problem.place.as_ref()) {
            if !sources.contains_key(&*place.file)
                && let Ok(text) = std::fs::read_to_string(&*place.file)
            {
                sources.insert(place.file.to_string(), text);
            }
        }
        sources
    }
}

/// Returns the problem of a file that the user named and that cannot be read.
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

/// Sorts problems by their position in the file.
pub(crate) fn in_order(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| problem.place.as_ref().map(|place| place.start));
    problems
}
