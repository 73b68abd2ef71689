//! The paths that the words of a command line name.

use std::path::{Path, PathBuf};

use super::{AnalyzedCommand, Effect, Script, UNKNOWN};
use crate::Workspace;
use crate::resource_access::Command;

/// Maximum number of words and parts of words that are compared with paths.
const MAX_WORDS: usize = 4_000;

/// Options that change the directory of relative paths, or name a list of paths.
const OPAQUE_OPTIONS: [&str; 17] = [
    "-C",
    "-T",
    "-K",
    "-@",
    "--directory",
    "--chdir",
    "--cwd",
    "--dir",
    "--prefix",
    "--work-tree",
    "--git-dir",
    "--files-from",
    "--files0-from",
    "--config",
    "--input-file",
    "-execdir",
    "-okdir",
];

/// Targets of redirections that are no files.
const DEVICES: [&str; 4] = ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"];

/// Suffixes of files that are written without them when they are unpacked.
const PACKED: [&str; 5] = [".gz", ".bz2", ".xz", ".zst", ".Z"];

/// Paths of a command.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommandPaths {
    /// Words and parts of words that may be paths, as written. Parts that are unknown before the command runs are
    /// [`UNKNOWN`].
    pub(crate) words: Vec<String>,
    /// The reason why the command may name others.
    pub(crate) others: Option<String>,
}

/// A path that a command may write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenPath {
    /// The word that contains it, with [`UNKNOWN`] for its unknown parts.
    pub word: String,
    /// Absolute; `.`, `..` and links are not resolved. May contain [`UNKNOWN`].
    pub path: PathBuf,
    /// True if the program takes names, such as branches and tests, and creates no file with such a name.
    pub may_be_name: bool,
}

/// The paths that a command may write, as far as its words say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WrittenPaths {
    /// The paths.
    pub paths: Vec<WrittenPath>,
    /// The reason why it may write others.
    pub unclear: Option<String>,
    /// True if relative paths may start at another directory.
    pub is_moved: bool,
}

impl CommandPaths {
    /// Returns the paths that a command names, to read or to write them.
    pub(crate) fn named(script: &Script) -> Self {
        let mut found = Self::default();
        for analyzed in &script.commands {
            let command = &analyzed.command;
            for redirect in &command.redirects {
                found.add_part(&redirect.target);
            }
            if analyzed.effect == Effect::Moves {
                found.add_others("the working directory changes");
            }
            if analyzed.is_fed {
                found.add_others("another command says which files it opens");
            }
            for (at, word) in command.words.iter().enumerate() {
                let is_file = at > 0 || word.contains('/');
                if is_file && analyzed.effect != Effect::Prints {
                    found.add_word(word, analyzed);
                }
            }
        }
        for value in script
            .values
            .iter()
            .filter(|value| !value.contains(UNKNOWN))
        {
            parts(value, &mut found.words);
        }
        if found.words.len() > MAX_WORDS {
            found.words.truncate(MAX_WORDS);
            found.add_others("it has too many words");
        }
        found
    }

    fn add_part(&mut self, part: &str) {
        self.words.push(part.to_owned());
        if part.contains(UNKNOWN) {
            self.add_others("a variable, a pattern or a substitution in a path");
        }
    }

    fn add_word(&mut self, word: &str, analyzed: &AnalyzedCommand) {
        self.add_part(word);
        parts(word, &mut self.words);
        if !analyzed.is_understood {
            names_in_code(word, &mut self.words);
        }
        let characters = ['*', '?', '[', '{'];
        if analyzed.expands && word.contains(characters) {
            let start = word.split(characters).next().unwrap_or_default();
            self.words.push(format!("{start}{UNKNOWN}"));
        }
        // Programs decode URLs.
        if word.contains("file:") && word.contains(['%', '[', '{']) {
            self.add_others("a URL of a file");
        }
        if is_opaque(word) {
            self.add_others("an option changes the directory, or names a list of files");
        }
    }

    fn add_others(&mut self, why: &str) {
        self.others.get_or_insert_with(|| why.to_owned());
    }
}

/// Returns the paths that a command may write, as far as its words say: arguments of programs that may write what they
/// name, and targets of redirections.
#[must_use]
pub fn written_paths(command: &Command, workspace: &Workspace) -> WrittenPaths {
    let root = workspace.root();
    let directory = command.directory.as_ref();
    let directory = directory.map_or_else(|| root.to_owned(), |directory| root.join(directory));
    let directory = directory.as_path();
    let script = Script::new(command);
    let mut found = WrittenPaths::default();
    let moves = |analyzed: &&AnalyzedCommand| analyzed.effect == Effect::Moves;
    let moves: Vec<&AnalyzedCommand> = script.commands.iter().filter(moves).collect();
    found.is_moved = !moves.is_empty();
    for analyzed in &script.commands {
        found.add_redirects(analyzed, directory);
        found.add_words(analyzed, directory, script.sets_git);
    }
    // The working directory matters only to a line that writes.
    if found.paths.iter().any(|path| !path.may_be_name) {
        for analyzed in &moves {
            found.add_parts(&analyzed.command.words[1..], directory, false);
        }
        let is_plain = |analyzed: &&AnalyzedCommand| {
            let words = &analyzed.command.words;
            words.len() == 2 && words[1] != "-" && !words[1].contains(UNKNOWN)
        };
        if moves.len() > 1 || !moves.iter().all(is_plain) {
            found.add_unclear("the directory in which it writes");
        }
    }
    if found.paths.len() > MAX_WORDS {
        found.add_unclear("it has too many words");
    }
    found
}

impl WrittenPaths {
    fn add_unclear(&mut self, why: &str) {
        self.unclear.get_or_insert_with(|| why.to_owned());
    }

    fn add_redirects(&mut self, analyzed: &AnalyzedCommand, directory: &Path) {
        let redirects = analyzed.command.redirects.iter();
        let targets = redirects.filter(|redirect| redirect.writes);
        for target in targets.map(|redirect| redirect.target.as_str()) {
            if DEVICES.contains(&target) {
                continue;
            }
            if target.contains(UNKNOWN) {
                self.add_unclear("the target of a redirection");
            }
            if self.is_moved && !target.starts_with('/') {
                self.add_unclear("it changes the working directory and writes a file; pass `working_directory` instead");
            }
            self.add(target, directory.join(target), false);
        }
    }

    fn add_words(&mut self, analyzed: &AnalyzedCommand, directory: &Path, sets_git: bool) {
        let words = &analyzed.command.words;
        let Some(program) = words.first() else { return };
        if analyzed.is_git
            && analyzed.effect > Effect::Moves
            && (!analyzed.is_understood || sets_git)
        {
            self.add_unclear(
                "a subcommand, an option or a setting of git that may change its configuration",
            );
        }
        let rest = if program.contains('/') {
            &words[..]
        } else {
            &words[1..]
        };
        match analyzed.effect {
            Effect::Prints | Effect::Reads | Effect::Moves => {}
            Effect::TakesNames => self.add_parts(rest, directory, true),
            Effect::Writes => {
                if rest.iter().any(|word| word.contains(UNKNOWN)) {
                    self.add_unclear(
                        "a variable, a pattern or a substitution among the files that it may write",
                    );
                }
                if analyzed.expands && rest.iter().any(|word| word.contains(['*', '?', '['])) {
                    self.add_unclear("a pattern of file names");
                }
                if analyzed.is_fed {
                    self.add_unclear("another command says which files it writes");
                }
                if self.is_moved || rest.iter().any(|word| is_opaque(word)) {
                    self.add_unclear("it changes the working directory and writes files; pass `working_directory` instead");
                }
                let is_revision = |word: &&String| analyzed.is_git && *word == "HEAD";
                let revision = words.get(analyzed.name_words).filter(is_revision);
                for word in rest {
                    // The first operand of `git checkout` is a revision.
                    self.add_parts(
                        std::slice::from_ref(word),
                        directory,
                        Some(word) == revision,
                    );
                    let suffix = PACKED.iter().find_map(|suffix| word.strip_suffix(suffix));
                    if let Some(word) = suffix {
                        self.add(word, directory.join(word), false);
                    }
                }
                if analyzed.places {
                    self.add_placed(rest, directory);
                }
            }
            Effect::Unknown => {
                if analyzed.command.has_pattern {
                    self.add_unclear("a pattern of file names");
                }
                self.add_parts(rest, directory, false);
                let mut names = Vec::new();
                rest.iter().for_each(|word| names_in_code(word, &mut names));
                for name in names {
                    self.add(&name, directory.join(&name), false);
                }
            }
        }
    }

    fn add_parts(&mut self, words: &[String], directory: &Path, may_be_name: bool) {
        for word in words {
            let mut found = Vec::new();
            parts(word, &mut found);
            for part in found {
                self.add(&part, directory.join(&part), may_be_name);
            }
        }
    }

    /// Adds the files that a program puts with their names into the directories that it names.
    fn add_placed(&mut self, words: &[String], directory: &Path) {
        let mut named = Vec::new();
        words.iter().for_each(|word| parts(word, &mut named));
        let is_directory = |part: &&String| directory.join(part).is_dir();
        let (into, files): (Vec<&String>, Vec<&String>) = named.iter().partition(is_directory);
        if into.len() > 1 {
            self.add_unclear("it puts a directory into another one");
        }
        // Without a directory, `ln` puts a link where it runs.
        let here = ".".to_owned();
        for into in into.into_iter().chain([&here]) {
            for name in files.iter().filter_map(|file| Path::new(file).file_name()) {
                let path = directory.join(into).join(name);
                self.add(&name.to_string_lossy(), path, false);
            }
        }
    }

    fn add(&mut self, word: &str, path: PathBuf, may_be_name: bool) {
        // One more is too many.
        if self.paths.len() <= MAX_WORDS {
            self.paths.push(WrittenPath {
                word: word.to_owned(),
                path,
                may_be_name,
            });
        }
    }
}

fn is_opaque(word: &str) -> bool {
    OPAQUE_OPTIONS.iter().any(|option| match option.len() {
        2 => word.starts_with(option),
        _ => word.split('=').next() == Some(option),
    })
}

/// Adds a word and its parts that may be paths: after `=`, `:`, `@` and `,`, and values that are joined to options.
fn parts(word: &str, found: &mut Vec<String>) {
    let mut add = |part: &str| {
        if !part.is_empty() && !part.contains('\0') {
            found.push(part.to_owned());
        }
    };
    add(word);
    if let Some((_, place)) = word.split_once("://") {
        add(place);
        add(place.rsplit('/').next().unwrap_or_default());
    }
    if word.starts_with('-') && !word.starts_with("--") {
        // The value of an option that may be combined with others: `-so.git/x`.
        let letters = word.char_indices().skip(2).take(8);
        for (at, _) in letters {
            add(&word[at..]);
        }
    }
    let is_mark = |character: char| "=:@,; ".contains(character);
    let marks: Vec<usize> = word
        .match_indices(is_mark)
        .map(|(at, _)| at)
        .take(16)
        .collect();
    for (index, mark) in marks.iter().enumerate() {
        let end = marks.get(index + 1).copied().unwrap_or(word.len());
        add(&word[mark + 1..]);
        if end < word.len() {
            add(&word[mark + 1..end]);
        }
    }
    if let Some(first) = marks.first() {
        add(&word[..*first]);
    }
}

/// Adds the names in a word that may be code.
fn names_in_code(word: &str, found: &mut Vec<String>) {
    let is_name = |character: char| {
        character.is_alphanumeric() || "._-~/+@".contains(character) || character == UNKNOWN
    };
    if word.chars().all(is_name) {
        return;
    }
    let names = word.split(|character: char| !is_name(character));
    found.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
}

/// True if a name with unknown parts may be `name`.
#[must_use]
pub fn may_be(part: &str, name: &str) -> bool {
    let mut pieces = part.split(UNKNOWN);
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let Some(last) = pieces.next_back() else {
        return rest.is_empty();
    };
    for piece in pieces {
        // The first place is enough: it leaves the most text for the pieces after it.
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}
