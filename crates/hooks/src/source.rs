//! Where hooks come from, beside the agent's own file: files of ours and of other runtimes, a folder
//! of files, flags.
//!
//! Problems have the codes of [`crate::definition`], and these:
//!
//! | code | what |
//! |---|---|
//! | `unreadable-file` | a file cannot be read |
//! | `toml-syntax` | a file is no TOML |
//! | `hooks-switched-off` | a file of another runtime switches its hooks off |
//! | `ambiguous-dialect` | a file has events of two other runtimes |

use std::path::{Path, PathBuf};

use cachalot_core::Problem;
use cachalot_core::suggest::nearest;
use cachalot_core::tree::{self, Kind, Node};

use crate::builtin::Builtins;
use crate::definition::{Action, Definition, Entry, Plugin, Reading};
use crate::{Dialect, Event, Matcher};

mod json;
mod recognized;
mod toml;

/// What files hold.
#[derive(Debug, Clone, Default)]
pub struct Read {
    /// The hooks, in order.
    pub entries: Vec<Entry>,
    /// What is not honoured, though nothing is wrong with it.
    pub warnings: Vec<Problem>,
}

/// Reads a file of hooks. `dialect` is the one that the user named; without it, it is recognized by what
/// the file says and where it is. What is wrong goes to `problems`, and the hooks that it is wrong with
/// are left out.
pub fn read_file(
    path: &Path,
    dialect: Option<Dialect>,
    builtins: &Builtins,
    problems: &mut Vec<Problem>,
) -> Read {
    match text_of(path) {
        Ok(text) => read_text(path, &text, dialect, builtins, problems),
        Err(problem) => {
            problems.push(problem);
            Read::default()
        }
    }
}

/// Reads the text of a file of hooks, as [`read_file`] does.
pub fn read_text(
    path: &Path,
    text: &str,
    dialect: Option<Dialect>,
    builtins: &Builtins,
    problems: &mut Vec<Problem>,
) -> Read {
    let name = path.display().to_string();
    let extension = path.extension().and_then(|extension| extension.to_str());
    let node = match extension {
        Some("json") => json::parse(&name, text),
        Some("toml") => toml::parse(&name, text),
        _ => tree::parse(&name, text),
    };
    let recognized = node.and_then(|node| {
        let dialect = match dialect {
            Some(dialect) => dialect,
            None => recognized::dialect(path, &node).map_err(|problem| vec![problem])?,
        };
        Ok((node, dialect))
    });
    match recognized {
        Ok((node, dialect)) => {
            let is_foreign = dialect != Dialect::DockerAgent;
            let mut reading = Reading::new(&name, builtins, is_foreign);
            reading.plugin = Plugin::of(path);
            read_node(&node, dialect, &mut reading);
            reading.read(problems)
        }
        Err(mut why) => {
            problems.append(&mut why);
            Read::default()
        }
    }
}

/// The files of a folder that hold hooks (`*.yaml`, `*.yml`, `*.json`), in the order of their names. A
/// folder that is not there holds none; folders in it, and other files, mean nothing.
///
/// # Errors
/// The folder cannot be read: a guard may be in it.
pub fn files_of(directory: &Path) -> Result<Vec<PathBuf>, Problem> {
    files(directory).map_err(|error| unreadable(directory, &error))
}

/// The hook that a flag names: a shell line for an event, for all tools. `None` if it is blank.
#[must_use]
pub fn of_flag(flag: &str, event: Event, line: &str) -> Option<Entry> {
    let line = line.trim();
    (!line.is_empty()).then(|| Entry {
        event,
        spoken: event.name().into(),
        matcher: Matcher::ALL,
        only: None,
        definition: Definition::of(Action::Command {
            line: line.to_owned(),
        }),
        dialect: Dialect::DockerAgent,
        source: flag.into(),
        place: None,
    })
}

/// The hooks of a file: under `hooks`, or, in a file of events alone, the file itself.
fn read_node(node: &Node, dialect: Dialect, reading: &mut Reading<'_>) {
    let is_foreign = dialect != Dialect::DockerAgent;
    match node.get("hooks") {
        Some(hooks) if is_foreign => foreign(node, hooks, dialect, reading),
        Some(hooks) => own(node, hooks, reading),
        None if is_foreign && recognized::has_events(node, dialect) => {
            reading.section(node, dialect)
        }
        None if is_foreign && node.as_map().is_some() => without_hooks(node, reading),
        None => reading.section(node, dialect),
    }
}

/// Settings without hooks, unless a slip of the keyboard hides them.
fn without_hooks(node: &Node, reading: &mut Reading<'_>) {
    let mut entries = node.as_map().unwrap_or_default().iter();
    if let Some(slip) = entries.find(|entry| nearest(&entry.key, ["hooks"]).is_some()) {
        reading.problems.push(
            Problem::new(
                "unknown-key",
                format!("`{}` is no key of settings", slip.key),
            )
            .at(&slip.key_place)
            .help("did you mean `hooks`?"),
        );
    }
}

/// A file of ours with `hooks`, and beside it only `dialect` and what is for people.
fn own(node: &Node, hooks: &Node, reading: &mut Reading<'_>) {
    let Some(mut section) = tree::Section::of(node, "a file of hooks", &mut reading.problems)
    else {
        return;
    };
    for key in ["version", "name", "description", "metadata", "hooks"] {
        section.claim(key);
    }
    let dialect = section.present("dialect");
    section.finish(&mut reading.problems);
    let dialect = match dialect {
        Some(named) => reading.dialect(named),
        None => Some(Dialect::DockerAgent),
    };
    if let Some(dialect) = dialect {
        reading.section(hooks, dialect);
    }
}

/// Settings of another runtime, with the switches by which it is told not to run hooks.
fn foreign(node: &Node, hooks: &Node, dialect: Dialect, reading: &mut Reading<'_>) {
    let is = |node: Option<&Node>, truth| node.and_then(Node::as_boolean) == Some(truth);
    let config = node.get("hooksConfig");
    let features = node.get("features");
    let feature = |name| features.and_then(|features| features.get(name));
    let is_off = is(node.get("disableAllHooks"), true)
        || is(feature("hooks"), false)
        || is(feature("codex_hooks"), false)
        || is(config.and_then(|config| config.get("enabled")), false)
        || is(hooks.get("enabled"), false);
    if is_off {
        reading.warnings.push(
            Problem::new(
                "hooks-switched-off",
                "the file switches its hooks off: none run",
            )
            .at(&hooks.head()),
        );
        return;
    }
    // What stands beside the events and is none.
    let others: &[&str] = match dialect {
        Dialect::Gemini => &["enabled", "disabled", "notifications"],
        // Which hooks the user trusts, and where an administrator keeps them.
        Dialect::Codex => &["state", "managed_dir", "windows_managed_dir"],
        Dialect::Claude | Dialect::DockerAgent => &[],
    };
    let mut events = hooks.clone();
    if let Kind::Map(entries) = &mut events.kind {
        entries.retain(|entry| !others.contains(&entry.key.as_str()));
    }
    reading.section(&events, dialect);
    let disabled = [
        hooks.get("disabled"),
        config.and_then(|config| config.get("disabled")),
    ];
    let disabled = disabled.into_iter().flatten().filter_map(Node::as_list);
    let disabled: Vec<&str> = disabled.flatten().filter_map(Node::as_text).collect();
    reading.entries.retain(|entry| {
        let line = match &entry.definition.action {
            Action::Command { line } => line,
            _ => "",
        };
        let name = entry.definition.name.as_deref().unwrap_or_default();
        dialect != Dialect::Gemini || !(disabled.contains(&line) || disabled.contains(&name))
    });
}

fn text_of(path: &Path) -> Result<String, Problem> {
    let is_file = std::fs::metadata(path).map(|metadata| metadata.is_file());
    let text = match is_file {
        Ok(true) => std::fs::read_to_string(path),
        // Reading what is no file may wait forever.
        Ok(false) => Err(std::io::Error::other("it is no file")),
        Err(error) => Err(error),
    };
    text.map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Problem {
    Problem::new("unreadable-file", format!("{}: {error}", path.display()))
        .help("a file of hooks is YAML or JSON in UTF-8")
}

/// The files of a folder that hold hooks, in the order of their names.
fn files(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        // A link that leads nowhere is a file that cannot be read.
        if matches!(extension, Some("yaml" | "yml" | "json")) && !path.is_dir() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
