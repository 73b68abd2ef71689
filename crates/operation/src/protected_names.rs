//! Names of files that decide what agents, hooks and git do.

use std::path::{Component, Path};

use crate::UNKNOWN;

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

/// Returns the name by which a path is protected in every directory. A shell pattern counts as every name
/// that it may match.
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

/// True if a name with unknown parts may be `name`.
fn may_be(part: &str, name: &str) -> bool {
    matches(part.replace(UNKNOWN, "*").as_bytes(), name.as_bytes())
}

/// True if a name, or a shell pattern, may match `name`. A pattern that begins with a wildcard (`*`, `*.rs`)
/// is too general and does not count.
fn may_match(pattern: &str, name: &str) -> bool {
    if !pattern.contains(['*', '?', '[']) {
        return pattern == name;
    }
    if pattern.starts_with(['*', '?', '[']) {
        return false;
    }
    matches(pattern.as_bytes(), name.as_bytes())
}

fn may_match_prefix(pattern: &str, name: &str) -> bool {
    match pattern.contains(['*', '?', '[']) {
        true => matches(format!("{pattern}*").as_bytes(), name.as_bytes()),
        false => pattern.starts_with(name),
    }
}

/// Matches a shell pattern; a bracket expression matches any single character.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.first(), name.first()) {
        (None, None) => true,
        (Some(b'*'), _) => {
            matches(&pattern[1..], name) || (!name.is_empty() && matches(pattern, &name[1..]))
        }
        (Some(b'['), Some(_)) => match pattern.iter().position(|sign| *sign == b']') {
            Some(end) => matches(&pattern[end + 1..], &name[1..]),
            None => false,
        },
        (Some(b'?'), Some(_)) => matches(&pattern[1..], &name[1..]),
        (Some(one), Some(other)) => one == other && matches(&pattern[1..], &name[1..]),
        _ => false,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn files_are_protected_by_their_names_in_any_spelling() {
        for (path, name) in [
            (".git/config", ".git"),
            ("sub/.GIT/Hooks/pre-commit", ".git"),
            (".git", ".git"),
            (".git/modules/x/config", ".git"),
            (".git./config", ".git"),
            (".cachalot/agents/x.yaml", ".cachalot"),
            ("a/.mcp.json", ".mcp.json"),
            (".claude/settings.local.json", ".claude"),
            (".claude/hooks/x.sh", ".claude"),
            (".claude/skills/x/SKILL.md", ".claude"),
            (".gemini/settings.json", ".gemini"),
            (".codex/config.toml", ".codex"),
            ("etc/hooks.d/x.yaml", "hooks.d"),
            (".gi?/conf*", ".git"),
            (".g[i]t/hooks", ".git"),
            ("\u{fffc}/hooks/x", ".git"),
            (".\u{fffc}/config", ".git"),
            ("home/.gitconfig", ".gitconfig"),
            ("home/.config/git/config", ".config/git"),
            ("AGENTS.md", "agents.md"),
            ("packages/a/Claude.md", "claude.md"),
            ("CLAUDE.local.md", "claude.local.md"),
            ("packages/a/skills/x/SKILL.md", "skill.md"),
            ("AGENTS*", "agents.md"),
            ("docs/x/HEAD", "head"),
        ] {
            assert_eq!(
                protected_name(Path::new(path)).as_deref(),
                Some(name),
                "{path}"
            );
        }
        for path in [
            ".git/HEAD",
            ".gitignore",
            ".github/workflows/x.yml",
            "git/config",
            ".claude/agents/x.md",
            "docs/agents.md.txt",
            "src/skills/x.rs",
            "README.md",
            "src/hooks.rs",
            "src/*.rs",
            "*",
            "\u{fffc}",
            "\u{fffc}/x",
            "HEAD/x",
        ] {
            assert_eq!(protected_name(Path::new(path)), None, "{path}");
        }
    }
}
