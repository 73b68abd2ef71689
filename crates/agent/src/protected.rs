//! Files that control agents and hooks. An agent that could change them would grant itself permissions that
//! the user has not granted.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use cachalot_core::links::without_links;
use cachalot_operation::resource_access::{Command, CommandText};
use cachalot_operation::workspace::normalize;
use cachalot_operation::{AccessRequest, UNKNOWN, Workspace, named_paths};

/// Names of folders and files that are protected in every directory, in lower case.
const PROTECTED_NAMES: [&str; 10] = [
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

/// Programs that write nothing, with any arguments. A command that consists only of these may name a
/// protected file.
const READ_ONLY_PROGRAMS: [&str; 21] = [
    "[", "cat", "cd", "cmp", "cut", "du", "echo", "egrep", "fgrep", "find", "grep", "head", "ls",
    "nl", "printf", "pwd", "rg", "stat", "tail", "test", "wc",
];

/// Arguments with which one of these programs writes or runs something after all, as prefixes.
const WRITING_ARGUMENTS: [&str; 6] = ["-delete", "-exec", "-fls", "-fprint", "-ok", "--pre"];

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
    let protected = Protected { workspace, own };
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
}

impl Protected<'_> {
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
        let mut own = self.own.iter();
        let found = own.find(|own| {
            let (normalized, real) = (normalize(own), normalize(&without_links(own)));
            path.starts_with(to_lowercase_path(&normalized))
                || path.starts_with(to_lowercase_path(&real))
        })?;
        let name = found.file_name().unwrap_or(found.as_os_str());
        Some(name.to_string_lossy().to_lowercase())
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
            if !seen.insert(named.path.clone()) {
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
}

/// True if a command runs only [`READ_ONLY_PROGRAMS`] and redirects no output.
fn is_read_only(text: &CommandText) -> bool {
    let reads = |words: &[&str]| {
        let program = words
            .first()
            .is_some_and(|word| READ_ONLY_PROGRAMS.contains(word));
        program
            && !words
                .iter()
                .any(|word| WRITING_ARGUMENTS.iter().any(|not| word.starts_with(not)))
    };
    match text {
        CommandText::Program(words) => reads(&words.iter().map(String::as_str).collect::<Vec<_>>()),
        CommandText::Line(line) => {
            // Expansions, substitutions and escapes could hide the actual words.
            let is_plain =
                !line.contains(['>', '$', '`', '\\', '{', '(', '!']) && !line.contains("<<");
            is_plain
                && line
                    .split([';', '|', '&', '\n', '\r'])
                    .filter(|command| !command.trim().is_empty())
                    .all(|command| {
                        let plain = command.replace(['"', '\''], "");
                        reads(&plain.split_whitespace().collect::<Vec<_>>())
                    })
        }
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

    #[test]
    fn read_only_commands_are_recognized() {
        let reads = |line: &str| is_read_only(&CommandText::Line(line.to_owned()));
        for line in [
            "cat .git/config",
            "grep -rn 'a b' --exclude-dir=.git . | head -5",
            "cd x && find . -path './.git/*' -prune -o -name '*.rs'; ls -la .git",
        ] {
            assert!(reads(line), "{line}");
        }
        for line in [
            "cat x > .git/config",
            "cat x | tee .git/config",
            "find .git -delete",
            "find .git -name config -exec rm {} +",
            "find .git -name config '-exec' sh",
            "rg --pre ./x y .git",
            "X=1 cat .git/config",
            "cat $(rm .git/config)",
            "cat `rm .git/config`",
            "rm -rf .git",
            "/tmp/cat .git/config",
            "git config x y",
            "cat a\nrm .git/config",
        ] {
            assert!(!reads(line), "{line}");
        }
    }
}
