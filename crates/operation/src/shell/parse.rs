//! Parser of command lines: simple commands, their words and redirections.
//!
//! The parser implements the common subset of POSIX shells and bash. Where they differ, it returns
//! everything that either of them would run; what it cannot parse is reported as unclear. It never
//! executes anything, and its work is bounded by the length of the line, the depth of nesting and the
//! number of commands.

use super::word::{Atom, Word, is_unquoted, quoted, unquoted};

/// Maximum length of a command line to parse, in bytes.
const MAX_LINE_BYTES: usize = 32 << 10;

/// Maximum nesting depth of substitutions, subshells and scripts within scripts.
const MAX_DEPTH: usize = 16;

/// Maximum number of simple commands.
const MAX_COMMANDS: usize = 1_000;

/// A simple command: quotes are resolved, variables are not.
#[derive(Debug, Clone, Default)]
pub(super) struct SimpleCommand {
    /// The program and its arguments, after brace expansion.
    pub(super) words: Vec<Word>,
    /// The targets of redirections.
    pub(super) redirects: Vec<Word>,
    /// Texts on standard input: here-documents (by index) and here-strings.
    pub(super) here: Vec<HereText>,
}

/// A text on standard input.
#[derive(Debug, Clone)]
pub(super) enum HereText {
    /// The index of the here-document.
    Document(usize),
    /// A here-string.
    Word(Word),
}

/// The parts of a line.
#[derive(Debug, Default)]
pub(super) struct ParsedLine {
    pub(super) commands: Vec<SimpleCommand>,
    /// The variables that are set, with each value.
    pub(super) variables: Vec<(String, Word)>,
    /// The bodies of here-documents.
    pub(super) documents: Vec<String>,
    /// The reasons why some parts are unknown.
    pub(super) unclear: Vec<String>,
    /// True if the line is more than one plain command: operators, substitutions, compound commands.
    pub(super) has_syntax: bool,
}

/// Parses a line.
pub(super) fn parse(line: &str, depth: usize) -> ParsedLine {
    let mut parser = Parser {
        signs: Vec::new(),
        at: 0,
        depth,
        outermost: depth,
        pending: Vec::new(),
        found: ParsedLine::default(),
    };
    if line.len() > MAX_LINE_BYTES {
        parser.mark_unclear("it is too long to be taken apart");
        return parser.found;
    }
    if line.contains('\0') {
        parser.mark_unclear("it holds a NUL character");
    }
    parser.signs = line.chars().collect();
    parser.list(None);
    parser.read_here_documents();
    parser.found
}

struct Parser {
    signs: Vec<char>,
    at: usize,
    depth: usize,
    /// The depth at the start of the text.
    outermost: usize,
    /// Here-documents whose bodies begin after the next line end: the delimiter, if it was quoted, if
    /// tabs are stripped, and the index.
    pending: Vec<(String, bool, bool, usize)>,
    found: ParsedLine,
}

impl Parser {
    fn mark_unclear(&mut self, why: &str) {
        if !self.found.unclear.iter().any(|known| known == why) {
            self.found.unclear.push(why.to_owned());
        }
    }

    fn peek(&self) -> Option<char> {
        self.signs.get(self.at).copied()
    }

    fn peek_at(&self, ahead: usize) -> Option<char> {
        self.signs.get(self.at + ahead).copied()
    }

    /// Returns the next character of a part that ends with `end`; `None` at its end, which is consumed,
    /// and at the end of the text.
    fn peek_until(&mut self, end: char, unclosed: &str) -> Option<char> {
        match self.peek() {
            None => self.mark_unclear(unclosed),
            Some(sign) if sign == end => self.at += 1,
            Some(sign) => return Some(sign),
        }
        None
    }

    fn starts_with_text(&self, text: &str) -> bool {
        text.chars()
            .enumerate()
            .all(|(ahead, sign)| self.peek_at(ahead) == Some(sign))
    }

    fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t' | '\r') => self.at += 1,
                Some('\\') if self.peek_at(1) == Some('\n') => self.at += 2,
                Some('#') => {
                    while self.peek().is_some_and(|sign| sign != '\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    /// Parses commands up to and including `until`, or to the end.
    fn list(&mut self, until: Option<char>) {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.mark_unclear("it is nested too deeply");
            self.at = self.signs.len();
        }
        loop {
            self.skip_blanks();
            let Some(sign) = self.peek() else {
                if until.is_some() {
                    self.mark_unclear("a parenthesis is not closed");
                }
                break;
            };
            if self.found.commands.len() > MAX_COMMANDS {
                self.mark_unclear("it has too many commands");
                self.at = self.signs.len();
                break;
            }
            match sign {
                '\n' => {
                    self.at += 1;
                    self.read_here_documents();
                }
                ';' | '&' | '|' => {
                    self.found.has_syntax = true;
                    self.at += 1;
                }
                ')' if until == Some(')') => {
                    self.at += 1;
                    break;
                }
                // Part of a pattern of `case`; anything else would be a syntax error.
                ')' => {
                    self.found.has_syntax = true;
                    self.at += 1;
                }
                '(' => {
                    self.found.has_syntax = true;
                    self.at += 1;
                    if self.peek() == Some('(') {
                        self.arithmetic_command();
                    } else {
                        self.list(Some(')'));
                    }
                }
                _ => self.command(),
            }
        }
        self.depth -= 1;
    }

    /// Parses `((…))` after its first parenthesis: an arithmetic expression in bash; nested subshells in
    /// dash, and in bash if it does not end with `))`. An ambiguous text is parsed as both.
    fn arithmetic_command(&mut self) {
        let start = self.at;
        self.at += 1;
        if !self.arithmetic() {
            self.at = start;
            self.list(Some(')'));
            return;
        }
        if self.depth < MAX_DEPTH {
            let text: String = self.signs[start + 1..self.at - 2].iter().collect();
            let parsed = parse(&text, self.depth + 1);
            self.merge(parsed);
        }
    }

    /// Parses an arithmetic expression up to and including `))`. Returns false and consumes nothing if
    /// it is none.
    fn arithmetic(&mut self) -> bool {
        let start = self.at;
        let mut depth = 0;
        while let Some(sign) = self.peek() {
            match sign {
                '(' => depth += 1,
                ')' if depth == 0 && self.peek_at(1) == Some(')') => {
                    self.at += 2;
                    return true;
                }
                ')' if depth == 0 => break,
                ')' => depth -= 1,
                // A subscript may run commands, also one in the value of a variable.
                '[' => self.mark_unclear("an arithmetic expression with a subscript"),
                '$' if self.peek_at(1) != Some('(') => {}
                sign if sign.is_alphanumeric() || " \t_+-*/%<>=!&|^~?:,.#".contains(sign) => {}
                _ => break,
            }
            self.at += 1;
        }
        self.at = start;
        false
    }

    /// Parses one simple command, or the head of a compound one: its reserved words are skipped, and its
    /// commands follow.
    fn command(&mut self) {
        let mut simple = SimpleCommand::default();
        let mut is_start = true;
        loop {
            self.skip_blanks();
            let Some(sign) = self.peek() else { break };
            match sign {
                '\n' | ';' | '|' | ')' => break,
                '&' if self.peek_at(1) != Some('>') => break,
                '&' => {
                    self.at += 1;
                    self.redirect(&mut simple);
                }
                '<' | '>' if self.peek_at(1) != Some('(') => self.redirect(&mut simple),
                '(' => {
                    self.found.has_syntax = true;
                    // `name ()` begins a function; its body is parsed like any command.
                    let mut ahead = 1;
                    while matches!(self.peek_at(ahead), Some(' ' | '\t')) {
                        ahead += 1;
                    }
                    if self.peek_at(ahead) == Some(')') && simple.words.len() == 1 {
                        self.at += ahead + 1;
                        return;
                    }
                    self.mark_unclear("a parenthesis where none is expected");
                    self.at += 1;
                    self.list(Some(')'));
                }
                _ => {
                    let before = self.at;
                    let word = self.word();
                    if self.at == before {
                        self.at += 1;
                        continue;
                    }
                    if matches!(self.peek(), Some('<' | '>'))
                        && word.unquoted().is_some_and(|text| {
                            text.chars().all(|sign| sign.is_ascii_digit())
                                || (text.starts_with('{') && text.ends_with('}'))
                        })
                    {
                        // The number of a file descriptor.
                        continue;
                    }
                    if is_start {
                        match self.start(&word) {
                            CommandStart::Skip => continue,
                            CommandStart::End => break,
                            CommandStart::Plain => {}
                        }
                        if let Some((name, value)) = word.assignment() {
                            self.assign(name, value, &word);
                            continue;
                        }
                    }
                    is_start = false;
                    match word.braces() {
                        Some(words) => simple.words.extend(words),
                        None => {
                            self.mark_unclear("a brace expansion makes too many words");
                            simple.words.push(Word::any());
                        }
                    }
                }
            }
        }
        if !(simple.words.is_empty() && simple.redirects.is_empty() && simple.here.is_empty()) {
            if !self.found.commands.is_empty() {
                self.found.has_syntax = true;
            }
            self.found.commands.push(simple);
        }
    }

    fn assign(&mut self, name: String, value: Word, whole: &Word) {
        // `X+=a` and `X=(a b)` have composed values.
        let appends = whole.0.iter().any(|atom| is_unquoted(atom, "+"));
        if self.peek() == Some('(') && value.0.is_empty() {
            self.found.has_syntax = true;
            self.at += 1;
            while self.peek().is_some_and(|sign| sign != ')') {
                match self.peek() {
                    Some(' ' | '\t' | '\n') => self.at += 1,
                    _ => {
                        let before = self.at;
                        let _ = self.word();
                        self.at = self.at.max(before + 1);
                    }
                }
            }
            self.at += 1;
            self.found.variables.push((name, Word::any()));
            return;
        }
        let value = if appends { Word::any() } else { value };
        self.found.variables.push((name, value));
    }

    /// Handles reserved words at the beginning of a command.
    fn start(&mut self, word: &Word) -> CommandStart {
        let Some(text) = word.unquoted() else {
            return CommandStart::Plain;
        };
        let start = match text.as_str() {
            "!" | "if" | "then" | "elif" | "else" | "do" | "while" | "until" | "{" | "}" | "fi"
            | "done" | "esac" => CommandStart::Skip,
            "coproc" => {
                // A name, if a compound command follows it.
                let before = self.at;
                self.skip_blanks();
                let _ = self.word();
                self.skip_blanks();
                if !matches!(self.peek(), Some('{' | '(')) {
                    self.at = before;
                }
                CommandStart::Skip
            }
            "function" => {
                self.skip_blanks();
                let _ = self.word();
                self.skip_blanks();
                if self.starts_with_text("()") {
                    self.at += 2;
                }
                CommandStart::End
            }
            "for" | "select" => {
                self.for_loop();
                CommandStart::End
            }
            "case" => {
                if self.depth > self.outermost + 1 {
                    // Shells differ in whether the parenthesis of a pattern ends a substitution.
                    self.mark_unclear("a `case` in parentheses");
                }
                self.case();
                CommandStart::End
            }
            "[[" => {
                self.condition();
                CommandStart::End
            }
            _ => CommandStart::Plain,
        };
        self.found.has_syntax |= !matches!(start, CommandStart::Plain);
        start
    }

    fn for_loop(&mut self) {
        self.skip_blanks();
        if self.starts_with_text("((") {
            self.at += 2;
            let is_end = |parser: &Self| parser.starts_with_text("))") || parser.peek().is_none();
            while !is_end(self) {
                if matches!(self.peek(), Some('$' | '`' | '[' | '\'' | '"')) {
                    self.mark_unclear("a loop over an expression");
                }
                self.at += 1;
            }
            self.at = (self.at + 2).min(self.signs.len());
            return;
        }
        let name = self.word().unquoted().unwrap_or_default();
        loop {
            self.skip_blanks();
            match self.peek() {
                Some('\n') if self.pending.is_empty() => self.at += 1,
                _ => break,
            }
        }
        let before = self.at;
        if self.word().unquoted().as_deref() != Some("in") {
            // The parameters of the script.
            self.at = before;
            self.found.variables.push((name, Word::any()));
            return;
        }
        loop {
            self.skip_blanks();
            match self.peek() {
                None | Some('\n' | ';' | '&' | '|' | ')' | '(') => return,
                Some('<' | '>') if self.peek_at(1) != Some('(') => return,
                Some(_) => {
                    let before = self.at;
                    let word = self.word();
                    if self.at == before {
                        self.at += 1;
                    }
                    for value in word.braces().unwrap_or_else(|| vec![Word::any()]) {
                        self.found.variables.push((name.clone(), value));
                    }
                }
            }
        }
    }

    /// Parses `case WORD in`. Patterns and their `)` are parsed later as if they were commands.
    fn case(&mut self) {
        self.skip_blanks();
        let _ = self.word();
        for _ in 0..64 {
            self.skip_blanks();
            match self.peek() {
                Some('\n') => self.at += 1,
                _ => break,
            }
        }
        let before = self.at;
        if self.word().unquoted().as_deref() != Some("in") {
            self.at = before;
            self.mark_unclear("a `case` without `in`");
        }
    }

    /// Parses `[[ … ]]`: its operators are no shell syntax, substitutions in it are.
    fn condition(&mut self) {
        loop {
            self.skip_blanks();
            match self.peek() {
                None => {
                    self.mark_unclear("`[[` is not closed");
                    return;
                }
                Some('&' | '|' | '<' | '>' | '(' | ')' | ';' | '\n') => self.at += 1,
                Some(_) => {
                    let before = self.at;
                    let word = self.word();
                    if self.at == before {
                        self.at += 1;
                    }
                    if word.unquoted().as_deref() == Some("]]") {
                        return;
                    }
                }
            }
        }
    }

    /// Parses a redirection at its operator.
    fn redirect(&mut self, simple: &mut SimpleCommand) {
        self.found.has_syntax = true;
        if self.starts_with_text("<<<") {
            self.at += 3;
            self.skip_blanks();
            let word = self.word();
            simple.here.push(HereText::Word(word));
            return;
        }
        if self.starts_with_text("<<") {
            self.at += 2;
            let strips = self.peek() == Some('-');
            if strips {
                self.at += 1;
            }
            self.skip_blanks();
            let before = self.at;
            let word = self.word();
            let written: String = self.signs[before..self.at].iter().collect();
            let quoted = written.contains(['\'', '"', '\\']);
            // A delimiter is not expanded.
            let delimiter = match (quoted, word.text()) {
                (true, Some(text)) => text,
                (true, None) => {
                    self.mark_unclear("the delimiter of a here-document");
                    written.replace(['\'', '"', '\\'], "")
                }
                (false, _) => written,
            };
            if delimiter.is_empty() {
                self.mark_unclear("a here-document without a delimiter");
            }
            let number = self.found.documents.len();
            self.found.documents.push(String::new());
            self.pending.push((delimiter, quoted, strips, number));
            simple.here.push(HereText::Document(number));
            return;
        }
        let is_input = self.peek() == Some('<');
        self.at += 1;
        let duplicates = self.peek() == Some('&');
        if matches!(self.peek(), Some('&' | '>' | '|')) {
            self.at += 1;
        }
        self.skip_blanks();
        if matches!(self.peek(), None | Some('\n' | ';' | '|' | '&')) {
            self.mark_unclear("a redirection without a target");
            return;
        }
        let before = self.at;
        let word = self.word();
        if self.at == before {
            self.mark_unclear("a redirection without a target");
            return;
        }
        let is_descriptor = |text: String| {
            let digits = text.trim_end_matches('-');
            digits.chars().all(|sign| sign.is_ascii_digit())
        };
        if duplicates && word.unquoted().is_some_and(is_descriptor) {
            return;
        }
        if is_input {
            simple.here.extend(Some(HereText::Word(Word::any())));
        }
        match word.braces() {
            Some(words) => simple.redirects.extend(words),
            None => simple.redirects.push(Word::any()),
        }
    }

    /// Reads the bodies of pending here-documents, which begin at the current position.
    fn read_here_documents(&mut self) {
        for (delimiter, quoted, strips, number) in std::mem::take(&mut self.pending) {
            let mut body = String::new();
            let mut is_closed = false;
            while self.at < self.signs.len() {
                let end = self.signs[self.at..].iter().position(|sign| *sign == '\n');
                let end = end.map_or(self.signs.len(), |end| self.at + end);
                let line: String = self.signs[self.at..end].iter().collect();
                self.at = (end + 1).min(self.signs.len());
                let line = if strips {
                    line.trim_start_matches('\t')
                } else {
                    &line
                };
                if line == delimiter {
                    is_closed = true;
                    break;
                }
                body.push_str(line);
                body.push('\n');
                if end == self.signs.len() {
                    break;
                }
            }
            if !is_closed {
                // Shells differ in where it ends.
                self.mark_unclear("a here-document is not closed");
            }
            if !quoted {
                self.substitutions(&body);
            }
            if let Some(document) = self.found.documents.get_mut(number) {
                *document = body;
            }
        }
    }

    /// Parses the command substitutions in a text.
    fn substitutions(&mut self, text: &str) {
        let mut inner = Self {
            signs: text.chars().collect(),
            at: 0,
            depth: self.depth + 1,
            outermost: self.depth + 1,
            pending: Vec::new(),
            found: ParsedLine::default(),
        };
        if inner.depth > MAX_DEPTH {
            self.mark_unclear("it is nested too deeply");
            return;
        }
        let mut atoms = Vec::new();
        while let Some(sign) = inner.peek() {
            match sign {
                '\\' => inner.at = (inner.at + 2).min(inner.signs.len()),
                '$' => inner.dollar(&mut atoms, true),
                '`' => inner.backticks(&mut atoms),
                _ => inner.at += 1,
            }
        }
        self.merge(inner.found);
    }

    fn merge(&mut self, inner: ParsedLine) {
        let ParsedLine {
            commands,
            variables,
            documents,
            unclear,
            has_syntax: _,
        } = inner;
        self.found.has_syntax = true;
        let offset = self.found.documents.len();
        self.found.documents.extend(documents);
        self.found
            .commands
            .extend(commands.into_iter().map(|mut simple| {
                for here in &mut simple.here {
                    if let HereText::Document(number) = here {
                        *number += offset;
                    }
                }
                simple
            }));
        self.found.variables.extend(variables);
        for why in unclear {
            self.mark_unclear(&why);
        }
    }

    /// Parses a word, up to white space or an operator.
    fn word(&mut self) -> Word {
        let mut atoms = Vec::new();
        let mut has_quotes = false;
        // The start of a part with an unknown meaning.
        let mut unknown_from = None;
        while let Some(sign) = self.peek() {
            match sign {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | ')' => break,
                '<' | '>' if self.peek_at(1) == Some('(') => {
                    self.found.has_syntax = true;
                    self.at += 2;
                    self.list(Some(')'));
                    atoms.push(Atom::Any);
                }
                '<' | '>' => break,
                '(' => {
                    // `@(…)`, `!(…)`: extended patterns of bash.
                    let is_pattern = |atom: &Atom| {
                        matches!(atom, Atom::One | Atom::Star) || is_unquoted(atom, "@+!")
                    };
                    if !atoms.last().is_some_and(is_pattern) {
                        break;
                    }
                    self.mark_unclear("an extended pattern");
                    self.at += 1;
                    self.list(Some(')'));
                    atoms.push(Atom::Any);
                }
                '\\' => {
                    self.at += 1;
                    match self.peek() {
                        Some('\n') => self.at += 1,
                        Some(sign) => {
                            self.push(&mut atoms, quoted(sign));
                        }
                        None => atoms.push(unquoted('\\')),
                    }
                }
                '\'' => {
                    has_quotes = true;
                    self.single_quotes(&mut atoms);
                }
                '"' => {
                    has_quotes = true;
                    self.double_quotes(&mut atoms);
                }
                '$' => self.dollar(&mut atoms, false),
                '`' => self.backticks(&mut atoms),
                '*' => self.push(&mut atoms, Atom::Star),
                '?' => self.push(&mut atoms, Atom::One),
                '[' => {
                    if !self.bracket(&mut atoms) {
                        unknown_from.get_or_insert(atoms.len());
                        self.at += 1;
                    }
                }
                '{' => self.push(&mut atoms, Atom::Open),
                ',' => self.push(&mut atoms, Atom::Comma),
                '}' => self.push(&mut atoms, Atom::Close),
                '~' if is_home(&atoms) => {
                    self.at += 1;
                    let before = self.at;
                    while self.peek().is_some_and(|sign| {
                        sign.is_alphanumeric() || matches!(sign, '_' | '-' | '+')
                    }) {
                        self.at += 1;
                    }
                    atoms.push(match self.at == before {
                        true => Atom::Variable {
                            name: "HOME".to_owned(),
                            quoted: true,
                        },
                        false => Atom::Any,
                    });
                }
                sign => self.push(&mut atoms, unquoted(sign)),
            }
        }
        if let Some(start) = unknown_from {
            atoms.truncate(start);
            atoms.push(Atom::Any);
        }
        // Empty quotes leave no atom, but a word that contains them is not a reserved word.
        let is_letter =
            |atom: &Atom| matches!(atom, Atom::Char { sign, .. } if sign.is_alphabetic());
        if has_quotes
            && atoms.iter().all(is_letter)
            && let Some(Atom::Char { quoted, .. }) = atoms.first_mut()
        {
            *quoted = true;
        }
        // An empty quoted text is a word, too.
        Word(atoms)
    }

    fn push(&mut self, atoms: &mut Vec<Atom>, atom: Atom) {
        atoms.push(atom);
        self.at += 1;
    }

    /// Parses `[…]`, if it is closed in this word. Returns false and consumes nothing if its end is
    /// ambiguous: it contains quotes or a character class.
    fn bracket(&mut self, atoms: &mut Vec<Atom>) -> bool {
        let mut ahead = 1;
        if matches!(self.peek_at(ahead), Some('!' | '^')) {
            ahead += 1;
        }
        if self.peek_at(ahead) == Some(']') {
            ahead += 1;
        }
        loop {
            match self.peek_at(ahead) {
                Some(_) if ahead > 256 => return false,
                Some(']') => {
                    self.at += ahead + 1;
                    atoms.push(Atom::One);
                    return true;
                }
                None | Some(' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')') => break,
                Some('\'' | '"' | '$' | '`' | '\\') => return false,
                Some('[') if matches!(self.peek_at(ahead + 1), Some(':' | '.' | '=')) => {
                    return false;
                }
                Some(_) => ahead += 1,
            }
        }
        self.push(atoms, unquoted('['));
        true
    }

    fn single_quotes(&mut self, atoms: &mut Vec<Atom>) {
        self.at += 1;
        while let Some(sign) = self.peek_until('\'', "a quote is not closed") {
            self.push(atoms, quoted(sign));
        }
    }

    fn double_quotes(&mut self, atoms: &mut Vec<Atom>) {
        self.at += 1;
        while let Some(sign) = self.peek_until('"', "a quote is not closed") {
            match sign {
                '\\' => {
                    self.at += 1;
                    match self.peek() {
                        Some('\n') => self.at += 1,
                        Some(sign @ ('$' | '`' | '"' | '\\')) => {
                            self.push(atoms, quoted(sign));
                        }
                        _ => atoms.push(quoted('\\')),
                    }
                }
                '$' => self.dollar(atoms, true),
                '`' => self.backticks(atoms),
                sign => self.push(atoms, quoted(sign)),
            }
        }
    }

    /// Parses `$…`; `quoted` within double quotes.
    fn dollar(&mut self, atoms: &mut Vec<Atom>, quoted: bool) {
        self.at += 1;
        match self.peek() {
            Some('(') => {
                self.found.has_syntax = true;
                if self.peek_at(1) == Some('(') {
                    let before = self.at;
                    self.at += 2;
                    if self.arithmetic() {
                        atoms.push(Atom::Any);
                        return;
                    }
                    self.at = before;
                }
                self.at += 1;
                self.list(Some(')'));
                atoms.push(Atom::Any);
            }
            Some('{') => {
                self.found.has_syntax = true;
                self.parameter(atoms, quoted);
            }
            Some('[') => {
                self.mark_unclear("an arithmetic expression in brackets");
                atoms.push(Atom::Any);
                self.at += 1;
            }
            Some('\'') if !quoted => self.ansi_quotes(atoms),
            Some('"') if !quoted => self.double_quotes(atoms),
            Some(sign) if sign.is_ascii_alphabetic() || sign == '_' => {
                self.found.has_syntax = true;
                let name = self.name();
                atoms.push(Atom::Variable { name, quoted });
            }
            Some(sign) if sign.is_ascii_digit() || "@*#?-$!".contains(sign) => {
                self.found.has_syntax = true;
                self.push(atoms, Atom::Any);
            }
            _ => atoms.push(self::quoted('$')),
        }
    }

    /// Parses the name of a variable.
    fn name(&mut self) -> String {
        let rest = self.signs[self.at..].iter().copied();
        let name: String = rest
            .take_while(|sign| sign.is_ascii_alphanumeric() || *sign == '_')
            .collect();
        self.at += name.len();
        name
    }

    /// Parses `${…}`: a variable, or an expansion of one.
    fn parameter(&mut self, atoms: &mut Vec<Atom>, quoted: bool) {
        self.at += 1;
        let start = self.at;
        let name = self.name();
        if self.peek() == Some('}')
            && !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
        {
            self.at += 1;
            atoms.push(Atom::Variable { name, quoted });
            return;
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.mark_unclear("it is nested too deeply");
            self.at = self.signs.len();
        }
        atoms.push(Atom::Any);
        let mut ignored = Vec::new();
        while let Some(sign) = self.peek_until('}', "a brace is not closed") {
            match sign {
                '\\' => self.at = (self.at + 2).min(self.signs.len()),
                '\'' if !quoted => self.single_quotes(&mut ignored),
                '"' => self.double_quotes(&mut ignored),
                '$' => self.dollar(&mut ignored, quoted),
                '`' => self.backticks(&mut ignored),
                // The value is expanded as a prompt, which may run commands.
                '@' if self.at > start && self.signs[self.at - 1] != '[' => {
                    self.mark_unclear("an expansion of a variable's value");
                    self.at += 1;
                }
                _ => self.at += 1,
            }
        }
        // `${X:=value}` sets the variable.
        self.found.variables.push((name, Word::any()));
        self.depth -= 1;
    }

    /// Parses `$'…'` of bash.
    fn ansi_quotes(&mut self, atoms: &mut Vec<Atom>) {
        self.at += 1;
        while let Some(sign) = self.peek_until('\'', "a quote is not closed") {
            self.at += 1;
            let sign = match sign {
                '\\' => self.ansi_escape(),
                sign => Some(sign),
            };
            atoms.push(sign.map_or(Atom::Any, quoted));
        }
    }

    /// Parses the character after a backslash in `$'…'`; `None` if it is unknown.
    fn ansi_escape(&mut self) -> Option<char> {
        let sign = self.peek()?;
        self.at += 1;
        let mut number = |radix: u32, most: usize, first: u32| {
            let mut value = first;
            let mut count = 0;
            while count < most {
                let Some(digit) = self.peek().and_then(|sign| sign.to_digit(radix)) else {
                    break;
                };
                value = value.saturating_mul(radix).saturating_add(digit);
                self.at += 1;
                count += 1;
            }
            // Bytes above ASCII are parts of a character.
            char::from_u32(value).filter(|sign| *sign != '\0')
        };
        match sign {
            'n' => Some('\n'),
            't' => Some('\t'),
            'r' => Some('\r'),
            'a' => Some('\u{7}'),
            'b' => Some('\u{8}'),
            'e' | 'E' => Some('\u{1b}'),
            'f' => Some('\u{c}'),
            'v' => Some('\u{b}'),
            '\\' | '\'' | '"' | '?' => Some(sign),
            'x' => number(16, 2, 0).filter(char::is_ascii),
            'u' => number(16, 4, 0),
            'U' => number(16, 8, 0),
            '0'..='7' => number(8, 2, sign.to_digit(8)?).filter(char::is_ascii),
            _ => None,
        }
    }

    fn backticks(&mut self, atoms: &mut Vec<Atom>) {
        self.found.has_syntax = true;
        self.at += 1;
        let mut inner = String::new();
        while let Some(sign) = self.peek_until('`', "a backtick is not closed") {
            match sign {
                '\\' if matches!(self.peek_at(1), Some('`' | '\\' | '$')) => {
                    inner.extend(self.peek_at(1));
                    self.at += 2;
                }
                sign => {
                    inner.push(sign);
                    self.at += 1;
                }
            }
        }
        atoms.push(Atom::Any);
        if self.depth >= MAX_DEPTH {
            self.mark_unclear("it is nested too deeply");
            return;
        }
        let parsed = parse(&inner, self.depth + 1);
        self.merge(parsed);
    }
}

/// True if `~` after these atoms is a home directory: at the start of a word or of a value.
fn is_home(before: &[Atom]) -> bool {
    let last = before.last();
    last.is_none_or(|atom| is_unquoted(atom, "=:"))
}

/// The continuation of a command after its first word.
enum CommandStart {
    /// A reserved word: a command may follow.
    Skip,
    /// A reserved word with its operands, which were consumed.
    End,
    /// An ordinary word.
    Plain,
}
