//! Parser of command lines: simple commands, their words and redirections.
//!
//! A line is plain if it has only literal words, pipes, `&&`, `||`, `;` and redirections to files. Of other lines, the
//! parser finds the commands in every reading of the common shells, and names the first thing that is not plain. It
//! executes nothing, and its work is bounded by the length of the line and the depth of nesting.

use std::collections::BTreeMap;

use super::UNKNOWN;

/// Maximum length of a command line, in bytes.
const MAX_LINE_BYTES: usize = 32 << 10;

/// Maximum nesting depth of substitutions and subshells.
const MAX_DEPTH: usize = 12;

/// Words at the beginning of a command after which another command follows.
pub(super) const RESERVED: [&str; 19] = [
    "!", "if", "then", "elif", "else", "do", "while", "until", "{", "}", "fi", "done", "esac",
    "for", "select", "case", "function", "coproc", "[[",
];

/// Commands that can change variables that they do not name: those that name them are found by their words.
const ASSIGNING: [&str; 15] = [
    "eval",
    "source",
    ".",
    "builtin",
    "command",
    "declare",
    "typeset",
    "local",
    "export",
    "readonly",
    "getopts",
    "let",
    "mapfile",
    "readarray",
    "trap",
];

/// A simple command. Quotes are resolved; parts of words that the shell replaces are [`UNKNOWN`].
#[derive(Debug, Clone, Default)]
pub(crate) struct SimpleCommand {
    pub(super) words: Vec<String>,
    pub(super) redirects: Vec<Redirect>,
    /// True if the standard input may be a pipe or a file.
    pub(super) has_input: bool,
    /// True if a word is a pattern of file names.
    pub(super) has_pattern: bool,
}

/// A redirection to or from a file.
#[derive(Debug, Clone)]
pub(crate) struct Redirect {
    pub(super) target: String,
    pub(super) writes: bool,
}

/// The parts of a line.
#[derive(Debug, Default)]
pub(super) struct ParsedLine {
    pub(super) commands: Vec<SimpleCommand>,
    /// Texts that a shell may read as commands: values of expansions, and here-documents with substitutions.
    pub(super) expanded: Vec<String>,
    /// Other texts on standard input of commands.
    pub(super) documents: Vec<String>,
    /// The first thing that is not plain.
    pub(super) not_plain: Option<&'static str>,
    /// The reasons why not all commands are known.
    pub(super) unclear: Vec<&'static str>,
}

/// Parses a line.
pub(super) fn parse(line: &str) -> ParsedLine {
    let mut parser = Parser {
        characters: Vec::new(),
        at: 0,
        depth: 0,
        current: SimpleCommand::default(),
        pending: Vec::new(),
        reads_input: false,
        is_compound: false,
        values: BTreeMap::new(),
        assignments: 0,
        is_assigning: true,
        may_split: false,
        is_ambiguous: false,
        found: ParsedLine::default(),
    };
    if line.len() > MAX_LINE_BYTES {
        parser.unclear("it is too long to be taken apart");
    } else {
        if line.contains('\0') {
            parser.unclear("it has a NUL character");
        }
        // Shells take it for a part of a word.
        if line.contains('\r') {
            parser.unclear("it has a carriage return");
        }
        if joins_words(line) {
            parser.unclear("a line end within a word");
        }
        parser.characters = line.chars().collect();
        parser.list(None);
        parser.read_documents();
    }
    let is_read = parser.is_compound && parser.reads_input;
    for command in &mut parser.found.commands {
        command.has_input |= is_read;
    }
    parser.found
}

/// True if a backslash before a line end may join parts of a word or an operator, or a line of a here-document with the
/// next one. Shells differ in what they make of it.
fn joins_words(line: &str) -> bool {
    let mut before = line.match_indices("\\\n").map(|(at, _)| &line[..at]);
    before.any(|before| !before.ends_with([' ', '\t']))
}

/// A here-document whose body follows.
struct Pending {
    delimiter: String,
    /// True if the delimiter was quoted: nothing in the body is expanded.
    is_quoted: bool,
    /// True if leading tabs are stripped.
    strips_tabs: bool,
}

struct Parser {
    characters: Vec<char>,
    at: usize,
    depth: usize,
    /// The command that is being read.
    current: SimpleCommand,
    /// Here-documents whose bodies begin after the line.
    pending: Vec<Pending>,
    /// True if something in the line has a pipe or a file as its standard input.
    reads_input: bool,
    /// True if commands are parts of others, which may pass their standard input on.
    is_compound: bool,
    /// The values that the line assigns before its first command.
    values: BTreeMap<String, String>,
    /// The number of words of the current command that are assignments.
    assignments: usize,
    /// True while the line has only assigned values.
    is_assigning: bool,
    /// True if the line may set the signs at which unquoted values are split (`IFS`).
    may_split: bool,
    /// True after `&>`, which ends the command in some shells and not in others.
    is_ambiguous: bool,
    found: ParsedLine,
}

impl Parser {
    fn not_plain(&mut self, what: &'static str) {
        self.found.not_plain.get_or_insert(what);
    }

    /// Records a reason why not all commands are known.
    fn unclear(&mut self, why: &'static str) {
        self.not_plain(why);
        if !self.found.unclear.contains(&why) {
            self.found.unclear.push(why);
        }
    }

    fn peek(&self) -> Option<char> {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.at + ahead).copied()
    }

    /// Returns the number of characters up to the next one that fulfills a condition, or to the end.
    fn distance(&self, is_end: impl Fn(char) -> bool) -> usize {
        let rest = &self.characters[self.at.min(self.characters.len())..];
        let end = rest.iter().position(|character| is_end(*character));
        end.unwrap_or(rest.len())
    }

    fn take(&mut self, count: usize) -> String {
        let end = (self.at + count).min(self.characters.len());
        let text = self.characters[self.at.min(end)..end].iter().collect();
        self.at = end;
        text
    }

    /// The characters from a position to the current one.
    fn written(&self, start: usize) -> &[char] {
        let end = self.at.min(self.characters.len());
        &self.characters[start.min(end)..end]
    }

    /// Parses commands up to and including `until`, or to the end.
    fn list(&mut self, until: Option<char>) {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.unclear("it is nested too deeply");
            self.at = self.characters.len();
        }
        let outer = std::mem::take(&mut self.current);
        let documents = self.pending.len();
        loop {
            match self.peek() {
                None if until.is_some() => {
                    self.unclear("a parenthesis is not closed");
                    break;
                }
                None => break,
                Some(' ' | '\t' | '\r') => self.at += 1,
                Some('\\') if self.peek_at(1) == Some('\n') => self.at += 2,
                Some('#') => self.at += self.distance(|character| character == '\n'),
                Some('\n') => {
                    self.finish();
                    self.at += 1;
                    self.read_documents();
                }
                Some(';') => {
                    self.finish();
                    self.at += 1;
                }
                Some('&') if self.peek_at(1) == Some('>') => self.ambiguous_redirect(),
                Some(character @ ('&' | '|')) => {
                    self.finish();
                    let is_double = self.peek_at(1) == Some(character);
                    self.at += 1 + usize::from(is_double);
                    match (character, is_double) {
                        (_, true) => {}
                        ('&', false) => self.not_plain("a command in the background"),
                        _ => {
                            self.at += usize::from(self.peek() == Some('&'));
                            self.reads_input = true;
                            self.current.has_input = true;
                        }
                    }
                }
                Some('(') => {
                    self.is_compound = true;
                    self.not_plain("parentheses");
                    self.finish();
                    self.at += 1;
                    if self.peek() != Some('(') || !self.arithmetic() {
                        self.list(Some(')'));
                    }
                }
                Some(')') => {
                    self.finish();
                    self.at += 1;
                    if until == Some(')') {
                        break;
                    }
                    self.is_compound = true;
                    self.not_plain("parentheses");
                }
                Some('<' | '>') if self.peek_at(1) != Some('(') => self.redirect(),
                Some(_) => self.argument(),
            }
        }
        if self.depth > 1 && self.pending.len() > documents {
            self.unclear("a here-document that a substitution does not close");
        }
        self.finish();
        self.current = outer;
        self.depth -= 1;
    }

    /// Ends the command that is being read.
    fn finish(&mut self) {
        self.is_ambiguous = false;
        if self.current.words.is_empty() && self.current.redirects.is_empty() {
            return;
        }
        let command = std::mem::take(&mut self.current);
        let first = command.words.first().map(String::as_str);
        if first.is_some_and(|word| RESERVED.contains(&word)) {
            self.is_compound = true;
            self.not_plain("a compound command");
        }
        self.learn(&command);
        self.found.commands.push(command);
    }

    /// Records the values that a command assigns, if it is certain that they hold for the rest of the line: commands
    /// before were assignments, too.
    fn learn(&mut self, command: &SimpleCommand) {
        let count = std::mem::take(&mut self.assignments);
        let is_certain = self.is_assigning
            && self.depth == 1
            && !self.is_compound
            && count == command.words.len()
            && command.redirects.is_empty()
            && matches!(self.peek(), Some(';' | '\n'));
        self.is_assigning = is_certain;
        for word in &command.words {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let variable = name.split(['+', '[']).next().unwrap_or_default();
            self.values.remove(variable);
            // Shells set `_` themselves.
            if is_certain && variable == name && name != "_" && !value.contains(UNKNOWN) {
                self.values.insert(name.to_owned(), value.to_owned());
            }
        }
        let mut words = command.words.iter();
        self.may_split |= words.any(|word| word.contains("IFS") || word.contains(UNKNOWN));
        let first = command.words.first().map(String::as_str);
        if self.is_compound || first.is_some_and(|first| ASSIGNING.contains(&first)) {
            self.values.clear();
        }
    }

    /// Returns the value of a variable as a part of a word; `UNKNOWN` if it is not known, or may be several words.
    fn value(&self, name: &str, is_quoted: bool) -> String {
        let is_plain =
            |character: char| character.is_alphanumeric() || "_-./+@%:,".contains(character);
        let value = self.values.get(name).filter(|_| !self.is_compound);
        let is_one_word =
            |value: &&String| !self.may_split && !value.is_empty() && value.chars().all(is_plain);
        let value = value.filter(|value| is_quoted || is_one_word(value));
        value.cloned().unwrap_or_else(|| UNKNOWN.to_string())
    }

    /// Parses a word of a command. The number of a file descriptor before a redirection is left out.
    fn argument(&mut self) {
        let start = self.at;
        let is_ambiguous = self.is_ambiguous;
        let word = self.word();
        let is_number = self.written(start).iter().all(char::is_ascii_digit);
        if is_number && matches!(self.peek(), Some('<' | '>')) {
            return;
        }
        if is_ambiguous {
            self.unclear("arguments after `&>`, which shells read differently");
        }
        // The name must not be quoted.
        let name = self
            .written(start)
            .iter()
            .take_while(|character| **character != '=');
        let is_name =
            |character: &char| character.is_ascii_alphanumeric() || matches!(character, '_' | '+');
        let is_assignment = self.written(start).contains(&'=') && name.clone().all(is_name);
        self.assignments += usize::from(is_assignment);
        self.current.words.push(word);
    }

    /// Skips `(…))` of an arithmetic expression of numbers. Returns false and consumes nothing if it is another one.
    fn arithmetic(&mut self) -> bool {
        let is_number = |character: char| {
            character.is_ascii_digit() || " \t+-*/%<>=!&|^~?:,".contains(character)
        };
        let start = self.at;
        self.at += 1;
        self.at += self.distance(|character| !is_number(character));
        if self.peek() == Some(')') && self.peek_at(1) == Some(')') {
            self.at += 2;
            return true;
        }
        self.at = start;
        // The value of a variable, too, is an expression, and may run commands.
        self.unclear("an arithmetic expression");
        false
    }

    /// Parses `&>FILE`: in some shells, the `&` ends the command, and a redirection begins the next one.
    fn ambiguous_redirect(&mut self) {
        self.not_plain("`&>`");
        self.finish();
        self.at += 1;
        self.redirect();
        self.is_ambiguous = true;
    }

    /// Parses a redirection at its operator.
    fn redirect(&mut self) {
        let is_input = self.peek() == Some('<');
        if is_input && self.peek_at(1) == Some('<') {
            self.document();
            return;
        }
        let writes = !is_input || self.peek_at(1) == Some('>');
        self.at += 1;
        let duplicates = self.peek() == Some('&');
        if matches!(self.peek(), Some('&' | '>' | '|')) {
            self.at += 1;
        }
        let Some(target) = self.operand() else {
            self.unclear("a redirection without a target");
            return;
        };
        let is_descriptor = |text: &str| {
            let digits = text.trim_end_matches('-');
            digits.chars().all(|character| character.is_ascii_digit())
        };
        if is_input {
            self.reads_input = true;
            self.current.has_input = true;
        }
        if !(duplicates && is_descriptor(&target)) {
            self.current.redirects.push(Redirect { target, writes });
        }
    }

    /// Parses the word after an operator.
    fn operand(&mut self) -> Option<String> {
        self.at += self.distance(|character| character != ' ' && character != '\t');
        let start = self.at;
        let word = self.word();
        (self.at > start).then_some(word)
    }

    /// Parses `<<WORD` and `<<<WORD`.
    fn document(&mut self) {
        self.reads_input = true;
        self.current.has_input = true;
        self.at += 2;
        if self.peek() == Some('<') {
            self.at += 1;
            let text = self.operand().unwrap_or_default();
            self.not_plain("a here-string");
            self.found.documents.push(text);
            return;
        }
        self.not_plain("a here-document");
        let strips_tabs = self.peek() == Some('-');
        self.at += usize::from(strips_tabs);
        self.at += self.distance(|character| character != ' ' && character != '\t');
        let start = self.at;
        let word = self.word();
        let written: String = self.written(start).iter().collect();
        let is_quoted = written.contains(['\'', '"', '\\']);
        // A delimiter is not expanded.
        let delimiter = if is_quoted { word } else { written };
        if delimiter.is_empty() || delimiter.contains(UNKNOWN) {
            self.unclear("the delimiter of a here-document");
        }
        self.pending.push(Pending {
            delimiter,
            is_quoted,
            strips_tabs,
        });
    }

    /// Reads the bodies of here-documents, which begin at the current position.
    fn read_documents(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            let mut body = String::new();
            loop {
                if self.at >= self.characters.len() {
                    self.unclear("a here-document is not closed");
                    break;
                }
                let line = self.take(self.distance(|character| character == '\n'));
                self.at += 1;
                let text = if pending.strips_tabs {
                    line.trim_start_matches('\t')
                } else {
                    &line
                };
                if text == pending.delimiter {
                    break;
                }
                body.push_str(&line);
                body.push('\n');
            }
            if !pending.is_quoted && body.contains(['$', '`']) {
                self.found.expanded.push(body)
            } else {
                self.found.documents.push(body)
            }
        }
    }

    /// Parses a word, up to white space or an operator.
    fn word(&mut self) -> String {
        let mut text = String::new();
        let (mut has_brace, mut is_opaque) = (false, false);
        let start = self.at;
        while let Some(character) = self.peek() {
            match character {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '(' | ')' => break,
                '<' | '>' if self.peek_at(1) == Some('(') => {
                    self.is_compound = true;
                    self.not_plain("a substitution");
                    self.at += 2;
                    self.list(Some(')'));
                    text.push(UNKNOWN);
                }
                '<' | '>' => break,
                '\\' => {
                    self.at += 1;
                    let escaped = self.take(1);
                    text.push_str(if escaped == "\n" { "" } else { &escaped });
                }
                '\'' => self.single_quotes(&mut text),
                '"' => self.double_quotes(&mut text),
                '$' => self.dollar(&mut text, false),
                '`' => self.backticks(&mut text),
                '*' | '?' => {
                    self.current.has_pattern = true;
                    self.at += 1;
                    text.push(UNKNOWN);
                }
                '[' if self.at == start && self.is_test() => {
                    text = self.take(self.distance(|character| character != '['));
                }
                '[' => {
                    self.current.has_pattern = true;
                    is_opaque |= !self.bracket();
                    text.push(UNKNOWN);
                }
                '~' if text.is_empty() || text.ends_with(['=', ':']) => {
                    let is_name =
                        |character: char| character.is_alphanumeric() || "_-+~".contains(character);
                    self.at += self.distance(|character| !is_name(character));
                    text.push(UNKNOWN);
                }
                character => {
                    has_brace |= character == '{';
                    self.at += 1;
                    text.push(character);
                }
            }
        }
        if has_brace && text.contains('}') && (text.contains(',') || text.contains("..")) {
            self.not_plain("a brace expansion");
            self.found.expanded.push(text.replace(['{', ',', '}'], " "));
            self.current.has_pattern = true;
            return UNKNOWN.to_string();
        }
        if is_opaque { UNKNOWN.to_string() } else { text }
    }

    /// True if the word here is `[` or `[[`.
    fn is_test(&self) -> bool {
        let ends = |at| matches!(self.peek_at(at), None | Some(' ' | '\t' | '\n'));
        ends(1) || (self.peek_at(1) == Some('[') && ends(2))
    }

    /// Skips `[…]`. Returns false if its end is not certain, with only its first character skipped.
    fn bracket(&mut self) -> bool {
        let start = self.at;
        self.at += 1;
        self.at += usize::from(matches!(self.peek(), Some('!' | '^')));
        self.at += usize::from(self.peek() == Some(']'));
        self.at += self.distance(|character| "] \t\n;&|<>()'\"$`\\[".contains(character));
        let is_closed = self.peek() == Some(']');
        self.at = if is_closed { self.at } else { start };
        self.at += 1;
        is_closed
    }

    fn single_quotes(&mut self, text: &mut String) {
        self.at += 1;
        let inner = self.take(self.distance(|character| character == '\''));
        text.push_str(&inner);
        self.close('\'');
    }

    /// Consumes a closing quote or brace.
    fn close(&mut self, character: char) {
        match self.peek() {
            Some(next) if next == character => self.at += 1,
            _ => self.unclear("a quote or a brace is not closed"),
        }
    }

    fn double_quotes(&mut self, text: &mut String) {
        self.at += 1;
        while let Some(character) = self.peek().filter(|character| *character != '"') {
            match character {
                '\\' => {
                    self.at += 1;
                    match self.peek() {
                        Some('\n') => self.at += 1,
                        Some('$' | '`' | '"' | '\\') => text.push_str(&self.take(1)),
                        _ => text.push('\\'),
                    }
                }
                '$' => self.dollar(text, true),
                '`' => self.backticks(text),
                character => {
                    self.at += 1;
                    text.push(character);
                }
            }
        }
        self.close('"');
    }

    /// Parses `$…`; `is_quoted` within double quotes.
    fn dollar(&mut self, text: &mut String, is_quoted: bool) {
        self.at += 1;
        let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
        match self.peek() {
            Some('(') => {
                self.is_compound = true;
                self.not_plain("a substitution");
                self.at += 1;
                if self.peek() != Some('(') || !self.arithmetic() {
                    self.list(Some(')'));
                }
                text.push(UNKNOWN);
            }
            Some('{') => {
                self.not_plain("a variable");
                let inner = self.take(self.distance(|character| character == '}'));
                self.close('}');
                // The value may be another one, set one, or be expanded as a prompt.
                if !inner
                    .chars()
                    .all(|character| is_name(character) || ":-+#%./".contains(character))
                {
                    self.unclear("an expansion of a variable");
                }
                text.push_str(&self.value(&inner, is_quoted));
                self.found.expanded.push(inner);
            }
            Some('[') => {
                self.unclear("an arithmetic expression");
                text.push(UNKNOWN);
            }
            Some('\'') if !is_quoted => {
                self.at += 1;
                let mut count = 0;
                while let Some(character) =
                    self.peek_at(count).filter(|character| *character != '\'')
                {
                    count += if character == '\\' { 2 } else { 1 };
                }
                let inner = self.take(count);
                if inner.contains('\\') {
                    // Shells without this form end it at another quote.
                    self.unclear("a text with escapes (`$'…'`)");
                    text.push(UNKNOWN);
                } else {
                    text.push_str(&inner)
                }
                self.close('\'');
            }
            Some('"') if !is_quoted => self.double_quotes(text),
            Some(character) if is_name(character) || "@*#?-!$".contains(character) => {
                self.not_plain("a variable");
                let length = if is_name(character) && !character.is_ascii_digit() {
                    self.distance(|character| !is_name(character))
                } else {
                    1
                };
                let name = self.take(length);
                text.push_str(&self.value(&name, is_quoted));
            }
            _ => text.push('$'),
        }
    }

    fn backticks(&mut self, text: &mut String) {
        self.is_compound = true;
        self.not_plain("a substitution");
        self.at += 1;
        let mut inner = String::new();
        while let Some(character) = self.peek().filter(|character| *character != '`') {
            self.at += 1;
            match (character, self.peek()) {
                ('\\', Some(escaped @ ('`' | '\\' | '$'))) => {
                    inner.push(escaped);
                    self.at += 1;
                }
                _ => inner.push(character),
            }
        }
        self.close('`');
        text.push(UNKNOWN);
        // The same parser reads it in place of the rest.
        let outer = std::mem::replace(&mut self.characters, inner.chars().collect());
        let at = std::mem::replace(&mut self.at, 0);
        self.list(None);
        (self.characters, self.at) = (outer, at);
    }
}
