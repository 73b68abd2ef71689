//! Agent files: workflows (`cachalot run`) and teams of agents (`cachalot chat`); configuration files of the gateway
//! (`cachalot serve`).

mod other_format;

use std::path::{Path, PathBuf};

use cachalot_core::suggest::nearest;
use cachalot_core::tree::Node;
use cachalot_core::{Problem, SourceSpan, tree};

use crate::command_error::{CommandError, Result, Sources};
use crate::wiring::ProcessEnvironment;

pub(crate) use other_format::Expected;

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
    /// The policy of the MCP proxy, for `cachalot mcp`.
    McpPolicy,
}

impl Kind {
    /// Returns the kind by the top-level keys `nodes` and `agents`, also if the key is misspelled; a file with keys of a
    /// gateway, or with `servers` of a policy, has neither. With both or nothing of all that, the file is a workflow.
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
        if has("servers") && !has("nodes") && !has("agents") {
            return Self::McpPolicy;
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

/// Replaces the values of `"apiKey"` and `"api_key"` by asterisks: files of other programs have keys of providers there,
/// and an excerpt of such a file is shown also if it cannot be parsed. All places stay the same.
fn without_keys(text: &str) -> String {
    let mut shown = text.to_owned();
    for name in ["\"apiKey\"", "\"api_key\""] {
        for (at, _) in text.match_indices(name) {
            let start = at + name.len();
            let value = text[start..].trim_start_matches([' ', '\t', '\r', '\n', ':']);
            let Some(value) = value.strip_prefix('"') else {
                continue;
            };
            let start = text.len() - value.len();
            let end = value
                .find(['"', '\n'])
                .map_or(text.len(), |len| start + len);
            // A variable is no key.
            if !text[start..end].starts_with("${") {
                shown.replace_range(start..end, &"*".repeat(end - start));
            }
        }
    }
    shown
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

    /// Returns the error that reports `problems` in this agent file; or its format, if it is another file.
    pub(crate) fn wrong(&self, problems: Vec<Problem>) -> CommandError {
        self.wrong_as(Expected::Agent, problems)
    }

    /// Returns the error that reports `problems` in this file, from which a command expects a format; or its format, if it
    /// is another one.
    pub(crate) fn wrong_as(&self, expected: Expected, problems: Vec<Problem>) -> CommandError {
        let problems = other_format::explained(problems, expected, &self.name, &self.text);
        self.report(problems)
    }

    /// Returns the error that reports `problems` in this file, whatever its format is.
    pub(crate) fn report(&self, problems: Vec<Problem>) -> CommandError {
        CommandError::Usage {
            sources: self.sources(&problems),
            problems,
        }
    }

    /// Replaces the text at these places, which are keys of providers, so that no excerpt of the file shows it.
    pub(crate) fn mask(&mut self, places: &[SourceSpan]) {
        for SourceSpan { start, len, .. } in places {
            let end = start + len;
            if self.text.is_char_boundary(*start) && self.text.is_char_boundary(end) {
                self.text.replace_range(*start..end, &"*".repeat(*len));
            }
        }
    }

    /// Returns the texts that `problems` refer to, by name: this file, and files that it runs as subgraphs.
    /// A file that cannot be read any more is left out.
    pub(crate) fn sources(&self, problems: &[Problem]) -> Sources {
        let mut sources = Sources::from([(self.name.clone(), without_keys(&self.text))]);
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
                std::io::ErrorKind::NotFound => match near_file(Path::new(name)) {
                    Some(near) => problem.help(format!("did you mean `{near}`?")),
                    None => problem
                        .help("check the path; a relative one starts at the current directory"),
                },
                std::io::ErrorKind::IsADirectory => problem.help("name a file in the directory"),
                std::io::ErrorKind::PermissionDenied => problem.help("check who may read the file"),
                _ => problem,
            }
        }
    }
}

/// Returns the file in the same directory with the nearest name.
fn near_file(missing: &Path) -> Option<String> {
    /// The maximum number of files that are compared.
    const MAX_FILES: usize = 10_000;
    let directory = missing.parent()?;
    let here = Path::new(".");
    let is_here = directory.as_os_str().is_empty();
    let listed = std::fs::read_dir(if is_here { here } else { directory });
    let entries = listed.ok()?.take(MAX_FILES).flatten();
    let names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    let name = missing.file_name()?.to_str()?;
    let near = nearest(name, names.iter().map(String::as_str))?;
    let near = directory.join(near);
    near.is_file().then(|| near.display().to_string())
}

/// Sorts problems by their position in the file.
pub(crate) fn in_order(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| problem.place.as_ref().map(|place| place.start));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_shown_in_no_excerpt() {
        let text = r#"{"a": {"apiKey": "sk-1", "api_key" : "é", "apiKey":"${NAME}", "apiKey": 1}, "apiKey": "open"#;
        let shown = without_keys(text);
        assert_eq!(
            shown,
            r#"{"a": {"apiKey": "****", "api_key" : "**", "apiKey":"${NAME}", "apiKey": 1}, "apiKey": "****"#
        );
        assert_eq!(shown.len(), text.len());
    }
}
