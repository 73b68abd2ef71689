//! Store of the responses and items that the provider keeps.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use cachalot_core::Digest;

use super::ResponseParameters;

/// Maximum number of stored responses; the oldest are evicted first.
const MAX_RESPONSES: usize = 10_000;

/// Id with the namespace of the key to which it belongs.
type Id = (Digest, String);

/// Stored responses and items by id. Items that follow a reasoning item are linked to it, stored or not.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoredItems {
    responses: HashMap<Id, StoredResponse>,
    /// Items of stored responses.
    items: HashMap<Id, Value>,
    /// Ids of the stored responses, oldest first.
    order: VecDeque<Id>,
    /// Id of the reasoning item before an item, by the item's id.
    reasoned: HashMap<String, String>,
}

#[derive(Debug, Clone)]
struct StoredResponse {
    /// The response that it continues.
    previous: Option<String>,
    /// The items of its own request.
    input: Vec<Value>,
    response: Value,
}

/// The items that one namespace can access.
#[derive(Clone, Copy)]
pub(super) struct NamespaceItems<'a> {
    items: &'a StoredItems,
    namespace: Digest,
}

impl StoredItems {
    pub(super) fn in_namespace(&self, namespace: Digest) -> NamespaceItems<'_> {
        NamespaceItems {
            items: self,
            namespace,
        }
    }

    /// Remembers which items follow reasoning and, if the request asks to store it, the response.
    pub(crate) fn remember(
        &mut self,
        namespace: Digest,
        response_parameters: &ResponseParameters,
        response: &Value,
    ) {
        let output = response.get("output").and_then(Value::as_array);
        let mut reasoning = None;
        for item in output.into_iter().flatten() {
            let Some(id) = item.get("id").and_then(Value::as_str) else {
                continue;
            };
            if response_parameters.is_stored {
                let id = (namespace, id.to_owned());
                self.items.insert(id, item.clone());
            }
            if item.get("type").and_then(Value::as_str) == Some("reasoning") {
                reasoning = Some(id.to_owned());
            } else if let Some(reasoning) = reasoning.take() {
                self.reasoned.insert(id.to_owned(), reasoning);
            }
        }
        let id = response.get("id").and_then(Value::as_str);
        if let Some(id) = id.filter(|_| response_parameters.is_stored) {
            self.store((namespace, id.to_owned()), response_parameters, response);
        }
    }

    fn store(&mut self, id: Id, response_parameters: &ResponseParameters, response: &Value) {
        let stored = StoredResponse {
            previous: response_parameters.previous.clone(),
            input: response_parameters.input.clone(),
            response: response.clone(),
        };
        self.responses.insert(id.clone(), stored);
        self.order.push_back(id);
        if self.order.len() > MAX_RESPONSES
            && let Some((namespace, oldest)) = self.order.pop_front()
        {
            self.forget(namespace, &oldest);
        }
    }

    /// Returns a stored response.
    pub(crate) fn response(&self, namespace: Digest, id: &str) -> Option<&Value> {
        let stored = self.responses.get(&(namespace, id.to_owned()))?;
        Some(&stored.response)
    }

    /// Deletes a stored response with its items; returns true if there was one.
    pub(crate) fn forget(&mut self, namespace: Digest, id: &str) -> bool {
        let Some(stored) = self.responses.remove(&(namespace, id.to_owned())) else {
            return false;
        };
        for item in stored.output() {
            if let Some(id) = item.get("id").and_then(Value::as_str) {
                self.items.remove(&(namespace, id.to_owned()));
            }
        }
        true
    }
}

impl StoredResponse {
    fn output(&self) -> impl DoubleEndedIterator<Item = &Value> {
        let output = self.response.get("output").and_then(Value::as_array);
        output.into_iter().flatten()
    }
}

impl NamespaceItems<'_> {
    pub(super) fn item(&self, id: &str) -> Option<&Value> {
        self.items.items.get(&(self.namespace, id.to_owned()))
    }

    /// Returns the id of the reasoning item that must directly precede the item with this id.
    pub(super) fn reasoning_of(&self, id: &str) -> Option<&str> {
        self.items.reasoned.get(id).map(String::as_str)
    }

    /// Returns the items of the conversation up to and including the response with this id; `None` if one
    /// of its responses is not stored.
    pub(super) fn history(&self, id: &str) -> Option<Vec<Value>> {
        let mut newest_first: Vec<&Value> = Vec::new();
        let mut next = Some(id);
        while let Some(id) = next {
            let stored = self.items.responses.get(&(self.namespace, id.to_owned()))?;
            newest_first.extend(stored.output().rev());
            newest_first.extend(stored.input.iter().rev());
            next = stored.previous.as_deref();
        }
        Some(newest_first.into_iter().rev().cloned().collect())
    }
}
