//! The paths that a command line names.

use std::path::{Path, PathBuf};

use super::wrappers::base_name;
use super::{Atom, ParsedScript, Word, quoted};

/// Maximum number of base directories that are tried for relative paths.
const MAX_DIRECTORIES: usize = 16;

/// Programs whose operands are no files.
const NON_FILE_PROGRAMS: [&str; 16] = [
    "echo", "printf", ":", "true", "false", "exit", "return", "kill", "sleep", "wait", "shift",
    "set", "unset", "type", "seq", "umask",
];

/// Options whose value is the working directory of a program.
const DIRECTORY_OPTIONS: [&str; 9] = [
    "-C",
    "--directory",
    "--chdir",
    "--cwd",
    "--prefix",
    "--work-tree",
    "--git-dir",
    "-D",
    "--dir",
];

/// The possible base directories of the relative paths in a script.
#[derive(Debug, Clone)]
pub(crate) struct Directories {
    /// The known directories; absolute.
    pub(crate) known: Vec<PathBuf>,
    /// True if there may be others.
    pub(crate) others: bool,
}

impl Directories {
    /// Returns the base directories of a script that starts in `start`.
    pub(crate) fn new(script: &ParsedScript, start: PathBuf) -> Self {
        let mut this = Self {
            known: vec![start],
            others: false,
        };
        for invocation in &script.invocations {
            let Some(program) = invocation.words.first().and_then(Word::text) else {
                this.others = true;
                continue;
            };
            let rest = &invocation.words[1..];
            match base_name(&program).as_str() {
                "cd" | "pushd" | "chdir" => {
                    match rest.iter().find(|word| !is_option(word)) {
                        Some(word) => this.add(word),
                        // To the user's home directory.
                        None => this.others = true,
                    }
                }
                "popd" => this.others = true,
                _ => {
                    for (at, word) in rest.iter().enumerate() {
                        let Some(text) = word.text() else { continue };
                        if DIRECTORY_OPTIONS.contains(&text.as_str()) {
                            if let Some(word) = rest.get(at + 1) {
                                this.add(word);
                            }
                        } else if let Some((option, value)) = text.split_once('=')
                            && DIRECTORY_OPTIONS.contains(&option)
                        {
                            this.add(&Word::literal(value));
                        } else if let Some(value) =
                            text.strip_prefix("-C").filter(|v| !v.is_empty())
                        {
                            this.add(&Word::literal(value));
                        }
                    }
                }
            }
        }
        this
    }

    fn add(&mut self, word: &Word) {
        match word.text() {
            Some(text) if text != "-" => {
                let more: Vec<PathBuf> = self.known.iter().map(|from| from.join(&text)).collect();
                self.known.extend(more);
                self.known.dedup();
                if self.known.len() > MAX_DIRECTORIES {
                    self.known.truncate(MAX_DIRECTORIES);
                    self.others = true;
                }
            }
            _ => self.others = true,
        }
    }
}

fn is_option(word: &Word) -> bool {
    word.starts_with('-') && word.0.len() > 1
}

/// Returns the words and parts of words that may be paths: arguments and their parts after `=`, `:`, `@`
/// and `,`, values that are joined to options, programs with a directory, targets of redirections, and
/// names in code.
pub(crate) fn candidates(script: &ParsedScript) -> Vec<Word> {
    let mut found: Vec<Word> = Vec::new();
    let mut add = |word: Word| {
        if !word.0.is_empty() {
            found.push(word);
        }
    };
    for invocation in &script.invocations {
        let words = &invocation.words;
        let program = words.first().and_then(Word::text);
        if program
            .as_deref()
            .is_some_and(|program| program.contains('/'))
        {
            add(words[0].clone());
        }
        if program.is_some_and(|program| NON_FILE_PROGRAMS.contains(&base_name(&program).as_str()))
        {
            continue;
        }
        for word in words.iter().skip(1) {
            parts(word, &mut add);
        }
    }
    for word in &script.redirects {
        add(word.clone());
    }
    for code in &script.code {
        let is_name = |sign: char| sign.is_alphanumeric() || "._-~/*+@".contains(sign);
        for name in code
            .split(|sign: char| !is_name(sign))
            .filter(|name| !name.is_empty())
        {
            add(Word::literal(name));
        }
    }
    let mut seen = std::collections::HashSet::new();
    found.retain(|word| seen.insert(word.clone()));
    found
}

fn parts(word: &Word, add: &mut impl FnMut(Word)) {
    add(word.clone());
    let text = word.text_with('\0');
    if let Some((scheme, _)) = text.split_once("://") {
        let place = Word(word.0[scheme.chars().count() + 3..].to_vec());
        add(url_path(&place));
        add(place);
    }
    // The value of an option that is combined with others: `-so.git/x`.
    if text.starts_with('-')
        && !text.starts_with("--")
        && let Some(at) = text.chars().position(|sign| "./~\0".contains(sign))
    {
        add(Word(word.0[at..].to_vec()));
    }
    let is_mark = |atom: &Atom| {
        matches!(
            atom,
            Atom::Char {
                sign: '=' | ':' | '@' | ',' | ';' | ' ',
                ..
            }
        )
    };
    let marks: Vec<usize> = (0..word.0.len())
        .filter(|at| is_mark(&word.0[*at]))
        .take(16)
        .collect();
    let ends: Vec<usize> = marks.iter().copied().chain([word.0.len()]).collect();
    let start = if word.starts_with('-') { 2 } else { 0 };
    if start > 0 && word.0.len() > start {
        add(Word(word.0[start..].to_vec()));
    }
    for (index, mark) in marks.iter().enumerate() {
        add(Word(word.0[mark + 1..].to_vec()));
        if ends[index + 1] < word.0.len() {
            add(Word(word.0[mark + 1..ends[index + 1]].to_vec()));
        }
    }
    if let Some(first) = marks.first() {
        add(Word(word.0[..*first].to_vec()));
    }
}

/// The path of a URL: escapes are decoded, and patterns of `curl` are unknown.
fn url_path(word: &Word) -> Word {
    let mut atoms = Vec::new();
    let mut rest = word.0.as_slice();
    while let [first, behind @ ..] = rest {
        let hex = |atom: Option<&Atom>| match atom {
            Some(Atom::Char { sign, .. }) => sign.to_digit(16),
            _ => None,
        };
        rest = behind;
        let Atom::Char { sign, .. } = first else {
            atoms.push(first.clone());
            continue;
        };
        match sign {
            '%' if hex(behind.first()).is_some() && hex(behind.get(1)).is_some() => {
                let code = hex(behind.first()).zip(hex(behind.get(1)));
                let decoded = code.and_then(|(high, low)| char::from_u32(high * 16 + low));
                atoms.push(decoded.map_or(Atom::Any, quoted));
                rest = &behind[2..];
            }
            '[' | '{' => {
                let end = match sign {
                    '[' => ']',
                    _ => '}',
                };
                let closes = |atom: &Atom| matches!(atom, Atom::Char { sign, .. } if *sign == end);
                if let Some(at) = behind.iter().position(closes) {
                    atoms.push(Atom::Any);
                    rest = &behind[at + 1..];
                } else {
                    atoms.push(first.clone());
                }
            }
            _ => atoms.push(first.clone()),
        }
    }
    Word(atoms)
}

/// The files that a pattern of file names matches now; `None` if there are too many.
pub(crate) fn files(from: &Path, word: &Word) -> Option<Vec<PathBuf>> {
    let mut budget = 4_000;
    let mut parts: Vec<Vec<Atom>> = vec![Vec::new()];
    for atom in &word.0 {
        match atom {
            Atom::Char { sign: '/', .. } => parts.push(Vec::new()),
            other => parts.last_mut()?.push(other.clone()),
        }
    }
    let mut found = vec![match word.starts_with('/') {
        true => PathBuf::from("/"),
        false => from.to_owned(),
    }];
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        let part = Word(part);
        if let Some(name) = part.text() {
            for path in &mut found {
                path.push(&name);
            }
            continue;
        }
        let mut next = Vec::new();
        for directory in found {
            let Ok(entries) = std::fs::read_dir(&directory) else {
                continue;
            };
            for entry in entries.flatten() {
                budget -= 1;
                if budget == 0 {
                    return None;
                }
                let name = entry.file_name().to_string_lossy().into_owned();
                let is_hidden = name.starts_with('.') && !part.starts_with('.');
                if !is_hidden && matches_name(&part.0, &name) {
                    next.push(directory.join(name));
                }
            }
        }
        found = next;
    }
    Some(found)
}

/// True if a pattern of one name matches a name, ignoring letter case.
fn matches_name(atoms: &[Atom], name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    let mut reachable = vec![false; name.len() + 1];
    reachable[0] = true;
    for atom in atoms {
        let mut next = vec![false; name.len() + 1];
        let places = reachable.iter().enumerate().filter(|(_, is)| **is);
        for (at, _) in places {
            match atom {
                Atom::Char { sign, .. } => {
                    if name
                        .get(at)
                        .is_some_and(|other| eq_ignoring_case(*sign, *other))
                    {
                        next[at + 1] = true;
                    }
                }
                Atom::One if at < name.len() => next[at + 1] = true,
                Atom::One => {}
                _ => next[at..].fill(true),
            }
        }
        reachable = next;
    }
    reachable[name.len()]
}

pub(crate) fn eq_ignoring_case(a: char, b: char) -> bool {
    a == b || a.to_lowercase().eq(b.to_lowercase())
}
