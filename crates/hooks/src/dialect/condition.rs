//! The `if` of hooks: a condition on tool calls, written as a permission rule of Claude Code.
//!
//! A condition excludes calls from a hook. A guard must not miss a call: if the call does not show if
//! the condition holds, the hook runs.

use std::path::Path;

use cachalot_operation::permissions::CommandPattern;
use cachalot_operation::workspace::normalize;
use cachalot_operation::{Command, CommandText};
use ignore::gitignore::GitignoreBuilder;
use regex::Regex;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{Dialect, tools};
use crate::input::{Input, ToolUse};

/// A condition on tool calls, written as a permission rule: `Bash`, `Bash(git *)`, `Edit(src/**)`,
/// `WebFetch(domain:example.com)`.
#[derive(Debug, Clone)]
pub struct Condition {
    written: String,
    tool: Regex,
    called_with: Option<String>,
}

/// Serializes the written rule.
impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.written.serialize(serializer)
    }
}

/// Compares the written rules.
impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

/// Additional tools that a rule covers, because they access files in the same way.
const EQUIVALENT_TOOLS: [(&str, &[&str]); 2] = [
    ("Edit", &["edit_file", "write_file", "apply_patch"]),
    ("Read", &["read_file", "list_dir", "glob", "grep"]),
];

impl Condition {
    /// Parses a rule; `None` if it is invalid.
    #[must_use]
    pub fn parse(written: &str) -> Option<Self> {
        let written = written.trim();
        let (tool, called_with) = match written.split_once('(') {
            Some((tool, rest)) => (tool, Some(rest.strip_suffix(')')?)),
            None => (written, None),
        };
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_-.*".contains(c);
        if tool.is_empty() || !tool.chars().all(is_of_name) {
            return None;
        }
        let called_with = called_with.map(str::trim);
        Some(Self {
            written: written.to_owned(),
            // The name of an MCP server covers all of its tools.
            tool: pattern(
                tool,
                if tool.starts_with("mcp__") {
                    "(?:__.*)?"
                } else {
                    ""
                },
            )?,
            called_with: called_with
                .filter(|with| !with.is_empty() && *with != "*")
                .map(str::to_owned),
        })
    }

    /// True if the hook applies to the call.
    pub(crate) fn applies(&self, dialect: Dialect, tool: &ToolUse, input: &Input) -> bool {
        let is_alike = |(name, own): &(&str, &[&str])| {
            self.tool.is_match(name) && own.contains(&tool.name.as_str())
        };
        let is_named = self.tool.is_match(&tool.name)
            || tools::names(dialect, tool).any(|name| self.tool.is_match(&name))
            || (dialect != Dialect::DockerAgent && EQUIVALENT_TOOLS.iter().any(is_alike));
        is_named
            && self
                .called_with
                .as_ref()
                .is_none_or(|with| matches_argument(with, dialect, tool, input))
    }
}

fn matches_argument(with: &str, dialect: Dialect, tool: &ToolUse, input: &Input) -> bool {
    let text = |key: &str| tool.input.get(key).and_then(Value::as_str);
    match tool.name.as_str() {
        _ if tool.mcp.is_some() => true,
        "shell" | "run_background_job" => {
            let told = tools::input_arguments(dialect, tool, input);
            let line = told.get("command").or_else(|| told.get("cmd"));
            line.and_then(Value::as_str)
                .is_none_or(|line| matches_command_line(with, line))
        }
        "read_file" | "write_file" | "edit_file" => {
            text("path").is_none_or(|path| matches_path(with, path, &input.cwd))
        }
        // A search in a directory may read any file in it.
        _ if !tool.resource_access.searches.is_empty() => true,
        "apply_patch" if tool.resource_access.paths().next().is_some() => {
            let mut paths = tool.resource_access.paths();
            paths.any(|path| matches_path(with, &path.to_string_lossy(), &input.cwd))
        }
        "web_fetch" => with.strip_prefix("domain:").is_none_or(|domain| {
            let host = text("url").and_then(host);
            let domain = domain.to_lowercase();
            host.is_none_or(|host| pattern(&domain, "").is_none_or(|known| known.is_match(&host)))
        }),
        "transfer_task" => text("agent").is_none_or(|agent| agent == with),
        _ => true,
    }
}

/// Compiles a pattern in which `*` matches any text, followed by the regular expression `behind`.
fn pattern(written: &str, behind: &str) -> Option<Regex> {
    let pieces: Vec<String> = written.split('*').map(regex::escape).collect();
    Regex::new(&format!(r"(?s)\A{}{behind}\z", pieces.join(".*"))).ok()
}

/// True if a command line may run a command that matches: `git *` matches `git` and everything that
/// starts with `git `; `git:*` is the older notation.
fn matches_command_line(with: &str, line: &str) -> bool {
    let command = Command {
        text: CommandText::Line(line.to_owned()),
        directory: None,
    };
    CommandPattern::new(with).is_none_or(|pattern| pattern.may_run(&command))
}

/// True if a path matches in the sense of a `.gitignore` line. Roots: `//` the file system root, `~/`
/// any directory, `/` and `./` the working directory of the tools.
fn matches_path(with: &str, path: &str, workspace: &Path) -> bool {
    let workspace = normalize(workspace);
    let workspace = workspace.as_path();
    let path = workspace.join(path);
    // A symbolic link leads to a file with another path.
    let real = path.canonicalize().or_else(|_| {
        let (parent, name) = (path.parent(), path.file_name());
        let parent = parent.unwrap_or(Path::new("/")).canonicalize()?;
        Ok::<_, std::io::Error>(parent.join(name.unwrap_or_default()))
    });
    let path = normalize(&path);
    let roots = workspace.canonicalize();
    matches_path_as_written(with, &path, workspace)
        || real.is_ok_and(|real| {
            let workspace = roots.as_deref().unwrap_or(workspace);
            real != path && matches_path_as_written(with, &real, workspace)
        })
}

/// True if a path matches as written, without resolving links.
fn matches_path_as_written(with: &str, path: &Path, workspace: &Path) -> bool {
    let (root, line) = match (with.strip_prefix("//"), with.strip_prefix('~')) {
        (Some(absolute), _) => (Path::new("/"), format!("/{absolute}")),
        // The home directory depends on the user, so any directory matches.
        (_, Some(home)) => (Path::new("/"), format!("**{home}")),
        (None, None) => (
            workspace,
            with.strip_prefix('.')
                .filter(|rest| rest.starts_with('/'))
                .unwrap_or(with)
                .to_owned(),
        ),
    };
    let mut builder = GitignoreBuilder::new(root);
    // The file system may be case-insensitive.
    let _ = builder.case_insensitive(true);
    let Ok(rules) = builder
        .add_line(None, &line)
        .and_then(|builder| builder.build())
    else {
        return true;
    };
    // A path outside of the root does not match.
    path.starts_with(root) && rules.matched_path_or_any_parents(path, false).is_ignore()
}

/// Returns the normalized host of a URL; `None` if a full URL parser would be needed.
fn host(url: &str) -> Option<String> {
    let behind = url.split_once("://")?.1;
    let authority = behind.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = host.split(':').next().unwrap_or(host);
    let host = host.trim_end_matches('.').to_lowercase();
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || character == '.' || character == '-';
    host.chars().all(is_plain).then_some(host)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../../tests/unit/dialect/condition.rs"]
mod tests;
