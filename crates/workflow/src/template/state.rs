//! The state of a run, as templates read it.

use std::collections::BTreeMap;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Enumerator, Object};
use parking_lot::Mutex;
use serde_json::{Map, Value as Json};

use super::convert;

/// The state of a run: one mapping. In a branch, the state of the run with the fields that the branch has
/// set on top. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct State {
    inherited: Arc<Map<String, Json>>,
    own: Arc<Map<String, Json>>,
    /// The fields that a plan does not know; always `None` in a run.
    unknown: Option<Arc<Unknown>>,
}

/// The fields of a planned state that are unknown because the node that sets them did not run.
#[derive(Debug, Default)]
struct Unknown {
    /// The node that would set each unknown field, by field name.
    fields: BTreeMap<String, String>,
    /// The node that may set any field.
    rest: Option<String>,
    /// The node that would set the first unknown field that was read.
    first_read: Mutex<Option<String>>,
}

impl Unknown {
    fn setter(&self, key: &str) -> Option<&String> {
        self.fields.get(key).or(self.rest.as_ref())
    }

    fn note_read(&self, setter: Option<&String>) {
        let mut first_read = self.first_read.lock();
        if first_read.is_none() {
            *first_read = setter.cloned();
        }
    }
}

impl State {
    /// Creates a state with these fields.
    #[must_use]
    pub fn new(fields: Map<String, Json>) -> Self {
        Self {
            own: Arc::new(fields),
            ..Self::default()
        }
    }

    /// Returns the value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Json> {
        let found = self.own.get(key).or_else(|| self.inherited.get(key));
        if let (None, Some(unknown)) = (found, &self.unknown) {
            unknown.note_read(unknown.setter(key));
        }
        found
    }

    /// Returns the keys of all fields.
    pub(super) fn keys(&self) -> impl Iterator<Item = &String> {
        let own = self.own.keys();
        let inherited = self.inherited.keys();
        inherited.chain(own.filter(|key| !self.inherited.contains_key(*key)))
    }

    /// Sets `key`.
    pub fn set(&mut self, key: impl Into<String>, value: Json) {
        Arc::make_mut(&mut self.own).insert(key.into(), value);
    }

    /// Sets all of `fields`.
    pub fn merge(&mut self, fields: Map<String, Json>) {
        if !fields.is_empty() {
            Arc::make_mut(&mut self.own).extend(fields);
        }
    }

    /// Removes `key`. A branch no longer sees it; the state that it branched off from keeps it.
    pub fn remove(&mut self, key: &str) {
        if self.own.contains_key(key) {
            Arc::make_mut(&mut self.own).shift_remove(key);
        }
        if self.inherited.contains_key(key) {
            Arc::make_mut(&mut self.inherited).shift_remove(key);
        }
    }

    /// Returns all fields in one mapping.
    #[must_use]
    pub fn to_map(&self) -> Arc<Map<String, Json>> {
        if self.inherited.is_empty() {
            return Arc::clone(&self.own);
        }
        let mut fields = (*self.inherited).clone();
        fields.extend(
            self.own
                .iter()
                .map(|(key, value)| (key.clone(), value.clone())),
        );
        Arc::new(fields)
    }

    /// Creates the state of a branch: it reads all fields of this state and sets none here. Branches share
    /// the fields that they read if `self` is one mapping (see [`State::flattened`]).
    #[must_use]
    pub fn branch(&self) -> Self {
        Self {
            inherited: self.to_map(),
            own: Arc::default(),
            unknown: self.unknown.clone(),
        }
    }

    /// Returns the same state as one mapping.
    #[must_use]
    pub fn flattened(&self) -> Self {
        Self {
            inherited: Arc::default(),
            own: self.to_map(),
            unknown: self.unknown.clone(),
        }
    }

    /// Returns the fields that a branch has set.
    #[must_use]
    pub fn into_own_fields(self) -> Map<String, Json> {
        Arc::unwrap_or_clone(self.own)
    }

    /// Marks `key` as unknown, because `node` would set it and did not run.
    pub(crate) fn mark_unknown(&mut self, key: &str, node: &str) {
        let mut known = Arc::unwrap_or_clone(self.to_map());
        known.shift_remove(key);
        let mut unknown = Unknown::default();
        if let Some(before) = &self.unknown {
            unknown.fields = before.fields.clone();
            unknown.rest = before.rest.clone();
        }
        unknown.fields.insert(key.to_owned(), node.to_owned());
        *self = Self {
            unknown: Some(Arc::new(unknown)),
            ..Self::new(known)
        };
    }

    /// Marks all fields as unknown, because `node` might set any of them and did not run.
    pub(crate) fn mark_all_unknown(&mut self, node: &str) {
        let rest = Some(node.to_owned());
        *self = Self {
            unknown: Some(Arc::new(Unknown {
                rest,
                ..Unknown::default()
            })),
            ..Self::default()
        };
    }

    /// Returns the node that would set the unknown field that was read since the last call, and resets it.
    pub(crate) fn take_first_read(&self) -> Option<String> {
        let unknown = self.unknown.as_ref()?;
        unknown.first_read.lock().take()
    }

    /// Returns all fields.
    #[must_use]
    pub fn into_fields(self) -> Map<String, Json> {
        let fields = self.to_map();
        // Otherwise `self` shares the map, which would have to be copied.
        drop(self);
        Arc::unwrap_or_clone(fields)
    }
}

impl Object for State {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        let found = convert::field_of_state(&self.own, &self.inherited, key)
            .or_else(|| convert::field(&self.inherited, key));
        if let (None, Some(unknown)) = (&found, &self.unknown) {
            unknown.note_read(unknown.setter(key));
        }
        found
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        if let Some(unknown) = &self.unknown {
            unknown.note_read(
                unknown
                    .rest
                    .as_ref()
                    .or_else(|| unknown.fields.values().next()),
            );
        }
        convert::keys(self.keys())
    }
}
