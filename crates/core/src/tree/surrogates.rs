//! Characters that are written as two escapes (`\ud83d\ude00`), which is how JSON writes those above U+FFFF.
//!
//! The YAML parser refuses such escapes. It gets a text in which each half is replaced by the escape of a
//! placeholder, a character that the text does not use: every offset stays the same. The parsed scalars are
//! restored by their positions.

use std::borrow::Cow;

use crate::json::four_hex_digits;

/// The length of an escape, in bytes.
const ESCAPE: usize = 6;

/// Maximum number of characters that are tried as the placeholder.
const MAX_CANDIDATES: usize = 64;

/// The surrogate pairs of a text.
pub(super) struct SurrogatePairs {
    /// The start of each pair, and its character.
    found: Vec<(usize, char)>,
    /// The placeholder.
    stand_in: char,
}

impl SurrogatePairs {
    /// Finds the pairs of `text`; returns them with the text for the parser.
    pub(super) fn extract(text: &str) -> (Self, Cow<'_, str>) {
        let found: Vec<_> = escapes(text)
            .filter_map(|escape| match escape {
                Escape::Pair { at, character } => Some((at, character)),
                Escape::Half { .. } => None,
            })
            .collect();
        let stand_in = if found.is_empty() { None } else { unused(text) };
        let Some(stand_in) = stand_in else {
            let none = Self {
                found: Vec::new(),
                stand_in: '\0',
            };
            return (none, Cow::Borrowed(text));
        };
        let pairs = Self { found, stand_in };
        let mut out = String::with_capacity(text.len());
        let mut copied = 0;
        for (at, _) in &pairs.found {
            out.push_str(&text[copied..*at]);
            out.push_str(&pairs.escaped());
            copied = at + 2 * ESCAPE;
        }
        out.push_str(&text[copied..]);
        (pairs, Cow::Owned(out))
    }

    /// The escapes that replace a pair.
    fn escaped(&self) -> String {
        let half = u32::from(self.stand_in);
        format!("\\u{half:04x}\\u{half:04x}")
    }

    /// Restores the text of a scalar at `start..end` of `source`. `is_read` is true if the parser has decoded
    /// its escapes.
    pub(super) fn restore<'t>(
        &self,
        read: Cow<'t, str>,
        source: &str,
        (start, end): (usize, usize),
        is_read: bool,
    ) -> Cow<'t, str> {
        let first = self.found.partition_point(|(at, _)| *at < start);
        let within = &self.found[first..];
        let within = &within[..within.partition_point(|(at, _)| *at < end)];
        if within.is_empty() {
            return read;
        }
        let sign = if is_read {
            [self.stand_in; 2].iter().collect()
        } else {
            self.escaped()
        };
        let mut out = String::with_capacity(read.len());
        let mut pieces = read.split(&sign);
        out.push_str(pieces.next().unwrap_or_default());
        for (piece, (at, character)) in pieces.zip(within) {
            if is_read {
                out.push(*character)
            } else {
                out.push_str(&source[*at..at + 2 * ESCAPE])
            }
            out.push_str(piece);
        }
        Cow::Owned(out)
    }
}

/// Returns the first escape of `text` that is a lone surrogate, with its offset.
pub(super) fn lone(text: &str) -> Option<(usize, &str)> {
    escapes(text).find_map(|escape| match escape {
        Escape::Half { at } => Some((at, text.get(at..at + ESCAPE)?)),
        Escape::Pair { .. } => None,
    })
}

enum Escape {
    Pair { at: usize, character: char },
    Half { at: usize },
}

/// Returns the surrogate escapes of `text`, with the rules of double quotes: a backslash after a backslash
/// starts none.
fn escapes(text: &str) -> impl Iterator<Item = Escape> + '_ {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            at += memchr::memchr(b'\\', bytes.get(at..)?)?;
            let escape = at;
            at += 2;
            let Some(half @ 0xd800..=0xdfff) = unit(bytes, escape) else {
                continue;
            };
            at = escape + ESCAPE;
            let pair = unit(bytes, at).map(|other| [half, other]);
            return Some(match pair.map(|pair| char::decode_utf16(pair).next()) {
                Some(Some(Ok(character))) => {
                    at += ESCAPE;
                    Escape::Pair {
                        at: escape,
                        character,
                    }
                }
                _ => Escape::Half { at: escape },
            });
        }
    })
}

/// Returns the code unit of the `\uXXXX` at `at`.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    four_hex_digits(bytes.get(at..)?.strip_prefix(b"\\u")?)
}

/// Returns a character of the private use area that `text` neither contains nor writes as an escape.
fn unused(text: &str) -> Option<char> {
    let lower = text.to_ascii_lowercase();
    ('\u{e000}'..='\u{f8ff}')
        .take(MAX_CANDIDATES)
        .find(|c| !text.contains(*c) && !lower.contains(&format!("{:04x}", u32::from(*c))))
}
