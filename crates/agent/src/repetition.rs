//! Detection of a model that repeats the same calls.

use cachalot_tools::ToolCall;

/// Counts identical consecutive batches of calls.
#[derive(Debug, Default)]
pub(crate) struct Repetition {
    last: Vec<(String, String)>,
    times: u32,
}

impl Repetition {
    /// Returns how many times in a row this batch was made, including this time. Call IDs are ignored.
    pub(crate) fn count(&mut self, calls: &[ToolCall]) -> u32 {
        let is_same = self.last.len() == calls.len()
            && self
                .last
                .iter()
                .zip(calls)
                .all(|((name, arguments), call)| {
                    *name == call.name && *arguments == call.arguments
                });
        if is_same {
            self.times = self.times.saturating_add(1);
        } else {
            let batch = calls.iter();
            self.last = batch
                .map(|call| (call.name.clone(), call.arguments.clone()))
                .collect();
            self.times = 1;
        }
        self.times
    }
}
