//! A home directory with a store, a ledger and files, and runs in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cachalot_cache::{Cache, CacheBounds, CacheMode, Explanation, Ledger};
use cachalot_core::{Clock, DigestKey, ManualClock, Millis, SecretSet};
use cachalot_model::{Budget, Meter, ModelConfiguration, Models};
use cachalot_storage::{HttpClient, HttpOptions, Storage};
use cachalot_store::sqlite::{self, SqliteStore};
use cachalot_store::{PageRequest, Record, RecordFilter, Store, space};
use cachalot_workflow::Registry;
use cachalot_workflow::action::runtime::Random;
use cachalot_workflow::actions::builtin;
use cachalot_workflow::report::{Event, Memoized, Reporter};
use cachalot_workflow::{Action, Failure, Runtime};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A time far from the epoch that is no round number of seconds.
pub(crate) const START: Millis = 1_795_228_920_123;

/// The text of [`START`] in responses.
pub(crate) const START_TEXT: &str = "2026-11-21T02:42:00.123Z";

/// Everything that happened, in order.
#[derive(Default)]
pub(crate) struct EventRecorder(Mutex<Vec<Event>>);

impl Reporter for EventRecorder {
    fn report(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

impl EventRecorder {
    /// The outcomes of memoized actions.
    pub(crate) fn answered(&self) -> Vec<Memoized> {
        let events = self.0.lock().unwrap();
        let answered = events.iter().filter_map(|event| match event {
            Event::Answered { memoized, .. } => Some(memoized.clone()),
            _ => None,
        });
        answered.collect()
    }

    /// Everything, as text.
    pub(crate) fn text(&self) -> String {
        format!("{:?}", self.0.lock().unwrap())
    }
}

/// Always the same number.
pub(crate) struct FixedRandom(pub(crate) f64);

impl Random for FixedRandom {
    fn unit(&self) -> f64 {
        self.0
    }
}

/// Numbers that look random and are the same in every run (splitmix64).
pub(crate) struct SeededRandom(Mutex<u64>);

impl SeededRandom {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }
}

impl Random for SeededRandom {
    fn unit(&self) -> f64 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// What a run is made from; everything that a test does not name is as in a plain run of an agent
/// called `tester`.
pub(crate) struct Setup {
    home: Arc<TempDir>,
    store: StoreKind,
    agent: String,
    run: String,
    mode: CacheMode,
    clock: Option<Arc<dyn Clock>>,
    manual: Arc<ManualClock>,
    random: Arc<dyn Random>,
    settings: Value,
    environment: BTreeMap<String, String>,
    directory: Option<PathBuf>,
    secret_set: Arc<SecretSet>,
    bounds: CacheBounds,
    actions: Registry,
}

enum StoreKind {
    Sqlite,
    Other(Arc<dyn Store>),
    Nowhere,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            home: Arc::new(TempDir::new().unwrap()),
            store: StoreKind::Sqlite,
            agent: "tester".to_owned(),
            run: "run-1".to_owned(),
            mode: CacheMode::On,
            clock: None,
            manual: Arc::new(ManualClock::at(START)),
            // Never cleans up by chance.
            random: Arc::new(FixedRandom(0.999)),
            settings: json!({}),
            environment: BTreeMap::from([(
                "PATH".to_owned(),
                std::env::var("PATH").unwrap_or_default(),
            )]),
            directory: None,
            secret_set: Arc::new(SecretSet::empty()),
            bounds: CacheBounds::default(),
            actions: builtin(),
        }
    }
}

impl Setup {
    /// In the home of another run, at the time it is there.
    pub(crate) fn in_home_of(fixture: &Fixture) -> Self {
        Self {
            home: Arc::clone(&fixture.home),
            manual: Arc::clone(&fixture.clock),
            ..Self::default()
        }
    }

    pub(crate) fn store(self, store: Arc<dyn Store>) -> Self {
        Self {
            store: StoreKind::Other(store),
            ..self
        }
    }

    pub(crate) fn without_store(self) -> Self {
        Self {
            store: StoreKind::Nowhere,
            ..self
        }
    }

    pub(crate) fn agent(self, agent: &str) -> Self {
        Self {
            agent: cachalot_workflow::actions::cache::escape(agent),
            ..self
        }
    }

    pub(crate) fn run(self, run: &str) -> Self {
        Self {
            run: run.to_owned(),
            ..self
        }
    }

    pub(crate) fn mode(self, mode: CacheMode) -> Self {
        Self { mode, ..self }
    }

    pub(crate) fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self {
            clock: Some(clock),
            ..self
        }
    }

    pub(crate) fn random(self, random: impl Random + 'static) -> Self {
        Self {
            random: Arc::new(random),
            ..self
        }
    }

    pub(crate) fn settings(self, settings: Value) -> Self {
        Self { settings, ..self }
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn directory(self, directory: &Path) -> Self {
        Self {
            directory: Some(directory.to_owned()),
            ..self
        }
    }

    /// With these secrets, digested under the key that lies in the home.
    pub(crate) fn secrets(self, secrets: &[&str]) -> Self {
        let key = DigestKey::load_or_create(&self.home.path().join("memory.db.digest-key"));
        let secret_set = SecretSet::with_key(key.unwrap());
        secrets.iter().for_each(|secret| secret_set.learn(secret));
        Self {
            secret_set: Arc::new(secret_set),
            ..self
        }
    }

    pub(crate) fn bounds(self, bounds: CacheBounds) -> Self {
        Self { bounds, ..self }
    }

    pub(crate) fn without_front(self) -> Self {
        let default = CacheBounds::default();
        self.bounds(CacheBounds {
            front_bytes: 0,
            ..default
        })
    }

    pub(crate) fn with(mut self, action: impl Action + 'static) -> Self {
        self.actions.register(action);
        self
    }

    pub(crate) fn start(self) -> Fixture {
        let home = self.home.path().to_owned();
        let clock = self
            .clock
            .unwrap_or_else(|| Arc::clone(&self.manual) as Arc<dyn Clock>);
        let store: Option<Arc<dyn Store>> = match self.store {
            StoreKind::Sqlite => {
                let options = sqlite::SqliteOptions::new(Arc::clone(&clock));
                let store = SqliteStore::open(&home.join("memory.db"), options).unwrap();
                Some(Arc::new(store))
            }
            StoreKind::Other(store) => Some(store),
            StoreKind::Nowhere => None,
        };
        let warnings: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&warnings);
        let warn: Arc<dyn Fn(&str) + Send + Sync> =
            Arc::new(move |text: &str| heard.lock().unwrap().push(text.to_owned()));
        let ledger = home.join("memory.db.ledger");
        let cache = Cache::new(cachalot_cache::CacheOptions {
            local: None,
            store: store.clone(),
            ledger: Ledger::at(&ledger, self.run.clone(), Arc::clone(&warn)),
            clock: Arc::clone(&clock),
            secret_set: Arc::clone(&self.secret_set),
            bounds: self.bounds,
            warn,
        });
        let events = Arc::new(EventRecorder::default());
        let directory = self.directory.unwrap_or_else(|| {
            let directory = home.join("files");
            std::fs::create_dir_all(&directory).unwrap();
            directory
        });
        let runtime = Runtime {
            models: Models::new(
                cachalot_model::ModelDependencies {
                    environment: self.environment.clone(),
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
            run: self.run,
            agent: self.agent,
            storage: storage(&directory),
            directory,
            environment: self.environment,
            settings: self.settings,
            clock,
            random: self.random,
            store,
            cache,
            mode: self.mode,
            secret_set: self.secret_set,
            secrets: BTreeMap::new(),
            actions: Arc::new(self.actions),
            tools: cachalot_workflow::action::runtime::ToolServices::default(),
            sandbox: None,
            reporter: Arc::clone(&events) as Arc<dyn Reporter>,
        };
        Fixture {
            runtime,
            events,
            clock: self.manual,
            warnings,
            home: self.home,
        }
    }
}

fn storage(directory: &Path) -> Storage {
    Storage::new(cachalot_storage::StorageOptions {
        directory: directory.to_owned(),
        environment: BTreeMap::new(),
        http: HttpClient::new(HttpOptions::default()).unwrap(),
    })
}

/// A run, and the home in which it takes place.
pub(crate) struct Fixture {
    pub(crate) runtime: Runtime,
    pub(crate) events: Arc<EventRecorder>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) warnings: Arc<Mutex<Vec<String>>>,
    home: Arc<TempDir>,
}

impl Fixture {
    /// A plain run that knows these actions of the test beside the built-in ones.
    pub(crate) fn with(action: impl Action + 'static) -> Self {
        Setup::default().with(action).start()
    }

    /// The home directory.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// A path in the directory of the run.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.runtime.directory.join(name)
    }

    /// A file in the directory of the run.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn after(&self, time: Duration) {
        self.clock.advance(time);
    }

    /// Checks the arguments and runs the action, as a node does.
    pub(crate) async fn call(&self, action: &str, arguments: Value) -> Result<Value, Failure> {
        let found = self.runtime.actions.get(action);
        let action = found.unwrap_or_else(|| panic!("there is no action {action}"));
        let Value::Object(arguments) = arguments else {
            panic!("arguments are a mapping")
        };
        let arguments = action.metadata().check(arguments)?;
        action.run(arguments, &self.runtime).await
    }

    /// Runs an action that must succeed.
    pub(crate) async fn ok(&self, action: &str, arguments: Value) -> Value {
        let answer = self.call(action, arguments).await;
        answer.unwrap_or_else(|failure| panic!("{action}: {failure:?}"))
    }

    /// Runs an action that must fail.
    pub(crate) async fn fails(&self, action: &str, arguments: Value) -> Failure {
        match self.call(action, arguments).await {
            Ok(value) => panic!("{action} should have failed, and gave {value}"),
            Err(failure) => failure,
        }
    }

    /// `cache.wrap` that must succeed.
    pub(crate) async fn wrap(&self, with: Value) -> Value {
        self.ok("cache.wrap", with).await
    }

    /// `cache.wrap` of an action with arguments and nothing else.
    pub(crate) async fn wrapped(&self, action: &str, args: Value) -> Value {
        self.wrap(json!({ "action": action, "args": args })).await
    }

    /// The response of `cache.get` for a key.
    pub(crate) async fn get(&self, key: &str) -> Value {
        self.ok("cache.get", json!({"key": key, "include_metadata": true}))
            .await
    }

    /// `cache.invalidate` that must succeed.
    pub(crate) async fn invalidate(&self, with: Value) -> Value {
        self.ok("cache.invalidate", with).await
    }

    /// All records of the cache as the memory holds them.
    pub(crate) async fn entries(&self) -> Vec<Record> {
        self.records(space::CACHE).await
    }

    pub(crate) async fn records(&self, space: &str) -> Vec<Record> {
        let store = self.runtime.store.as_ref().expect("a memory");
        let page = PageRequest::first(1_000_000);
        let found = store
            .find(space, &RecordFilter::default(), page)
            .settle()
            .await;
        found.unwrap().records
    }

    /// Explains the last call, as `cachalot why --last` does.
    pub(crate) async fn why(&self) -> Explanation {
        let ledger = self.runtime.cache.ledger();
        ledger.flush().await;
        ledger.explain(None).unwrap().expect("a call")
    }

    /// Ends the run: what it has not told yet is told, and nothing of it stays open.
    pub(crate) async fn end(self) -> Setup {
        self.runtime.cache.close().await;
        Setup::in_home_of(&self)
    }
}

/// `value` without the fields named.
pub(crate) fn without(mut value: Value, fields: &[&str]) -> Value {
    for field in fields {
        value.as_object_mut().unwrap().shift_remove(*field);
    }
    value
}

/// The text of a field.
#[track_caller]
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    let found = value[field].as_str();
    found.unwrap_or_else(|| panic!("{field} is no text in {value}"))
}

/// Returns whether a response is a hit.
#[track_caller]
pub(crate) fn is_hit(response: &Value) -> bool {
    let hit = response["_cache_hit"].as_bool();
    hit.unwrap_or_else(|| panic!("no _cache_hit in {response}"))
}
