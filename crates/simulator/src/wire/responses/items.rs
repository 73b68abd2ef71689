//! What the provider would remember of the items that it has handed out.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

/// Items by id. The provider stores them and ties those that follow a reasoning item to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Items {
    stored: HashSet<String>,
    /// The reasoning item that came before an item.
    reasoned: HashMap<String, String>,
}

impl Items {
    /// Remembers the items of an answer.
    pub(crate) fn remember(&mut self, output: &[Value], is_stored: bool) {
        let mut reasoning = None;
        for item in output {
            let Some(id) = item.get("id").and_then(Value::as_str) else {
                continue;
            };
            if is_stored {
                self.stored.insert(id.to_owned());
            }
            if item.get("type").and_then(Value::as_str) == Some("reasoning") {
                reasoning = Some(id.to_owned());
            } else if let Some(reasoning) = reasoning.take() {
                self.reasoned.insert(id.to_owned(), reasoning);
            }
        }
    }

    pub(super) fn is_stored(&self, id: &str) -> bool {
        self.stored.contains(id)
    }

    /// The reasoning item that has to come right before the item with this id.
    pub(super) fn reasoning_of(&self, id: &str) -> Option<&str> {
        self.reasoned.get(id).map(String::as_str)
    }
}
