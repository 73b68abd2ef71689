//! What a rule looks at: the argument of a call, as paths, as a command, or as text.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::Operation;
use super::pattern::{Pattern, SHELL_SYNTAX};
use crate::Workspace;

/// How a pattern is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// To forbid: whatever may be meant.
    Wide,
    /// To permit: only what is surely meant.
    Narrow,
}

/// What an argument says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Paths(Vec<String>),
    /// What a shell is given.
    Line(String),
    /// A program and its arguments, which no shell sees.
    Program(String),
    Texts(Vec<String>),
}

impl Subject {
    /// What the argument of this name says; `None` if the call has none.
    pub(super) fn of(operation: &Operation<'_>, name: &str) -> Option<Self> {
        let value = operation.arguments.get(name);
        if TOUCHED.contains(&name) {
            let mut paths: Vec<String> = value.map(texts).unwrap_or_default();
            let touched = operation.touches.paths();
            paths.extend(touched.map(|path| path.to_string_lossy().into_owned()));
            paths.sort();
            paths.dedup();
            return (!paths.is_empty()).then_some(Self::Paths(paths));
        }
        let value = value?;
        Some(match (name, value) {
            ("command", Value::String(line)) => Self::Line(line.clone()),
            ("command", Value::Array(_)) => Self::Program(texts(value).join(" ")),
            _ if is_path(name) => Self::Paths(texts(value)),
            _ => Self::Texts(texts(value)),
        })
    }

    /// Whether the pattern stands for it.
    pub(super) fn is(&self, pattern: &Pattern, workspace: &Workspace, how: Reading) -> bool {
        match (self, how) {
            (Self::Paths(paths), Reading::Wide) => paths
                .iter()
                .any(|path| is_any_reading(path, pattern, workspace)),
            (Self::Paths(paths), Reading::Narrow) => every(paths, |path| {
                let lies = below(workspace.root(), Path::new(path));
                pattern.matches(&lies)
                    && really(path, workspace).is_some_and(|real| pattern.matches(&real))
            }),
            (Self::Line(text) | Self::Program(text), Reading::Wide) => {
                pattern.matches(text) || commands(text).any(|command| pattern.matches(command))
            }
            (Self::Line(line), Reading::Narrow) => pattern.permits_line(line),
            (Self::Program(text), Reading::Narrow) => pattern.matches(text),
            (Self::Texts(texts), Reading::Wide) => texts.iter().any(|text| pattern.matches(text)),
            (Self::Texts(texts), Reading::Narrow) => every(texts, |text| pattern.matches(text)),
        }
    }
}

/// Whether there are some, and it holds for all.
fn every(texts: &[String], holds: impl Fn(&str) -> bool) -> bool {
    !texts.is_empty() && texts.iter().all(|text| holds(text))
}

/// A value as text; a list as one for each item.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        other => vec![other.to_string()],
    }
}

/// Names that stand for every path that a call touches.
const TOUCHED: [&str; 5] = ["path", "paths", "file", "files", "directory"];

fn is_path(name: &str) -> bool {
    name == "working_directory" || name.ends_with("_path") || name.ends_with("_paths")
}

/// The commands that a shell would find in a line, more or less: what stands between its syntax.
fn commands(line: &str) -> impl Iterator<Item = &str> {
    line.split(SHELL_SYNTAX)
        .map(|part| part.trim_matches(|sign: char| sign.is_whitespace() || "'\"{}!".contains(sign)))
        .filter(|part| !part.is_empty())
}

/// Whether the pattern stands for a path in any way of writing it.
fn is_any_reading(path: &str, pattern: &Pattern, workspace: &Workspace) -> bool {
    let root = workspace.root();
    let lies = below(root, Path::new(path));
    let absolute = slashes(&root.join(&lies));
    let real = workspace.resolve_readable(path).ok();
    pattern.matches(path)
        || pattern.matches(&lies)
        || pattern.matches(&absolute)
        || real.is_some_and(|real| {
            pattern.matches(&below(root, &real)) || pattern.matches(&slashes(&real))
        })
}

/// Where a path lies once all links are followed; `None` if that is outside, or nowhere.
fn really(path: &str, workspace: &Workspace) -> Option<String> {
    let real = workspace.resolve_readable(path).ok()?;
    Some(below(workspace.root(), &real))
}

/// A path as it lies below the root, `.` and `..` resolved by their text; one that is not below it
/// stays absolute.
fn below(root: &Path, path: &Path) -> String {
    let mut resolved = PathBuf::new();
    for part in root.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                resolved.pop();
            }
            part => resolved.push(part),
        }
    }
    match resolved.strip_prefix(root) {
        Ok(relative) if relative.as_os_str().is_empty() => ".".to_owned(),
        Ok(relative) => slashes(relative),
        Err(_) => slashes(&resolved),
    }
}

/// A path as text, with `/` between its parts wherever this runs.
fn slashes(path: &Path) -> String {
    let text = path.to_string_lossy();
    match std::path::MAIN_SEPARATOR {
        '/' => text.into_owned(),
        other => text.replace(other, "/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lie_where_their_text_leads() {
        let below = |path: &str| below(Path::new("/w"), Path::new(path));
        assert_eq!(below("./a/../.env"), ".env");
        assert_eq!(below("/w/a"), "a");
        assert_eq!(below("a/.."), ".");
        assert_eq!(below("../x"), "/x");
        assert_eq!(below("/etc//passwd"), "/etc/passwd");
    }

    #[test]
    fn commands_are_what_stands_between_shell_syntax() {
        let commands: Vec<&str> =
            commands("cd x && rm -rf y; echo \"$(rm z)\" | sh\n{ rm q; }").collect();
        assert_eq!(commands, ["cd x", "rm -rf y", "echo", "rm z", "sh", "rm q"]);
    }
}
