//! State that built-in tools keep for a session: thoughts, todos, background jobs.
//!
//! The tools of a session share ownership of its state. It survives a reload of the tools, because the new
//! ones are created while the old ones exist, and ends with its last owner.

mod background_jobs;
mod job;
mod todo_list;

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use background_jobs::{BackgroundJobs, JobTasks};
pub(super) use job::NewJob;
pub(super) use todo_list::{Todo, TodoList, TodoUpdate, reminder};

/// The state of one session.
pub struct SessionState {
    pub(super) thoughts: Mutex<Vec<String>>,
    pub(super) todos: TodoList,
    pub(super) jobs: BackgroundJobs,
}

impl SessionState {
    fn new(tasks: JobTasks) -> Self {
        Self {
            thoughts: Mutex::default(),
            todos: TodoList::default(),
            jobs: BackgroundJobs::new(tasks),
        }
    }

    /// Empties the list of todos.
    pub fn clear_todos(&self) {
        self.todos.clear();
    }
}

/// State of a session of its own, for tools that only describe themselves.
impl Default for SessionState {
    fn default() -> Self {
        Self::new(JobTasks::default())
    }
}

/// The states of the sessions of a process. Clones share them.
#[derive(Clone, Default)]
pub struct SessionStates {
    states: Arc<Mutex<HashMap<String, Weak<SessionState>>>>,
    tasks: JobTasks,
}

impl SessionStates {
    /// Returns the state of a session, which lasts as long as the caller or a tool holds it.
    #[must_use]
    pub fn of_session(&self, session: &str) -> Arc<SessionState> {
        let mut states = self.states.lock();
        if let Some(state) = states.get(session).and_then(Weak::upgrade) {
            return state;
        }
        states.retain(|_, state| state.strong_count() > 0);
        let state = Arc::new(SessionState::new(self.tasks.clone()));
        states.insert(session.to_owned(), Arc::downgrade(&state));
        state
    }

    /// Takes the notices about background jobs of a session that have ended since the last call, one
    /// paragraph each.
    #[must_use]
    pub fn take_notices(&self, session: &str) -> Vec<String> {
        let state = self.states.lock().get(session).and_then(Weak::upgrade);
        state.map_or_else(Vec::new, |state| state.jobs.take_notices())
    }

    /// Kills all background jobs, and waits for their ends. No job can be started afterwards.
    pub async fn close(&self) {
        let states: Vec<Arc<SessionState>> = {
            let states = self.states.lock();
            states.values().filter_map(Weak::upgrade).collect()
        };
        for state in states {
            state.jobs.close();
        }
        self.tasks.wait().await;
    }
}
