//! Noticing a model that makes the same calls again and again.

use cachalot_tools::Call;

/// Counts identical consecutive batches of calls.
#[derive(Debug, Default)]
pub(crate) struct Repetition {
    last: Vec<(String, String)>,
    times: u32,
}

impl Repetition {
    /// How often in a row this batch has been made now, this time included. Ids do not count.
    pub(crate) fn note<'a>(&mut self, calls: impl Iterator<Item = &'a Call>) -> u32 {
        let batch: Vec<_> = calls
            .map(|call| (call.name.clone(), call.arguments.clone()))
            .collect();
        if batch == self.last {
            self.times += 1;
        } else {
            self.last = batch;
            self.times = 1;
        }
        self.times
    }
}
