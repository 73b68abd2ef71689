//! How long a conversation pauses before its turns.

use std::time::Duration;

use cachalot_core::Millis;

use super::places::begins_turn;
use crate::chain::Prompt;

/// Time for which a marker of five minutes is kept, in milliseconds.
pub const FIVE_MINUTES: Millis = Duration::from_mins(5).as_millis() as Millis;

/// Time for which a marker of an hour is kept, in milliseconds.
const ONE_HOUR: Millis = Duration::from_hours(1).as_millis() as Millis;

/// The pauses before the turns of a conversation: what tells whether markers of an hour pay.
///
/// A marker of an hour costs 0.75 times the price of input more to write than one of five minutes, and
/// saves 1.15 times that price (1.25 for writing again, less 0.1 for reading) before every turn that
/// begins after five minutes and within the hour. So it pays if about two in three pauses are of that
/// length. By the rule of succession, `(s + 1) / (n + 2)`, the next pause is expected to be of that length
/// with a probability of 2/3 after one such pause of one, and of 3/4 after two of two; after one of two,
/// with 1/2 only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pauses {
    /// When the last request was sent.
    sent: Option<Millis>,
    /// Whether the last two pauses were longer than five minutes and not longer than an hour; the latest
    /// first.
    recent: [Option<bool>; 2],
}

impl Pauses {
    /// The pauses of a conversation whose last request was sent then, by another process.
    #[must_use]
    pub fn resumed(sent: Millis) -> Self {
        Self {
            sent: Some(sent),
            recent: [None; 2],
        }
    }

    /// Counts a request. A pause ends with the request that begins a turn; requests with results of tools
    /// end none.
    pub fn count(&mut self, prompt: &Prompt, at: Millis) {
        let sent = self.sent.replace(at);
        let newest = prompt.backwards().find_map(|node| node.source.as_deref());
        if let Some(sent) = sent.filter(|_| newest.is_some_and(begins_turn)) {
            let pause = at.saturating_sub(sent);
            let is_bridged = pause > FIVE_MINUTES && pause <= ONE_HOUR;
            self.recent = [Some(is_bridged), self.recent[0]];
        }
    }

    /// Returns true if the last two pauses, or the only one so far, were of a length that a marker of an
    /// hour outlives and one of five minutes does not.
    #[must_use]
    pub fn favor_an_hour(&self) -> bool {
        self.recent[0] == Some(true) && self.recent[1] != Some(false)
    }
}
