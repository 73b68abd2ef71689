//! Detection of erasures since the start of a run that had no reservation to revoke.

use std::time::Instant;

use cachalot_core::Millis;

use crate::local::ErasureState;

/// Precision, in milliseconds, with which times of two machines are compared.
const CLOCK_PRECISION: Millis = 1_000;

/// The start of a run.
#[derive(Debug)]
pub(crate) struct RunStart {
    /// The store's counter of erasures when the call was looked up; `None` if it could not be read.
    pub(crate) erased: Option<u64>,
    /// The erasures that this machine knew of then; `None` without local copies.
    pub(crate) erasures: Option<Box<ErasureState>>,
    pub(crate) instant: Instant,
    /// The time by this machine's clock, which advances while the machine sleeps; `instant` may not.
    pub(crate) clock: Millis,
}

impl RunStart {
    /// A run that starts now, at `clock` by this machine's clock.
    pub(crate) fn now(erased: Option<u64>, clock: Millis) -> Self {
        Self {
            erased,
            erasures: None,
            instant: Instant::now(),
            clock,
        }
    }

    /// True if it is certain that nothing was erased since. `erased` is the counter of erasures, which is no
    /// less than the time of the last erasure by the store's clock. `now` is the store's time, and `clock` is
    /// this machine's.
    pub(crate) fn nothing_erased_since(&self, erased: u64, now: Millis, clock: Millis) -> bool {
        match self.erased {
            Some(before) => before == erased,
            None => {
                let elapsed = Millis::try_from(self.instant.elapsed().as_millis());
                let elapsed = elapsed
                    .unwrap_or(Millis::MAX)
                    .max(clock.saturating_sub(self.clock));
                // An erasure within the precision of the clocks counts as later than the start. The answer is then not
                // stored, which is safe.
                let began = now.saturating_sub(elapsed).saturating_sub(CLOCK_PRECISION);
                Millis::try_from(erased).is_ok_and(|erased| erased < began)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unchanged_erasure_counter_is_required() {
        let began = RunStart {
            erased: Some(5),
            erasures: None,
            instant: Instant::now(),
            clock: 0,
        };
        assert!(began.nothing_erased_since(5, 10_000, 10_000));
        assert!(!began.nothing_erased_since(6, 10_000, 10_000));
    }

    #[test]
    fn without_a_counter_the_later_of_both_clocks_decides() {
        let began = RunStart {
            erased: None,
            erasures: None,
            instant: Instant::now(),
            clock: 50_000,
        };
        // The machine slept for ten seconds; the store's clock is an hour ahead.
        let (now, clock) = (3_660_000, 60_000);
        assert!(began.nothing_erased_since(0, now, clock));
        assert!(began.nothing_erased_since(3_640_000, now, clock));
        assert!(!began.nothing_erased_since(3_650_000, now, clock));
        assert!(!began.nothing_erased_since(3_655_000, now, clock));
        assert!(!began.nothing_erased_since(u64::MAX, now, clock));
    }
}
