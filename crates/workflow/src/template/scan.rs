//! A scan of template source for facts that the engine does not report: the filters and tests that it
//! names, its use of secrets, and the ranges that are literal text.

use std::ops::Range;

/// The result of a scan.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    /// The ranges of filter names.
    pub(super) filters: Vec<Range<usize>>,
    /// The ranges of test names (`is …`).
    pub(super) tests: Vec<Range<usize>>,
    /// Set when the source has at least one expression, statement or comment.
    pub(super) has_code: bool,
    /// Set when the source derives a value from a secret instead of only inserting it unchanged.
    pub(super) derives_from_secrets: bool,
    /// The ranges of literal text.
    pub(super) literals: Vec<Range<usize>>,
}

/// A token between delimiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Name,
    Symbol(u8),
    /// A string or a number.
    Constant,
}

type Tokens = Vec<(Token, Range<usize>)>;

/// Scans the source of a text with templates.
pub(super) fn template(source: &str) -> Scan {
    let mut scan = Scan::default();
    let mut at = 0;
    while let Some(opening) = next_opening(source, at) {
        if opening > at {
            scan.literals.push(at..opening);
        }
        let kind = source.as_bytes()[opening + 1];
        if kind == b'#' {
            at = end_of_comment(source, opening);
            scan.has_code = true;
            continue;
        }
        scan.has_code = true;
        let (tokens, end) = tokens(
            source,
            opening + 2,
            (kind == b'{').then_some(b'}').or(Some(b'%')),
        );
        let is_raw = kind == b'%' && names(source, &tokens).next() == Some("raw");
        at = if is_raw { end_of_raw(source, end) } else { end };
        scan.record(source, &tokens, kind == b'%', kind == b'{');
    }
    if at < source.len() {
        scan.literals.push(at..source.len());
    }
    scan
}

/// Returns the offsets at which the host of a URL may end: one per range of literal text, after its first
/// `/`, `?` or `#` that is not part of `://`.
pub(super) fn host_boundaries(source: &str) -> Vec<usize> {
    let ends = |literal: Range<usize>| {
        let mut from = literal.start;
        if let Some(at) = source[literal.clone()].find("://") {
            from = literal.start + at + 3;
        }
        let at = source[from..literal.end].find(['/', '?', '#'])?;
        Some(from + at + 1)
    };
    template(source)
        .literals
        .into_iter()
        .filter_map(ends)
        .collect()
}

/// Scans the source of a single expression.
pub(super) fn expression(source: &str) -> Scan {
    let mut scan = Scan {
        has_code: true,
        ..Scan::default()
    };
    let (tokens, _) = tokens(source, 0, None);
    scan.record(source, &tokens, false, true);
    scan
}

impl Scan {
    fn record(&mut self, source: &str, tokens: &Tokens, is_statement: bool, inserts: bool) {
        for (index, (token, place)) in tokens.iter().enumerate() {
            let before = index.checked_sub(1).map(|before| tokens[before].0);
            let is_attribute = before == Some(Token::Symbol(b'.'));
            let name = if *token == Token::Name {
                &source[place.clone()]
            } else {
                ""
            };
            let names_a_filter = before == Some(Token::Symbol(b'|'))
                || (is_statement && index == 1 && &source[tokens[0].1.clone()] == "filter");
            if names_a_filter && *token == Token::Name {
                self.filters.push(dotted(tokens, index));
            }
            if name == "is" && !is_attribute && before.is_some() {
                let negated = word(source, tokens, index + 1) == Some("not");
                let tested = index + 1 + usize::from(negated);
                if tokens
                    .get(tested)
                    .is_some_and(|(token, _)| *token == Token::Name)
                {
                    self.tests.push(tokens[tested].1.clone());
                }
            }
            if name == "secrets" && !is_attribute {
                let is_plain = inserts && index == 0 && is_one_attribute(tokens);
                self.derives_from_secrets |= !is_plain;
            }
        }
    }
}

/// True if the tokens are exactly `name.name`.
fn is_one_attribute(tokens: &Tokens) -> bool {
    matches!(
        tokens.as_slice(),
        [(Token::Name, _), (Token::Symbol(b'.'), _), (Token::Name, _)]
    )
}

/// Returns the range of the name at `index` with the dotted names that follow it.
fn dotted(tokens: &Tokens, index: usize) -> Range<usize> {
    let mut place = tokens[index].1.clone();
    let mut rest = tokens[index + 1..].iter();
    while let (Some((Token::Symbol(b'.'), _)), Some((Token::Name, next))) =
        (rest.next(), rest.next())
    {
        place.end = next.end;
    }
    place
}

fn word<'a>(source: &'a str, tokens: &Tokens, index: usize) -> Option<&'a str> {
    tokens
        .get(index)
        .filter(|(token, _)| *token == Token::Name)
        .map(|(_, place)| &source[place.clone()])
}

fn names<'a>(source: &'a str, tokens: &'a Tokens) -> impl Iterator<Item = &'a str> {
    tokens
        .iter()
        .filter(|(token, _)| *token == Token::Name)
        .map(|(_, place)| &source[place.clone()])
}

/// Returns the offset of the next `{{`, `{%` or `{#`.
fn next_opening(source: &str, from: usize) -> Option<usize> {
    let bytes = source.as_bytes();
    (from..bytes.len().saturating_sub(1))
        .find(|&at| bytes[at] == b'{' && matches!(bytes[at + 1], b'{' | b'%' | b'#'))
}

fn end_of_comment(source: &str, from: usize) -> usize {
    source[from..]
        .find("#}")
        .map_or(source.len(), |end| from + end + 2)
}

/// Returns the end of the statement that closes a raw block.
fn end_of_raw(source: &str, from: usize) -> usize {
    let Some(at) = source[from..].find("endraw") else {
        return source.len();
    };
    let at = from + at;
    source[at..]
        .find("%}")
        .map_or(source.len(), |end| at + end + 2)
}

/// Returns the tokens from `at` up to the closing delimiter (`closing` and a brace) or the end of the
/// source, and the offset after it.
fn tokens(source: &str, mut at: usize, closing: Option<u8>) -> (Tokens, usize) {
    let bytes = source.as_bytes();
    let mut found = Tokens::new();
    let mut open_braces = 0_usize;
    while let Some(&byte) = bytes.get(at) {
        let closes = closing == Some(byte) && bytes.get(at + 1) == Some(&b'}');
        // In `{{ {'a': {}} }}` the first two closing braces end mappings, not the expression.
        if closes && (byte == b'%' || open_braces == 0) {
            return (found, at + 2);
        }
        let start = at;
        let token = match byte {
            b'"' | b'\'' => {
                at = end_of_string(bytes, at);
                Token::Constant
            }
            b'0'..=b'9' => {
                at = end_of_word(bytes, at);
                Token::Constant
            }
            b'_' | b'a'..=b'z' | b'A'..=b'Z' | 0x80.. => {
                at = end_of_word(bytes, at);
                Token::Name
            }
            _ => {
                at += 1;
                open_braces = match byte {
                    b'{' => open_braces + 1,
                    b'}' => open_braces.saturating_sub(1),
                    _ => open_braces,
                };
                if byte.is_ascii_whitespace() || (found.is_empty() && matches!(byte, b'-' | b'+')) {
                    continue;
                }
                Token::Symbol(byte)
            }
        };
        found.push((token, start..at));
    }
    (found, source.len())
}

fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            _ if byte == bytes[start] => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn end_of_word(bytes: &[u8], start: usize) -> usize {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
    bytes[start..]
        .iter()
        .position(|byte| !is_part(byte))
        .map_or(bytes.len(), |end| start + end)
}

#[cfg(test)]
#[path = "../../tests/unit/template/scan.rs"]
mod tests;
