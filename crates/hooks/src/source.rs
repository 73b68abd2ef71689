//! Sources of hooks in addition to the agent's file: files of ours and of other runtimes, directories of
//! files, and command line flags.
//!
//! Problems have the codes of [`crate::definition`], and these:
//!
//! | code | meaning |
//! |---|---|
//! | `unreadable-file` | the file cannot be read |
//! | `toml-syntax` | the file is no valid TOML |
//! | `hooks-switched-off` | a file of another runtime disables its hooks |
//! | `ambiguous-dialect` | the file contains events of two other runtimes |

use std::path::{Path, PathBuf};

use cachalot_core::Problem;
use cachalot_core::suggest::nearest;
use cachalot_core::tree::{self, Node, NodeKind};

use crate::builtin::Builtins;
pub use crate::definition::ParsedHooks;
use crate::definition::{Action, Definition, HookEntry, HooksParser, Plugin};
use crate::{Dialect, Event, Matcher};

mod detect;
mod json;
mod toml;

/// Reads a file of hooks. `dialect` is the user's choice; if absent, the dialect is derived from the
/// content and the path. Errors are pushed to `problems`, and the affected hooks are left out.
pub fn read_file(
    path: &Path,
    dialect: Option<Dialect>,
    builtins: &Builtins,
    problems: &mut Vec<Problem>,
) -> ParsedHooks {
    match text_of(path) {
        Ok(text) => read_text(path, &text, dialect, builtins, problems),
        Err(problem) => {
            problems.push(problem);
            ParsedHooks::default()
        }
    }
}

/// Parses the text of a file of hooks, like [`read_file`].
pub fn read_text(
    path: &Path,
    text: &str,
    dialect: Option<Dialect>,
    builtins: &Builtins,
    problems: &mut Vec<Problem>,
) -> ParsedHooks {
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
            None => detect::dialect(path, &node).map_err(|problem| vec![problem])?,
        };
        Ok((node, dialect))
    });
    match recognized {
        Ok((node, dialect)) => {
            let is_foreign = dialect != Dialect::DockerAgent;
            let mut parser = HooksParser::new(&name, builtins, is_foreign);
            parser.context.plugin = Plugin::from_file(path);
            read_node(&node, dialect, &mut parser);
            parser.read(problems)
        }
        Err(mut why) => {
            problems.append(&mut why);
            ParsedHooks::default()
        }
    }
}

/// Lists the hook files of a directory (`*.yaml`, `*.yml`, `*.json`), sorted by name. A missing
/// directory has none; subdirectories and other files are ignored.
///
/// # Errors
/// The directory cannot be read. This is an error because it may contain a guard.
pub fn list_hook_files(directory: &Path) -> Result<Vec<PathBuf>, Problem> {
    files(directory).map_err(|error| unreadable(directory, &error))
}

/// Creates the hook of a flag: a shell command for an event, for all tools. `None` if the command is
/// blank.
#[must_use]
pub fn from_flag(flag: &str, event: Event, line: &str) -> Option<HookEntry> {
    let line = line.trim();
    (!line.is_empty()).then(|| HookEntry {
        event,
        event_name: event.name().into(),
        matcher: Matcher::ALL,
        only: None,
        definition: Definition::new(Action::Command {
            line: line.to_owned(),
        }),
        dialect: Dialect::DockerAgent,
        source: flag.into(),
        place: None,
    })
}

/// Parses the hooks of a file: under `hooks`, or at the top level if the file contains only events.
fn read_node(node: &Node, dialect: Dialect, parser: &mut HooksParser<'_>) {
    let is_foreign = dialect != Dialect::DockerAgent;
    match node.get("hooks") {
        Some(hooks) if is_foreign => foreign(node, hooks, dialect, parser),
        Some(hooks) => own(node, hooks, parser),
        None if is_foreign && detect::has_events(node, dialect) => parser.section(node, dialect),
        None if is_foreign && node.as_map().is_some() => without_hooks(node, parser),
        None => parser.section(node, dialect),
    }
}

/// Accepts settings without hooks, but reports a probable typo of `hooks`.
fn without_hooks(node: &Node, parser: &mut HooksParser<'_>) {
    let mut entries = node.as_map().unwrap_or_default().iter();
    if let Some(slip) = entries.find(|entry| nearest(&entry.key, ["hooks"]).is_some()) {
        let message = format!("`{}` is no key of settings", slip.key);
        let help = "did you mean `hooks`?";
        let problem = Problem::new("unknown-key", message).at(&slip.key_place);
        parser.context.problems.push(problem.help(help));
    }
}

/// Parses one of our files with `hooks`, `dialect` and descriptive keys.
fn own(node: &Node, hooks: &Node, parser: &mut HooksParser<'_>) {
    let Some(mut section) =
        tree::Section::from_node(node, "a file of hooks", &mut parser.context.problems)
    else {
        return;
    };
    for key in ["version", "name", "description", "metadata", "hooks"] {
        section.claim(key);
    }
    let dialect = section.present("dialect");
    section.finish(&mut parser.context.problems);
    let dialect = match dialect {
        Some(named) => parser.dialect(named),
        None => Some(Dialect::DockerAgent),
    };
    if let Some(dialect) = dialect {
        parser.section(hooks, dialect);
    }
}

/// Parses settings of another runtime, including the settings that disable hooks.
fn foreign(node: &Node, hooks: &Node, dialect: Dialect, parser: &mut HooksParser<'_>) {
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
        let message = "the file switches its hooks off: none run";
        parser
            .context
            .warnings
            .push(Problem::new("hooks-switched-off", message).at(&hooks.head()));
        return;
    }
    // Keys in `hooks` that are no events.
    let others: &[&str] = match dialect {
        Dialect::Gemini => &["enabled", "disabled", "notifications"],
        // The hooks that the user trusts, and the directories of managed hooks.
        Dialect::Codex => &["state", "managed_dir", "windows_managed_dir"],
        Dialect::Claude | Dialect::DockerAgent => &[],
    };
    let mut events = hooks.clone();
    if let NodeKind::Map(entries) = &mut events.kind {
        entries.retain(|entry| !others.contains(&entry.key.as_str()));
    }
    parser.section(&events, dialect);
    let disabled = [
        hooks.get("disabled"),
        config.and_then(|config| config.get("disabled")),
    ];
    let disabled = disabled.into_iter().flatten().filter_map(Node::as_list);
    let disabled: Vec<&str> = disabled.flatten().filter_map(Node::as_text).collect();
    parser.entries.retain(|entry| {
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
        // Reading anything else, for example a pipe, may block forever.
        Ok(false) => Err(std::io::Error::other("it is no file")),
        Err(error) => Err(error),
    };
    text.map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Problem {
    Problem::new("unreadable-file", format!("{}: {error}", path.display()))
        .help("a file of hooks is YAML or JSON in UTF-8")
}

/// Lists the hook files of a directory, sorted by name.
fn files(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        // A broken link counts as a file, which is then reported as unreadable.
        if matches!(extension, Some("yaml" | "yml" | "json")) && !path.is_dir() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
