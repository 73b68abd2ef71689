//! The numbers of pins.
//!
//! Every write to a memory is paid for, so an open session takes many numbers at once, and erases the
//! pins that it has outgrown ten at a time: those whose numbers differ in the last digit only.

use crate::error::Error;
use crate::store::Store;

/// So many numbers come with one number of the memory's counter; ends in a zero.
const AT_ONCE: u64 = 10_000;

/// The numbers of the pins of one open session. No number is given twice, whoever asks.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// The next one, unless it is a multiple of [`AT_ONCE`]: then there is none left.
    next: u64,
    /// Of those given, the first whose pin may still be there; 0 if none was given.
    oldest: u64,
}

impl Numbers {
    /// A number that was never given before.
    pub(crate) async fn next(&mut self, store: &Store, id: &str) -> Result<u64, Error> {
        if self.next.is_multiple_of(AT_ONCE) {
            self.next = store.number(id).await? * AT_ONCE + 1;
        }
        let number = self.next;
        self.next += 1;
        if self.oldest == 0 {
            self.oldest = number;
        }
        Ok(number)
    }

    /// Whether this number was given here.
    pub(crate) fn gave(&self, number: u64) -> bool {
        self.oldest != 0 && number != 0 && number / AT_ONCE >= self.oldest / AT_ONCE
    }

    /// The ten oldest, without their last digit, if the session's record names a later one: then they
    /// are void.
    pub(crate) fn void(&self, named: u64) -> Option<u64> {
        (self.gave(named) && named / 10 > self.oldest / 10).then_some(self.oldest / 10)
    }

    /// The ten oldest are erased.
    pub(crate) fn erased(&mut self, named: u64) {
        let following = (self.oldest / 10 + 1) * 10;
        self.oldest = match following % AT_ONCE {
            // The later ones came with another number of the counter.
            0 => named / AT_ONCE * AT_ONCE + 1,
            _ => following,
        };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use cachalot_core::{ManualClock, Seals};
    use cachalot_memory::in_process::InProcessMemory;

    use super::*;

    /// Over several numbers of the counter, some numbers being lost: what is called void is never the
    /// pin that is named or a later one, and no more than a few are ever left.
    #[test]
    fn only_what_is_void_is_called_so() {
        let clock = Arc::new(ManualClock::at(0));
        let store = Store {
            memory: Arc::new(InProcessMemory::new(clock.clone())),
            clock,
            seals: Arc::new(Seals::none()),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            let (mut numbers, mut before) = (Numbers::default(), Numbers::default());
            let mut pins: BTreeSet<u64> = BTreeSet::new();
            // That of the session that was opened.
            let mut named = before.next(&store, "x").await.unwrap();
            assert!(!numbers.gave(named));
            for round in 0..25_000_u32 {
                // Others take numbers, too.
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
                assert!(numbers.gave(named) && pins.contains(&named));
                assert!(pins.len() <= 30, "{} are left", pins.len());
            }
        });
    }
}
