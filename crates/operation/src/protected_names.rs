//! Names of files that decide what agents, hooks and git do.

use std::path::{Component, Path};

use crate::{UNKNOWN, may_be};

/// Names of folders and files that are protected in every directory, in lower case.
const PROTECTED_NAMES: [&str; 15] = [
    ".gitconfig",
    ".cachalot",
    ".codex",
    ".cursor",
    ".docker-agent",
    ".gemini",
    ".mcp.json",
    ".claude.json",
    "hooks.d",
    ".gitmodules",
    // Instructions for agents, which one that works in the folder reads.
    "agents.md",
    "claude.md",
    "claude.local.md",
    "gemini.md",
    "skill.md",
];

/// Protected entries of a `.git` folder, as prefixes of their names.
const PROTECTED_IN_GIT: [&str; 6] = [
    "config",
    "hooks",
    "info",
    "modules",
    "worktrees",
    "commondir",
];

/// Protected entries of a `.claude` folder, as prefixes of their names.
const PROTECTED_IN_CLAUDE: [&str; 5] = ["settings", "hooks", "plugins", "managed", "skills"];

/// Returns the name by which a path is protected in every directory. A part with [`UNKNOWN`] counts as every name
/// that it may be.
#[must_use]
pub fn protected_name(path: &Path) -> Option<String> {
    let parts: Vec<String> = path
        .components()
        .filter_map(|part| match part {
            // Windows ignores dots and blanks at the end of a name; the next step trims them.
            Component::Normal(name) => Some(name.to_string_lossy().to_lowercase()),
            _ => None,
        })
        .map(|name| match name.trim_end_matches(['.', ' ']) {
            "" => name,
            trimmed => trimmed.to_owned(),
        })
        .collect();
    parts.iter().enumerate().find_map(|(at, part)| {
        let next = parts.get(at + 1).map(String::as_str);
        let begins = |names: &[&str]| {
            next.is_none_or(|next| names.iter().any(|name| may_match_prefix(next, name)))
        };
        let anywhere = PROTECTED_NAMES.iter().find(|name| may_match(part, name));
        match anywhere {
            Some(name) => Some((*name).to_owned()),
            None if may_match(part, ".git") && begins(&PROTECTED_IN_GIT) => Some(".git".to_owned()),
            None if may_match(part, ".claude") && begins(&PROTECTED_IN_CLAUDE) => {
                Some(".claude".to_owned())
            }
            // `$(git rev-parse --git-dir)/hooks/x`: an unknown part may be `.git`.
            None if part.contains(UNKNOWN)
                && next.is_some()
                && may_be(part, ".git")
                && begins(&PROTECTED_IN_GIT) =>
            {
                Some(".git".to_owned())
            }
            None if part == ".config" && next.is_some_and(|next| may_match(next, "git")) => {
                Some(".config/git".to_owned())
            }
            // A directory with a `HEAD` file is a repository, whose configuration can name programs.
            None if part == "head"
                && next.is_none()
                && !parts[..at].contains(&".git".to_owned()) =>
            {
                Some("head".to_owned())
            }
            None => None,
        }
    })
}

/// True if a name may be `name`. One that begins with an unknown part is too general and does not count.
fn may_match(part: &str, name: &str) -> bool {
    part == name || (!part.starts_with(UNKNOWN) && may_be(part, name))
}

fn may_match_prefix(part: &str, name: &str) -> bool {
    part.starts_with(name) || (part.contains(UNKNOWN) && may_be(&format!("{part}{UNKNOWN}"), name))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../tests/unit/protected_names.rs"]
mod tests;
