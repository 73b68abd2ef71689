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
mod moment;
mod order;
mod relation;
mod threads;
mod transcript;
mod turns;

use std::io::{self, BufRead, Read as _};

use cachalot_core::Millis;
use cachalot_core::json::Malformed;
use cachalot_model::Usage;

use crate::diagnosis::Verdict;
use crate::request::{self, NormalForms, Request};
use cachalot_prompt::Session;

pub use analysis::{Analysis, Analyzer, Breaks, Broken};
pub use order::InOrder;
pub use threads::{MOST_OPEN, MOST_OPEN_BYTES};
pub use transcript::TranscriptLine;

/// Maximum length of a line in bytes.
pub const LONGEST_LINE: usize = 64 << 20;

/// A request of a log.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Logged {
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
    pub verdict: Option<Verdict>,
    /// True if it was answered with an error: nothing was cached for it.
    pub failed: bool,
}

impl Logged {
    /// Creates an entry from the last request of one of our sessions, of which only the pieces are stored.
    #[must_use]
    pub fn of_session(session: &Session) -> Self {
        let head = &session.head;
        Self {
            line: 0,
            request: Request::of_session(session),
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
    /// It is longer than [`LONGEST_LINE`], and was skipped.
    #[error("it is longer than {} MiB", LONGEST_LINE >> 20)]
    TooLong,
    /// It cannot be read, and neither can the lines after it.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

impl From<Malformed> for Reason {
    fn from(malformed: Malformed) -> Self {
        Self::NotARequest(malformed.into())
    }
}

/// Reads a log line by line. Skips empty lines. Holds one line at a time.
pub struct LogReader<R> {
    from: R,
    line: Vec<u8>,
    number: u64,
    over: bool,
    forms: NormalForms,
}

impl<R: BufRead> LogReader<R> {
    /// Creates a reader.
    pub fn new(from: R) -> Self {
        Self {
            from,
            line: Vec::new(),
            number: 0,
            over: false,
            forms: NormalForms::default(),
        }
    }

    /// Returns an iterator that sorts the requests by the time when they were sent.
    pub fn in_order(self) -> InOrder<R> {
        InOrder::new(self)
    }

    /// Returns the next line that is not empty; `None` at the end.
    fn next_line(&mut self) -> Result<Option<&[u8]>, Reason> {
        loop {
            self.line.clear();
            self.number += 1;
            let mut bounded = (&mut self.from).take(LONGEST_LINE as u64 + 1);
            if bounded.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            if self.line.len() > LONGEST_LINE && self.line.last() != Some(&b'\n') {
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
    type Item = Result<Logged, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        // The line borrows from the reader, so the forms are taken out meanwhile.
        let mut forms = std::mem::take(&mut self.forms);
        let read = match self.next_line() {
            Ok(None) => {
                self.over = true;
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
        self.over = matches!(read, Err(Reason::Unreadable(_)));
        let line = self.number;
        Some(match read {
            Ok(logged) => Ok(Logged { line, ..logged }),
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
