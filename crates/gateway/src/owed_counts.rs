//! Money that this process has counted while the store did not answer, and that the store does not know of yet.

use std::collections::HashMap;

use parking_lot::Mutex;

/// Additions to counters of the store, by the names of the counters.
#[derive(Debug, Default)]
pub(crate) struct OwedCounts(Mutex<HashMap<String, u64>>);

impl OwedCounts {
    /// Returns what is owed to a counter.
    pub(crate) fn get(&self, counter: &str) -> u64 {
        self.0.lock().get(counter).copied().unwrap_or(0)
    }

    /// Adds to several counters.
    pub(crate) fn add<'a>(&self, counters: impl Iterator<Item = &'a str>, amount: u64) {
        let mut owed = self.0.lock();
        for counter in counters {
            let sum = owed.entry(counter.to_owned()).or_default();
            *sum = sum.saturating_add(amount);
        }
    }

    /// Takes an amount back from several counters; returns false, and changes nothing, if less is owed to one of them.
    pub(crate) fn take_back<'a>(
        &self,
        counters: impl Iterator<Item = &'a str> + Clone,
        amount: u64,
    ) -> bool {
        let mut owed = self.0.lock();
        let has_enough = |counter: &str| owed.get(counter).is_some_and(|sum| *sum >= amount);
        if !counters.clone().all(has_enough) {
            return false;
        }
        for counter in counters {
            if let Some(sum) = owed.get_mut(counter) {
                *sum = sum.saturating_sub(amount);
            }
        }
        true
    }

    /// Takes everything out, to be sent.
    pub(crate) fn take_all(&self) -> HashMap<String, u64> {
        std::mem::take(&mut self.0.lock())
    }

    /// Puts back what could not be sent.
    pub(crate) fn put_back(&self, unsent: HashMap<String, u64>) {
        let mut owed = self.0.lock();
        for (counter, amount) in unsent {
            let sum = owed.entry(counter).or_default();
            *sum = sum.saturating_add(amount);
        }
    }
}
