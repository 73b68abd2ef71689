//! Money that this process has counted while the store did not answer, and that the store does not know of yet.

use std::collections::HashMap;

use parking_lot::Mutex;

/// Additions to counters of the store, by the names of the counters.
#[derive(Debug, Default)]
pub(crate) struct OwedCounts(Mutex<Owed>);

#[derive(Debug, Default)]
struct Owed {
    waiting: HashMap<String, u64>,
    /// Sent, without an answer yet.
    sent: HashMap<String, u64>,
}

/// Additions that are being sent. Without an answer, they wait again: nothing is lost with a client that leaves.
pub(crate) struct Sending<'a> {
    owed: &'a OwedCounts,
    pub(crate) amounts: HashMap<String, u64>,
    is_answered: bool,
}

impl Sending<'_> {
    /// The store has counted them.
    pub(crate) fn settle(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        let mut owed = self.owed.0.lock();
        for (counter, amount) in self.amounts.drain() {
            let sent = owed.sent.entry(counter.clone()).or_default();
            *sent = sent.saturating_sub(amount);
            if *sent == 0 {
                owed.sent.remove(&counter);
            }
            if !self.is_answered {
                let waiting = owed.waiting.entry(counter).or_default();
                *waiting = waiting.saturating_add(amount);
            }
        }
    }
}

impl OwedCounts {
    /// Returns what is owed to a counter.
    pub(crate) fn get(&self, counter: &str) -> u64 {
        let owed = self.0.lock();
        let of = |counts: &HashMap<String, u64>| counts.get(counter).copied().unwrap_or(0);
        of(&owed.waiting).saturating_add(of(&owed.sent))
    }

    /// Adds to several counters.
    pub(crate) fn add<'a>(&self, counters: impl Iterator<Item = &'a str>, amount: u64) {
        let mut owed = self.0.lock();
        for counter in counters {
            let sum = owed.waiting.entry(counter.to_owned()).or_default();
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
        let has_enough =
            |counter: &str| owed.waiting.get(counter).is_some_and(|sum| *sum >= amount);
        if !counters.clone().all(has_enough) {
            return false;
        }
        for counter in counters {
            if let Some(sum) = owed.waiting.get_mut(counter) {
                *sum = sum.saturating_sub(amount);
            }
        }
        true
    }

    /// Takes what waits for some counters, or for all with `None`, to be sent. It is owed until the store has counted it.
    pub(crate) fn send(&self, counters: Option<&[&str]>) -> Sending<'_> {
        let mut owed = self.0.lock();
        let is_taken =
            |counter: &String| counters.is_none_or(|counters| counters.contains(&counter.as_str()));
        let amounts: HashMap<String, u64> = owed
            .waiting
            .extract_if(|counter, _| is_taken(counter))
            .collect();
        for (counter, amount) in &amounts {
            let sent = owed.sent.entry(counter.clone()).or_default();
            *sent = sent.saturating_add(*amount);
        }
        Sending {
            owed: self,
            amounts,
            is_answered: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_owed_until_it_is_answered() {
        let owed = OwedCounts::default();
        owed.add(["a", "b"].into_iter(), 10);
        let sending = owed.send(Some(&["a"]));
        assert_eq!(sending.amounts, HashMap::from([("a".to_owned(), 10)]));
        assert_eq!((owed.get("a"), owed.get("b")), (10, 10), "in between");
        owed.add(["a"].into_iter(), 1);
        // The client left.
        drop(sending);
        assert_eq!(owed.get("a"), 11);
        let sending = owed.send(None);
        assert_eq!(sending.amounts.len(), 2);
        sending.settle();
        assert_eq!((owed.get("a"), owed.get("b")), (0, 0));
        assert!(owed.send(None).amounts.is_empty());
    }
}
