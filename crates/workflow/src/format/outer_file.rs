//! A file that names subgraphs: what they inherit from it, and what they cannot set themselves.

use cachalot_core::Problem;
use cachalot_core::tree::{MapEntry, Node, NodeKind, Section};
use cachalot_model::ModelConfiguration;
use cachalot_operation::Permissions;
use serde_json::Value;

use crate::codes;

/// Keys of `settings` that hold for a whole run.
const RUN_WIDE_KEYS: [&str; 8] = [
    "ltm", "ltm_path", "cache", "ledger", "python", "lua", "python3", "http",
];

/// A file that names subgraphs, as they see it.
pub(super) struct OuterFile<'a> {
    /// The path as shown in problems.
    pub(super) name: &'a str,
    /// `settings` with environment variables expanded, with those of its own outer file.
    pub(super) settings: Option<&'a Node>,
    /// `models`, `providers` and `settings.llm`, with those of its own outer file.
    pub(super) models: &'a ModelConfiguration,
    /// `budget` of the outermost file.
    pub(super) budget: Option<&'a Value>,
    /// The rules for steps that are tools.
    pub(super) rules: &'a Permissions,
    /// The file that runs this one as a subgraph.
    pub(super) outer: Option<&'a OuterFile<'a>>,
}

impl OuterFile<'_> {
    /// Returns the files from the outermost to this one.
    pub(super) fn chain(&self) -> Vec<&str> {
        let mut chain = self.outer.map(OuterFile::chain).unwrap_or_default();
        chain.push(self.name);
        chain
    }

    /// Returns the settings of a file that this one runs: its own, and by key those that it has not. The
    /// name is not passed on.
    pub(super) fn merged_settings(&self, own: Option<Node>) -> Option<Node> {
        let (Some(outer), Some(entries)) = (self.settings, own_entries(own.as_ref())) else {
            return own;
        };
        let is_missing = |entry: &&MapEntry| {
            entry.key != "name" && !entries.iter().any(|known| known.key == entry.key)
        };
        let inherited = outer.as_map().unwrap_or_default().iter().filter(is_missing);
        let entries = entries.iter().chain(inherited).cloned().collect();
        Some(Node {
            kind: NodeKind::Map(entries),
            place: own.as_ref().unwrap_or(outer).place.clone(),
        })
    }

    /// Reports settings and sections that a subgraph cannot have, or that the outer file does not have in
    /// the same way.
    pub(super) fn check(
        &self,
        section: &mut Section<'_>,
        settings: Option<&Node>,
        problems: &mut Vec<Problem>,
    ) {
        if let Some(entry) = section
            .entry("agents")
            .filter(|entry| !entry.value.is_null())
        {
            problems.push(
                Problem::new(codes::UNSUPPORTED, "a subgraph has no `agents` of its own")
                    .at(&entry.key_place)
                    .help("put them into a file of their own, and name it: `uses: agent.run` with `file`"),
            );
        }
        let budget = section
            .entry("budget")
            .filter(|entry| !entry.value.is_null());
        if let Some(entry) = budget
            && Some(&entry.value.to_value()) != self.budget
        {
            problems.push(differs(entry, "budget", self.name));
        }
        let own = own_entries(settings).unwrap_or_default();
        for entry in own
            .iter()
            .filter(|entry| RUN_WIDE_KEYS.contains(&entry.key.as_str()))
        {
            let outer = self.settings.and_then(|settings| settings.get(&entry.key));
            if outer.map(Node::to_value) != Some(entry.value.to_value()) {
                problems.push(differs(
                    entry,
                    &format!("settings.{}", entry.key),
                    self.name,
                ));
            }
        }
    }
}

/// Returns the entries of the settings, none if there are no settings; `None` if they are not a mapping.
fn own_entries(settings: Option<&Node>) -> Option<&[MapEntry]> {
    match settings {
        None => Some(&[]),
        Some(settings) if settings.is_null() => Some(&[]),
        Some(settings) => settings.as_map(),
    }
}

fn differs(entry: &MapEntry, key: &str, outer: &str) -> Problem {
    let message = format!("`{key}` holds for a whole run, and differs from that of {outer}");
    Problem::new(codes::SUBGRAPH_DIFFERS, message)
        .at(&entry.key_place)
        .help(format!("take it out here, or write the same into {outer}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../../tests/unit/format/outer_file.rs"]
mod tests;
