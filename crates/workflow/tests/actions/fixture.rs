//! A run for actions: a directory, an environment, settings, a store, secrets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use cachalot_cache::{Cache, CacheBounds, CacheMode, Ledger};
use cachalot_core::{DigestKey, ManualClock, SecretSet};
use cachalot_core::{EffectTarget, EffectTargets};
use cachalot_model::{Budget, Meter, ModelConfiguration, Models};
use cachalot_storage::{HttpClient, HttpOptions, Storage};
use cachalot_store::in_process::InProcessStore;
use cachalot_workflow::action::runtime::Random;
use cachalot_workflow::actions::builtin;
use cachalot_workflow::report::{Event, Reporter};
use cachalot_workflow::{Failure, Planned, Runtime};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A run and the directory in which it happens.
pub(crate) struct Fixture {
    pub(crate) runtime: Runtime,
    pub(crate) events: Arc<EventRecorder>,
    directory: TempDir,
}

#[derive(Default)]
pub(crate) struct EventRecorder(Mutex<Vec<Event>>);

impl Reporter for EventRecorder {
    fn report(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

impl EventRecorder {
    pub(crate) fn warnings(&self) -> Vec<String> {
        let events = self.0.lock().unwrap();
        events
            .iter()
            .filter_map(|event| match event {
                Event::Warning { message } => Some(message.clone()),
                _ => None,
            })
            .collect()
    }
}

impl EventRecorder {
    /// The printed texts, with the node.
    pub(crate) fn printed(&self) -> Vec<(String, String)> {
        let events = self.0.lock().unwrap();
        let printed = events.iter().filter_map(|event| match event {
            Event::Printed { node, text } => Some((node.clone(), text.clone())),
            _ => None,
        });
        printed.collect()
    }
}

struct FixedRandom;

impl Random for FixedRandom {
    fn unit(&self) -> f64 {
        0.5
    }
}

impl Fixture {
    /// A run with an empty directory, nothing in its environment but PATH, and an empty memory.
    pub(crate) fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let events = Arc::new(EventRecorder::default());
        let clock = Arc::new(ManualClock::at(1_795_228_920_000));
        let memory: Arc<dyn cachalot_store::Store> = Arc::new(InProcessStore::new(clock.clone()));
        let secret_set = Arc::new(SecretSet::with_key(DigestKey::new([7; 32])));
        let cache = Cache::new(cachalot_cache::CacheOptions {
            local: None,
            store: Some(Arc::clone(&memory)),
            ledger: Ledger::disabled(),
            clock: clock.clone(),
            secret_set: Arc::clone(&secret_set),
            bounds: CacheBounds::default(),
            warn: Arc::new(|_| {}),
        });
        let path = std::env::var("PATH").unwrap_or_default();
        let environment = BTreeMap::from([("PATH".to_owned(), path)]);
        let runtime = Runtime {
            models: Models::new(
                cachalot_model::ModelDependencies {
                    environment: environment.clone(),
                    clock: clock.clone(),
                    http: cachalot_storage::HttpOptions::default(),
                    catalog: cachalot_model::Catalog::built_in(),
                },
                ModelConfiguration::default(),
            ),
            meter: Meter::new(Budget::default(), clock.clone()),
            team: None,
            agent_host: None,
            session: cachalot_workflow::session::SessionMemory::default(),
            run: "run".to_owned(),
            agent: "test".to_owned(),
            directory: directory.path().to_owned(),
            environment,
            settings: json!({}),
            clock,
            random: Arc::new(FixedRandom),
            storage: storage(directory.path()),
            store: Some(memory),
            cache,
            mode: CacheMode::On,
            secret_set,
            secrets: BTreeMap::new(),
            actions: Arc::new(builtin()),
            tools: cachalot_workflow::action::runtime::ToolServices::default(),
            sandbox: None,
            reporter: Arc::clone(&events) as Arc<dyn Reporter>,
        };
        Self {
            runtime,
            events,
            directory,
        }
    }

    pub(crate) fn with_settings(mut self, settings: Value) -> Self {
        self.runtime.settings = settings;
        self
    }

    pub(crate) fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.runtime
            .environment
            .insert(name.to_owned(), value.to_owned());
        self
    }

    /// A path in the directory of the run.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A file in it, its directories made.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Checks the arguments and runs the action.
    pub(crate) async fn run(&self, action: &str, arguments: Value) -> Result<Value, Failure> {
        let action = self
            .runtime
            .actions
            .get(action)
            .unwrap_or_else(|| panic!("no action {action}"));
        let Value::Object(arguments) = arguments else {
            panic!("arguments are a mapping")
        };
        let arguments = action.metadata().check(arguments)?;
        action.run(arguments, &self.runtime).await
    }

    /// Runs an action that must succeed.
    pub(crate) async fn ok(&self, action: &str, arguments: Value) -> Value {
        self.run(action, arguments)
            .await
            .unwrap_or_else(|failure| panic!("{action}: {failure:?}"))
    }

    /// Runs an action that must fail.
    pub(crate) async fn fails(&self, action: &str, arguments: Value) -> Failure {
        match self.run(action, arguments).await {
            Ok(value) => panic!("{action} should have failed, and gave {value}"),
            Err(failure) => failure,
        }
    }

    /// Checks the arguments and plans the action.
    pub(crate) async fn plan(&self, action: &str, arguments: Value) -> Result<Planned, Failure> {
        let action = self.runtime.actions.get(action).unwrap();
        let arguments = action
            .metadata()
            .check(arguments.as_object().unwrap().clone())?;
        action.plan(arguments, &self.runtime).await
    }

    /// The implicit inputs of the key.
    pub(crate) fn implicit(&self, action: &str, arguments: Value) -> Value {
        let action = self.runtime.actions.get(action).unwrap();
        let arguments = action
            .metadata()
            .check(arguments.as_object().unwrap().clone())
            .unwrap();
        action.implicit_inputs(&arguments, &self.runtime).unwrap()
    }

    /// The files that are witnessed before the action runs.
    pub(crate) fn file_dependencies(&self, action: &str, arguments: Value) -> Vec<PathBuf> {
        let action = self.runtime.actions.get(action).unwrap();
        let arguments = action
            .metadata()
            .check(arguments.as_object().unwrap().clone())
            .unwrap();
        let EffectTargets::Known(reads) = action.effects(&arguments, &self.runtime).reads else {
            return Vec::new();
        };
        let path = |read| match read {
            EffectTarget::Path(path) => path,
            other => panic!("{other:?}"),
        };
        reads.into_iter().map(path).collect()
    }

    /// Runs the action wrapped: whether the cache answered, and with what.
    pub(crate) async fn wrapped(&self, with: Value) -> (bool, Value) {
        let response = self.ok("cache.wrap", with).await;
        (
            response["_cache_hit"] == true,
            response
                .get("result")
                .unwrap_or_else(|| panic!("{response}"))
                .clone(),
        )
    }
}

fn storage(directory: &Path) -> Storage {
    Storage::new(cachalot_storage::StorageOptions {
        directory: directory.to_owned(),
        environment: BTreeMap::new(),
        http: HttpClient::new(HttpOptions::default()).unwrap(),
    })
}
