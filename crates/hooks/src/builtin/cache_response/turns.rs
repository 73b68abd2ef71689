//! Turns under way.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use cachalot_cache::{Key, Ticket};

use super::question::Question;
use crate::input::Input;

/// How far a turn has come.
pub(super) enum Turn {
    /// It runs. Dropping it says that nothing came of it.
    Runs(Box<Running>),
    /// Its answer was stored, and may have to be taken back: a hook may want the turn to go on.
    Stored(Box<Stored>),
}

/// A turn that a model answers.
pub(super) struct Running {
    pub(super) question: Question,
    /// None where a flat file keeps answers: such a turn is accounted for at its end.
    pub(super) ticket: Option<Ticket>,
}

/// An answer that was stored.
pub(super) struct Stored {
    pub(super) question: Question,
    pub(super) key: Key,
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
