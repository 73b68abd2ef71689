//! The paths that a command names, for checks of the files that it may write.

use std::path::PathBuf;

use crate::Workspace;
use crate::shell::{Atom, Directories, Known, Script, Word, candidates, files};
use crate::touches::{Command, CommandText};

/// Placeholder for a part of a path that is unknown before the command runs.
pub const UNKNOWN: char = '\u{fffc}';

/// Maximum number of words of a command to inspect.
const MOST: usize = 4_000;

/// Maximum length of a command line to parse, in bytes.
const LONGEST: usize = 32 << 10;

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
/// The result includes words that are no paths. It does not include paths that the command computes.
#[must_use]
pub fn named_paths(command: &Command, workspace: &Workspace) -> Option<Vec<NamedPath>> {
    let start = match &command.directory {
        Some(directory) => workspace.root().join(directory),
        None => workspace.root().to_owned(),
    };
    if matches!(&command.text, CommandText::Line(line) if line.len() > LONGEST) {
        return None;
    }
    let known = Known {
        variables: Some(workspace.variables()),
        directory: Some(&start),
    };
    let script = Script::of(command, &known);
    let words = candidates(&script);
    if words.len() > MOST {
        return None;
    }
    let directories = Directories::of(&script, start).known;
    let mut found = Vec::new();
    for directory in &directories {
        if script.writes_git_settings {
            found.push(NamedPath {
                word: ".git/config".to_owned(),
                path: directory.join(".git/config"),
            });
        }
        for word in &words {
            let text = shown(word);
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

fn shown(word: &Word) -> String {
    let sign = |atom: &Atom| match atom {
        Atom::Char { sign, .. } => *sign,
        Atom::One => '?',
        Atom::Star => '*',
        _ => UNKNOWN,
    };
    word.0.iter().map(sign).collect()
}
