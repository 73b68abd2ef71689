//! The turns in progress.

use std::collections::HashMap;
use std::sync::Arc;

use cachalot_cache::{Key, Ticket};
use cachalot_core::Spend;
use parking_lot::Mutex;

use super::question::TurnQuestion;
use super::store::ResponseStore;
use crate::input::Input;

/// State of a turn in progress.
pub(super) enum ActiveTurn {
    /// A model answers. Dropping this value abandons the ticket: nothing is stored.
    Runs(Box<ModelTurn>),
    /// The cache answered. The entry is erased if a stop hook rejects the answer.
    ReplayedTurn(ReplayedTurn),
}

/// A turn that a model answers.
pub(super) struct ModelTurn {
    pub(super) question: TurnQuestion,
    /// `None` if a flat file stores the answers: the ledger row is then written at the end of the turn.
    pub(super) ticket: Option<Ticket>,
    /// Set when a stop hook rejected an answer of the turn.
    pub(super) rejected: Option<RejectedAnswer>,
}

/// An answer that a stop hook rejected. It is not stored; its cost is recorded.
pub(super) struct RejectedAnswer {
    /// The reason given by the hook.
    pub(super) why: String,
    /// The cost of the turn until then.
    pub(super) spent: Spend,
}

/// A turn that the cache answered.
pub(super) struct ReplayedTurn {
    pub(super) store: Arc<ResponseStore>,
    /// The normalized question: the key in a flat file.
    pub(super) matched: String,
    /// The cache key of the entry; unused with a flat file.
    pub(super) key: Key,
    /// Set when the mode of the run forbids changes to the store.
    pub(super) is_read_only: bool,
    /// Set when the entry must be erased and the first attempt failed.
    pub(super) is_rejected: bool,
}

/// The turns in progress, by session id and turn id.
#[derive(Default)]
pub(super) struct ActiveTurns(Mutex<HashMap<(String, String), ActiveTurn>>);

impl ActiveTurns {
    pub(super) fn put(&self, input: &Input, turn: ActiveTurn) {
        // The previous value is dropped outside of the lock.
        let _before = self.change(|turns| turns.insert(name(input), turn));
    }

    pub(super) fn take(&self, input: &Input) -> Option<ActiveTurn> {
        self.change(|turns| turns.remove(&name(input)))
    }

    /// Drops all turns of a session.
    pub(super) fn end_session(&self, session: &str) {
        let _ended: Vec<_> =
            self.change(|turns| turns.extract_if(|(of, _), _| of == session).collect());
    }

    fn change<T>(&self, change: impl FnOnce(&mut HashMap<(String, String), ActiveTurn>) -> T) -> T {
        change(&mut self.0.lock())
    }
}

fn name(input: &Input) -> (String, String) {
    (input.session_id.clone(), input.turn_id.clone())
}
