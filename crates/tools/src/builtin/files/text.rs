//! Lines of texts as bytes.

use memchr::{memchr, memchr_iter};

/// A line, and its ending: `\n`, `\r\n`, or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) body: &'a [u8],
    pub(super) ending: &'a [u8],
}

/// Returns the lines of a text. The text after the last newline is a line unless it is empty.
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

/// Returns the number of lines.
pub(super) fn count_lines(bytes: &[u8]) -> usize {
    let ended = memchr_iter(b'\n', bytes).count();
    ended + usize::from(bytes.last().is_some_and(|last| *last != b'\n'))
}

/// Returns the number, from 1, of the line that contains the byte at `offset`.
pub(super) fn line_at(bytes: &[u8], offset: usize) -> usize {
    memchr_iter(b'\n', &bytes[..offset.min(bytes.len())]).count() + 1
}

/// Numbers of line endings by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineEndings {
    /// Carriage return and newline.
    pub(super) crlf: usize,
    /// Newline alone.
    pub(super) lf: usize,
}

impl LineEndings {
    pub(super) fn detect(bytes: &[u8]) -> Self {
        let (mut crlf, mut lf) = (0, 0);
        for at in memchr_iter(b'\n', bytes) {
            if at > 0 && bytes[at - 1] == b'\r' {
                crlf += 1;
            } else {
                lf += 1;
            }
        }
        Self { crlf, lf }
    }

    /// True if all lines end with carriage return and newline.
    pub(super) fn are_all_crlf(self) -> bool {
        self.crlf > 0 && self.lf == 0
    }

    /// The most frequent line ending.
    pub(super) fn most_common(self) -> &'static [u8] {
        if self.crlf > self.lf { b"\r\n" } else { b"\n" }
    }
}

/// Converts all line endings to `\r\n`.
pub(super) fn to_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// Converts all line endings to `\n`.
pub(super) fn to_lf(text: &str) -> String {
    text.replace("\r\n", "\n")
}
