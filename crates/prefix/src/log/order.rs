//! Requests in the order in which they were sent.
//!
//! Many logs are written when answers are complete, so a long answer stands behind a short one that was
//! asked for later. Requests that say when they were sent are put in order as far as they stand near
//! each other; one that does not say so stays behind the one before it.

use std::collections::BTreeMap;
use std::io::BufRead;

use cachalot_core::Millis;

use super::{LogError, LogReader, Logged};

/// So many requests are held back at most, and so many bytes of them.
const WINDOW: usize = 32;
const WINDOW_BYTES: u64 = 16 << 20;

/// The requests of a log in the order in which they say that they were sent, as far as they stand near
/// each other: 32 requests, or 16 MiB of them. What is wrong with a line is told as it is read.
pub struct InOrder<R> {
    from: LogReader<R>,
    window: Window,
}

impl<R: BufRead> InOrder<R> {
    pub(super) fn new(from: LogReader<R>) -> Self {
        Self {
            from,
            window: Window::default(),
        }
    }
}

impl<R: BufRead> Iterator for InOrder<R> {
    type Item = Result<Logged, LogError>;

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

/// The last requests of a log.
#[derive(Default)]
struct Window {
    /// By when they were sent, then as they came.
    held: BTreeMap<(Millis, u64), Logged>,
    bytes: u64,
    came: u64,
    last: Millis,
}

impl Window {
    /// Takes the next request of the log.
    fn push(&mut self, logged: Logged) {
        let at = logged.at.unwrap_or(self.last);
        self.last = at;
        self.came += 1;
        self.bytes += bytes(&logged);
        self.held.insert((at, self.came), logged);
    }

    /// The one that was sent first, if too many are held.
    fn overflow(&mut self) -> Option<Logged> {
        let full = self.held.len() > WINDOW || self.bytes > WINDOW_BYTES;
        full.then(|| self.pop()).flatten()
    }

    /// The one that was sent first.
    fn pop(&mut self) -> Option<Logged> {
        let (_, logged) = self.held.pop_first()?;
        self.bytes -= bytes(&logged);
        Some(logged)
    }
}

fn bytes(logged: &Logged) -> u64 {
    logged.request.prompt.bytes() + logged.request.tail.len() as u64
}
