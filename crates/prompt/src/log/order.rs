//! Requests in the order in which they were sent.
//!
//! Many logs are written when answers are complete, so a long answer stands behind a short one that was
//! asked for later. Requests that say when they were sent are put in order as far as they stand near
//! each other; one that does not say so stays behind the one before it.

use std::collections::BTreeMap;

use cachalot_core::Millis;

use super::Logged;

/// So many requests are held back at most, and so many bytes of them.
const WINDOW: usize = 32;
const WINDOW_BYTES: u64 = 16 << 20;

/// The last requests of a log.
#[derive(Default)]
pub(super) struct Window {
    /// By when they were sent, then as they came.
    held: BTreeMap<(Millis, u64), Logged>,
    bytes: u64,
    came: u64,
    last: Millis,
}

impl Window {
    /// Takes the next request of the log.
    pub(super) fn push(&mut self, logged: Logged) {
        let at = logged.at.unwrap_or(self.last);
        self.last = at;
        self.came += 1;
        self.bytes += bytes(&logged);
        self.held.insert((at, self.came), logged);
    }

    /// The one that was sent first, if too many are held.
    pub(super) fn overflow(&mut self) -> Option<Logged> {
        let full = self.held.len() > WINDOW || self.bytes > WINDOW_BYTES;
        full.then(|| self.pop()).flatten()
    }

    /// The one that was sent first.
    pub(super) fn pop(&mut self) -> Option<Logged> {
        let (_, logged) = self.held.pop_first()?;
        self.bytes -= bytes(&logged);
        Some(logged)
    }
}

fn bytes(logged: &Logged) -> u64 {
    logged.request.prompt.bytes() + logged.request.tail.len() as u64
}
