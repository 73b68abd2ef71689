//! What templates see.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use cachalot_core::{Seals, Secret};
use cachalot_storage::{Algorithm, Storage};
use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectRepr};
use serde_json::{Map, Value as Json};

use super::convert;
use crate::Runtime;

/// The name under which [`Hashes`] lies in the scope; no template can write it.
pub(super) const HASHES: &str = "\0hashes";

/// The names that a template may begin an expression with.
pub const NAMES: &[&str] = &["state", "variables", "secrets", "settings", "env", "result"];

/// The state of a run: one mapping, or, in a branch, that of the run with what the branch has set
/// on top. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct State {
    below: Arc<Map<String, Json>>,
    own: Arc<Map<String, Json>>,
    /// What a plan does not know; nothing in a run.
    unknown: Option<Arc<Unknown>>,
}

/// What is not known of a state because a node that would set it did not run.
#[derive(Debug, Default)]
struct Unknown {
    /// The node by the field that it would set.
    fields: BTreeMap<String, String>,
    /// The node that may set any field.
    rest: Option<String>,
    /// The node whose field was looked at.
    asked: Mutex<Option<String>>,
}

impl Unknown {
    fn setter(&self, key: &str) -> Option<&String> {
        self.fields.get(key).or(self.rest.as_ref())
    }

    fn ask(&self, setter: Option<&String>) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.is_none() {
            *asked = setter.cloned();
        }
    }
}

impl State {
    /// A state that holds these fields.
    #[must_use]
    pub fn new(fields: Map<String, Json>) -> Self {
        Self {
            own: Arc::new(fields),
            ..Self::default()
        }
    }

    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Json> {
        let found = self.own.get(key).or_else(|| self.below.get(key));
        if let (None, Some(unknown)) = (found, &self.unknown) {
            unknown.ask(unknown.setter(key));
        }
        found
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

    /// All fields in one mapping.
    #[must_use]
    pub fn whole(&self) -> Arc<Map<String, Json>> {
        if self.below.is_empty() {
            return Arc::clone(&self.own);
        }
        let mut whole = (*self.below).clone();
        whole.extend(
            self.own
                .iter()
                .map(|(key, value)| (key.clone(), value.clone())),
        );
        Arc::new(whole)
    }

    /// The state of a branch: sees everything here, sets nothing here. Branches of one state share
    /// what they see if `self` is a whole (see [`State::settled`]).
    #[must_use]
    pub fn branch(&self) -> Self {
        Self {
            below: self.whole(),
            own: Arc::default(),
            unknown: self.unknown.clone(),
        }
    }

    /// The same state in one mapping.
    #[must_use]
    pub fn settled(&self) -> Self {
        Self {
            below: Arc::default(),
            own: self.whole(),
            unknown: self.unknown.clone(),
        }
    }

    /// What a branch has set.
    #[must_use]
    pub fn into_own(self) -> Map<String, Json> {
        Arc::unwrap_or_clone(self.own)
    }

    /// From now on it is not known what `key` is: `node` would set it, and did not run.
    pub(crate) fn forget(&mut self, key: &str, node: &str) {
        let whole = self.whole();
        let known = whole.iter().filter(|(name, _)| *name != key);
        self.own = Arc::new(
            known
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        );
        self.below = Arc::default();
        let mut fields = self
            .unknown
            .as_ref()
            .map(|unknown| unknown.fields.clone())
            .unwrap_or_default();
        fields.insert(key.to_owned(), node.to_owned());
        let rest = self
            .unknown
            .as_ref()
            .and_then(|unknown| unknown.rest.clone());
        self.unknown = Some(Arc::new(Unknown {
            fields,
            rest,
            asked: Mutex::default(),
        }));
    }

    /// From now on nothing is known: `node` might set anything, and did not run.
    pub(crate) fn forget_all(&mut self, node: &str) {
        let rest = Some(node.to_owned());
        *self = Self {
            unknown: Some(Arc::new(Unknown {
                rest,
                ..Unknown::default()
            })),
            ..Self::default()
        };
    }

    /// The node whose field was looked at, and is not known, since this was last asked.
    pub(crate) fn take_asked(&self) -> Option<String> {
        let unknown = self.unknown.as_ref()?;
        unknown
            .asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// All fields.
    #[must_use]
    pub fn into_fields(self) -> Map<String, Json> {
        let whole = self.whole();
        drop(self);
        Arc::unwrap_or_clone(whole)
    }
}

impl Object for State {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        let found = convert::field(&self.own, key).or_else(|| convert::field(&self.below, key));
        if let (None, Some(unknown)) = (&found, &self.unknown) {
            unknown.ask(unknown.setter(key));
        }
        found
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        if let Some(unknown) = &self.unknown {
            unknown.ask(
                unknown
                    .rest
                    .as_ref()
                    .or_else(|| unknown.fields.values().next()),
            );
        }
        let below = self.below.keys();
        convert::keys(below.chain(self.own.keys().filter(|key| !self.below.contains_key(*key))))
    }
}

/// What stays the same for all templates of a run. Cheap to clone.
#[derive(Clone)]
pub struct Surroundings {
    /// `variables`, `settings`, `env`.
    fixed: Arc<Map<String, Json>>,
    secrets: Arc<BTreeMap<String, Secret<String>>>,
    seals: Arc<Seals>,
    storage: Option<Storage>,
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Surroundings")
    }
}

impl Surroundings {
    /// What a run sees. Its secrets are known to the seals from now on.
    #[must_use]
    pub fn of(runtime: &Runtime, variables: &Map<String, Json>) -> Self {
        let environment = runtime
            .environment
            .iter()
            .map(|(name, value)| (name.clone(), Json::from(value.as_str())))
            .collect();
        Self::new(variables, runtime.settings.clone(), environment)
            .with_secrets(runtime.secrets.clone(), Arc::clone(&runtime.seals))
            .with_storage(runtime.storage.clone())
    }

    /// Without secrets and without storage.
    #[must_use]
    pub fn new(
        variables: &Map<String, Json>,
        settings: Json,
        environment: Map<String, Json>,
    ) -> Self {
        let fixed = [
            ("variables".to_owned(), Json::Object(variables.clone())),
            ("settings".to_owned(), settings),
            ("env".to_owned(), Json::Object(environment)),
        ];
        Self {
            fixed: Arc::new(fixed.into_iter().collect()),
            secrets: Arc::default(),
            seals: Arc::new(Seals::none()),
            storage: None,
        }
    }

    /// With `{{ secrets.NAME }}`; the seals know them from now on.
    #[must_use]
    pub fn with_secrets(
        self,
        secrets: BTreeMap<String, Secret<String>>,
        seals: Arc<Seals>,
    ) -> Self {
        secrets
            .values()
            .for_each(|secret| seals.learn(secret.expose()));
        Self {
            secrets: Arc::new(secrets),
            seals,
            ..self
        }
    }

    /// With the `storage_hash` filter.
    #[must_use]
    pub fn with_storage(self, storage: Storage) -> Self {
        Self {
            storage: Some(storage),
            ..self
        }
    }

    pub(super) fn seals(&self) -> &Seals {
        &self.seals
    }
}

/// What one template sees. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Scope {
    surroundings: Surroundings,
    state: Arc<State>,
    result: Option<Arc<Map<String, Json>>>,
    hashes: Option<tokio::runtime::Handle>,
}

impl Scope {
    /// `state` and what surrounds it.
    #[must_use]
    pub fn new(surroundings: &Surroundings, state: &State) -> Self {
        Self {
            surroundings: surroundings.clone(),
            state: Arc::new(state.clone()),
            result: None,
            hashes: None,
        }
    }

    /// With `result`.
    #[must_use]
    pub fn with_result(self, result: Json) -> Self {
        Self {
            result: Some(Arc::new(Map::from_iter([("result".to_owned(), result)]))),
            ..self
        }
    }

    /// Where `storage_hash` may wait for storage: on a thread that may block.
    pub(super) fn on_blocking_thread(self, handle: tokio::runtime::Handle) -> Self {
        Self {
            hashes: Some(handle),
            ..self
        }
    }

    pub(super) fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }

    /// The value of a name that templates begin with, without the engine; `None` also for secrets.
    pub(super) fn json(&self, name: &str, key: &str) -> Option<&Json> {
        match name {
            "state" => self.state.get(key),
            "result" => self.result.as_ref()?.get("result")?.get(key),
            "secrets" => None,
            name => self.surroundings.fixed.get(name)?.get(key),
        }
    }

    pub(super) fn root(&self) -> Value {
        Value::from_object(self.clone())
    }
}

impl Object for Scope {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        match key {
            "state" => Some(Value::from_dyn_object(Arc::clone(&self.state))),
            "result" => convert::field(self.result.as_ref()?, key),
            "secrets" => Some(Value::from_object(Secrets(Arc::clone(
                &self.surroundings.secrets,
            )))),
            HASHES => {
                let storage = self.surroundings.storage.clone()?;
                Some(Value::from_object(Hashes {
                    storage,
                    handle: self.hashes.clone()?,
                }))
            }
            name => convert::field(&self.surroundings.fixed, name),
        }
    }
}

/// The secrets by name. They cannot be enumerated, so that none is shown by showing all.
struct Secrets(Arc<BTreeMap<String, Secret<String>>>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

impl Object for Secrets {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0
            .get(key.as_str()?)
            .map(|secret| Value::from(secret.expose().as_str()))
    }
}

/// Hashes what lies behind a URI, for `storage_hash`.
#[derive(Debug)]
pub(super) struct Hashes {
    storage: Storage,
    handle: tokio::runtime::Handle,
}

impl Hashes {
    /// The hash in hex. Blocks the thread.
    pub(super) fn hash(&self, uri: &str, algorithm: Option<&str>) -> Result<String, String> {
        let algorithm: Algorithm = match algorithm {
            None => Algorithm::Sha256,
            Some(name) => name
                .parse()
                .map_err(|error: cachalot_storage::Error| format!("storage_hash: {error}"))?,
        };
        let hashed = self.handle.block_on(self.storage.hash(uri, algorithm));
        hashed
            .map(|hashed| hashed.hash)
            .map_err(|error| format!("storage_hash: {error}"))
    }
}

impl Object for Hashes {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}
