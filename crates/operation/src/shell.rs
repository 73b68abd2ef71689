//! Static analysis of command lines: the commands that a line runs, as far as they are known before it
//! runs.
//!
//! A line is parsed as a shell would ([`parse`]). Programs that run other programs are analyzed, too:
//! `env`, `sudo`, `xargs`, `find -exec` ([`wrappers`]), `sh -c`, `python -c` ([`interpreters`]), `awk`,
//! `sed` ([`languages`]), `git -c alias…` ([`git`]). Everything unknown (a variable as the name of a
//! program, code in another language, a script on standard input) is reported as unclear, never ignored.

mod arguments;
mod git;
mod interpreters;
mod languages;
mod parse;
mod path;
mod revision;
mod word;
mod wrappers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::Workspace;
use crate::resource_access::{Command, CommandText};
use parse::{HereText, ParsedLine, SimpleCommand};

pub(crate) use path::{Directories, candidates, eq_ignoring_case, files};
pub(crate) use revision::without_revisions;
pub(crate) use word::{Atom, Word, quoted};
pub(crate) use wrappers::base_name;

/// Maximum nesting depth of commands within commands.
const MAX_DEPTH: usize = 12;

/// Maximum number of commands; more make a line unclear.
const MAX_COMMANDS: usize = 2_000;

/// Maximum number of characters of all commands; more make a line unclear.
const MAX_TEXT_CHARS: usize = 256 << 10;

/// Maximum number of arguments that are analyzed as possible commands.
const MAX_GUESSES: usize = 500;

/// Maximum number of values of variables that are tried in one word.
const MAX_VARIABLE_VALUES: usize = 16;

/// A program with its arguments that a line may run.
#[derive(Debug, Clone)]
pub(crate) struct Invocation {
    /// The program and its arguments. Unknown parts are placeholders.
    pub(crate) words: Vec<Word>,
    /// True if another program of the line runs it.
    pub(crate) nested: bool,
}

/// The result of analyzing a command line.
#[derive(Debug, Clone, Default)]
pub(crate) struct ParsedScript {
    /// The programs that the line runs.
    pub(crate) invocations: Vec<Invocation>,
    /// The programs that the line may run in addition: arguments of unknown programs, and values of
    /// variables.
    pub(crate) possible: Vec<Invocation>,
    /// The values that the line assigns to variables.
    pub(crate) values: Vec<Word>,
    /// The targets of redirections.
    pub(crate) redirects: Vec<Word>,
    /// Code in other languages; names in it may be paths.
    pub(crate) code: Vec<String>,
    /// The reasons why not everything that runs is known.
    pub(crate) unclear: Vec<String>,
    /// True if the line is more than one plain command.
    pub(crate) has_syntax: bool,
    /// True if the only unknown part is the code that is passed to the program of the line.
    pub(crate) only_code: bool,
    /// True if the line changes git settings that name commands.
    pub(crate) writes_git_settings: bool,
    /// True while an argument is analyzed as a possible command.
    is_guess: bool,
    /// The variables that are set before the line runs.
    variables: BTreeMap<String, Vec<Word>>,
    text: usize,
}

/// Values that are known before a line runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownEnvironment<'a> {
    /// The environment variables.
    pub(crate) variables: Option<&'a BTreeMap<String, String>>,
    /// The initial working directory.
    pub(crate) directory: Option<&'a Path>,
}

impl KnownEnvironment<'_> {
    fn variables(&self) -> BTreeMap<String, Vec<Word>> {
        let directory = self.directory.and_then(Path::to_str);
        let variables = self.variables.into_iter().flatten();
        variables
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .chain(directory.map(|directory| ("PWD", directory)))
            .map(|(name, value)| (name.to_owned(), vec![Word::literal(value)]))
            .collect()
    }
}

impl ParsedScript {
    /// Analyzes a command.
    pub(crate) fn new(command: &Command, known: &KnownEnvironment<'_>) -> Self {
        let mut script = Self {
            variables: known.variables(),
            ..Self::default()
        };
        match &command.text {
            CommandText::Line(line) => script.line(line, 0, false),
            CommandText::Program(words) => {
                let words = words.iter().map(|word| Word::literal(word)).collect();
                script.invoke(words, &[], 0, false);
            }
        }
        script
    }

    /// Analyzes a command of a workspace; also returns its initial working directory.
    pub(crate) fn in_workspace(command: &Command, workspace: &Workspace) -> (Self, PathBuf) {
        let start = match &command.directory {
            Some(directory) => workspace.root().join(directory),
            None => workspace.root().to_owned(),
        };
        let known = KnownEnvironment {
            variables: Some(workspace.variables()),
            directory: Some(&start),
        };
        (Self::new(command, &known), start)
    }

    /// Analyzes a command line.
    fn line(&mut self, line: &str, depth: usize, nested: bool) {
        if depth > MAX_DEPTH {
            self.mark_unclear("commands within commands are nested too deeply");
            return;
        }
        let parsed = parse::parse(line, depth);
        self.take(parsed, depth, nested);
    }

    fn take(&mut self, parsed: ParsedLine, depth: usize, nested: bool) {
        let ParsedLine {
            commands,
            variables,
            documents,
            unclear,
            has_syntax,
        } = parsed;
        self.has_syntax |= has_syntax;
        for why in unclear {
            self.mark_unclear(&why);
        }
        let mut known: BTreeMap<String, Vec<Word>> = BTreeMap::new();
        for (name, value) in variables {
            self.assigned(&name, &value, depth);
            known.entry(name).or_default().push(value);
        }
        for simple in &commands {
            declared(simple, &mut known);
        }
        for name in known.keys().filter(|name| is_special(name)) {
            self.mark_unclear(&format!("it sets `{name}`"));
        }
        let moving = ["cd", "pushd", "popd", "chdir", "eval", "source", "."];
        let mut programs = commands.iter().filter_map(|simple| simple.words.first());
        let moves = programs.any(|program| program.is_one_of(&moving));
        for (name, values) in &self.variables {
            // The assignment in the line may not have run yet.
            let values = if moves && name == "PWD" {
                &[Word::any()][..]
            } else {
                values
            };
            known
                .entry(name.clone())
                .or_default()
                .extend(values.iter().cloned());
        }
        for simple in commands {
            let here: Vec<String> = simple
                .here
                .iter()
                .map(|here| match here {
                    HereText::Document(number) => documents.get(*number).cloned(),
                    HereText::Word(word) => word.text(),
                })
                .map(|text| text.unwrap_or_else(|| "\0".to_owned()))
                .collect();
            for word in &simple.redirects {
                self.redirects.extend(expand(word, &known, 0));
            }
            for words in alternatives(&simple.words, &known) {
                if let [program, rest @ ..] = words.as_slice()
                    && program.is_one_of(&["export", "declare", "typeset", "readonly", "local"])
                {
                    for word in rest {
                        wrappers::set(self, word, depth);
                    }
                }
                self.invoke(words, &here, depth, nested);
            }
        }
    }

    /// Records a program with its arguments, and the commands that it runs in turn.
    fn invoke(&mut self, words: Vec<Word>, here: &[String], depth: usize, nested: bool) {
        if words.is_empty() {
            return;
        }
        self.text += words.iter().map(|word| word.0.len() + 1).sum::<usize>();
        if depth > MAX_DEPTH || self.invocations.len() >= MAX_COMMANDS || self.text > MAX_TEXT_CHARS
        {
            self.mark_unclear("it runs too many commands, or commands within commands");
            return;
        }
        self.invocations.push(Invocation {
            words: words.clone(),
            nested,
        });
        match words[0].text() {
            Some(program) => wrappers::analyze(self, &program, &words, here, depth),
            None => self.mark_unclear("the name of a program is not known before it runs"),
        }
    }

    /// Records the value of a variable: a program may run it as a command.
    fn assigned(&mut self, name: &str, value: &Word, depth: usize) {
        self.values.push(value.clone());
        if value.is_known() {
            arguments::guess(self, std::slice::from_ref(value), depth);
        } else if names_a_command(name) {
            self.mark_unclear(&format!("the value of `{name}`"));
        }
    }

    /// Records commands that may run; returns the reasons why not everything that runs is known.
    fn guess(&mut self, analyze: impl FnOnce(&mut Self)) -> Vec<String> {
        if self.possible.len() > MAX_GUESSES {
            return vec!["it has too many arguments that might be commands".to_owned()];
        }
        let mut guessed = Self {
            is_guess: true,
            text: self.text,
            ..Self::default()
        };
        analyze(&mut guessed);
        self.text = guessed.text;
        self.possible.append(&mut guessed.invocations);
        guessed.unclear
    }

    /// Records a reason why not everything that runs is known.
    fn mark_unclear(&mut self, why: &str) {
        self.only_code = false;
        self.note(why);
    }

    /// Records code in another language that is passed to `program`.
    fn code(&mut self, program: &str, code: Option<String>) {
        let is_first = self.unclear.is_empty() && self.invocations.len() == 1;
        self.code.extend(code);
        self.note(&format!("the code that `{program}` is given"));
        self.only_code |= is_first;
    }

    fn note(&mut self, why: &str) {
        if self.unclear.len() < 8 && !self.unclear.iter().any(|known| known == why) {
            self.unclear.push(why.to_owned());
        }
    }
}

/// True for variables that change the program behind a name, the startup of a shell, or the matching of
/// file names, and for those that pass code or settings to programs.
fn is_special(name: &str) -> bool {
    [
        "IFS",
        "PATH",
        "ENV",
        "BASH_ENV",
        "SHELLOPTS",
        "BASHOPTS",
        "GLOBIGNORE",
        "PERL5DB",
        "PERL5OPT",
        "RUBYOPT",
        "PYTHONSTARTUP",
        "PROMPT_COMMAND",
        "GIT_EXEC_PATH",
    ]
    .contains(&name)
        || ["LD_", "DYLD_", "GIT_CONFIG", "BASH_FUNC_"]
            .iter()
            .any(|start| name.starts_with(start))
}

/// True if programs run the value of the variable as a command.
fn names_a_command(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    name.starts_with("GIT_")
        || [
            "COMMAND", "EDITOR", "PAGER", "OPTIONS", "OPTS", "OPEN", "CLOSE", "ASKPASS", "SHELL",
            "BROWSER", "DIFF", "_RSH", "FLAGS",
        ]
        .iter()
        .any(|end| name.ends_with(end))
}

/// Records the variables that commands set.
fn declared(simple: &SimpleCommand, known: &mut BTreeMap<String, Vec<Word>>) {
    let Some(program) = simple.words.first().and_then(Word::text) else {
        return;
    };
    let rest = simple.words.get(1..).unwrap_or_default();
    match program.as_str() {
        "export" | "declare" | "typeset" | "local" | "readonly" => {
            for word in rest {
                if let Some((name, value)) = word.assignment() {
                    known.entry(name).or_default().push(value);
                } else if let Some((name, _)) =
                    word.text().as_deref().and_then(|t| t.split_once('='))
                {
                    known.entry(name.to_owned()).or_default().push(Word::any());
                }
            }
        }
        "read" | "mapfile" | "readarray" | "getopts" | "let" | "printf" | "unset" => {
            for word in rest {
                let name = word.text().unwrap_or_default();
                let name = name.split(['=', '[']).next().unwrap_or_default();
                known.entry(name.to_owned()).or_default().push(Word::any());
            }
        }
        _ => {}
    }
}

/// Returns the possible values of a word, with the values that the line assigns to its variables.
fn expand(word: &Word, known: &BTreeMap<String, Vec<Word>>, depth: usize) -> Vec<Word> {
    let mut done: Vec<Vec<Atom>> = vec![Vec::new()];
    for atom in &word.0 {
        let values: Vec<Vec<Atom>> = match atom {
            Atom::Variable { name, quoted } => match known.get(name) {
                Some(values) if depth < 3 => values
                    .iter()
                    .flat_map(|value| expand(value, known, depth + 1))
                    .map(|value| in_place(value, *quoted))
                    .collect(),
                _ => vec![vec![Atom::Any]],
            },
            other => vec![vec![other.clone()]],
        };
        let count = done.len() * values.len();
        if count > MAX_VARIABLE_VALUES
            || done.iter().map(Vec::len).sum::<usize>() > MAX_TEXT_CHARS / 8
        {
            for each in &mut done {
                each.push(Atom::Any);
            }
            continue;
        }
        done = combinations(&done, &values);
    }
    done.into_iter().map(Word).collect()
}

/// Returns each beginning followed by each end.
fn combinations<T: Clone>(beginnings: &[Vec<T>], ends: &[Vec<T>]) -> Vec<Vec<T>> {
    let followed = |beginning: &Vec<T>| {
        let whole = |end: &Vec<T>| [beginning.as_slice(), end].concat();
        ends.iter().map(whole).collect::<Vec<_>>()
    };
    beginnings.iter().flat_map(followed).collect()
}

/// The value of a variable at its position: unquoted, patterns in it are expanded.
fn in_place(value: Word, quoted: bool) -> Vec<Atom> {
    let place = |atom| match atom {
        Atom::Char { sign: '*', .. } if !quoted => Atom::Star,
        Atom::Char {
            sign: '?' | '[', ..
        } if !quoted => Atom::Star,
        Atom::Char { sign, .. } => Atom::Char { sign, quoted },
        other => other,
    };
    value.0.into_iter().map(place).collect()
}

/// Returns the possible commands of a list of words, with the values that the line assigns to variables:
/// each value as one word and, where it is unquoted, split into words.
fn alternatives(words: &[Word], known: &BTreeMap<String, Vec<Word>>) -> Vec<Vec<Word>> {
    let has_variables = |word: &Word| {
        let is_variable = |atom: &Atom| matches!(atom, Atom::Variable { .. });
        word.0.iter().any(is_variable)
    };
    if !words.iter().any(has_variables) {
        return vec![words.to_vec()];
    }
    let mut done: Vec<Vec<Word>> = vec![Vec::new()];
    for word in words {
        let splits = word
            .0
            .iter()
            .any(|atom| matches!(atom, Atom::Variable { quoted: false, .. }));
        let mut values: Vec<Vec<Word>> = Vec::new();
        for value in expand(word, known, 0) {
            values.push(match splits {
                true => split(&value),
                false => vec![value],
            });
        }
        if done.len() * values.len() > MAX_VARIABLE_VALUES {
            for each in &mut done {
                each.push(Word::any());
            }
            continue;
        }
        done = combinations(&done, &values);
    }
    done
}

fn split(word: &Word) -> Vec<Word> {
    let is_blank =
        |atom: &Atom| matches!(atom, Atom::Char { sign, quoted: false } if sign.is_whitespace());
    word.0
        .split(is_blank)
        .filter(|part| !part.is_empty())
        .map(|part| Word(part.to_vec()))
        .collect()
}
