//! Pauses before retries, of which the user sees those that rate limits cause.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_core::{Clock, Millis, duration};
use cachalot_model::{RateLimitPause, RetryPauses, SystemRetryPauses};
use parking_lot::Mutex;

use crate::wiring::Warn;

/// Shorter pauses are not shown: they are over before the message is read.
const SHOWN: Duration = Duration::from_secs(2);

/// Waits in real time, and warns of pauses that rate limits cause.
pub(super) struct AnnouncedPauses {
    clock: Arc<dyn Clock>,
    warn: Warn,
    /// The end of the last pause that was shown, by model: many calls may wait at the same time.
    shown_until: Mutex<BTreeMap<String, Millis>>,
}

impl AnnouncedPauses {
    pub(super) fn new(clock: Arc<dyn Clock>, warn: Warn) -> Self {
        Self {
            clock,
            warn,
            shown_until: Mutex::default(),
        }
    }
}

#[async_trait]
impl RetryPauses for AnnouncedPauses {
    async fn pause(&self, time: Duration) {
        SystemRetryPauses.pause(time).await;
    }

    fn jitter(&self) -> f64 {
        SystemRetryPauses.jitter()
    }

    fn announce(&self, pause: &RateLimitPause<'_>) {
        let RateLimitPause {
            provider,
            model,
            time,
            limit,
        } = *pause;
        let now = self.clock.now();
        let end = now.saturating_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
        let name = format!("{provider}/{model}");
        let is_shown = {
            let mut shown_until = self.shown_until.lock();
            let is_covered = shown_until.get(&name).is_some_and(|until| now < *until);
            if time >= SHOWN && !is_covered {
                shown_until.insert(name.clone(), end);
                true
            } else {
                false
            }
        };
        if is_shown {
            (self.warn)(&format!(
                "{name}: rate limit (429); asking again in {}, waiting at most {} in all (`rate_limit_wait`); Ctrl-C ends it",
                readable(time),
                readable(limit),
            ));
        }
    }
}

/// Formats a pause: `45 s`, `5 min`.
fn readable(time: Duration) -> String {
    match time.as_secs_f64().round() {
        seconds @ ..120.0 => format!("{seconds} s"),
        _ => duration::rounded(time),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cachalot_core::ManualClock;

    use super::*;

    #[test]
    fn one_message_is_shown_for_calls_that_wait_at_the_same_time() {
        let clock = Arc::new(ManualClock::at(1_000_000));
        let messages = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&messages);
        let warn: Warn = Arc::new(move |message| seen.lock().push(message.to_owned()));
        let pauses = AnnouncedPauses::new(Arc::clone(&clock) as _, warn);
        let announce = |model, seconds| {
            pauses.announce(&RateLimitPause {
                provider: "openai",
                model,
                time: Duration::from_secs(seconds),
                limit: Duration::from_secs(300),
            });
        };
        announce("gpt-4o", 1);
        announce("gpt-4o", 20);
        announce("gpt-4o", 20);
        announce("gpt-5", 3);
        clock.advance(Duration::from_secs(20));
        announce("gpt-4o", 60);
        assert_eq!(
            *messages.lock(),
            [
                "openai/gpt-4o: rate limit (429); asking again in 20 s, waiting at most 5 min in all (`rate_limit_wait`); Ctrl-C ends it",
                "openai/gpt-5: rate limit (429); asking again in 3 s, waiting at most 5 min in all (`rate_limit_wait`); Ctrl-C ends it",
                "openai/gpt-4o: rate limit (429); asking again in 60 s, waiting at most 5 min in all (`rate_limit_wait`); Ctrl-C ends it",
            ]
        );
    }
}
