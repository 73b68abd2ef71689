//! Files that control agents and hooks. An agent that could change them would grant itself permissions that
//! the user has not granted.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use cachalot_core::links::without_links;
use cachalot_operation::resource_access::Command;
use cachalot_operation::workspace::normalize;
use cachalot_operation::{AccessRequest, NamedPath, UNKNOWN, Workspace, named_paths};

use crate::read_only_command::{is_only_a_name, is_read_only};

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

/// A protected file that a call writes or a command names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProtectedFile {
    /// The path as written in the call.
    pub(crate) path: String,
    /// The name, in lower case, that a rule must contain to allow the call.
    pub(crate) name: String,
}

/// Returns the first protected file that a call writes or one of its commands names. `own` are protected
/// files and folders in addition to those known by name.
pub(crate) fn find_protected(
    operation: &AccessRequest<'_>,
    workspace: &Workspace,
    own: &[PathBuf],
) -> Option<ProtectedFile> {
    let protected = Protected::new(workspace, own);
    let resource_access = operation.resource_access;
    let written = resource_access.writes.iter().find_map(|path| {
        let name = protected.name_of(path)?;
        Some(ProtectedFile {
            path: path.display().to_string(),
            name,
        })
    });
    written.or_else(|| {
        let mut commands = resource_access.commands.iter();
        commands.find_map(|command| protected.find_in_command(command))
    })
}

struct Protected<'a> {
    workspace: &'a Workspace,
    own: &'a [PathBuf],
    /// See [`Protected::own_paths`].
    own_paths: OnceCell<Vec<OwnPath>>,
}

/// A path of a protected file that is not known by its name.
struct OwnPath {
    /// In lower case.
    path: PathBuf,
    /// The name of the file, in lower case.
    name: String,
}

impl<'a> Protected<'a> {
    fn new(workspace: &'a Workspace, own: &'a [PathBuf]) -> Self {
        Self {
            workspace,
            own,
            own_paths: OnceCell::new(),
        }
    }

    /// Returns the paths of the own files, as written and with all links followed. They are resolved once.
    fn own_paths(&self) -> &[OwnPath] {
        self.own_paths.get_or_init(|| {
            let mut seen = HashSet::new();
            let mut paths = Vec::new();
            for own in self.own.iter().filter(|own| seen.insert(*own)) {
                let name = own.file_name().unwrap_or(own.as_os_str());
                let name = name.to_string_lossy().to_lowercase();
                let written = to_lowercase_path(&normalize(own));
                let real = to_lowercase_path(&normalize(&without_links(own)));
                if real != written {
                    let name = name.clone();
                    paths.push(OwnPath { path: real, name });
                }
                paths.push(OwnPath {
                    path: written,
                    name,
                });
            }
            paths
        })
    }

    /// Returns the name by which a path is protected, if it is. Checks the path as written and with all links
    /// followed.
    fn name_of(&self, path: &Path) -> Option<String> {
        let path = self.workspace.root().join(path);
        // The system follows the link before a `..` after it.
        let (normalized, real) = (normalize(&path), normalize(&without_links(&path)));
        [&normalized, &real]
            .into_iter()
            .find_map(|path| protected_name(path).or_else(|| self.own_name_of(path)))
    }

    fn own_name_of(&self, path: &Path) -> Option<String> {
        let path = to_lowercase_path(path);
        let mut own = self.own_paths().iter();
        let found = own.find(|own| path.starts_with(&own.path))?;
        Some(found.name.clone())
    }

    /// Returns the protected file that a command names, from any directory in which it may run, and therefore
    /// may write.
    fn find_in_command(&self, command: &Command) -> Option<ProtectedFile> {
        if is_read_only(&command.text) {
            return None;
        }
        let Some(paths) = named_paths(command, self.workspace) else {
            return Some(ProtectedFile {
                path: "too many words to look at".to_owned(),
                name: "too many words".to_owned(),
            });
        };
        let mut seen = HashSet::new();
        paths.into_iter().find_map(|named| {
            if !seen.insert(named.path.clone()) || self.is_missing_name(command, &named) {
                return None;
            }
            let name = match named.word.contains(UNKNOWN) {
                true => protected_name(&normalize(&named.path)),
                false => self.name_of(&named.path),
            };
            Some(ProtectedFile {
                path: named.word.replace(UNKNOWN, "…"),
                name: name?,
            })
        })
    }

    /// True if a word without a `/` is the path of an own file that does not exist, and the command takes it as
    /// a name and does not create it: `skills` in `cargo test skills`.
    fn is_missing_name(&self, command: &Command, named: &NamedPath) -> bool {
        let path = to_lowercase_path(&named.path);
        !named.word.contains(['/', UNKNOWN])
            && self.own_paths().iter().any(|own| own.path == path)
            && protected_name(&named.path).is_none()
            && std::fs::symlink_metadata(&named.path)
                .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
            && is_only_a_name(&command.text, &named.word)
    }
}

/// Returns the name by which a path is protected in every directory. A shell pattern counts as every name
/// that it may match.
fn protected_name(path: &Path) -> Option<String> {
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

fn to_lowercase_path(path: &Path) -> PathBuf {
    PathBuf::from(path.to_string_lossy().to_lowercase())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn own_files_are_resolved_once() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        let file = workspace.root().join("Team.yaml");
        let own = [file.clone(), file.clone()];
        let protected = Protected::new(&workspace, &own);
        assert_eq!(protected.own_paths().len(), 1);
        assert_eq!(protected.name_of(&file).as_deref(), Some("team.yaml"));
        let below = protected.name_of(Path::new("TEAM.yaml/x"));
        assert_eq!(below.as_deref(), Some("team.yaml"));
        assert_eq!(protected.name_of(Path::new("Team.yamls")), None);
    }

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
