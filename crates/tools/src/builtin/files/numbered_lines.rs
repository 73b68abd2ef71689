//! Numbered lines of a text of any length.

use std::borrow::Cow;
use std::io::{self, BufRead};

use cachalot_core::text::truncate;
use memchr::memchr;

use super::{MAX_RESULT_BYTES, format_count, grouped};

/// Maximum number of characters of a line that are shown.
const MAX_LINE_CHARS: usize = 2_000;

/// The requested lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineRange {
    /// The first line, from 1.
    pub(super) offset: usize,
    /// Maximum number of lines.
    pub(super) limit: usize,
}

/// Numbered lines.
#[derive(Debug)]
pub(super) struct NumberedLines {
    /// Number, tab, line and newline of each line.
    pub(super) text: String,
    range: LineRange,
    /// Number of lines shown.
    shown: usize,
    /// Number of lines in the text.
    total: usize,
    /// Number of lines that end with a carriage return.
    returns: usize,
    /// Set if the shown lines contain bytes that are not UTF-8.
    invalid: bool,
}

/// Formats line `number`.
pub(super) fn line(number: usize, text: &str) -> String {
    format!("{number:>6}\t{text}\n")
}

impl NumberedLines {
    /// Numbers the lines of `range`, as many as fit, and counts all lines.
    pub(super) fn read(reader: &mut impl BufRead, range: LineRange) -> io::Result<Self> {
        let mut numbered_lines = Self {
            text: String::new(),
            range,
            shown: 0,
            total: 0,
            returns: 0,
            invalid: false,
        };
        let mut full = false;
        let mut bytes = Vec::new();
        loop {
            let number = numbered_lines.total + 1;
            let wanted = !full && number >= range.offset && number - range.offset < range.limit;
            // Longer than any line that is shown, in UTF-8's longest encoding.
            let maximum = if wanted { MAX_LINE_CHARS * 4 + 4 } else { 0 };
            let Some(length) = read_line(reader, &mut bytes, maximum)? else {
                return Ok(numbered_lines);
            };
            numbered_lines.total = number;
            numbered_lines.returns += usize::from(length.has_return);
            if wanted {
                let shown = line(number, &numbered_lines.shown_line(&bytes, &length));
                full = numbered_lines.shown > 0
                    && numbered_lines.text.len() + shown.len() > MAX_RESULT_BYTES;
                if !full {
                    numbered_lines.text.push_str(&shown);
                    numbered_lines.shown += 1;
                }
            }
        }
    }

    fn shown_line(&mut self, bytes: &[u8], length: &LineLength) -> String {
        let whole = bytes.len() == length.bytes;
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            // The cut is within a character.
            Err(error) if !whole && error.error_len().is_none() => {
                String::from_utf8_lossy(&bytes[..error.valid_up_to()])
            }
            Err(_) => {
                self.invalid = true;
                String::from_utf8_lossy(bytes)
            }
        };
        match truncate(&text, MAX_LINE_CHARS) {
            Cow::Owned(cut) => format!(
                "{cut} [cut: the line has {} bytes]",
                grouped(length.bytes as u64)
            ),
            Cow::Borrowed(_) => text.into_owned(),
        }
    }

    /// The total number of lines.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Returns notices about special or omitted lines; empty if there is nothing to report.
    pub(super) fn notices(&self) -> String {
        let mut notices = Vec::new();
        let first = self.range.offset;
        let last = first + self.shown.saturating_sub(1);
        if last < self.total {
            notices.push(format!(
                "lines {first}-{last} of {}; continue with offset {}",
                self.total,
                last + 1
            ));
        } else if first > 1 {
            notices.push(format!("lines {first}-{last} of {}", self.total));
        }
        if self.returns > 0 && self.returns == self.total {
            notices.push("all lines end with CRLF; edits keep that".to_owned());
        } else if self.returns > 0 {
            notices.push(format!("{} with CRLF", counted_ends(self.returns)));
        }
        if self.invalid {
            notices.push("some bytes are not UTF-8 and are shown as \u{fffd}".to_owned());
        }
        notices
            .iter()
            .map(|notice| format!("[{notice}]\n"))
            .collect()
    }
}

fn counted_ends(count: usize) -> String {
    let verb = if count == 1 { "ends" } else { "end" };
    format!("{} {verb}", format_count(count, "line"))
}

struct LineLength {
    /// Length in bytes, without the line ending.
    bytes: usize,
    has_return: bool,
}

/// Reads a line into `bytes`, up to `most` bytes, and skips the rest; `None` at the end.
fn read_line(
    reader: &mut impl BufRead,
    bytes: &mut Vec<u8>,
    maximum: usize,
) -> io::Result<Option<LineLength>> {
    bytes.clear();
    let mut length = 0;
    let mut last = None;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() && length == 0 {
            return Ok(None);
        }
        let end = memchr(b'\n', buffer);
        let part = &buffer[..end.unwrap_or(buffer.len())];
        bytes.extend_from_slice(&part[..part.len().min(maximum.saturating_sub(bytes.len()))]);
        length += part.len();
        last = part.last().copied().or(last);
        let ended = end.is_some() || buffer.is_empty();
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
        if ended {
            let has_return = end.is_some() && last == Some(b'\r');
            if has_return && bytes.len() == length {
                bytes.pop();
            }
            let bytes = length - usize::from(has_return);
            return Ok(Some(LineLength { bytes, has_return }));
        }
    }
}
