//! The paths that a command names, for checks of the files that it may write.

use std::path::PathBuf;

use crate::Workspace;
use crate::resource_access::{Command, CommandText};
use crate::shell::{Atom, Directories, ParsedScript, Word, candidates, files, without_revisions};

/// Placeholder for a part of a path that is unknown before the command runs.
pub const UNKNOWN: char = '\u{fffc}';

/// Maximum number of words of a command to inspect.
const MAX_WORDS: usize = 4_000;

/// Maximum length of a command line to parse, in bytes.
const MAX_LINE_BYTES: usize = 32 << 10;

/// A path that a command may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPath {
    /// The word that contains it, with [`UNKNOWN`] for its unknown parts.
    pub word: String,
    /// Absolute; `.`, `..` and links are not resolved. May contain `*`, `?` and [`UNKNOWN`].
    pub path: PathBuf,
}

/// Returns the paths that a command may name: arguments and parts of them, targets of redirections, and
/// names in code, relative to every directory that the command may be in. The home and the working
/// directory are filled in. Patterns of file names are returned as written and with the files that they
/// match now. Returns `None` if there are too many, or the line is too long: the command may then name
/// any path.
///
/// The result includes words that are no paths, except `HEAD` where git takes a revision. It does not include
/// paths that the command computes.
#[must_use]
pub fn named_paths(command: &Command, workspace: &Workspace) -> Option<Vec<NamedPath>> {
    if matches!(&command.text, CommandText::Line(line) if line.len() > MAX_LINE_BYTES) {
        return None;
    }
    let (mut script, start) = ParsedScript::in_workspace(command, workspace);
    let directories = Directories::new(&script, start);
    script.invocations = without_revisions(&script, &directories);
    let words = candidates(&script);
    if words.len() > MAX_WORDS {
        return None;
    }
    let mut found = Vec::new();
    for directory in &directories.known {
        if script.writes_git_settings {
            found.push(NamedPath {
                word: ".git/config".to_owned(),
                path: directory.join(".git/config"),
            });
        }
        for word in &words {
            let text = word_text(word);
            if word.is_glob() {
                let now = files(directory, word)?;
                found.extend(now.into_iter().map(|path| NamedPath {
                    word: text.clone(),
                    path,
                }));
            }
            found.push(NamedPath {
                path: directory.join(&text),
                word: text,
            });
        }
    }
    Some(found)
}

fn word_text(word: &Word) -> String {
    let sign = |atom: &Atom| match atom {
        Atom::Char { sign, .. } => *sign,
        Atom::One => '?',
        Atom::Star => '*',
        _ => UNKNOWN,
    };
    word.0.iter().map(sign).collect()
}
