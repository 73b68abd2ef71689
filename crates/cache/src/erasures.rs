//! Whether anything was erased since a run began, where no reservation of it could have been revoked.

use std::time::Instant;

use cachalot_core::Millis;

/// Times of two machines are compared no more finely than this.
const MARGIN: Millis = 1_000;

/// The beginning of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beginning {
    /// The memory's counter of erasures when the call was looked up; `None` if it could not be read.
    pub(crate) erased: Option<u64>,
    pub(crate) instant: Instant,
    /// By the clock of this machine, which goes on while the machine sleeps; `instant` may not.
    pub(crate) clock: Millis,
}

impl Beginning {
    /// Whether nothing was erased since, as far as that is known for certain: `erased` is the counter
    /// of erasures, which is no less than the memory's time of the last one, `now` the memory's time,
    /// `clock` this machine's.
    pub(crate) fn follows(&self, erased: u64, now: Millis, clock: Millis) -> bool {
        match self.erased {
            Some(before) => before == erased,
            None => {
                let elapsed = Millis::try_from(self.instant.elapsed().as_millis());
                let elapsed = elapsed
                    .unwrap_or(Millis::MAX)
                    .max(clock.saturating_sub(self.clock));
                let began = now.saturating_sub(elapsed).saturating_sub(MARGIN);
                Millis::try_from(erased).is_ok_and(|erased| erased < began)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_was_read_must_be_the_same() {
        let began = Beginning {
            erased: Some(5),
            instant: Instant::now(),
            clock: 0,
        };
        assert!(began.follows(5, 10_000, 10_000));
        assert!(!began.follows(6, 10_000, 10_000));
    }

    #[test]
    fn without_it_the_last_erasure_must_precede_the_run_by_the_clock_that_ran_longer() {
        let began = Beginning {
            erased: None,
            instant: Instant::now(),
            clock: 50_000,
        };
        // The machine slept for ten seconds; the memory's clock is an hour ahead.
        let (now, clock) = (3_660_000, 60_000);
        assert!(began.follows(0, now, clock));
        assert!(began.follows(3_640_000, now, clock));
        assert!(!began.follows(3_650_000, now, clock));
        assert!(!began.follows(3_655_000, now, clock));
        assert!(!began.follows(u64::MAX, now, clock));
    }
}
