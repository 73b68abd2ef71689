//! Request logs: JSON lines of any client.
//!
//! A line is the body of a request, or an envelope with one in `request`, `body` or `params` (an object, or
//! its text). An envelope may also contain the time when it was sent (`timestamp`, `time`, `at`, `ts` or
//! `created`: seconds or milliseconds since 1970, or ISO 8601), the session to which it belongs (`session`,
//! `session_id`, `conversation_id`), and the answer (`response`, with its `usage`). Transcripts of Claude
//! Code, which contain answers only, are read as far as possible ([`TranscriptLine`]).

mod analysis;
mod answer;
mod envelope;
mod logged_break;
mod order;
mod relation;
mod thread;
mod threads;
mod timestamp;
mod transcript;
mod turns;

use std::io::{self, BufRead, Read as _};

use cachalot_core::Millis;
use cachalot_core::json::JsonError;
use cachalot_model::Usage;

use crate::diagnosis::ProviderVerdict;
use crate::request::{self, NormalForms, Request};
use cachalot_prompt::Session;

pub use analysis::{Analysis, Analyzer, BreakGroup};
pub use logged_break::LoggedBreak;
pub use order::SortedRequests;
pub use threads::{MAX_OPEN_BYTES, MAX_OPEN_CONVERSATIONS};
pub use transcript::TranscriptLine;

/// Maximum length of a line in bytes.
pub const MAX_LINE_BYTES: usize = 64 << 20;

/// A request of a log.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoggedRequest {
    /// The number of its line, from 1; 0 if it is from another source.
    pub line: u64,
    /// The request.
    pub request: Request,
    /// The time when it was sent.
    pub at: Option<Millis>,
    /// The session to which it belongs, as named in the log.
    pub session: Option<String>,
    /// Usage of its answer.
    pub usage: Option<Usage>,
    /// The ID of its answer.
    pub answer: Option<String>,
    /// The ID of the earlier answer that the client named, so that the provider compares the two requests.
    pub compared_with: Option<String>,
    /// The result of that comparison.
    pub verdict: Option<ProviderVerdict>,
    /// True if it was answered with an error: nothing was cached for it.
    pub failed: bool,
}

impl LoggedRequest {
    /// Creates an entry from the last request of one of our sessions, of which only the pieces are stored.
    #[must_use]
    pub fn from_session(session: &Session) -> Self {
        let head = &session.head;
        Self {
            line: 0,
            request: Request::from_session(session),
            at: None,
            session: Some(head.id.clone()),
            usage: None,
            answer: None,
            compared_with: None,
            verdict: None,
            failed: false,
        }
    }
}

/// The reason why a line of a log contains no request.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {reason}")]
#[non_exhaustive]
pub struct LogError {
    /// The number of the line, from 1.
    pub line: u64,
    /// The defect of the line.
    pub reason: Reason,
}

/// Defects of a line in a log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// It is not a request; the next line may be one.
    #[error(transparent)]
    NotARequest(#[from] request::Error),
    /// It is a line of a transcript, which contains no requests.
    #[error("it is a line of a transcript, which has answers and no requests")]
    Transcript(Box<TranscriptLine>),
    /// It is longer than [`MAX_LINE_BYTES`], and was skipped.
    #[error("it is longer than {} MiB", MAX_LINE_BYTES >> 20)]
    TooLong,
    /// It cannot be read, and neither can the lines after it.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

impl From<JsonError> for Reason {
    fn from(malformed: JsonError) -> Self {
        Self::NotARequest(malformed.into())
    }
}

/// Reads a log line by line. Skips empty lines. Holds one line at a time.
pub struct LogReader<R> {
    from: R,
    line: Vec<u8>,
    number: u64,
    is_at_end: bool,
    forms: NormalForms,
}

impl<R: BufRead> LogReader<R> {
    /// Creates a reader.
    pub fn new(from: R) -> Self {
        Self {
            from,
            line: Vec::new(),
            number: 0,
            is_at_end: false,
            forms: NormalForms::default(),
        }
    }

    /// Returns an iterator that sorts the requests by the time when they were sent.
    pub fn in_order(self) -> SortedRequests<R> {
        SortedRequests::new(self)
    }

    /// Returns the next line that is not empty; `None` at the end.
    fn next_line(&mut self) -> Result<Option<&[u8]>, Reason> {
        loop {
            self.line.clear();
            self.number += 1;
            let mut bounded = (&mut self.from).take(MAX_LINE_BYTES as u64 + 1);
            if bounded.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            if self.line.len() > MAX_LINE_BYTES && self.line.last() != Some(&b'\n') {
                self.line = Vec::new();
                pass_line(&mut self.from)?;
                return Err(Reason::TooLong);
            }
            let mark = if self.number == 1 { "\u{feff}" } else { "" };
            let line = self.line.strip_prefix(mark.as_bytes());
            let skipped = self.line.len() - line.unwrap_or(&self.line).len();
            if !self.line[skipped..].trim_ascii().is_empty() {
                return Ok(Some(&self.line[skipped..]));
            }
        }
    }
}

impl<R: BufRead> Iterator for LogReader<R> {
    type Item = Result<LoggedRequest, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_at_end {
            return None;
        }
        // The line borrows from the reader, so the forms are taken out meanwhile.
        let mut forms = std::mem::take(&mut self.forms);
        let read = match self.next_line() {
            Ok(None) => {
                self.is_at_end = true;
                return None;
            }
            Ok(Some(line)) => {
                envelope::read(&mut forms, line).map_err(|reason| match transcript::read(line) {
                    Some(line) => Reason::Transcript(Box::new(line)),
                    None => reason,
                })
            }
            Err(reason) => Err(reason),
        };
        self.forms = forms;
        self.is_at_end = matches!(read, Err(Reason::Unreadable(_)));
        let line = self.number;
        Some(match read {
            Ok(logged) => Ok(LoggedRequest { line, ..logged }),
            Err(reason) => Err(LogError { line, reason }),
        })
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
