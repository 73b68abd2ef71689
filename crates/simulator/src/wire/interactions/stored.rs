//! Store of the interactions that the provider keeps.

use std::collections::{HashMap, VecDeque};

use cachalot_core::Digest;
use serde_json::Value;

use super::super::ApiError;
use super::ResponseParameters;

/// Maximum number of stored interactions; the oldest are evicted first.
const MAX_INTERACTIONS: usize = 10_000;

/// Id with the namespace of the key to which it belongs.
type Id = (Digest, String);

/// Stored interactions by id.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoredInteractions {
    interactions: HashMap<Id, StoredInteraction>,
    /// Ids, oldest first.
    order: VecDeque<Id>,
}

#[derive(Debug, Clone)]
struct StoredInteraction {
    /// Steps of the conversation before the interaction's own.
    before: Vec<Value>,
    interaction: Value,
}

impl StoredInteractions {
    /// Stores an interaction if its request asks for it.
    pub(crate) fn remember(
        &mut self,
        namespace: Digest,
        parameters: &ResponseParameters,
        interaction: &Value,
    ) {
        let id = interaction.get("id").and_then(Value::as_str);
        let Some(id) = id.filter(|_| parameters.is_stored) else {
            return;
        };
        let id = (namespace, id.to_owned());
        let stored = StoredInteraction {
            before: parameters.steps.clone(),
            interaction: interaction.clone(),
        };
        self.interactions.insert(id.clone(), stored);
        self.order.push_back(id);
        if self.order.len() > MAX_INTERACTIONS
            && let Some(oldest) = self.order.pop_front()
        {
            self.interactions.remove(&oldest);
        }
    }

    /// Returns a stored interaction.
    pub(crate) fn interaction(&self, namespace: Digest, id: &str) -> Result<&Value, ApiError> {
        self.stored(namespace, id).map(|stored| &stored.interaction)
    }

    /// Deletes a stored interaction.
    pub(crate) fn forget(&mut self, namespace: Digest, id: &str) -> Result<(), ApiError> {
        match self.interactions.remove(&(namespace, id.to_owned())) {
            Some(_) => Ok(()),
            None => Err(not_found(id)),
        }
    }

    /// Returns the steps of a conversation up to and including an interaction.
    pub(super) fn steps(&self, namespace: Digest, id: &str) -> Result<Vec<Value>, ApiError> {
        let stored = self.stored(namespace, id)?;
        let own = stored.interaction.get("steps").and_then(Value::as_array);
        let own = own.into_iter().flatten();
        Ok(stored.before.iter().chain(own).cloned().collect())
    }

    fn stored(&self, namespace: Digest, id: &str) -> Result<&StoredInteraction, ApiError> {
        let found = self.interactions.get(&(namespace, id.to_owned()));
        found.ok_or_else(|| not_found(id))
    }
}

fn not_found(id: &str) -> ApiError {
    ApiError::invalid(format!("Interaction '{id}' not found.")).status(404)
}
