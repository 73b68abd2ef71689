//! Detects the runtime that a file of hooks was written for.

use std::path::Path;

use cachalot_core::Problem;
use cachalot_core::tree::{Node, NodeKind};

use crate::definition::Plugin;
use crate::dialect::NamedEvent;
use crate::{Dialect, Event};

/// Variables that occur only in hooks of one runtime.
const VARIABLES: [(&str, Dialect); 4] = [
    ("GEMINI_", Dialect::Gemini),
    ("${extensionPath}", Dialect::Gemini),
    ("CODEX_", Dialect::Codex),
    ("CLAUDE_", Dialect::Claude),
];

/// Returns the dialect of a file: by its path, or else by its events. A file with `dialect` or with
/// events of ours is ours.
///
/// # Errors
/// The file contains events of two runtimes: a wrong guess could lose a guard.
pub(super) fn dialect(path: &Path, node: &Node) -> Result<Dialect, Problem> {
    if let Some(dialect) = by_path(path) {
        return Ok(dialect);
    }
    let events = node.get("hooks").unwrap_or(node);
    let names_a_dialect = |node: &Node| node.get("dialect").is_some();
    let keys: Vec<&str> = match events.as_map() {
        Some(entries) => entries.iter().map(|entry| entry.key.as_str()).collect(),
        None => Vec::new(),
    };
    let is_own = |key: &&str| key.parse::<Event>().is_ok();
    if names_a_dialect(node) || names_a_dialect(events) || keys.iter().any(is_own) {
        return Ok(Dialect::DockerAgent);
    }
    let only = |dialect: Dialect, other: Dialect| {
        let is_only = |key: &&str| is_event_of(dialect, key) && !is_event_of(other, key);
        keys.iter().copied().find(is_only)
    };
    let in_common = || keys.iter().any(|key| is_event_of(Dialect::Claude, key));
    let plugin = Plugin::from_file(path).and_then(|plugin| plugin.dialect);
    let named = plugin.or_else(|| named_in_commands(events));
    let codex = path
        .extension()
        .is_some_and(|extension| extension == "toml")
        || has_codex_keys(node, events)
        || named == Some(Dialect::Codex);
    let claude = if codex {
        Dialect::Codex
    } else {
        Dialect::Claude
    };
    let of_claude = only(Dialect::Claude, Dialect::Gemini);
    let of_gemini = only(Dialect::Gemini, Dialect::Claude);
    match (of_claude, of_gemini) {
        // The manifest of a plugin decides.
        (Some(one), Some(other)) => plugin.ok_or_else(|| {
            Problem::new(
                "ambiguous-dialect",
                format!("`{one}` is an event of Claude Code, `{other}` is one of Gemini CLI"),
            )
            .at(&events.head())
            .help("name the dialect with `--dialect`, or make two files of it")
        }),
        (Some(_), None) => Ok(claude),
        (None, Some(_)) => Ok(Dialect::Gemini),
        (None, None) if in_common() => Ok(named.unwrap_or(claude)),
        (None, None) if keys_of_hooks(node) == 0 && is_settings(path, node) => Ok(Dialect::Claude),
        (None, None) => Ok(plugin.unwrap_or(Dialect::DockerAgent)),
    }
}

/// True if a file without `hooks` contains events of the runtime.
pub(super) fn has_events(node: &Node, dialect: Dialect) -> bool {
    let mut entries = node.as_map().unwrap_or_default().iter();
    entries.any(|entry| is_event_of(dialect, &entry.key))
}

/// Returns the dialect of a well-known path: the settings of Claude Code, `hooks.json` and `config.toml`
/// of Codex, the settings of Gemini CLI.
fn by_path(path: &Path) -> Option<Dialect> {
    let absolute = std::path::absolute(path).ok()?;
    let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
    let (folder, file) = (name(absolute.parent()?)?, name(&absolute)?);
    match (folder.as_str(), file.as_str()) {
        (".claude", "settings.json" | "settings.local.json") => Some(Dialect::Claude),
        (".codex", "hooks.json" | "config.toml") => Some(Dialect::Codex),
        (".gemini", "settings.json") => Some(Dialect::Gemini),
        _ => None,
    }
}

/// True for the name of an event in the dialect, including events that never fire here.
fn is_event_of(dialect: Dialect, name: &str) -> bool {
    let vocabulary = dialect.vocabulary();
    let is_one = |event_name: &NamedEvent| event_name.name == name;
    vocabulary.events.iter().any(is_one)
        || vocabulary
            .unsupported
            .iter()
            .any(|event| event.name == name)
}

/// True if there are keys that only files of Codex have.
fn has_codex_keys(node: &Node, events: &Node) -> bool {
    let has = |node: &Node, keys: &[&str]| keys.iter().any(|key| node.get(key).is_some());
    let features = node.get("features");
    has(events, &["state", "managed_dir", "windows_managed_dir"])
        || features.is_some_and(|features| has(features, &["hooks", "codex_hooks"]))
}

/// The number of events under `hooks`.
fn keys_of_hooks(node: &Node) -> usize {
    let hooks = node.get("hooks").and_then(Node::as_map);
    hooks.map_or(0, <[_]>::len)
}

/// True if a file is Claude Code settings, by its name or its schema: settings may have no hooks.
fn is_settings(path: &Path, node: &Node) -> bool {
    const NAMES: [&str; 3] = [
        "settings.json",
        "settings.local.json",
        "managed-settings.json",
    ];
    let name = path.file_name().and_then(|name| name.to_str());
    let schema = node.get("$schema").and_then(Node::as_text);
    name.is_some_and(|name| NAMES.contains(&name))
        || schema.is_some_and(|schema| schema.contains("claude-code-settings"))
}

/// Returns the runtime whose variables the commands use.
fn named_in_commands(events: &Node) -> Option<Dialect> {
    let mut found = None;
    visit(events, &mut |text| {
        let named = VARIABLES
            .iter()
            .find(|(variable, _)| text.contains(variable));
        found = found.or(named.map(|(_, dialect)| *dialect));
    });
    found
}

/// Calls `see` for all texts of a tree, in order.
fn visit(node: &Node, see: &mut impl FnMut(&str)) {
    match &node.kind {
        NodeKind::Text(text) => see(text),
        NodeKind::List(items) => items.iter().for_each(|item| visit(item, see)),
        NodeKind::Map(entries) => entries.iter().for_each(|entry| visit(&entry.value, see)),
        _ => {}
    }
}
