//! The action registry. One file registers one namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Action;

/// The actions by name.
#[derive(Default, Clone)]
pub struct Registry {
    actions: BTreeMap<&'static str, Arc<dyn Action>>,
}

impl Registry {
    /// Registers an action under all its names. A later action takes a name over from an earlier one.
    pub fn register(&mut self, action: impl Action + 'static) {
        let action: Arc<dyn Action> = Arc::new(action);
        for name in action.about().names {
            self.actions.insert(name, Arc::clone(&action));
        }
    }

    /// The action called `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Action>> {
        self.actions.get(name)
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.actions.keys().copied()
    }
}
