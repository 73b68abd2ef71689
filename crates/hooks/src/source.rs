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
//! | `left-out` | a file of a folder is wrong, and none of its hooks run |

use std::path::{Path, PathBuf};

use cachalot_core::Problem;
use cachalot_core::tree::{self, Kind, Node};

use crate::builtin::Builtins;
use crate::definition::{Action, Definition, Entry, Plugin, Reading};
use crate::{Dialect, Event, Matcher};

mod json;
mod toml;

/// What files hold.
#[derive(Debug, Clone, Default)]
pub struct Read {
    /// The hooks, in order.
    pub entries: Vec<Entry>,
    /// What is not honoured, though nothing is wrong with it.
    pub warnings: Vec<Problem>,
}

/// The dialect of a file, by where it is: Claude Code's settings and the `hooks/hooks.json` of its
/// plugins, Codex' `hooks.json` and `config.toml`, Gemini CLI's settings, and otherwise ours.
#[must_use]
pub fn dialect_of(path: &Path) -> Dialect {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let name = |path: Option<&Path>| {
        let name = path.and_then(Path::file_name);
        name.and_then(|name| name.to_str())
            .unwrap_or_default()
            .to_owned()
    };
    let folder = name(absolute.parent());
    match (folder.as_str(), name(Some(&absolute)).as_str()) {
        (".claude", "settings.json" | "settings.local.json") => Dialect::Claude,
        (".codex", "hooks.json" | "config.toml") => Dialect::Codex,
        (".gemini", "settings.json") => Dialect::Gemini,
        ("hooks", "hooks.json") if Plugin::of(&absolute).is_some() => Dialect::Claude,
        _ => Dialect::DockerAgent,
    }
}

/// Reads a file that somebody named. `dialect` wins over where the file is. What is wrong goes to
/// `problems`, and the hooks that it is wrong with are left out.
pub fn read_file(
    path: &Path,
    dialect: Option<Dialect>,
    builtins: &Builtins,
    problems: &mut Vec<Problem>,
) -> Read {
    let name = path.display().to_string();
    let extension = path.extension().and_then(|extension| extension.to_str());
    let node = text_of(path).and_then(|text| match extension {
        Some("json") => json::parse(&name, &text),
        Some("toml") => toml::parse(&name, &text),
        _ => tree::parse(&name, &text),
    });
    match node {
        Ok(node) => {
            let dialect = dialect.unwrap_or_else(|| dialect_of(path));
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

/// Reads all files of a folder (`*.yaml`, `*.yml`, `*.json`) in the order of their names. A file that
/// is wrong is left out, with warnings. A folder that is not there holds nothing; folders in it, and
/// other files, mean nothing.
pub fn read_directory(directory: &Path, builtins: &Builtins) -> Read {
    let mut all = Read::default();
    let files = match files(directory) {
        Ok(files) => files,
        Err(error) => {
            all.warnings.push(unreadable(directory, &error));
            return all;
        }
    };
    for file in files {
        let mut problems = Vec::new();
        let mut read = read_file(&file, None, builtins, &mut problems);
        all.warnings.append(&mut read.warnings);
        if problems.is_empty() {
            all.entries.append(&mut read.entries);
        } else {
            all.warnings.append(&mut problems);
            all.warnings.push(Problem::new(
                "left-out",
                format!(
                    "{}: none of its hooks run, because of what is wrong with it",
                    file.display()
                ),
            ));
        }
    }
    all
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

/// The hooks of a file: under `hooks`, or, in a file of ours, the file itself.
fn read_node(node: &Node, dialect: Dialect, reading: &mut Reading<'_>) {
    let is_foreign = dialect != Dialect::DockerAgent;
    match node.get("hooks") {
        Some(hooks) if is_foreign => foreign(node, hooks, dialect, reading),
        Some(hooks) => own(node, hooks, reading),
        // Settings without hooks.
        None if is_foreign && node.as_map().is_some() => {}
        None => reading.section(node, dialect),
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

fn text_of(path: &Path) -> Result<String, Vec<Problem>> {
    let is_file = std::fs::metadata(path).map(|metadata| metadata.is_file());
    let text = match is_file {
        Ok(true) => std::fs::read_to_string(path),
        // Reading what is no file may wait forever.
        Ok(false) => Err(std::io::Error::other("it is no file")),
        Err(error) => Err(error),
    };
    text.map_err(|error| vec![unreadable(path, &error)])
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
        if matches!(extension, Some("yaml" | "yml" | "json")) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
