//! Incremental decoder of server-sent events.
//!
//! It follows the WHATWG's HTML standard, section 9.2.6: lines end with CR LF, LF or CR; a byte order mark
//! at the start is skipped; bytes that are not UTF-8 become U+FFFD; an event without a blank line at its
//! end is dropped. `id` and `retry` are ignored: they are for clients that reconnect, which a client of a
//! model never does.
//!
//! The crate `sse-stream`, in whose types the MCP library exchanges events, is no replacement: it fails on
//! unknown fields, on fields without a colon and on bytes that are not UTF-8, all of which providers send, and
//! it does not limit the size of an event.

use crate::error::{Error, ErrorKind};

/// Maximum length of one event or line, in bytes: 16 MiB.
pub const MAX_EVENT_BYTES: usize = 16 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// An event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Name; `message` if the stream contains none.
    pub name: String,
    /// Data lines, joined by line feeds.
    pub data: String,
}

/// Decodes a stream from chunks that may end anywhere. Takes time linear in the number of bytes, and
/// buffers at most one event.
#[derive(Debug)]
pub struct Decoder {
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    /// True if the last line ended with CR: an LF that follows belongs to it.
    after_return: bool,
    /// True before the first line, which may begin with a byte order mark.
    at_start: bool,
    /// True after an event that was too long; the rest of the stream is rejected.
    failed: bool,
    name: String,
    data: Option<String>,
    longest: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// Creates a decoder whose events may have up to [`MAX_EVENT_BYTES`] bytes.
    #[must_use]
    pub fn new() -> Self {
        Self::with_max_event_bytes(MAX_EVENT_BYTES)
    }

    /// Creates a decoder whose events may have up to `longest` bytes.
    #[must_use]
    pub fn with_max_event_bytes(longest: usize) -> Self {
        Self {
            line: Vec::new(),
            after_return: false,
            at_start: true,
            failed: false,
            name: String::new(),
            data: None,
            longest,
        }
    }

    /// Appends bytes and returns the events that they complete.
    ///
    /// # Errors
    /// [`ErrorKind::Malformed`]: an event or a line is longer than allowed. Earlier events in the same
    /// bytes and the rest of the stream are lost.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, Error> {
        let mut events = Vec::new();
        let mut rest = bytes;
        if self.failed {
            return Err(self.too_long());
        }
        while !rest.is_empty() {
            // The CR may have been the last byte of the previous chunk.
            if std::mem::take(&mut self.after_return)
                && let Some((b'\n', after)) = rest.split_first()
            {
                rest = after;
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', rest) else {
                self.keep(rest)?;
                break;
            };
            let (line, after) = rest.split_at(end);
            self.after_return = after.first() == Some(&b'\r');
            rest = after.get(1..).unwrap_or_default();
            events.extend(self.end_of_line(line)?);
        }
        Ok(events)
    }

    /// Completes the line that ends with these bytes.
    fn end_of_line(&mut self, last: &[u8]) -> Result<Option<Event>, Error> {
        // A line within one chunk is read where it is.
        if self.line.is_empty() && last.len() <= self.longest {
            return self.take_line(last);
        }
        self.keep(last)?;
        let mut line = std::mem::take(&mut self.line);
        let event = self.take_line(&line);
        // Its memory is used for the next line.
        line.clear();
        self.line = line;
        event
    }

    fn take_line(&mut self, line: &[u8]) -> Result<Option<Event>, Error> {
        let line = if std::mem::take(&mut self.at_start) {
            line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
        } else {
            line
        };
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            return Ok(self.data.take().map(|data| Event {
                name: if name.is_empty() {
                    "message".into()
                } else {
                    name
                },
                data,
            }));
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => line.split_at(colon),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => self.add_data(value)?,
            b"event" => self.name = self.text(value)?,
            // Comments, which have no field name; `id`; `retry`; unknown fields.
            _ => {}
        }
        Ok(None)
    }

    fn add_data(&mut self, value: &[u8]) -> Result<(), Error> {
        let text = self.text(value)?;
        match &mut self.data {
            Some(data) => {
                data.push('\n');
                data.push_str(&text);
            }
            None => self.data = Some(text),
        }
        Ok(())
    }

    /// Decodes a value, if the event has room for it.
    fn text(&mut self, value: &[u8]) -> Result<String, Error> {
        let held = self.name.len() + self.data.as_ref().map_or(0, String::len);
        if held + value.len() >= self.longest {
            return Err(self.too_long());
        }
        Ok(String::from_utf8_lossy(value).into_owned())
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.line.len() + bytes.len() > self.longest {
            return Err(self.too_long());
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn too_long(&mut self) -> Error {
        self.failed = true;
        self.line = Vec::new();
        self.data = None;
        Error::new(
            ErrorKind::Malformed,
            format!(
                "an event of the stream is longer than {} bytes; what answers is no API of a model, \
                 or the stream is damaged",
                self.longest
            ),
        )
    }
}
