//! The table of programs whose options are known: what an option or an argument makes them run or write. Its data is in
//! `data/programs.txt`.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::UNKNOWN;

const TABLE: &str = include_str!("../../data/programs.txt");

/// A row, with the words of the subcommand that it is about; none for the program itself.
type Row = (Vec<&'static str>, Program);

/// The rows by the names of programs.
static PROGRAMS: LazyLock<HashMap<String, Vec<Row>>> = LazyLock::new(|| {
    let mut programs: HashMap<_, Vec<_>> = HashMap::new();
    for program in read(TABLE) {
        for name in program.names.split(", ") {
            let mut words = name.split(' ');
            let name = words.next().unwrap_or_default().to_lowercase();
            programs
                .entry(name)
                .or_default()
                .push((words.collect(), program));
        }
    }
    programs
});

/// The effect of a program on the files that its arguments name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// It opens no file that an argument names.
    Prints,
    /// It reads them.
    Reads,
    /// It changes the working directory of what follows.
    Moves,
    /// Its arguments are names, such as branches and tests. It creates no file with such a name.
    TakesNames,
    /// It may write, create or remove them.
    Writes,
    /// Not known.
    Unknown,
}

/// The way in which a program treats its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It runs none of them, except values of the options of [`Program::runs`].
    Plain(Effect),
    /// It has subcommands, each with a row of its own.
    Group,
    /// It runs its arguments as a program, after this many operands.
    Wrapper(usize),
    /// It runs code: of a file, of an argument or of its standard input.
    Interpreter,
    /// An interpreter of shell scripts.
    Shell,
}

/// A row of the table; its properties are described there. Options and words in lists are separated by blanks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Program {
    names: &'static str,
    pub(super) kind: Kind,
    pub(super) runs: &'static str,
    pub(super) writes: &'static str,
    pub(super) exec: &'static str,
    /// `None`: all options are known that are in no other list.
    flags: Option<&'static str>,
    valued: &'static str,
    pub(super) code: Option<&'static str>,
    pub(super) modules: &'static str,
    pub(super) may_be_alone: bool,
    pub(super) runs_file: bool,
    pub(super) places: bool,
    pub(super) expands: bool,
    pub(super) elsewhere: bool,
}

/// Parses the rows of the table. Lines that are not understood are left out; a test fails on them.
fn read(text: &'static str) -> Vec<Program> {
    let mut programs: Vec<Program> = Vec::new();
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        match (line.strip_prefix("  "), programs.last_mut()) {
            (Some(property), Some(program)) => {
                program.set(property);
            }
            _ => programs.extend(Program::new(line)),
        }
    }
    programs
}

/// Returns the name of a program without its directory, in lower case: the file system may be case-insensitive.
pub(crate) fn base_name(program: &str) -> String {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let name = name.to_lowercase();
    name.strip_suffix(".exe").unwrap_or(&name).to_owned()
}

/// Returns the row of a command, and the number of its words that name it; with options before its subcommand.
/// `Err` with the row of the program, if it has subcommands and this is none of them.
pub(super) fn find(
    words: &[String],
) -> Result<(&'static Program, usize), Option<&'static Program>> {
    let name = base_name(&words[0]);
    // A version belongs to the name of an interpreter only.
    let plain =
        name.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    let has_version = |rows: &&Vec<(Vec<&str>, Program)>| {
        rows.iter()
            .any(|(_, row)| matches!(row.kind, Kind::Interpreter | Kind::Shell))
    };
    let rows = PROGRAMS
        .get(&name)
        .or_else(|| PROGRAMS.get(plain).filter(has_version));
    let Some(rows) = rows else { return Err(None) };
    let row = |subcommands: &[&str]| {
        let mut rows = rows.iter();
        let (_, found) = rows.find(|(words, _)| words == subcommands)?;
        Some(found)
    };
    let whole = row(&[]);
    let mut at = 1;
    if let Some(group) = whole.filter(|row| row.kind == Kind::Group) {
        while let Some(word) = words.get(at).filter(|word| word.starts_with('-')) {
            at += group.skip(word).ok_or(Some(group))?;
        }
    }
    let rest = words.get(at..).unwrap_or_default().iter().take(2);
    let rest: Vec<&str> = rest.map(String::as_str).collect();
    for count in (1..=rest.len()).rev() {
        if let Some(found) = row(&rest[..count]) {
            return Ok((found, at + count));
        }
    }
    match whole {
        Some(found) if found.kind != Kind::Group => Ok((found, 1)),
        other => Err(other),
    }
}

impl Program {
    /// Parses the first line of a row.
    fn new(line: &'static str) -> Option<Self> {
        let (kind, names) = line.split_once(' ')?;
        let kind = match kind {
            "prints" => Kind::Plain(Effect::Prints),
            "reads" => Kind::Plain(Effect::Reads),
            "moves" => Kind::Plain(Effect::Moves),
            "takes-names" => Kind::Plain(Effect::TakesNames),
            "writes" => Kind::Plain(Effect::Writes),
            "group" => Kind::Group,
            "wrapper" => Kind::Wrapper(0),
            "wrapper+" => Kind::Wrapper(1),
            "interpreter" => Kind::Interpreter,
            "shell" => Kind::Shell,
            _ => return None,
        };
        Some(Self {
            names,
            kind,
            runs: "",
            writes: "",
            exec: "",
            flags: None,
            valued: "",
            code: None,
            modules: "",
            may_be_alone: false,
            runs_file: false,
            places: false,
            expands: false,
            elsewhere: false,
        })
    }

    /// Sets a property. Returns false if it is not known.
    fn set(&mut self, line: &'static str) -> bool {
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        match name {
            "runs" => self.runs = value,
            "writes" => self.writes = value,
            "exec" => self.exec = value,
            "flags" => self.flags = Some(value),
            "valued" => self.valued = value,
            "code" => self.code = Some(value),
            "modules" => self.modules = value,
            "may-be-alone" => self.may_be_alone = true,
            "runs-file" => self.runs_file = true,
            "places" => self.places = true,
            "expands" => self.expands = true,
            "elsewhere" => self.elsewhere = true,
            _ => return false,
        }
        true
    }

    /// True if a word may be one of the options in a list.
    pub(super) fn has_option(list: &str, word: &str) -> bool {
        // `kubectl` takes `_` for `-`.
        let name = word.split('=').next().unwrap_or(word).replace('_', "-");
        let bare = name.trim_start_matches('-');
        let is_long = word.starts_with("--");
        list.split_whitespace().any(|known| {
            let plain = known.trim_start_matches('-');
            match plain.chars().count() {
                1 => {
                    !is_long
                        && word
                            .chars()
                            .skip(1)
                            .any(|character| plain.starts_with(character))
                }
                _ => bare == plain || (is_long && !bare.is_empty() && plain.starts_with(bare)),
            }
        })
    }

    /// True if it matters whether an argument is an option.
    pub(super) fn has_dangerous_options(&self) -> bool {
        !(self.runs.is_empty()
            && self.writes.is_empty()
            && self.exec.is_empty()
            && self.flags.is_none())
    }

    /// True if all its options are listed.
    pub(super) fn is_strict(&self) -> bool {
        self.flags.is_some()
    }

    /// Returns the number of words that an option and its value take; `None` if the option is not known.
    pub(super) fn skip(&self, word: &str) -> Option<usize> {
        let has = |list: &str, name: &str| list.split_whitespace().any(|known| known == name);
        let flags = self.flags.unwrap_or_default();
        let (name, has_value) = match word.split_once('=') {
            Some((name, _)) => (name, true),
            None => (word, false),
        };
        if has(flags, name) {
            return Some(1);
        }
        if has(self.valued, name) {
            return Some(if has_value { 1 } else { 2 });
        }
        if word.starts_with("--") || word.contains(UNKNOWN) {
            return None;
        }
        for (at, letter) in word.char_indices().skip(1) {
            let option = format!("-{letter}");
            if has(self.valued, &option) {
                let is_joined = at + letter.len_utf8() < word.len();
                return Some(if is_joined { 1 } else { 2 });
            }
            if !has(flags, &option) {
                return None;
            }
        }
        Some(1)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../../tests/unit/shell/programs.rs"]
mod tests;
