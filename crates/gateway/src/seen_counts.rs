//! The counts of budgets as this process has seen them: a store that loses its last writes does not forget money that
//! this process knows of.

use std::collections::HashMap;

use parking_lot::Mutex;

/// Both counters of a budget in one period: what was reserved, and what was returned of it.
pub(crate) type Counts = [u64; 2];

/// The largest counts of the latest period of each budget. Counters only grow, so that a store that has less has lost
/// writes.
#[derive(Debug, Default)]
pub(crate) struct SeenCounts(Mutex<HashMap<String, Seen>>);

#[derive(Debug, Clone)]
struct Seen {
    /// The date or the month.
    period: String,
    counts: Counts,
}

impl SeenCounts {
    /// Returns the least counts that the store must have.
    pub(crate) fn get(&self, budget: &str, period: &str) -> Counts {
        let seen = self.0.lock();
        let seen = seen.get(budget).filter(|seen| seen.period == period);
        seen.map_or([0; 2], |seen| seen.counts)
    }

    /// Notes counts of one moment. Those of a period before the latest one are not kept.
    pub(crate) fn note(&self, budget: &str, period: &str, [reserved, returned]: Counts) {
        let mut all = self.0.lock();
        let seen = all.entry(budget.to_owned()).or_insert_with(|| Seen {
            period: period.to_owned(),
            counts: [0; 2],
        });
        // Periods of one budget have the same form, so that their texts have the order of their times.
        if *period > *seen.period {
            period.clone_into(&mut seen.period);
            seen.counts = [0; 2];
        }
        if *period == *seen.period {
            // Answers of the store may arrive in another order than it has counted.
            let [maximum_reserved, maximum_returned] = seen.counts;
            seen.counts = [
                maximum_reserved.max(reserved),
                maximum_returned.max(returned),
            ];
        }
    }
}
