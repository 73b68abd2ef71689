//! Patterns of texts.

use regex::{Regex, RegexBuilder};

use crate::shell::UNKNOWN;

/// Characters with a syntactic meaning in a shell. In allow rules, `*` and `?` never match them:
/// otherwise `git *` would allow `git status; rm -rf .`.
pub(super) const SHELL_SYNTAX: &[char] = &[';', '&', '|', '<', '>', '$', '`', '(', ')', '\n', '\r'];

/// Maximum length of a text with unknown parts to compare; longer ones may match.
const MAX_TEXT_CHARS: usize = 8_192;

/// The result of matching a pattern against a partially unknown text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MatchResult {
    /// Does not match, for any value of the unknown parts.
    No,
    /// Depends on the unknown parts.
    Maybe,
    /// It matches.
    Yes,
}

impl From<bool> for MatchResult {
    fn from(matches: bool) -> Self {
        if matches { Self::Yes } else { Self::No }
    }
}

/// A pattern: `*` matches any text, `?` any character, `**/` any directories or none. `\` escapes `*`,
/// `?`, `\` and `:`.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    text: String,
    any: Regex,
    /// The same, but wildcards match no shell syntax.
    plain: Regex,
    /// The same, ignoring letter case.
    folded: Regex,
    tokens: Vec<Token>,
}

/// A token of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Char(char),
    One,
    Many,
    /// The next two tokens are optional.
    Skip,
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// The pattern is too long.
    pub(super) fn new(text: &str) -> Result<Self, regex::Error> {
        let tokens = tokens(text);
        let any = regex_source(&tokens, ".");
        Ok(Self {
            text: text.to_owned(),
            plain: Regex::new(&regex_source(&tokens, &non_syntax_class()))?,
            folded: RegexBuilder::new(&any).case_insensitive(true).build()?,
            any: Regex::new(&any)?,
            tokens,
        })
    }

    /// The pattern as written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// True if it matches the text.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.any.is_match(text)
    }

    /// True if it matches the text, ignoring letter case: the file system may be case-insensitive.
    pub(super) fn matches_any_case(&self, text: &str) -> bool {
        self.folded.is_match(text)
    }

    /// True if it matches the command line, and all shell syntax of the line is spelled out in the
    /// pattern.
    pub(super) fn permits_line(&self, line: &str) -> bool {
        self.plain.is_match(line)
    }

    /// True if it has no wildcards.
    pub(super) fn is_literal(&self) -> bool {
        self.tokens
            .iter()
            .all(|token| matches!(token, Token::Char(_)))
    }

    /// The prefix of the pattern before the first wildcard.
    pub(super) fn literal_start(&self) -> String {
        self.tokens
            .iter()
            .map_while(|token| match token {
                Token::Char(character) => Some(*character),
                _ => None,
            })
            .collect()
    }

    /// Matches a text; [`UNKNOWN`] in it stands for any text.
    pub(super) fn match_unknown(&self, text: &str, any_case: bool) -> MatchResult {
        let whole = if any_case { &self.folded } else { &self.any };
        if whole.is_match(text) {
            return MatchResult::Yes;
        }
        if !text.contains(UNKNOWN) {
            return MatchResult::No;
        }
        let characters: Vec<char> = if any_case {
            text.to_lowercase().chars().collect()
        } else {
            text.chars().collect()
        };
        if characters.len() <= MAX_TEXT_CHARS && !self.intersects(&characters, any_case) {
            MatchResult::No
        } else {
            MatchResult::Maybe
        }
    }

    /// True if there is a text that both the pattern and the signs match: reachability in the product of
    /// the two automata.
    fn intersects(&self, characters: &[char], any_case: bool) -> bool {
        let columns = characters.len() + 1;
        let mut seen = vec![false; (self.tokens.len() + 1) * columns];
        let mut open = vec![(0, 0)];
        let is_equal = |character: char, other: char| {
            if any_case {
                other.to_lowercase().eq([character])
            } else {
                character == other
            }
        };
        while let Some((row, column)) = open.pop() {
            // Each pair of a token and a character is visited once, which bounds the work by the product of both
            // lengths.
            if std::mem::replace(&mut seen[row * columns + column], true) {
                continue;
            }
            let (token, character) = (self.tokens.get(row), characters.get(column).copied());
            match (token, character) {
                (None, None) => return true,
                (Some(Token::Skip), _) => open.extend([(row + 1, column), (row + 3, column)]),
                (_, Some(UNKNOWN)) => {
                    open.push((row, column + 1));
                    open.extend(token.map(|_| (row + 1, column)));
                }
                (Some(Token::Many), _) => {
                    open.push((row + 1, column));
                    open.extend(character.map(|_| (row, column + 1)));
                }
                (Some(Token::Char(other)), Some(character)) if is_equal(character, *other) => {
                    open.push((row + 1, column + 1));
                }
                (Some(Token::One), Some(_)) => open.push((row + 1, column + 1)),
                _ => {}
            }
        }
        false
    }
}

fn non_syntax_class() -> String {
    let syntax: String = SHELL_SYNTAX.iter().collect();
    format!("[^{}]", regex::escape(&syntax))
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut begins_a_part = true;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("**/").filter(|_| begins_a_part) {
            tokens.extend([Token::Skip, Token::Many, Token::Char('/')]);
            rest = after;
            continue;
        }
        rest = &rest[first.len_utf8()..];
        let token = match (first, rest.chars().next()) {
            ('*', _) => Token::Many,
            ('?', _) => Token::One,
            ('\\', Some(escaped @ ('*' | '?' | '\\' | ':'))) => {
                rest = &rest[escaped.len_utf8()..];
                Token::Char(escaped)
            }
            (other, _) => Token::Char(other),
        };
        begins_a_part = token == Token::Char('/');
        tokens.push(token);
    }
    tokens
}

/// Converts a pattern to a regular expression. `character` matches any character.
fn regex_source(tokens: &[Token], character: &str) -> String {
    // The whole text has to match, line ends included: otherwise a second line could follow the permitted one.
    let mut regex_source = r"(?s)\A".to_owned();
    let mut tokens = tokens.iter();
    while let Some(token) = tokens.next() {
        match token {
            Token::Skip => {
                tokens.nth(1);
                regex_source.push_str(&format!("(?:{character}*/)?"));
            }
            Token::Many => regex_source.push_str(&format!("{character}*")),
            Token::One => regex_source.push_str(character),
            Token::Char(literal) => {
                let mut buffer = [0; 4];
                regex_source.push_str(&regex::escape(literal.encode_utf8(&mut buffer)));
            }
        }
    }
    regex_source.push_str(r"\z");
    regex_source
}

/// Escapes a text, so that the pattern matches only this text.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '*' | '?' | '\\' | ':') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../../tests/unit/permissions/pattern.rs"]
mod tests;
