//! Shows an answer line by line while it streams.

use std::sync::Arc;

use cachalot_core::SecretSet;

use crate::Runtime;
use crate::report::{Event, Reporter, current_node};

/// Reports each line once it is complete. Secrets are masked.
pub(super) struct LineReporter {
    reporter: Arc<dyn Reporter>,
    secret_set: Arc<SecretSet>,
    node: String,
    /// The received part of the incomplete line.
    rest: String,
}

impl LineReporter {
    /// Creates the buffer for the node that the current task works for.
    pub(super) fn new(runtime: &Runtime) -> Self {
        Self {
            reporter: Arc::clone(&runtime.reporter),
            secret_set: Arc::clone(&runtime.secret_set),
            node: current_node(),
            rest: String::new(),
        }
    }

    /// Appends a chunk of the answer.
    pub(super) fn add(&mut self, text: &str) {
        self.rest.push_str(text);
        while let Some(end) = self.rest.find('\n') {
            let line: String = self.rest.drain(..=end).collect();
            self.report(line.trim_end_matches(['\n', '\r']));
        }
    }

    /// Reports the last line, at the end of the answer.
    pub(super) fn finish(&mut self) {
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            self.report(&rest);
        }
    }

    fn report(&self, line: &str) {
        self.reporter.report(Event::Printed {
            node: self.node.clone(),
            text: self.secret_set.redact(line).into_owned(),
        });
    }
}
