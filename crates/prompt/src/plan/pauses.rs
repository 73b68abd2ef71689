//! The pauses before the turns of a conversation.

use std::time::Duration;

use cachalot_core::Millis;
use cachalot_model::Usage;

use crate::chain::Prompt;
use crate::marker_positions::begins_turn;

/// The lifetime of a five-minute marker, in milliseconds.
pub const FIVE_MINUTES: Millis = Duration::from_mins(5).as_millis() as Millis;

/// The lifetime of a one-hour marker, in milliseconds.
const ONE_HOUR: Millis = Duration::from_hours(1).as_millis() as Millis;

/// The lifetime of a marker of OpenAI that requests none, in milliseconds.
const HALF_AN_HOUR: Millis = Duration::from_mins(30).as_millis() as Millis;

/// The lifetime of a twelve-hour marker, in milliseconds.
const TWELVE_HOURS: Millis = Duration::from_hours(12).as_millis() as Millis;

/// The pauses before the turns of a conversation, which determine if markers with a longer lifetime pay.
///
/// Prices relative to uncached input: a one-hour marker costs 0.75 more to write than a five-minute
/// marker. It saves 1.15 (1.25 for writing again, less 0.1 for reading) before every turn that begins
/// after five minutes and within the hour. It therefore pays if about two in three pauses have such a
/// length. By the rule of succession, `(s + 1) / (n + 2)`, the next pause has such a length with a
/// probability of 2/3 after one such pause of one, 3/4 after two of two, but only 1/2 after one of two.
///
/// A twelve-hour marker costs 1.25 more to write than one of half an hour, and saves 1.15 before every turn
/// that begins after half an hour and within twelve. One such turn does not pay for it. With a probability of
/// 3/4, three such turns follow on average (p / (1 - p)), so two of two pauses are needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pauses {
    /// The time of the last request.
    sent: Option<Millis>,
    /// The last two pauses, the latest first.
    recent: [Option<Millis>; 2],
}

impl Pauses {
    /// Creates the pauses of a conversation whose last request was sent at `sent` by another process.
    #[must_use]
    pub fn resumed(sent: Millis) -> Self {
        Self {
            sent: Some(sent),
            recent: [None; 2],
        }
    }

    /// Creates pauses that favor the longest lifetime for which the provider has written to its cache, by the usage of
    /// a conversation. For a request whose pauses are not known.
    #[must_use]
    pub fn assumed(usage: &Usage) -> Self {
        let pause = if usage.cache_write_12h > 0 {
            Some(TWELVE_HOURS)
        } else if usage.cache_write_1h > 0 {
            Some(ONE_HOUR)
        } else {
            None
        };
        Self {
            sent: None,
            recent: [pause; 2],
        }
    }

    /// Counts a request. A pause ends with the request that begins a turn, not with requests that
    /// contain tool results.
    pub fn count(&mut self, prompt: &Prompt, at: Millis) {
        let sent = self.sent.replace(at);
        let newest = prompt.backwards().find_map(|node| node.source.as_deref());
        if let Some(sent) = sent.filter(|_| newest.is_some_and(begins_turn)) {
            self.recent = [Some(at.saturating_sub(sent)), self.recent[0]];
        }
    }

    /// True if the last two pauses, or the only one so far, were longer than five minutes and at most
    /// one hour.
    #[must_use]
    pub fn favor_one_hour(&self) -> bool {
        let is_bridged = |pause: Millis| pause > FIVE_MINUTES && pause <= ONE_HOUR;
        self.recent[0].is_some_and(is_bridged) && self.recent[1].is_none_or(is_bridged)
    }

    /// True if the last two pauses were longer than half an hour and at most twelve hours.
    #[must_use]
    pub fn favor_twelve_hours(&self) -> bool {
        let is_bridged = |pause: Millis| pause > HALF_AN_HOUR && pause <= TWELVE_HOURS;
        self.recent
            .iter()
            .all(|pause| pause.is_some_and(is_bridged))
    }
}
