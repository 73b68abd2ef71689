//! How an engine uses its store at the moment, for operators.

use crate::engine::Engine;

/// How an engine uses its store at the moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreAccessState {
    /// Calls do not wait for reads of the store, which did not answer several times in a row. It is asked in the
    /// background until it does.
    pub are_reads_left_out: bool,
    /// The same for writes.
    pub are_writes_left_out: bool,
    /// Copies of answers on this machine may be missing in the store.
    pub has_unsent_copies: bool,
    /// Number of calls that such copies have answered since the start.
    pub answers_of_copies: u64,
}

impl StoreAccessState {
    pub(crate) fn new(engine: &Engine) -> Self {
        let (are_reads_left_out, are_writes_left_out) = engine.access.left_out();
        let local = engine.local.as_ref();
        Self {
            are_reads_left_out,
            are_writes_left_out,
            has_unsent_copies: local.is_some_and(|local| local.has_unsent()),
            answers_of_copies: local.map_or(0, |local| local.answered()),
        }
    }
}
