//! The output that a block prints.

/// Output of a block, up to a limit.
pub(super) struct OutputBuffer {
    text: String,
    maximum: usize,
    /// The number of bytes beyond the limit.
    dropped: usize,
}

impl OutputBuffer {
    /// Creates a buffer that keeps at most `maximum` bytes.
    pub(super) fn new(maximum: usize) -> Self {
        Self {
            text: String::new(),
            maximum,
            dropped: 0,
        }
    }

    pub(super) fn push(&mut self, text: &str) {
        // Once a part was dropped, later text is dropped, too: the kept text has no gaps.
        let room = if self.dropped > 0 {
            0
        } else {
            self.maximum.saturating_sub(self.text.len())
        };
        let kept = text.floor_char_boundary(room);
        self.text.push_str(&text[..kept]);
        self.dropped = self.dropped.saturating_add(text.len() - kept);
    }

    /// Returns the text, with a last line that contains the number of missing bytes.
    pub(super) fn finish(self) -> String {
        match self.dropped {
            0 => self.text,
            dropped => format!(
                "{}\n[{dropped} more bytes were printed and not kept]\n",
                self.text
            ),
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/script/output_buffer.rs"]
mod tests;
