//! Lines of a stream, up to a maximum length; of a longer line, only the ID of its message.

use std::io;

use rmcp::model::RequestId;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// Maximum length of an ID in bytes.
const MAX_ID_BYTES: usize = 128;

/// The result of reading a line.
#[derive(Debug, PartialEq)]
pub(super) enum LineRead {
    /// The line is in [`LineReader::line`].
    Whole,
    /// The line is longer than the limit, and was dropped. Contains the ID of the message, if it has one.
    TooLong(Option<RequestId>),
}

/// A reader of lines.
pub(super) struct LineReader<R> {
    read: BufReader<R>,
    limit: usize,
    /// The line so far.
    line: Vec<u8>,
    /// Set if `line` has been returned.
    is_returned: bool,
    /// The scan of a line that is too long.
    id_scanner: Option<IdScanner>,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(read: R, limit: usize) -> Self {
        Self {
            read: BufReader::with_capacity(64 << 10, read),
            limit,
            line: Vec::new(),
            is_returned: false,
            id_scanner: None,
        }
    }

    /// Returns the next line; `None` at the end. Cancellation safe: the next call continues a partial line.
    pub(super) async fn next(&mut self) -> io::Result<Option<LineRead>> {
        if std::mem::take(&mut self.is_returned) {
            self.line.clear();
            // A large line is an exception, so its memory is released.
            self.line.shrink_to(64 << 10);
        }
        loop {
            // No await between inspecting the bytes and consuming them.
            let available = self.read.fill_buf().await?;
            if available.is_empty() {
                return Ok(None);
            }
            let end = memchr::memchr(b'\n', available);
            let taken = end.map_or(available.len(), |end| end + 1);
            let (bytes, ends) = (&available[..end.unwrap_or(taken)], end.is_some());
            let line = if let Some(skim) = &mut self.id_scanner {
                skim.feed(bytes);
                ends.then(|| LineRead::TooLong(skim.take()))
            } else if self.line.len() + bytes.len() > self.limit {
                let mut skim = IdScanner::default();
                skim.feed(&self.line);
                skim.feed(bytes);
                self.line = Vec::new();
                let id = skim.take();
                match (id, ends) {
                    // The ID is returned at once; the rest of the line is skipped.
                    (Some(id), false) => {
                        skim.is_reported = true;
                        self.id_scanner = Some(skim);
                        Some(LineRead::TooLong(Some(id)))
                    }
                    (None, false) => {
                        self.id_scanner = Some(skim);
                        None
                    }
                    (id, true) => Some(LineRead::TooLong(id)),
                }
            } else {
                self.line.extend_from_slice(bytes);
                ends.then_some(LineRead::Whole)
            };
            self.read.consume(taken);
            let is_reported = ends && self.id_scanner.take().is_some_and(|skim| skim.is_reported);
            match line {
                Some(LineRead::TooLong(_)) if is_reported => {}
                Some(line) => {
                    self.is_returned = line == LineRead::Whole;
                    return Ok(Some(line));
                }
                None => {}
            }
        }
    }

    /// Takes the last line out of the reader, with the memory that it has.
    pub(super) fn take_line(&mut self) -> Vec<u8> {
        self.is_returned = false;
        let mut line = std::mem::take(&mut self.line);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        line
    }

    /// The last line.
    pub(super) fn line(&self) -> &[u8] {
        self.line.strip_suffix(b"\r").unwrap_or(&self.line)
    }
}

/// Scans a JSON object piece by piece for its `id`, and keeps nothing else. Servers write it at the beginning
/// or at the end. `cachalot_core::json` needs the whole text, which is too large to be kept.
#[derive(Debug, Default)]
struct IdScanner {
    depth: u32,
    in_text: bool,
    is_escaped: bool,
    /// Set if the next string is the name of a field.
    at_name: bool,
    is_id: bool,
    /// The string or number that is being read.
    token: Vec<u8>,
    id: Option<RequestId>,
    /// Set if the ID was returned before the end of the line.
    is_reported: bool,
}

impl IdScanner {
    fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.in_text {
                self.within_text(*byte)
            } else {
                self.scan_outside(*byte)
            }
        }
    }

    fn within_text(&mut self, byte: u8) {
        match byte {
            _ if self.is_escaped => {
                self.is_escaped = false;
                self.keep(byte);
            }
            b'\\' => {
                self.is_escaped = true;
                self.keep(byte);
            }
            b'"' => {
                self.in_text = false;
                if self.depth != 1 {
                    return;
                }
                if self.at_name {
                    self.is_id = self.token == b"id";
                } else if self.is_id
                    && let Ok(text) = std::str::from_utf8(&self.token)
                {
                    // IDs are those of this client, which contain no escapes.
                    self.id = Some(RequestId::String(text.into()));
                    self.is_id = false;
                }
                self.token.clear();
            }
            _ => self.keep(byte),
        }
    }

    fn scan_outside(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.in_text = true;
                self.token.clear();
            }
            b'{' | b'[' => {
                self.depth += 1;
                self.at_name = self.depth == 1;
            }
            b'}' | b']' => {
                self.end_of_number();
                self.depth = self.depth.saturating_sub(1);
                self.at_name = false;
            }
            b',' => {
                self.end_of_number();
                self.at_name = self.depth == 1;
            }
            b':' => {
                if self.depth == 1 {
                    self.at_name = false;
                    self.token.clear();
                }
            }
            _ if byte.is_ascii_whitespace() => {}
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() < MAX_ID_BYTES {
            self.token.push(byte);
        }
    }

    fn end_of_number(&mut self) {
        if self.depth == 1 && self.is_id {
            let text = std::str::from_utf8(&self.token).unwrap_or_default();
            self.id = text.parse().ok().map(RequestId::Number);
            self.is_id = false;
        }
        if self.depth == 1 {
            self.token.clear();
        }
    }

    fn take(&mut self) -> Option<RequestId> {
        self.id.take()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn id(text: &str) -> Option<RequestId> {
        let whole = {
            let mut skim = IdScanner::default();
            skim.feed(text.as_bytes());
            skim.take()
        };
        let mut pieces = IdScanner::default();
        for byte in text.as_bytes() {
            pieces.feed(&[*byte]);
        }
        assert_eq!(pieces.take(), whole, "{text}");
        whole
    }

    #[test]
    fn id_is_found_at_any_position_of_the_message() {
        let number = Some(RequestId::Number(7));
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":7,"result":{"id":8}}"#), number);
        assert_eq!(
            id(r#"{"result":{"id":8,"a":["id",{"id":9}]},"jsonrpc":"2.0","id":7}"#),
            number
        );
        assert_eq!(id("{ \"id\" : 7 , \"result\": \"…\\\"id\\\": 9\"}"), number);
        assert_eq!(
            id(r#"{"x": "id", "y": "\"id\":4", "id":"a-1"}"#),
            Some(RequestId::String("a-1".into()))
        );
        for none in [
            r#"{"method":"x","params":{"id":1}}"#,
            r#"{"id":null}"#,
            "id: 7",
            "",
        ] {
            assert_eq!(id(none), None, "{none}");
        }
    }

    async fn lines(text: &str, limit: usize) -> Vec<Result<String, Option<RequestId>>> {
        let mut lines = LineReader::new(text.as_bytes(), limit);
        let mut read = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            read.push(match line {
                LineRead::Whole => Ok(String::from_utf8(lines.line().to_vec()).unwrap()),
                LineRead::TooLong(id) => Err(id),
            });
        }
        read
    }

    #[tokio::test]
    async fn an_overlong_line_is_reported_once_and_the_next_is_read() {
        let long = "x".repeat(300_000);
        let first = format!("{{\"id\":1,\"result\":\"{long}\"}}");
        let last = format!("{{\"result\":\"{long}\",\"id\":2}}");
        let text = format!("a\r\n{first}\nb\n{last}\n{{\"note\":\"{long}\"}}\n\nc\nrest");
        let number = |id| Err(Some(RequestId::Number(id)));
        let whole = |text: &str| Ok(text.to_owned());
        assert_eq!(
            lines(&text, 100_000).await,
            [
                whole("a"),
                number(1),
                whole("b"),
                number(2),
                Err(None),
                whole(""),
                whole("c")
            ]
        );
        assert_eq!(
            lines("12345\n123456\n", 5).await,
            [whole("12345"), Err(None)]
        );
    }
}
