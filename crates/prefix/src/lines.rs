//! Lines of a file, of bounded length.

use std::io::{self, BufRead, Read as _};

use cachalot_core::json;

/// Maximum length of a line in bytes.
pub const MAX_LINE_BYTES: usize = 64 << 20;

/// Maximum number of JSON values of a line: a tree of values is much larger than its text.
pub(crate) const MAX_LINE_VALUES: usize = 1 << 20;

/// The reason why a line cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LineError {
    /// It is longer than [`MAX_LINE_BYTES`] or has more than [`MAX_LINE_VALUES`], and was skipped.
    #[error(
        "it is longer than {} MiB, or has more than {MAX_LINE_VALUES} JSON values",
        MAX_LINE_BYTES >> 20
    )]
    TooLong,
    /// It cannot be read, and neither can the lines after it.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

/// Reads a file line by line. Skips empty lines. Holds one line at a time.
pub(crate) struct Lines<R> {
    from: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(from: R) -> Self {
        Self {
            from,
            line: Vec::new(),
            number: 0,
        }
    }

    /// The number of the line that was read last, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the next line that is not empty; `None` at the end.
    pub(crate) fn next_line(&mut self) -> Result<Option<&[u8]>, LineError> {
        loop {
            self.line.clear();
            self.number += 1;
            // One byte more than a line may have, for its line end.
            let mut bounded = (&mut self.from).take(MAX_LINE_BYTES as u64 + 1);
            if bounded.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            if self.line.len() > MAX_LINE_BYTES && self.line.last() != Some(&b'\n') {
                self.line = Vec::new();
                pass_line(&mut self.from)?;
                return Err(LineError::TooLong);
            }
            // Programs on Windows write a byte order mark at the start of a file.
            let mark = if self.number == 1 { "\u{feff}" } else { "" };
            let line = self.line.strip_prefix(mark.as_bytes());
            let skipped = self.line.len() - line.unwrap_or(&self.line).len();
            let line = &self.line[skipped..];
            // A text has no more values than bytes.
            if line.len() > MAX_LINE_VALUES && json::values(line) > MAX_LINE_VALUES {
                return Err(LineError::TooLong);
            }
            if !line.trim_ascii().is_empty() {
                return Ok(Some(&self.line[skipped..]));
            }
        }
    }
}

/// Skips the rest of the line.
fn pass_line(from: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = from.fill_buf()?;
        let (used, found) = match memchr::memchr(b'\n', buffer) {
            Some(at) => (at + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        from.consume(used);
        if found {
            return Ok(());
        }
    }
}
