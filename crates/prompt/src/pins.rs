//! Allocates the numbers of pins.
//!
//! Every write to a store has a cost. An open session therefore reserves many numbers at once, and
//! erases its obsolete pins ten at a time: those whose numbers differ only in the last digit.

use crate::error::Error;
use crate::store::SessionStore;

/// The count of numbers per increment of the store's counter; must end in zero.
const NUMBERS_PER_RESERVATION: u64 = 10_000;

/// The numbers of the pins of one open session. Each number is unique across all processes.
#[derive(Debug, Default)]
pub(crate) struct PinNumbers {
    /// The next number. A multiple of [`NUMBERS_PER_RESERVATION`] means that none is left.
    next: u64,
    /// The first allocated number whose pin may still exist; 0 if none was allocated.
    oldest: u64,
}

impl PinNumbers {
    /// Returns a new unique number.
    pub(crate) async fn next(&mut self, store: &SessionStore, id: &str) -> Result<u64, Error> {
        if self.next.is_multiple_of(NUMBERS_PER_RESERVATION) {
            self.next = store.number(id).await? * NUMBERS_PER_RESERVATION + 1;
        }
        let number = self.next;
        self.next += 1;
        if self.oldest == 0 {
            self.oldest = number;
        }
        Ok(number)
    }

    /// True if the number was allocated here.
    pub(crate) fn was_allocated(&self, number: u64) -> bool {
        self.oldest != 0
            && number != 0
            && number / NUMBERS_PER_RESERVATION >= self.oldest / NUMBERS_PER_RESERVATION
    }

    /// Returns the ten oldest numbers, without their last digit, if the session's record names a later
    /// pin: their pins are then void.
    pub(crate) fn void(&self, named: u64) -> Option<u64> {
        (self.was_allocated(named) && named / 10 > self.oldest / 10).then_some(self.oldest / 10)
    }

    /// Records that the ten oldest pins were erased.
    pub(crate) fn erased(&mut self, named: u64) {
        let following = (self.oldest / 10 + 1) * 10;
        self.oldest = match following % NUMBERS_PER_RESERVATION {
            // The following numbers came from another increment of the counter.
            0 => named / NUMBERS_PER_RESERVATION * NUMBERS_PER_RESERVATION + 1,
            _ => following,
        };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use cachalot_core::{ManualClock, SecretSet};
    use cachalot_store::in_process::InProcessStore;

    use super::*;

    /// Uses several increments of the counter, and loses some numbers: a pin that is called void is
    /// never the named one or a later one, and only a few pins are ever left.
    #[test]
    fn only_what_is_void_is_called_so() {
        let clock = Arc::new(ManualClock::at(0));
        let store = SessionStore {
            memory: Arc::new(InProcessStore::new(clock.clone())),
            clock,
            secret_set: Arc::new(SecretSet::empty()),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            let (mut numbers, mut before) = (PinNumbers::default(), PinNumbers::default());
            let mut pins: BTreeSet<u64> = BTreeSet::new();
            // The pin of the session when it was opened.
            let mut named = before.next(&store, "x").await.unwrap();
            assert!(!numbers.was_allocated(named));
            for round in 0..25_000_u32 {
                // Other sessions take numbers, too.
                if round % 977 == 0 {
                    store.number("y").await.unwrap();
                }
                let pin = numbers.next(&store, "x").await.unwrap();
                assert!(pins.insert(pin) && pin > named);
                if let Some(ten) = numbers.void(named) {
                    assert!(ten < named / 10);
                    pins.retain(|pin| pin / 10 != ten);
                    numbers.erased(named);
                }
                // Some attempts fail.
                if round % 13 != 5 {
                    named = pin;
                }
                assert!(numbers.was_allocated(named) && pins.contains(&named));
                assert!(pins.len() <= 30, "{} are left", pins.len());
            }
        });
    }
}
