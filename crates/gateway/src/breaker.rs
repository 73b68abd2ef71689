//! Leaves an upstream out for a while after failures one after the other.

use std::time::{Duration, Instant};

use cachalot_core::config::Settings;
use cachalot_model::DURATION;
use parking_lot::Mutex;

/// Leaves the upstream out for a while after failures one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Settings)]
#[settings(name = "`breaker`")]
pub(crate) struct BreakerRule {
    /// The number of failures.
    #[setting(range = 1..=1_000, default = 5)]
    pub(crate) failures: u32,
    /// The time for which it is left out.
    #[setting(kind = DURATION, default = "30s")]
    pub(crate) pause: Duration,
}

/// The state of an upstream.
#[derive(Debug, Default)]
pub(crate) struct Breaker(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Number of failures since the last success.
    failures: u32,
    /// The end of the pause, while there is one.
    paused_until: Option<Instant>,
}

impl Breaker {
    /// Returns true if the upstream may be asked. After a pause, one request may; the others wait for its end.
    pub(crate) fn admits(&self, rule: Option<&BreakerRule>, now: Instant) -> bool {
        let Some(rule) = rule else { return true };
        let mut state = self.0.lock();
        match state.paused_until {
            None => true,
            Some(end) if now < end => false,
            Some(_) => {
                // A request that never ends must not pause the upstream for ever.
                state.paused_until = Some(now + rule.pause);
                true
            }
        }
    }

    /// Returns true if the upstream is left out.
    pub(crate) fn is_open(&self, now: Instant) -> bool {
        self.0.lock().paused_until.is_some_and(|end| now < end)
    }

    /// Returns true after failures one after the other, until a request succeeds.
    pub(crate) fn is_paused(&self) -> bool {
        self.0.lock().paused_until.is_some()
    }

    /// Counts the end of a request.
    pub(crate) fn record(&self, rule: Option<&BreakerRule>, has_failed: bool, now: Instant) {
        let Some(rule) = rule else { return };
        let mut state = self.0.lock();
        if !has_failed {
            *state = State::default();
            return;
        }
        state.failures = state.failures.saturating_add(1);
        if state.failures >= rule.failures {
            state.paused_until = Some(now + rule.pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_pause_and_a_success_ends_the_pause() {
        let rule = BreakerRule {
            failures: 2,
            pause: Duration::from_secs(30),
        };
        let (breaker, start) = (Breaker::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let rule = Some(&rule);
        breaker.record(rule, true, start);
        breaker.record(rule, false, start);
        breaker.record(rule, true, start);
        assert!(breaker.admits(rule, start), "not two in a row");
        breaker.record(rule, true, start);
        assert!(!breaker.admits(rule, at(29)) && breaker.is_open(at(29)));
        assert!(breaker.admits(rule, at(30)), "one request tries");
        assert!(!breaker.admits(rule, at(31)), "the others wait for it");
        breaker.record(rule, true, at(32));
        assert!(!breaker.admits(rule, at(61)));
        assert!(breaker.admits(rule, at(62)));
        breaker.record(rule, false, at(63));
        assert!(breaker.admits(rule, at(63)) && breaker.admits(rule, at(63)));
    }

    #[test]
    fn without_a_rule_nothing_is_left_out() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..100 {
            breaker.record(None, true, now);
        }
        assert!(breaker.admits(None, now) && !breaker.is_open(now));
    }
}
