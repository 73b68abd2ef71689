//! Request logs: JSON lines of any client.
//!
//! A line is the body of a request, or an envelope with one in `request`, `body` or `params` (an object, or
//! its text). An envelope may also contain the time when it was sent (`timestamp`, `time`, `at`, `ts` or
//! `created`: seconds or milliseconds since 1970, or ISO 8601), the session to which it belongs (`session`,
//! `session_id`, `conversation_id`), and the answer (`response`, with its `usage`). Transcripts of Claude
//! Code and Codex are read, too ([`TranscriptLine`]): newer ones of Claude Code contain the requests in parts, all
//! others answers only.

mod analysis;
mod answer;
mod conversations;
mod envelope;
mod live;
mod logged_break;
mod order;
mod recorded;
mod relation;
mod thread;
mod threads;
mod transcript;
mod transcript_answer;
mod turns;

use std::io::{self, BufRead};
use std::sync::Arc;

use cachalot_core::Millis;
use cachalot_core::json::JsonError;
use cachalot_model::Usage;

use crate::diagnosis::ProviderVerdict;
use crate::lines::{LineError, Lines, MAX_LINE_VALUES};
use crate::request::{self, NormalForms, Request};
use cachalot_prompt::Session;

pub use crate::lines::MAX_LINE_BYTES;
pub use analysis::{Analysis, Analyzer, BreakGroup};
pub use live::{LiveAnalyzer, LiveAnswer, LiveBody, LivePlacement, LiveRequest};
pub use logged_break::LoggedBreak;
pub use order::SortedRequests;
pub use threads::{MAX_OPEN_BYTES, MAX_OPEN_CONVERSATIONS, OpenLimits};
pub use transcript::TranscriptLine;

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
    /// The client that sent it. Requests of different clients are not compared; a log names none.
    pub(crate) tenant: Option<Arc<str>>,
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
    /// True if the client recorded that it had replaced the conversation by a summary before this request.
    pub(crate) is_summarized: bool,
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
            tenant: None,
            session: Some(head.id.clone()),
            usage: None,
            answer: None,
            compared_with: None,
            verdict: None,
            failed: false,
            is_summarized: false,
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
    #[error("it is a line of a transcript, which has no whole request")]
    Transcript(Box<TranscriptLine>),
    /// It is longer than [`MAX_LINE_BYTES`] or has too many JSON values, and was skipped.
    #[error(
        "it is longer than {} MiB, or has more than {MAX_LINE_VALUES} JSON values",
        MAX_LINE_BYTES >> 20
    )]
    TooLong,
    /// It cannot be read, and neither can the lines after it.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

impl From<LineError> for Reason {
    fn from(error: LineError) -> Self {
        match error {
            LineError::TooLong => Self::TooLong,
            LineError::Unreadable(error) => Self::Unreadable(error),
        }
    }
}

impl From<JsonError> for Reason {
    fn from(malformed: JsonError) -> Self {
        Self::NotARequest(malformed.into())
    }
}

/// Reads a log line by line. Skips empty lines. Holds one line at a time.
pub struct LogReader<R> {
    lines: Lines<R>,
    is_at_end: bool,
    forms: NormalForms,
}

impl<R: BufRead> LogReader<R> {
    /// Creates a reader.
    pub fn new(from: R) -> Self {
        Self {
            lines: Lines::new(from),
            is_at_end: false,
            forms: NormalForms::default(),
        }
    }

    /// Returns an iterator that sorts the requests by the time when they were sent.
    pub fn in_order(self) -> SortedRequests<R> {
        SortedRequests::new(self)
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
        let read = match self.lines.next_line() {
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
            Err(error) => Err(error.into()),
        };
        self.forms = forms;
        self.is_at_end = matches!(read, Err(Reason::Unreadable(_)));
        let line = self.lines.number();
        Some(match read {
            Ok(logged) => Ok(LoggedRequest { line, ..logged }),
            Err(reason) => Err(LogError { line, reason }),
        })
    }
}
