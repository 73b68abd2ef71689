//! Analysis of command lines for rules: the commands that a line names, and those that it might name.
//!
//! A line is taken apart as by a shell ([`parse`]). One table says what the options and arguments of programs make them
//! run or write (`data/programs.txt`). Nothing else is imitated: a program that is not in the table, an option that takes a
//! command and code in any language are not understood, and the words of such a line might be commands. What cannot be
//! read at all (a variable as the name of a program, code, a script on standard input) is unclear.

mod parse;
mod paths;
mod programs;

use regex::Regex;

use crate::resource_access::{Command, CommandText};
use parse::{ParsedLine, RESERVED, SimpleCommand};
use programs::{Kind, Program};

pub(crate) use paths::CommandPaths;
pub use paths::{WrittenPath, WrittenPaths, may_be, written_paths};
use programs::Effect;
pub(crate) use programs::base_name;

/// Placeholder for a part of a word that is unknown before the command runs.
pub const UNKNOWN: char = '\u{fffc}';

/// Maximum nesting depth of wrappers, and of scripts within scripts.
const MAX_DEPTH: usize = 8;

/// Maximum number of commands and possible commands; more make a line unclear.
const MAX_COMMANDS: usize = 1_000;

/// The reason why not all commands are known that a long line might run.
const TOO_MANY_COMMANDS: &str = "it has too many words that might be commands";

/// Maximum number of words of a possible command.
const MAX_WORDS: usize = 16;

/// A command that a line runs.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// The program and its arguments.
    pub(crate) words: Vec<String>,
    /// The position of its program among the words of the command that runs it; 0 if the line does.
    pub(crate) at: usize,
}

/// A command of a line, with what is known of it.
#[derive(Debug, Clone)]
pub(crate) struct AnalyzedCommand {
    pub(crate) command: SimpleCommand,
    /// The effect on the files that its words name.
    pub(crate) effect: Effect,
    /// True if the table says what its options and arguments do.
    pub(crate) is_understood: bool,
    /// True if it runs code: that of a file, or of a text.
    runs_code: bool,
    /// True if it puts files with their names into a directory.
    pub(crate) places: bool,
    /// True if it expands patterns of file names itself.
    pub(crate) expands: bool,
    /// True if it is git, or runs git.
    is_git: bool,
    /// True if a program that it runs has arguments that are not known: files that it finds or reads from a list.
    is_fed: bool,
    /// The number of words that name the program.
    name_words: usize,
}

/// The result of analyzing a command line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    /// The commands that the line runs, including those that wrappers run.
    pub(crate) runs: Vec<Run>,
    /// The commands that the line might run.
    pub(crate) possible: Vec<Vec<String>>,
    /// The commands with their redirections.
    pub(crate) commands: Vec<AnalyzedCommand>,
    /// The values that the line assigns, and texts that it expands.
    pub(crate) values: Vec<String>,
    /// The reasons why not everything that runs is known.
    pub(crate) unclear: Vec<String>,
    /// The reason why no pattern with a wildcard allows the line.
    pub(crate) obstacle: Option<String>,
    /// True if the line sets a variable that may change what git does.
    sets_git: bool,
}

/// The knowledge of a command and of those that it runs.
struct Understanding {
    effect: Effect,
    obstacle: Option<String>,
    runs_code: bool,
    places: bool,
    expands: bool,
    name_words: usize,
}

impl Understanding {
    fn new(effect: Effect, program: Option<&Program>, name_words: usize) -> Self {
        Self {
            effect,
            obstacle: None,
            runs_code: false,
            places: program.is_some_and(|program| program.places),
            expands: program.is_none_or(|program| program.expands),
            name_words,
        }
    }

    /// A command that is not understood.
    fn none(program: Option<&Program>, obstacle: String) -> Self {
        Self {
            obstacle: Some(obstacle),
            ..Self::new(Effect::Unknown, program, 1)
        }
    }

    /// Records that the command is not understood, because of one of its words.
    fn obstruct(&mut self, obstacle: String) {
        self.effect = Effect::Unknown;
        self.expands = true;
        self.obstacle.get_or_insert(obstacle);
    }
}

impl Script {
    /// Analyzes a command.
    pub(crate) fn new(command: &Command) -> Self {
        let mut script = Self::default();
        match &command.text {
            CommandText::Line(line) => script.line(line, false, 0),
            CommandText::Program(words) => {
                let command = SimpleCommand {
                    words: words.clone(),
                    ..SimpleCommand::default()
                };
                let parsed = ParsedLine {
                    commands: vec![command],
                    ..ParsedLine::default()
                };
                script.take(parsed, false, 0);
            }
        }
        script
    }

    /// Returns the texts that the line contains: words, targets and values.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        let words = self.commands.iter().flat_map(|analyzed| {
            let command = &analyzed.command;
            let targets = command.redirects.iter().map(|redirect| &redirect.target);
            command.words.iter().chain(targets)
        });
        words.chain(&self.values).map(String::as_str)
    }

    /// Returns the program with its subcommand, if these determine what the line does: a single command that is
    /// understood, redirects nothing and runs no other one, and that reads or has a subcommand.
    pub(crate) fn prefix(&self) -> Option<String> {
        let ([analyzed], [_], None) = (&*self.commands, &*self.runs, &self.obstacle) else {
            return None;
        };
        let is_harmless = analyzed.effect <= Effect::Reads || analyzed.name_words > 1;
        let name = analyzed.command.words.get(..analyzed.name_words)?;
        let is_plain = analyzed.command.redirects.is_empty()
            && !analyzed.runs_code
            && name.iter().all(|word| !word.contains('/'))
            && analyzed
                .command
                .words
                .iter()
                .all(|word| !word.contains(UNKNOWN));
        (is_harmless && is_plain).then(|| name.join(" "))
    }

    fn line(&mut self, line: &str, has_input: bool, depth: usize) {
        if depth > MAX_DEPTH {
            self.mark_unclear("commands within commands are nested too deeply");
            return;
        }
        let mut parsed = parse::parse(line);
        // `cmd` has other quotes, escapes and variables.
        if cfg!(windows) && line.contains(['\'', '%', '^']) {
            parsed
                .not_plain
                .get_or_insert("a sign that `cmd` reads differently");
        }
        self.take(parsed, has_input, depth);
    }

    fn take(&mut self, parsed: ParsedLine, has_input: bool, depth: usize) {
        let ParsedLine {
            commands,
            expanded,
            documents,
            not_plain,
            unclear,
        } = parsed;
        for why in unclear {
            self.mark_unclear(why);
        }
        if let Some(what) = not_plain {
            self.obstruct(format!("it has {what}"));
        }
        let first = self.commands.len();
        for mut command in commands {
            // Commands within a script inherit the standard input of the shell that runs them.
            command.has_input |= has_input;
            self.simple(command, depth);
        }
        // The words of a line whose programs run nothing that it names are no commands.
        let commands = self.commands[first..].to_vec();
        let is_opaque = |analyzed: &AnalyzedCommand| !analyzed.is_understood || analyzed.runs_code;
        for (at, analyzed) in commands.iter().enumerate() {
            let mut others = commands
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != at);
            if !analyzed.is_understood
                || analyzed.places
                || others.any(|(_, other)| is_opaque(other))
            {
                self.guess(analyzed, depth);
            }
        }
        for text in &expanded {
            self.guess_text(text, depth);
        }
        if commands.iter().any(is_opaque) {
            for text in &documents {
                self.guess_text(text, depth);
            }
        }
        self.values.extend(expanded);
        self.values.extend(documents);
    }

    /// Analyzes a simple command, after reserved words and assignments.
    fn simple(&mut self, command: SimpleCommand, depth: usize) {
        let mut at = 0;
        while let Some(word) = command.words.get(at) {
            if RESERVED.contains(&word.as_str()) {
                // A quoted one is the name of a program.
                self.add_run(&command.words[at..], 0);
            } else if let Some((name, value)) = assignment(word) {
                self.obstruct(format!("it sets `{name}`"));
                self.assigned(name, value, depth);
            } else {
                break;
            }
            at += 1;
        }
        let words = &command.words[at..];
        let first = self.runs.len();
        let known = if words.is_empty() {
            Understanding::new(Effect::Prints, None, 0)
        } else {
            self.run(words, at, &command, depth)
        };
        if let Some(obstacle) = &known.obstacle {
            self.obstruct(obstacle.clone());
            if command.has_input && known.effect == Effect::Unknown {
                self.mark_unclear(&format!("what `{}` reads on its standard input", words[0]));
            }
        }
        let runs = self.runs.get(first..).unwrap_or_default().iter();
        self.commands.push(AnalyzedCommand {
            effect: known.effect,
            is_understood: known.obstacle.is_none(),
            runs_code: known.runs_code,
            places: known.places,
            expands: known.expands,
            is_git: runs.clone().any(|run| base_name(&run.words[0]) == "git"),
            is_fed: runs
                .filter(|run| run.at > at)
                .any(|run| run.words.iter().any(|word| word.contains(UNKNOWN))),
            name_words: at + known.name_words,
            command,
        });
    }

    /// Analyzes a program with its arguments, and the commands that it runs. `at` is its position in the command.
    fn run(
        &mut self,
        words: &[String],
        at: usize,
        command: &SimpleCommand,
        depth: usize,
    ) -> Understanding {
        self.add_run(words, at);
        let name = words[0].as_str();
        if RESERVED.contains(&name) && words.len() > 1 {
            return self.run(&words[1..], at + 1, command, depth + 1);
        }
        if depth > MAX_DEPTH {
            self.mark_unclear("commands within commands are nested too deeply");
        }
        if name.contains(UNKNOWN) || depth > MAX_DEPTH {
            let why = "the name of a program is not known before it runs";
            self.mark_unclear(why);
            return Understanding::none(None, why.to_owned());
        }
        let (program, taken) = match programs::find(words) {
            Ok(found) => found,
            Err(Some(group)) if words.len() == 2 && words[1] == "--version" => {
                return Understanding::new(Effect::Prints, Some(group), 2);
            }
            Err(group) => {
                if group.is_some()
                    && words
                        .iter()
                        .skip(1)
                        .take(2)
                        .any(|word| word.contains(UNKNOWN))
                {
                    self.mark_unclear(&format!("the subcommand of `{name}`"));
                }
                return Understanding::none(group, unknown_program(words, group.is_some()));
            }
        };
        let mut known = match program.kind {
            Kind::Plain(effect) => self.plain(program, effect, words, taken, (at, command), depth),
            Kind::Wrapper(operands) => {
                self.wrapper(program, operands, words, taken, (at, command), depth)
            }
            Kind::Shell => self.shell(words, command, depth),
            Kind::Interpreter => self.interpreter(program, words, command),
            Kind::Group => Understanding::none(Some(program), unknown_program(words, true)),
        };
        let file = name.rsplit('/').next().unwrap_or(name);
        let directory = &name[..name.len() - file.len()];
        let is_usual = ["", "/bin/", "/usr/bin/"].contains(&directory) && base_name(file) == file;
        if !is_usual && known.obstacle.is_none() {
            known.obstacle = Some(format!(
                "`{name}` may be another program than the one in the table"
            ));
        }
        known
    }

    /// Analyzes a program that runs none of its arguments, except as options say.
    fn plain(
        &mut self,
        program: &'static Program,
        effect: Effect,
        words: &[String],
        taken: usize,
        (at, command): (usize, &SimpleCommand),
        depth: usize,
    ) -> Understanding {
        let mut known = Understanding::new(effect, Some(program), taken);
        let is_known = |word: &str| program.code.is_none_or(|code| matches(code, word));
        let is_tar = words[0].ends_with("tar");
        let (mut position, mut ended) = (taken, false);
        while let Some(word) = words.get(position) {
            let here = position;
            position += 1;
            // The options of `tar` may lack the dash.
            let bundle = format!("-{word}");
            let word = if is_tar && here == taken && !word.starts_with('-') {
                &bundle
            } else {
                word
            };
            if word == "--" {
                // Elsewhere, it may be the value of an option, or end nothing (`find`).
                ended = program.is_strict();
            } else if !ended && may_be_option(word) && program.has_dangerous_options() {
                known.obstruct(format!("an argument of `{}` may be an option", words[0]));
                if !program.runs.is_empty() || !program.exec.is_empty() {
                    self.mark_unclear(&format!(
                        "an argument of `{}`, which may be an option",
                        words[0]
                    ));
                }
            } else if ended || !word.starts_with('-') || word == "-" {
                if !is_known(word) {
                    known.obstruct(format!("the argument `{word}` of `{}`", words[0]));
                }
            } else if program.exec.split_whitespace().any(|option| option == word) {
                let rest = &words[position..];
                let end = rest.iter().position(|word| word == ";" || word == "+");
                let inner: Vec<String> = rest[..end.unwrap_or(rest.len())]
                    .iter()
                    .map(|word| word.replace("{}", &UNKNOWN.to_string()))
                    .chain([UNKNOWN.to_string()])
                    .collect();
                let inner = self.run(&inner, at + position, command, depth + 1);
                position += end.map_or(rest.len(), |end| end + 1);
                known.effect = known.effect.max(inner.effect);
                known.runs_code |= inner.runs_code;
                known.obstacle = known.obstacle.or(inner.obstacle);
            } else if Program::has_option(program.runs, word)
                || Program::has_option(program.exec, word)
            {
                known.obstruct(format!(
                    "the option `{word}` of `{}` may run a command",
                    words[0]
                ));
                if words.iter().any(|word| word.contains(UNKNOWN)) {
                    self.mark_unclear(&format!("the command in an option of `{}`", words[0]));
                }
            } else if Program::has_option(program.writes, word) {
                known.obstruct(format!(
                    "the option `{word}` of `{}` writes files",
                    words[0]
                ));
                if word == "-delete" {
                    self.add_possible(&["rm".to_owned(), "-rf".to_owned(), UNKNOWN.to_string()]);
                }
            } else if program.is_strict() {
                match program.skip(word) {
                    Some(count) => position += count - 1,
                    None => known.obstruct(format!(
                        "the option `{word}` of `{}` is not known",
                        words[0]
                    )),
                }
            }
        }
        known
    }

    /// Analyzes a program that runs its arguments.
    fn wrapper(
        &mut self,
        program: &'static Program,
        operands: usize,
        words: &[String],
        taken: usize,
        (at, command): (usize, &SimpleCommand),
        depth: usize,
    ) -> Understanding {
        let name = &words[0];
        let mut assigned = Vec::new();
        let wrapped = wrapped(program, operands, words, taken, &mut assigned);
        let assigns = assigned
            .last()
            .map(|(variable, _)| format!("it sets `{variable}`"));
        for (variable, value) in assigned {
            self.assigned(variable, value, depth);
        }
        let position = match wrapped {
            Ok(Some(position)) => position,
            Ok(None) if program.may_be_alone && assigns.is_none() => {
                return Understanding::new(Effect::Prints, Some(program), words.len());
            }
            Ok(None) => {
                let why = format!("the command that `{name}` runs");
                self.mark_unclear(&why);
                return Understanding::none(Some(program), why);
            }
            Err(option) => {
                let why = format!("the option `{option}` of `{name}` is not known");
                self.mark_unclear(&why);
                return Understanding::none(Some(program), why);
            }
        };
        let mut inner = words[position..].to_vec();
        if base_name(name) == "xargs" {
            if let Some(marker) = marker(&words[taken..position]) {
                for word in &mut inner {
                    *word = word.replace(&marker, &UNKNOWN.to_string());
                }
            }
            // The arguments that `xargs` reads from its input.
            inner.push(UNKNOWN.to_string());
        }
        let mut known = self.run(&inner, at + position, command, depth + 1);
        known.name_words += position;
        let is_known = |word: &String| program.code.is_none_or(|code| matches(code, word));
        if let Some(what) = assigns {
            known.obstacle.get_or_insert(what);
        } else if !inner.iter().all(is_known) {
            known.obstruct(format!(
                "`{name}` joins its arguments to a line for a shell"
            ));
        }
        known
    }

    /// Analyzes a shell: with a script in an argument, in a file, or on standard input.
    fn shell(&mut self, words: &[String], command: &SimpleCommand, depth: usize) -> Understanding {
        let name = base_name(&words[0]);
        let code = match name.as_str() {
            "eval" => ShellArgument::Code(words[1..].join(" ")),
            _ => shell_argument(&words[1..]),
        };
        let mut known = Understanding::new(Effect::Unknown, None, 1);
        known.runs_code = true;
        match code {
            ShellArgument::Code(code) => {
                // Its commands are analyzed in place of its words.
                known.effect = Effect::Prints;
                known.obstacle = Some(format!("the code that `{name}` is given"));
                if code.contains(UNKNOWN) {
                    self.mark_unclear("the script that a shell runs");
                }
                self.line(&code, command.has_input, depth + 1);
            }
            ShellArgument::File(file) if self.is_file(&file, command) => {}
            ShellArgument::File(_) | ShellArgument::None => {
                let why = format!("the script that `{name}` runs");
                self.mark_unclear(&why);
                known.obstacle = Some(why);
            }
        }
        known
    }

    /// Analyzes an interpreter: with code in an argument, in a file, or on standard input.
    fn interpreter(
        &mut self,
        program: &'static Program,
        words: &[String],
        command: &SimpleCommand,
    ) -> Understanding {
        let name = &words[0];
        let mut known = Understanding::new(Effect::Unknown, Some(program), 1);
        let mut effect = Effect::Reads;
        known.runs_code = true;
        if words.len() == 2 && ["--version", "-V", "--help"].contains(&words[1].as_str()) {
            return Understanding::new(Effect::Prints, Some(program), 1);
        }
        let is_selection = |word: &String| program.code.is_some_and(|code| matches(code, word));
        let (mut has_code, mut position) = (false, 1);
        let mut why = None;
        while let Some(word) = words.get(position) {
            position += 1;
            let next = words.get(position);
            // Options may follow the code, if some of them write.
            if !program.writes.is_empty() && may_be_option(word) {
                why = Some(format!("an argument of `{name}`, which may be an option"));
                break;
            }
            if word.starts_with('-') && word.len() > 1 {
                if Program::has_option(program.writes, word) {
                    effect = Effect::Writes;
                    known.obstacle = Some(format!("the option `{word}` of `{name}` writes files"));
                } else if word == "-m"
                    && next.is_some_and(|module| {
                        program.modules.split(' ').any(|known| known == module)
                    })
                {
                    return known;
                } else if word == "-e" && next.is_some_and(is_selection) {
                    has_code = true;
                    position += 1;
                } else if let Some(count) = program.skip(word) {
                    position += count - 1;
                } else {
                    why = Some(format!("the code that `{name}` is given"));
                    break;
                }
            } else if program.code.is_some() && !has_code {
                if !is_selection(word) {
                    why = Some(format!("the code that `{name}` is given"));
                    break;
                }
                has_code = true;
            } else if program.runs_file {
                if self.is_file(word, command) {
                    return known;
                }
                break;
            } else if !has_code {
                break;
            }
        }
        if has_code && why.is_none() {
            // All of the code is on the list of the table: it runs nothing else.
            (known.runs_code, known.effect) = (false, effect);
            return known;
        }
        let why = why.unwrap_or_else(|| format!("the code that `{name}` runs"));
        self.mark_unclear(&why);
        known.obstruct(why);
        known
    }

    /// True if a word is a file that is certainly not the standard input.
    fn is_file(&self, word: &str, command: &SimpleCommand) -> bool {
        let path = word.replace("/./", "/");
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let is_device = |part: &&str| {
            ["dev", "proc", "fd", "stdin"].contains(part) || part.parse::<u32>().is_ok()
        };
        // After `cd /dev`, a relative path may be the standard input, too.
        let moves = self
            .commands
            .iter()
            .any(|other| other.effect == Effect::Moves);
        let may_be_input = if path.starts_with('/') {
            path.contains("..") || parts.first().is_some_and(is_device)
        } else {
            command.has_input && (moves || path.contains("..") || parts.iter().any(is_device))
        };
        !word.contains(UNKNOWN) && word != "-" && !may_be_input
    }

    /// Records the value of a variable: a program may run it as a command.
    fn assigned(&mut self, name: &str, value: &str, depth: usize) {
        // They select the configuration of git, which can name programs.
        self.sets_git |= name.starts_with("GIT_") || ["HOME", "XDG_CONFIG_HOME"].contains(&name);
        if is_special(name) {
            self.mark_unclear(&format!("it sets `{name}`"));
        } else if value.contains(UNKNOWN) && names_a_command(name) {
            self.mark_unclear(&format!("the value of `{name}`"));
        }
        self.values.push(value.to_owned());
        self.guess_text(value, depth);
    }

    /// Records the commands that the words of a command might be.
    fn guess(&mut self, analyzed: &AnalyzedCommand, depth: usize) {
        let words = &analyzed.command.words;
        let own = if analyzed.is_understood {
            analyzed.name_words
        } else {
            1
        };
        if let Some(program) = words
            .first()
            .filter(|word| word.contains(char::is_whitespace))
        {
            self.guess_text(program, depth);
        }
        for at in own.min(words.len())..words.len() {
            if self.possible.len() > MAX_COMMANDS {
                self.mark_unclear(TOO_MANY_COMMANDS);
                break;
            }
            let word = &words[at];
            if let Some((name, value)) = assignment(word) {
                self.assigned(name, value, depth);
            }
            self.add_possible(&words[at..]);
            self.guess_text(word, depth);
            if !analyzed.is_understood && word.contains(['$', '`']) {
                self.mark_unclear("a text that a program may expand");
            }
            self.guess_interpreter(&words[at..], &analyzed.command);
        }
    }

    /// Records that words might run an interpreter whose code is not known.
    fn guess_interpreter(&mut self, words: &[String], command: &SimpleCommand) {
        let has_arguments = words.len() > 1 || command.has_input;
        let Ok((program, _)) = programs::find(words) else {
            return;
        };
        if !matches!(program.kind, Kind::Shell | Kind::Interpreter) || !has_arguments {
            return;
        }
        let mut guessed = Self::default();
        match program.kind {
            Kind::Interpreter => drop(guessed.interpreter(program, words, command)),
            // The texts of all words are guessed.
            _ if words[0] == "eval" => {}
            _ => match shell_argument(&words[1..]) {
                ShellArgument::Code(_) => {}
                ShellArgument::File(file) if self.is_file(&file, command) => {}
                _ => guessed.mark_unclear(&format!("the script that `{}` runs", words[0])),
            },
        }
        for why in guessed.unclear {
            self.mark_unclear(&why);
        }
    }

    /// Records the commands that a text might be, or contain.
    fn guess_text(&mut self, text: &str, depth: usize) {
        let is_mark = |character: char| ";&|<>(){}[]`$\"'!=:,@%\n".contains(character);
        let has_marks = text.contains(|character: char| {
            character.is_whitespace() || is_mark(character) || "\\".contains(character)
        });
        let unquoted = text.replace(['\'', '"', '\\'], "");
        let count = if unquoted == text { 1 } else { 2 };
        for text in [text, &unquoted].into_iter().take(count) {
            for phrase in text.split(is_mark) {
                let words: Vec<String> = phrase.split_whitespace().map(str::to_owned).collect();
                for at in 0..words.len() {
                    self.add_possible(&words[at..]);
                    self.add_joined(&words[at..]);
                }
            }
        }
        if !has_marks {
            return;
        }
        if self.possible.len() > MAX_COMMANDS {
            self.mark_unclear(TOO_MANY_COMMANDS);
            return;
        }
        if depth >= MAX_DEPTH / 2 {
            self.mark_unclear("commands within commands are nested too deeply");
            return;
        }
        let text = text.replace(UNKNOWN, "$UNKNOWN");
        let mut guessed = Self::default();
        let parsed = ParsedLine {
            // Other texts have quotes and parentheses, too.
            unclear: Vec::new(),
            ..parse::parse(&text)
        };
        guessed.take(parsed, false, depth + 1);
        for run in guessed.runs {
            // A word that is no command is no reason to ask.
            self.add_possible(&run.words);
        }
        self.possible.append(&mut guessed.possible);
        // A word of another text may look like a program that is not known.
        let is_certain =
            |why: &&String| !why.starts_with("the name of") && !why.starts_with("what");
        for why in guessed.unclear.iter().filter(is_certain) {
            self.mark_unclear(why);
        }
    }

    /// Records the commands that might be joined to the letters of short options: `-nOrm`.
    fn add_joined(&mut self, words: &[String]) {
        let option = words.first().filter(|word| !word.starts_with("--"));
        let Some(letters) = option.and_then(|word| word.strip_prefix('-')) else {
            return;
        };
        for (at, _) in letters.char_indices().skip(1).take(8) {
            let mut words = words.to_vec();
            words[0] = letters[at..].to_owned();
            self.add_possible(&words);
        }
    }

    fn add_run(&mut self, words: &[String], at: usize) {
        if self.runs.len() >= MAX_COMMANDS {
            self.mark_unclear("it runs too many commands");
            return;
        }
        self.runs.push(Run {
            words: words.to_vec(),
            at,
        });
    }

    /// Records a command that might run, with arguments that are not known.
    fn add_possible(&mut self, words: &[String]) {
        if self.possible.len() > MAX_COMMANDS {
            self.mark_unclear(TOO_MANY_COMMANDS);
            return;
        }
        let name = words.first().and_then(|word| word.rsplit('/').next());
        let starts = name.is_some_and(|name| !name.is_empty() && !name.starts_with(UNKNOWN));
        if starts {
            let words = words.iter().take(MAX_WORDS).cloned();
            self.possible
                .push(words.chain([UNKNOWN.to_string()]).collect());
        }
    }

    fn obstruct(&mut self, obstacle: String) {
        self.obstacle.get_or_insert(obstacle);
    }

    /// Records a reason why not everything that runs is known.
    fn mark_unclear(&mut self, why: &str) {
        self.obstruct(why.to_owned());
        if self.unclear.len() < 8 && !self.unclear.iter().any(|known| known == why) {
            self.unclear.push(why.to_owned());
        }
    }
}

/// Describes a program or a subcommand that is not in the table.
fn unknown_program(words: &[String], is_group: bool) -> String {
    let name = &words[0];
    if is_group {
        format!("this use of `{name}` is not in the table of commands whose options are known")
    } else {
        format!("`{name}` is not in the table of programs whose options are known")
    }
}

/// True if it is not known whether a word is an option, and which one.
fn may_be_option(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    name.starts_with(UNKNOWN) || (name.starts_with('-') && name.contains(UNKNOWN))
}

fn matches(expression: &str, text: &str) -> bool {
    Regex::new(expression).is_ok_and(|expression| expression.is_match(text))
}

/// Returns the name and the value, if a word assigns a variable.
fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let is_variable = !name.starts_with(|character: char| character.is_ascii_digit());
    (!name.is_empty() && is_variable && name.chars().all(is_name)).then_some((name, value))
}

/// Returns the place of the program that a wrapper runs; `None` if it runs none. Adds the variables that it sets.
///
/// # Errors
/// An option that is not known.
fn wrapped<'a>(
    program: &Program,
    mut operands: usize,
    words: &'a [String],
    taken: usize,
    assigned: &mut Vec<(&'a str, &'a str)>,
) -> Result<Option<usize>, &'a str> {
    let (mut position, mut has_ended) = (taken, false);
    while let Some(word) = words.get(position) {
        if word == "--" {
            has_ended = true;
            position += 1;
        } else if !has_ended && word.starts_with('-') {
            position += program.skip(word).ok_or(word.as_str())?;
        } else if let Some(variable) = assignment(word) {
            assigned.push(variable);
            position += 1;
        } else if operands > 0 {
            operands -= 1;
            position += 1;
        } else {
            return Ok(Some(position));
        }
    }
    Ok(None)
}

/// Returns the number of words in front of the program that a command runs in the end: those of wrappers, such as
/// `timeout 20` and `env A=1`. A wrapper is such a program itself if it has an option that is not known, or if it runs a
/// program of another machine or of a package, such as `ssh` and `npx`.
#[must_use]
pub fn wrapper_words(words: &[String]) -> usize {
    let mut at = 0;
    while let Some(command) = words.get(at..).filter(|command| !command.is_empty()) {
        let Ok((program, taken)) = programs::find(command) else {
            break;
        };
        let Kind::Wrapper(operands) = program.kind else {
            break;
        };
        if program.elsewhere {
            break;
        }
        match wrapped(program, operands, command, taken, &mut Vec::new()) {
            Ok(Some(position)) => at += position,
            Ok(None) | Err(_) => break,
        }
    }
    at
}

/// The script of a shell.
enum ShellArgument {
    Code(String),
    File(String),
    /// None, or one that is not known.
    None,
}

/// Returns the script in the arguments of a shell: after `-c` and the values of other options, or a file.
fn shell_argument(words: &[String]) -> ShellArgument {
    let (mut has_code, mut skipped) = (false, 0);
    for word in words {
        let is_option = word.starts_with(['-', '+']) && word.len() > 1;
        if skipped > 0 && !is_option {
            skipped -= 1;
        } else if let Some(code) = word.strip_prefix("--command=") {
            return ShellArgument::Code(code.to_owned());
        } else if is_option && !word.starts_with("--") {
            has_code |= word.starts_with('-') && word.contains('c');
            skipped += word
                .chars()
                .filter(|character| matches!(character, 'o' | 'O'))
                .count();
            if word.contains('s') && !has_code {
                return ShellArgument::None;
            }
        } else if is_option {
            has_code |= word == "--command";
            // The files of other options are read at start.
            if !has_code
                && !["--", "--noprofile", "--norc", "--posix", "--login"].contains(&word.as_str())
            {
                return ShellArgument::None;
            }
        } else if has_code {
            return ShellArgument::Code(word.clone());
        } else {
            return ShellArgument::File(word.clone());
        }
    }
    ShellArgument::None
}

/// Returns the marker that `xargs` replaces by its input.
fn marker(options: &[String]) -> Option<String> {
    options
        .iter()
        .enumerate()
        .find_map(|(at, word)| match word.split_once('I') {
            Some((before, "")) if before.starts_with('-') && !before.starts_with("--") => {
                options.get(at + 1).cloned()
            }
            Some((before, joined)) if before.starts_with('-') && !before.starts_with("--") => {
                Some(joined.to_owned())
            }
            _ => match word.strip_prefix("--replace") {
                Some(value) => Some(value.strip_prefix('=').unwrap_or("{}").to_owned()),
                None => (word == "-i").then(|| "{}".to_owned()),
            },
        })
}

/// True for variables that change the program behind a name, the startup of a shell, the meaning of paths or patterns,
/// and for those that pass code or settings to programs.
fn is_special(name: &str) -> bool {
    [
        "IFS",
        "PATH",
        "CDPATH",
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
        "GIT_TEMPLATE_DIR",
        "GIT_DIR",
        "HOME",
    ]
    .contains(&name)
        || ["LD_", "DYLD_", "GIT_CONFIG", "BASH_FUNC_"]
            .iter()
            .any(|start| name.starts_with(start))
}

/// True if programs run the value of the variable as a command.
fn names_a_command(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let ends = [
        "COMMAND", "EDITOR", "PAGER", "OPTIONS", "OPTS", "OPEN", "CLOSE", "ASKPASS", "SHELL",
        "BROWSER", "DIFF", "_RSH", "FLAGS",
    ];
    name.starts_with("GIT_") || ends.iter().any(|end| name.ends_with(end))
}
