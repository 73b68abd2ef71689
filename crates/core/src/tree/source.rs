//! Positions in the text: the parser counts characters, places count bytes.

use std::sync::Arc;

use saphyr_parser::Marker;

use crate::SourceSpan;

/// Number of characters between two known byte offsets.
const STRIDE: usize = 64;

/// A position in the text without its byte order mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) byte: usize,
    /// Number of characters before it.
    index: usize,
}

/// The text that is being parsed.
pub(super) struct Source<'t> {
    file: Arc<str>,
    /// The text without its byte order mark.
    pub(super) text: &'t str,
    /// Length of the byte order mark in bytes.
    skipped: usize,
    /// The byte offset of every [`STRIDE`]th character.
    offsets: Vec<usize>,
    /// The beginning of each line.
    lines: Vec<Position>,
}

impl<'t> Source<'t> {
    pub(super) fn new(file: &str, whole: &'t str) -> Self {
        let text = whole.strip_prefix('\u{feff}').unwrap_or(whole);
        let mut offsets = Vec::new();
        let mut lines = vec![Position { byte: 0, index: 0 }];
        for (index, (byte, character)) in text.char_indices().enumerate() {
            if index % STRIDE == 0 {
                offsets.push(byte);
            }
            if character == '\n' {
                lines.push(Position {
                    byte: byte + 1,
                    index: index + 1,
                });
            }
        }
        Self {
            file: Arc::from(file),
            text,
            skipped: whole.len() - text.len(),
            offsets,
            lines,
        }
    }

    /// The beginning of the text.
    pub(super) fn start(&self) -> Position {
        Position { byte: 0, index: 0 }
    }

    /// Converts the parser's marker.
    pub(super) fn position(&self, marker: Marker) -> Position {
        let index = marker.index();
        let from = self
            .offsets
            .get(index / STRIDE)
            .copied()
            .unwrap_or(self.text.len());
        let within = self.text[from..].char_indices().nth(index % STRIDE);
        let byte = within.map_or(self.text.len(), |(within, _)| from + within);
        Position { byte, index }
    }

    /// The position `bytes` after `from`.
    pub(super) fn after(&self, from: Position, bytes: usize) -> Position {
        let byte = (from.byte + bytes).min(self.text.len());
        Position {
            byte,
            index: from.index + self.text[from.byte..byte].chars().count(),
        }
    }

    /// The text from a position to the end.
    pub(super) fn rest(&self, from: Position) -> &'t str {
        &self.text[from.byte..]
    }

    /// The text between a position and a byte offset.
    pub(super) fn between(&self, from: Position, end: usize) -> &'t str {
        &self.text[from.byte..end.max(from.byte)]
    }

    /// The place from a position up to a byte offset.
    pub(super) fn place(&self, from: Position, end: usize) -> SourceSpan {
        let line = self.lines.partition_point(|line| line.byte <= from.byte) - 1;
        SourceSpan {
            file: Arc::clone(&self.file),
            line: u32::try_from(line + 1).unwrap_or(u32::MAX),
            column: u32::try_from(from.index - self.lines[line].index + 1).unwrap_or(u32::MAX),
            start: from.byte + self.skipped,
            len: end.saturating_sub(from.byte),
        }
    }

    /// The byte offset of the end of a place, in the text without its byte order mark.
    pub(super) fn end_of(&self, place: &SourceSpan) -> usize {
        place.start - self.skipped + place.len
    }

    /// The lines from the line of `position` on: the beginning of each, and its text.
    pub(super) fn lines_from(
        &self,
        position: Position,
    ) -> impl Iterator<Item = (Position, &'t str)> + '_ {
        let first = self
            .lines
            .partition_point(|line| line.byte <= position.byte)
            - 1;
        self.lines[first..].iter().map(|line| {
            let rest = self.rest(*line);
            (*line, rest.split('\n').next().unwrap_or(rest))
        })
    }
}

/// Number of bytes at the beginning of `text` that are white space, comments, tags, anchors, and
/// `indicators`.
pub(super) fn length_before_node(text: &str, indicators: &[u8]) -> usize {
    let mut rest = text;
    loop {
        let skipped = match rest.bytes().next() {
            Some(b' ' | b'\t' | b'\r' | b'\n') => 1,
            Some(b'#') => rest.find('\n').unwrap_or(rest.len()),
            Some(b'!') => rest.find(char::is_whitespace).unwrap_or(rest.len()),
            Some(b'&') => rest.find(ends_an_anchor).unwrap_or(rest.len()),
            Some(byte) if indicators.contains(&byte) => 1,
            _ => return text.len() - rest.len(),
        };
        rest = &rest[skipped..];
    }
}

fn ends_an_anchor(character: char) -> bool {
    character.is_whitespace() || "[]{},".contains(character)
}

/// Length in bytes of the quoted text at the beginning of `text`, with its quotes.
pub(super) fn quoted_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let quote = bytes.first().copied();
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        if byte == b'\\' && quote == Some(b'"') {
            at += 2;
        } else if Some(byte) == quote {
            if byte == b'\'' && bytes.get(at + 1) == Some(&b'\'') {
                at += 2;
            } else {
                return at + 1;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}
