//! A circuit breaker: a store that does not answer is not asked by every call.

use std::time::Duration;

use tokio::time::Instant;

use crate::sync::{Mutex, lock};

/// Failures in a row after which the store is not asked for a while.
const MAX_FAILURES: u32 = 3;

/// The first pause, and the longest one. Each pause after which the store still fails doubles the next.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

#[derive(Default)]
pub(crate) struct Breaker(Mutex<State>);

#[derive(Default)]
struct State {
    /// Failures since the last answer.
    failures: u32,
    pause: Option<Pause>,
}

struct Pause {
    length: Duration,
    until: Instant,
    /// True if a call is to find out whether the store answers again.
    is_probed: bool,
}

impl Breaker {
    /// Permits a call, or returns how long the store is not asked. After a pause one call is permitted.
    pub(crate) fn permit(&self) -> Result<(), Duration> {
        let mut state = lock(&self.0);
        let Some(pause) = &mut state.pause else {
            return Ok(());
        };
        let now = Instant::now();
        if now < pause.until {
            return Err(pause.until - now);
        }
        // If that call is dropped, another one is permitted after the same time.
        pause.until = now + pause.length;
        pause.is_probed = true;
        Ok(())
    }

    /// Notes that the store answered.
    pub(crate) fn answered(&self) {
        *lock(&self.0) = State::default();
    }

    /// Notes that the store did not answer a call.
    pub(crate) fn failed(&self) {
        let mut state = lock(&self.0);
        state.failures += 1;
        let length = match &state.pause {
            None if state.failures < MAX_FAILURES => return,
            None => PAUSES[0],
            // A call from before the pause.
            Some(pause) if !pause.is_probed => return,
            Some(pause) => PAUSES[1].min(2 * pause.length),
        };
        state.pause = Some(Pause {
            length,
            until: Instant::now() + length,
            is_probed: false,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(breaker: &Breaker, times: u32) {
        for _ in 0..times {
            breaker.failed();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pause_follows_failures_in_a_row_and_ends_with_an_answer() {
        let breaker = Breaker::default();
        for _ in 0..5 {
            fail(&breaker, MAX_FAILURES - 1);
            breaker.answered();
        }
        assert_eq!(breaker.permit(), Ok(()));
        // Calls that were under way fail, too.
        fail(&breaker, 20);
        assert_eq!(breaker.permit(), Err(PAUSES[0]));
        tokio::time::advance(PAUSES[0]).await;
        assert_eq!(breaker.permit(), Ok(()));
        assert_eq!(breaker.permit(), Err(PAUSES[0]));
        breaker.answered();
        assert_eq!(breaker.permit(), Ok(()));
        assert_eq!(breaker.permit(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_the_longest() {
        let breaker = Breaker::default();
        fail(&breaker, MAX_FAILURES);
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            let pause = Duration::from_secs(seconds);
            assert_eq!(breaker.permit(), Err(pause));
            tokio::time::advance(pause).await;
            assert_eq!(breaker.permit(), Ok(()));
            breaker.failed();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_probe_is_followed_by_another() {
        let breaker = Breaker::default();
        fail(&breaker, MAX_FAILURES);
        for _ in 0..3 {
            tokio::time::advance(PAUSES[0]).await;
            assert_eq!(breaker.permit(), Ok(()));
            assert_eq!(breaker.permit(), Err(PAUSES[0]));
        }
    }
}
