//! Bytes of text, by lines.

use memchr::{memchr, memchr_iter};

/// A line, and what ends it: `\n`, `\r\n`, or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) body: &'a [u8],
    pub(super) ending: &'a [u8],
}

/// The lines of a text. What comes behind the last newline is a line unless it is empty.
pub(super) fn lines(bytes: &[u8]) -> Vec<Line<'_>> {
    let mut all = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let end = memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at(end);
        let body = match line {
            [body @ .., b'\r', b'\n'] | [body @ .., b'\n'] => body,
            body => body,
        };
        all.push(Line {
            body,
            ending: &line[body.len()..],
        });
        rest = after;
    }
    all
}

/// How many lines there are.
pub(super) fn count_lines(bytes: &[u8]) -> usize {
    let ended = memchr_iter(b'\n', bytes).count();
    ended + usize::from(bytes.last().is_some_and(|last| *last != b'\n'))
}

/// The number, from 1, of the line that the byte at `offset` is in.
pub(super) fn line_at(bytes: &[u8], offset: usize) -> usize {
    memchr_iter(b'\n', &bytes[..offset.min(bytes.len())]).count() + 1
}

/// How lines end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Endings {
    /// With a carriage return and a newline.
    pub(super) both: usize,
    /// With a newline alone.
    pub(super) newline: usize,
}

impl Endings {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let (mut both, mut newline) = (0, 0);
        for at in memchr_iter(b'\n', bytes) {
            if at > 0 && bytes[at - 1] == b'\r' {
                both += 1;
            } else {
                newline += 1;
            }
        }
        Self { both, newline }
    }

    /// Whether all lines end with carriage return and newline.
    pub(super) fn are_all_both(self) -> bool {
        self.both > 0 && self.newline == 0
    }

    /// What ends most lines.
    pub(super) fn usual(self) -> &'static [u8] {
        if self.both > self.newline {
            b"\r\n"
        } else {
            b"\n"
        }
    }
}

/// The text with every newline preceded by a carriage return.
pub(super) fn with_returns(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// The text with no newline preceded by a carriage return.
pub(super) fn without_returns(text: &str) -> String {
    text.replace("\r\n", "\n")
}
