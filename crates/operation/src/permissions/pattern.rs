//! Patterns of texts.

use regex::{Regex, RegexBuilder};

use crate::shell::{Atom, eq_ignoring_case};

/// Characters with a syntactic meaning in a shell. In allow rules, `*` and `?` never match them:
/// otherwise `git *` would allow `git status; rm -rf .`.
pub(super) const SHELL_SYNTAX: &[char] = &[';', '&', '|', '<', '>', '$', '`', '(', ')', '\n', '\r'];

/// Placeholder for unknown text. No pattern contains it.
const UNKNOWN: char = '\u{fffc}';

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
                Token::Char(sign) => Some(*sign),
                _ => None,
            })
            .collect()
    }

    /// Matches a text with unknown parts.
    pub(super) fn match_atoms(&self, atoms: &[Atom], any_case: bool) -> MatchResult {
        let mut is_known = true;
        let text: String = atoms
            .iter()
            .map(|atom| match atom {
                Atom::Char { sign, .. } => *sign,
                _ => {
                    is_known = false;
                    UNKNOWN
                }
            })
            .collect();
        let whole = if any_case { &self.folded } else { &self.any };
        if whole.is_match(&text) {
            return MatchResult::Yes;
        }
        match is_known || (atoms.len() <= MAX_TEXT_CHARS && !self.intersects(atoms, any_case)) {
            true => MatchResult::No,
            false => MatchResult::Maybe,
        }
    }

    /// True if there is a text that both the pattern and the atoms match: reachability in the product of
    /// the two automata.
    fn intersects(&self, atoms: &[Atom], any_case: bool) -> bool {
        let (rows, columns) = (self.tokens.len() + 1, atoms.len() + 1);
        // Two layers: the second one after the atom at the column has matched at least one character.
        let mut seen = vec![false; rows * columns * 2];
        let mut open = vec![(0, 0, false)];
        let equal = |a: char, b: char| {
            if any_case {
                eq_ignoring_case(a, b)
            } else {
                a == b
            }
        };
        while let Some((row, column, begun)) = open.pop() {
            let place = (row * columns + column) * 2 + usize::from(begun);
            if std::mem::replace(&mut seen[place], true) {
                continue;
            }
            let (token, atom) = (self.tokens.get(row), atoms.get(column));
            if token.is_none() && atom.is_none() {
                return true;
            }
            match token {
                Some(Token::Skip) => {
                    open.push((row + 1, column, begun));
                    open.push((row + 3, column, begun));
                    continue;
                }
                Some(Token::Many) => open.push((row + 1, column, begun)),
                _ => {}
            }
            let stays = matches!(token, Some(Token::Many));
            match atom {
                None => {}
                Some(Atom::Char { sign, .. }) => match token {
                    Some(Token::Char(other)) if equal(*sign, *other) => {
                        open.push((row + 1, column + 1, false));
                    }
                    Some(Token::One) => open.push((row + 1, column + 1, false)),
                    Some(Token::Many) => open.push((row, column + 1, false)),
                    _ => {}
                },
                Some(atom) => {
                    let of_names = matches!(atom, Atom::One | Atom::Star);
                    let starts_name = !begun
                        && (column == 0
                            || matches!(
                                atoms[column - 1],
                                Atom::Char {
                                    sign: '/' | ' ' | '=',
                                    ..
                                }
                            ));
                    let stands_for =
                        |sign: char| !of_names || (sign != '/' && !(starts_name && sign == '.'));
                    let is_one = *atom == Atom::One;
                    if !is_one {
                        open.push((row, column + 1, false));
                    }
                    let next = |row: usize| match is_one {
                        true => (row, column + 1, false),
                        false => (row, column, true),
                    };
                    match token {
                        Some(Token::Char(sign)) if stands_for(*sign) => open.push(next(row + 1)),
                        Some(Token::One) => open.push(next(row + 1)),
                        Some(Token::Many) if stays => open.push(next(row)),
                        _ => {}
                    }
                }
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

/// Converts a pattern to a regular expression. `sign` matches any character.
fn regex_source(tokens: &[Token], sign: &str) -> String {
    let mut regex_source = r"(?s)\A".to_owned();
    let mut tokens = tokens.iter();
    while let Some(token) = tokens.next() {
        match token {
            Token::Skip => {
                tokens.nth(1);
                regex_source.push_str(&format!("(?:{sign}*/)?"));
            }
            Token::Many => regex_source.push_str(&format!("{sign}*")),
            Token::One => regex_source.push_str(sign),
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
    for sign in text.chars() {
        if matches!(sign, '*' | '?' | '\\' | ':') {
            escaped.push('\\');
        }
        escaped.push(sign);
    }
    escaped
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::shell::Word;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::new(pattern).unwrap().matches(text)
    }

    #[test]
    fn star_and_question_mark_are_the_only_wildcards() {
        assert!(matches("*", "") && matches("*", "a\nb/c"));
        assert!(matches("git *", "git log") && !matches("git *", "git"));
        assert!(matches("a?c", "abc") && matches("a?c", "a/c") && !matches("a?c", "ac"));
        assert!(matches("a[b]{c}.", "a[b]{c}.") && !matches("a.c", "abc"));
        assert!(matches(r"a\*b", "a*b") && !matches(r"a\*b", "axb"));
        assert!(matches(r"C:\dir\*", r"C:\dir*") && matches(r"a\:b\\", r"a:b\"));
        assert!(matches("ä?", "äö"));
    }

    #[test]
    fn double_star_slash_matches_directories_or_nothing() {
        for path in [".env", "a/.env", "a/b/.env"] {
            assert!(matches("**/.env", path), "{path}");
        }
        assert!(!matches("**/.env", "a.env"));
        assert!(matches("src/**/x", "src/x") && matches("src/**/x", "src/a/b/x"));
        assert!(matches("src/**", "src/a/b") && !matches("src/**", "srcs/a"));
        assert!(matches("a**/b", "a/b") && !matches("a**/b", "ab"));
    }

    #[test]
    fn wildcard_does_not_match_shell_syntax() {
        let permits = |pattern: &str, line: &str| Pattern::new(pattern).unwrap().permits_line(line);
        assert!(permits("git *", "git log --oneline -- 'a b' \"c\" ~ # x"));
        for sign in SHELL_SYNTAX {
            assert!(!permits("git *", &format!("git log {sign} x")), "{sign:?}");
            assert!(!permits("git ?", &format!("git {sign}")), "{sign:?}");
        }
        assert!(permits("git log | head *", "git log | head -5"));
        assert!(!permits("git log | head *", "git log | head -5 | sh"));
    }

    #[test]
    fn escaped_text_matches_itself_only() {
        for text in ["git push", r"a*b?c\d:e", "**/x", r"\*"] {
            let pattern = Pattern::new(&escaped(text)).unwrap();
            assert!(pattern.matches(text) && pattern.is_literal(), "{text}");
        }
    }

    #[test]
    fn unknown_parts_give_a_possible_match() {
        let glob = |text: &str| {
            let atoms = text.chars().map(|sign| match sign {
                '*' => Atom::Star,
                '?' => Atom::One,
                '$' => Atom::Any,
                sign => Atom::Char {
                    sign,
                    quoted: false,
                },
            });
            Word(atoms.collect()).0
        };
        for (pattern, text, expected) in [
            ("**/.env*", ".env", MatchResult::Yes),
            ("**/.env*", ".e*", MatchResult::Maybe),
            ("**/.env*", ".???", MatchResult::Maybe),
            ("**/.env*", "$", MatchResult::Maybe),
            ("**/.env*", "a/$", MatchResult::Maybe),
            ("**/.env*", "$/.env", MatchResult::Yes),
            ("**/.env*", ".env$", MatchResult::Yes),
            // A star matches neither a leading dot nor a slash.
            ("**/.env*", "*", MatchResult::No),
            ("**/.env*", "a/*", MatchResult::No),
            ("**/.env*", "?env", MatchResult::No),
            ("**/.env*", "src/*.rs", MatchResult::No),
            ("a/b", "*", MatchResult::No),
            ("rm *", "rm $", MatchResult::Yes),
            ("rm *", "$ x", MatchResult::Maybe),
            ("rm *", "git $", MatchResult::No),
        ] {
            let found = Pattern::new(pattern)
                .unwrap()
                .match_atoms(&glob(text), false);
            assert_eq!(found, expected, "{pattern} {text}");
        }
    }
}
