//! A list of todos.

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// A list of todos, in the order of their creation.
#[derive(Debug, Default)]
pub(in crate::builtin) struct TodoList(Mutex<Vec<Todo>>);

/// An entry of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::builtin) struct Todo {
    id: String,
    description: String,
    status: TodoStatus,
}

/// The state of a todo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::builtin) enum TodoStatus {
    Pending,
    InProgress,
    Completed,
}

impl TodoStatus {
    /// Returns the word for an open todo.
    fn open_word(self) -> Option<&'static str> {
        match self {
            Self::Pending => Some("pending"),
            Self::InProgress => Some("in-progress"),
            Self::Completed => None,
        }
    }
}

/// A change of a todo.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::builtin) struct TodoUpdate {
    id: String,
    status: TodoStatus,
}

impl TodoList {
    /// Adds todos. Returns them, and all todos.
    pub(in crate::builtin) fn create(&self, descriptions: Vec<String>) -> (Vec<Todo>, Vec<Todo>) {
        let mut todos = self.0.lock();
        let first = todos.len();
        for description in descriptions {
            // Single todos are never removed, so numbers are unique.
            let id = format!("todo_{}", todos.len() + 1);
            todos.push(Todo {
                id,
                description,
                status: TodoStatus::Pending,
            });
        }
        (todos[first..].to_vec(), todos.clone())
    }

    /// Changes todos. Returns the changes that were made, the IDs that do not exist, and all todos.
    pub(in crate::builtin) fn update(
        &self,
        updates: Vec<TodoUpdate>,
    ) -> (Vec<TodoUpdate>, Vec<String>, Vec<Todo>) {
        let mut todos = self.0.lock();
        let (mut updated, mut not_found) = (Vec::new(), Vec::new());
        for update in updates {
            match todos.iter_mut().find(|todo| todo.id == update.id) {
                Some(todo) => {
                    todo.status = update.status;
                    updated.push(update);
                }
                None => not_found.push(update.id),
            }
        }
        (updated, not_found, todos.clone())
    }

    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    /// Returns all todos.
    pub(in crate::builtin) fn all(&self) -> Vec<Todo> {
        self.0.lock().clone()
    }
}

/// Returns a reminder of the open todos, those in progress first; `None` if there are none.
pub(in crate::builtin) fn reminder(todos: &[Todo]) -> Option<String> {
    let open = |status: TodoStatus| {
        let with_status = todos.iter().filter(move |todo| todo.status == status);
        with_status.filter_map(move |todo| {
            let word = status.open_word()?;
            Some(format!("[{}] {} ({word})", todo.id, todo.description))
        })
    };
    let open: Vec<String> = open(TodoStatus::InProgress)
        .chain(open(TodoStatus::Pending))
        .collect();
    (!open.is_empty()).then(|| {
        format!(
            "These todos are open and have to be completed: {}",
            open.join("; ")
        )
    })
}
