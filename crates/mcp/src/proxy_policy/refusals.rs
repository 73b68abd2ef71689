//! Tools that are known to depend on time, chance or hidden state although they declare to be read-only: a table of the
//! program.

use std::sync::LazyLock;

use cachalot_core::config::{Named, Settings};
use cachalot_core::tree;
use globset::{Glob, GlobSet, GlobSetBuilder};

const TABLE: &str = include_str!("../../data/tool_refusals.yaml");

/// The file of the program.
#[derive(Debug, Default, Settings)]
#[settings(name = "the refusals")]
struct RefusalsFile {
    /// The kinds of tools.
    refusals: Vec<Named<RefusalKind>>,
}

/// A kind of tools.
#[derive(Debug, Settings)]
#[settings(name = "a refusal")]
struct RefusalKind {
    /// The reason, which follows "not stored:".
    reason: String,
    /// Names of tools.
    names: Vec<String>,
    /// Permits tools whose entry lists the files that they depend on in `also`.
    unless_also: bool,
    /// They may change something.
    changes_state: bool,
}

/// The reason why the results of a kind of tools are not stored.
pub(super) struct Refusal {
    pub(super) reason: String,
    /// True if such a tool may change something.
    pub(super) changes_state: bool,
    names: GlobSet,
    unless_also: bool,
}

/// Returns why the results of a tool of this name are not to be stored. `lists_files` is set if its entry
/// lists the files that it depends on.
pub(super) fn refusal(name: &str, lists_files: bool) -> Option<&'static Refusal> {
    static REFUSALS: LazyLock<Vec<Refusal>> = LazyLock::new(read);
    let name = normalized(name);
    let mut refusals = REFUSALS.iter();
    refusals.find(|refusal| refusal.names.is_match(&name) && !(refusal.unless_also && lists_files))
}

/// Returns a name in lower case, with `_` between its words: servers write `getTime`, `get-time` and `get_time`.
fn normalized(name: &str) -> String {
    let mut normalized = String::with_capacity(name.len() + 4);
    let mut before = '_';
    for character in name.chars() {
        if character.is_uppercase() && before.is_lowercase() {
            normalized.push('_');
        }
        before = character;
        match character {
            '-' | '.' | '/' | ' ' => normalized.push('_'),
            other => normalized.extend(other.to_lowercase()),
        }
    }
    normalized
}

fn read() -> Vec<Refusal> {
    let mut problems = Vec::new();
    let root = tree::parse("tool_refusals.yaml", TABLE).ok();
    let file = root.and_then(|root| RefusalsFile::read(&root, &mut problems));
    debug_assert!(problems.is_empty() && file.is_some(), "{problems:?}");
    let kinds = file.unwrap_or_default().refusals.into_iter();
    let refusal = |Named { value, .. }: Named<RefusalKind>| {
        let mut names = GlobSetBuilder::new();
        value
            .names
            .iter()
            .filter_map(|name| Glob::new(name).ok())
            .for_each(|glob| {
                names.add(glob);
            });
        Refusal {
            reason: value.reason,
            changes_state: value.changes_state,
            names: names.build().unwrap_or_default(),
            unless_also: value.unless_also,
        }
    };
    kinds.map(refusal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_of_known_servers_are_refused() {
        for name in [
            "get_current_time",
            "getCurrentTime",
            "convert_time",
            "get-env",
            "get-resource-reference",
            "sequentialthinking",
            "browser_take_screenshot",
            "browser_snapshot",
            "take_screenshot",
            "select_page",
            "wait_for",
            "get_file_info",
            "git_status",
            "git.log",
        ] {
            assert!(refusal(name, false).is_some(), "{name}");
        }
        for name in [
            "read_text_file",
            "search_nodes",
            "resolve-library-id",
            "timeline",
            "echo",
        ] {
            assert!(refusal(name, false).is_none(), "{name}");
        }
        assert!(refusal("git_show", true).is_none());
        assert!(refusal("get_current_time", true).is_some());
        assert!(
            read()
                .iter()
                .all(|refusal| !refusal.names.is_empty() && !refusal.reason.is_empty())
        );
    }
}
