//! Sorting of requests by the time when they were sent.
//!
//! Many logs are written when answers are complete, so a long answer follows a short one that was requested
//! later. Requests with a timestamp are sorted within a window; one without a timestamp stays behind its
//! predecessor.

use std::collections::BTreeMap;
use std::io::BufRead;

use cachalot_core::Millis;

use super::{LogError, LogReader, LoggedRequest};

/// Maximum number of requests in the window, and of their bytes.
const WINDOW: usize = 32;
const WINDOW_BYTES: u64 = 16 << 20;

/// Returns the requests of a log sorted by the time when they were sent, within a window of 32 requests or 16
/// MiB. Errors of lines are returned as they are read.
pub struct SortedRequests<R> {
    from: LogReader<R>,
    window: Window,
}

impl<R: BufRead> SortedRequests<R> {
    pub(super) fn new(from: LogReader<R>) -> Self {
        Self {
            from,
            window: Window::default(),
        }
    }
}

impl<R: BufRead> Iterator for SortedRequests<R> {
    type Item = Result<LoggedRequest, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(logged) = self.window.overflow() {
                return Some(Ok(logged));
            }
            match self.from.next() {
                Some(Ok(logged)) => self.window.push(logged),
                Some(Err(error)) => return Some(Err(error)),
                None => return self.window.pop().map(Ok),
            }
        }
    }
}

/// The window of the last requests.
#[derive(Default)]
struct Window {
    /// Requests by timestamp, then by their order in the log.
    held: BTreeMap<(Millis, u64), LoggedRequest>,
    bytes: u64,
    came: u64,
    last: Millis,
}

impl Window {
    /// Adds the next request of the log.
    fn push(&mut self, logged: LoggedRequest) {
        let at = logged.at.unwrap_or(self.last);
        self.last = at;
        self.came += 1;
        self.bytes += bytes(&logged);
        self.held.insert((at, self.came), logged);
    }

    /// Removes the earliest request if the window is too large.
    fn overflow(&mut self) -> Option<LoggedRequest> {
        let full = self.held.len() > WINDOW || self.bytes > WINDOW_BYTES;
        full.then(|| self.pop()).flatten()
    }

    /// Removes the earliest request.
    fn pop(&mut self) -> Option<LoggedRequest> {
        let (_, logged) = self.held.pop_first()?;
        self.bytes -= bytes(&logged);
        Some(logged)
    }
}

fn bytes(logged: &LoggedRequest) -> u64 {
    logged.request.prompt.bytes() + logged.request.tail.len() as u64
}
