//! Values that templates can read.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use cachalot_core::{Secret, SecretSet};
use cachalot_storage::{Algorithm, Storage};
use minijinja::Value;
use minijinja::value::{Object, ObjectRepr};
use serde_json::{Map, Value as Json};

use super::convert;
use super::state::State;

/// The name of [`StorageHasher`] in the scope. No template can write it.
pub(super) const STORAGE_HASHER: &str = "\0hashes";

/// The names that a template may begin an expression with.
pub const NAMES: &[&str] = &["state", "variables", "secrets", "settings", "env", "result"];

/// The values that are the same for all templates of a run. Cheap to clone.
#[derive(Clone)]
pub struct TemplateContext {
    /// The mappings `variables`, `settings` and `env`.
    fixed: Arc<Map<String, Json>>,
    secrets: Arc<BTreeMap<String, Secret<String>>>,
    secret_set: Arc<SecretSet>,
    storage: Option<Storage>,
    /// The fields of the state at the beginning of the run, for messages.
    inputs: Option<State>,
}

impl fmt::Debug for TemplateContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Surroundings")
    }
}

impl TemplateContext {
    /// Creates surroundings without secrets and without storage.
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
            secret_set: Arc::new(SecretSet::empty()),
            storage: None,
            inputs: None,
        }
    }

    /// Adds `{{ secrets.NAME }}`, and registers the secrets with `secret_set` for masking.
    #[must_use]
    pub fn with_secrets(
        self,
        secrets: BTreeMap<String, Secret<String>>,
        secret_set: Arc<SecretSet>,
    ) -> Self {
        secrets
            .values()
            .for_each(|secret| secret_set.learn(secret.expose()));
        Self {
            secrets: Arc::new(secrets),
            secret_set,
            ..self
        }
    }

    /// Adds the `storage_hash` filter.
    #[must_use]
    pub fn with_storage(self, storage: Storage) -> Self {
        Self {
            storage: Some(storage),
            ..self
        }
    }

    /// Adds the state at the beginning of the run, so that messages distinguish its inputs from other fields.
    #[must_use]
    pub(crate) fn with_inputs(self, inputs: &State) -> Self {
        Self {
            inputs: Some(inputs.clone()),
            ..self
        }
    }

    pub(super) fn inputs(&self) -> Option<&State> {
        self.inputs.as_ref()
    }

    pub(super) fn secret_set(&self) -> &SecretSet {
        &self.secret_set
    }
}

/// The values that one template can read. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Scope {
    context: TemplateContext,
    state: Arc<State>,
    /// Values by further names, such as `result`.
    additional: Arc<Map<String, Json>>,
    hasher: Option<tokio::runtime::Handle>,
}

impl Scope {
    /// Creates a scope of `state` and its surroundings.
    #[must_use]
    pub fn new(context: &TemplateContext, state: &State) -> Self {
        Self {
            context: context.clone(),
            state: Arc::new(state.clone()),
            additional: Arc::default(),
            hasher: None,
        }
    }

    /// Adds `result`.
    #[must_use]
    pub fn with_result(self, result: Json) -> Self {
        self.with_values(Map::from_iter([("result".to_owned(), result)]))
    }

    /// Adds values by their names, in place of those added before.
    #[must_use]
    pub(crate) fn with_values(self, values: Map<String, Json>) -> Self {
        Self {
            additional: Arc::new(values),
            ..self
        }
    }

    /// Lets `storage_hash` wait for storage. The scope must be used on a thread that may block.
    pub(super) fn on_blocking_thread(self, handle: tokio::runtime::Handle) -> Self {
        Self {
            hasher: Some(handle),
            ..self
        }
    }

    pub(crate) fn context(&self) -> &TemplateContext {
        &self.context
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }

    /// Returns the value of a name besides `state` and `secrets`.
    pub(super) fn whole(&self, name: &str) -> Option<&Json> {
        let additional = self.additional.get(name);
        additional.or_else(|| self.context.fixed.get(name))
    }

    /// Looks up a value without the engine. Always `None` for secrets.
    pub(crate) fn json(&self, name: &str, key: &str) -> Option<&Json> {
        match name {
            "state" => self.state.get(key),
            "result" => self.additional.get("result")?.get(key),
            "secrets" => None,
            name => self.context.fixed.get(name)?.get(key),
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
            "secrets" => Some(Value::from_object(Secrets(Arc::clone(
                &self.context.secrets,
            )))),
            STORAGE_HASHER => {
                let storage = self.context.storage.clone()?;
                Some(Value::from_object(StorageHasher {
                    storage,
                    handle: self.hasher.clone()?,
                }))
            }
            name => convert::field(&self.additional, name)
                .or_else(|| convert::field(&self.context.fixed, name)),
        }
    }
}

/// The secrets by name. They cannot be enumerated, so a template cannot print all of them at once.
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

/// Hashes the content behind a URI, for `storage_hash`.
#[derive(Debug)]
pub(super) struct StorageHasher {
    storage: Storage,
    handle: tokio::runtime::Handle,
}

impl StorageHasher {
    /// Returns the hash in hex. Blocks the thread.
    pub(super) fn hash(
        &self,
        uri: &str,
        algorithm: Option<&str>,
    ) -> Result<String, cachalot_storage::Error> {
        let algorithm: Algorithm = match algorithm {
            None => Algorithm::Sha256,
            Some(name) => name.parse()?,
        };
        let hashed = self.handle.block_on(self.storage.hash(uri, algorithm))?;
        Ok(hashed.hash)
    }
}

impl Object for StorageHasher {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}
