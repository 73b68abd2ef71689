//! Turns under way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cachalot_cache::{Key, Ticket};
use cachalot_core::Spend;

use super::question::Question;
use super::store::Store;
use crate::input::Input;

/// How far a turn has come.
pub(super) enum Turn {
    /// A model answers it. Dropping it says that nothing came of it.
    Runs(Box<Running>),
    /// The cache answered it. The entry is erased if a stop hook rejects the answer.
    Replayed(Replayed),
}

/// A turn that a model answers.
pub(super) struct Running {
    pub(super) question: Question,
    /// None where a flat file keeps answers: such a turn is accounted for at its end.
    pub(super) ticket: Option<Ticket>,
    /// Set when a stop hook rejected an answer of the turn.
    pub(super) rejected: Option<Rejected>,
}

/// An answer that a stop hook rejected. Nothing of it is kept; it was paid for.
pub(super) struct Rejected {
    /// The reason that the hook gave.
    pub(super) why: String,
    /// The cost of the turn until then.
    pub(super) spent: Spend,
}

/// An answer that the cache gave.
pub(super) struct Replayed {
    pub(super) store: Arc<Store>,
    /// The question as a flat file knows it.
    pub(super) matched: String,
    /// The entry; unused where a flat file keeps answers.
    pub(super) key: Key,
    /// Whether the command line lets nothing be changed in the store.
    pub(super) is_read_only: bool,
    /// Whether the entry should be gone, and erasing it failed.
    pub(super) is_rejected: bool,
}

/// Turns under way, by session and turn.
#[derive(Default)]
pub(super) struct Turns(Mutex<HashMap<(String, String), Turn>>);

impl Turns {
    pub(super) fn put(&self, input: &Input, turn: Turn) {
        // What was there is dropped outside of the lock.
        let _before = self.change(|turns| turns.insert(name(input), turn));
    }

    pub(super) fn take(&self, input: &Input) -> Option<Turn> {
        self.change(|turns| turns.remove(&name(input)))
    }

    /// Lets go of all turns of a session.
    pub(super) fn end_session(&self, session: &str) {
        let _ended: Vec<_> =
            self.change(|turns| turns.extract_if(|(of, _), _| of == session).collect());
    }

    fn change<T>(&self, change: impl FnOnce(&mut HashMap<(String, String), Turn>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn name(input: &Input) -> (String, String) {
    (input.session_id.clone(), input.turn_id.clone())
}
