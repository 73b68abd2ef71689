//! The paths that a command names, for checks of what it may write.

use std::path::PathBuf;

use crate::Workspace;
use crate::shell::{Atom, Directories, Known, Script, Word, candidates, files};
use crate::touches::{Command, CommandText};

/// Stands for a part of a path that is not known before the command runs.
pub const UNKNOWN: char = '\u{fffc}';

/// As many words of a command are looked at.
const MOST: usize = 4_000;

/// Longer command lines are not taken apart.
const LONGEST: usize = 32 << 10;

/// A path that a command may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPath {
    /// The word that it stands in, [`UNKNOWN`] for what is not known of it.
    pub word: String,
    /// Absolute; `.`, `..` and links are not resolved. It may hold `*`, `?` and [`UNKNOWN`].
    pub path: PathBuf,
}

/// The paths that a command may name: arguments and parts of them, targets of redirections, names in
/// code, from every directory that it may be in, home and working directory filled in, patterns of file
/// names both as they are and with the files that they stand for now. `None` if there are too many, or
/// the line is too long: then it may name any.
///
/// Words that are no paths are among them. What the command makes of a value that it computes is not.
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
