//! What all turns of a chat share, those of sub-agents included.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cachalot_model::budget::Meter;
use cachalot_tools::Answer;

use crate::definition::Team;
use crate::event::Event;
use crate::house::House;
use crate::report::Sum;

/// What the user allowed for the rest of the chat.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Always {
    /// To this agent.
    pub(crate) agent: String,
    pub(crate) tool: String,
    /// Calls that this rule asks about; without one, those that no rule speaks of.
    pub(crate) rule: Option<String>,
}

/// What all turns of a chat share. Clones are the same.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) house: House,
    pub(crate) team: Arc<Team>,
    /// Counts against the budget of the whole chat.
    pub(crate) meter: Meter,
    /// What has been used since it was last asked.
    sum: Arc<Mutex<Sum>>,
    always: Arc<Mutex<BTreeSet<Always>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(house: House, team: Arc<Team>) -> Self {
        let meter = Meter::new(team.budget.clone(), Arc::clone(&house.clock));
        Self {
            house,
            team,
            meter,
            sum: Arc::default(),
            always: Arc::default(),
        }
    }

    pub(crate) fn add(&self, part: Sum) {
        *lock(&self.sum) += part;
    }

    /// Adds calls that have results.
    pub(crate) fn add_answers<'a>(&self, answers: impl IntoIterator<Item = &'a Answer>) {
        for answer in answers {
            self.add(Sum {
                tool_calls: 1,
                saved: answer.saved,
                ..Sum::default()
            });
        }
    }

    /// What has been used since it was last asked.
    pub(crate) fn take_sum(&self) -> Sum {
        std::mem::take(&mut *lock(&self.sum))
    }

    pub(crate) fn allow_always(&self, what: Always) {
        lock(&self.always).insert(what);
    }

    pub(crate) fn is_always(&self, what: &Always) -> bool {
        lock(&self.always).contains(what)
    }

    pub(crate) fn warn(&self, agent: &str, message: &str) {
        self.house.listener.tell(&Event::Warning { agent, message });
    }
}
