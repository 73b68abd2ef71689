//! The action in an agent file, through the cache, on the memory of this crate.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use cachalot_cache::{Cache, CacheBounds, CacheMode, CacheOptions, Ledger};
use cachalot_core::{Clock, SecretSet, SystemClock};
use cachalot_model::{Budget, Catalog, Meter, ModelConfiguration, Models};
use cachalot_storage::{HttpClient, HttpOptions, Storage};
use cachalot_store::Store;
use cachalot_workflow::Registry;
use cachalot_workflow::Runtime;
use cachalot_workflow::action::runtime::Random;
use cachalot_workflow::actions::builtin;
use cachalot_workflow::format;
use cachalot_workflow::graph::{self, RunFailure, Scripts};
use cachalot_workflow::report::{Event, Reporter};
use cachalot_workflow::script::{Script, ScriptFailure, ScriptResult, ScriptRunner};
use serde_json::{Map, Value, json};
use third_party::{JournalMemory, WordCount};

const AGENT: &str = r#"
name: counting
nodes:
  - name: count
    uses: cache.wrap
    with:
      action: words.count
      key_strategy: file_content
      key_source: path
      args:
        path: "{{ state.path }}"
        at_least: 4
    output: counted
  - name: remember
    uses: ltm.store
    with:
      key: "{{ state.path }}"
      value: "{{ state.counted.result.words }}"
  - name: recall
    uses: ltm.retrieve
    with:
      key: "{{ state.path }}"
    output: recalled
"#;

/// The agent file of these tests has no code.
struct NoCode;

#[async_trait]
impl ScriptRunner for NoCode {
    async fn run(
        &self,
        _script: &Script,
        _state: &Map<String, Value>,
        _variables: &Map<String, Value>,
    ) -> Result<ScriptResult, ScriptFailure> {
        unreachable!("there is no code to run")
    }
}

struct Silence;

impl Reporter for Silence {
    fn report(&self, _event: Event) {}
}

struct Never;

impl Random for Never {
    fn unit(&self) -> f64 {
        1.0
    }
}

/// The actions of Cachalot and ours; how often ours was done.
fn registry() -> (Registry, Arc<AtomicU32>) {
    let mut registry = builtin();
    let (action, done) = WordCount::counted();
    registry.register(action);
    (registry, done)
}

fn runtime(directory: &Path, memory: Arc<dyn Store>, actions: Registry) -> Arc<Runtime> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let secret_set = Arc::new(SecretSet::empty());
    let cache = Cache::new(CacheOptions {
        local: None,
        store: Some(Arc::clone(&memory)),
        ledger: Ledger::disabled(),
        clock: Arc::clone(&clock),
        secret_set: Arc::clone(&secret_set),
        bounds: CacheBounds::default(),
        warn: Arc::new(|warning| panic!("{warning}")),
    });
    let storage = Storage::new(cachalot_storage::StorageOptions {
        directory: directory.to_owned(),
        environment: BTreeMap::new(),
        http: HttpClient::new(HttpOptions::default()).unwrap(),
    });
    Arc::new(Runtime {
        models: Models::new(
            cachalot_model::ModelDependencies {
                environment: BTreeMap::new(),
                clock: clock.clone(),
                http: HttpOptions::default(),
                catalog: Catalog::built_in(),
            },
            ModelConfiguration::default(),
        ),
        meter: Meter::new(Budget::default(), clock.clone()),
        team: None,
        agent_host: None,
        session: cachalot_workflow::session::SessionMemory::default(),
        run: "a run".to_owned(),
        agent: "counting".to_owned(),
        directory: directory.to_owned(),
        environment: BTreeMap::new(),
        settings: json!({}),
        clock,
        random: Arc::new(Never),
        storage,
        store: Some(memory),
        cache,
        mode: CacheMode::On,
        secret_set,
        secrets: BTreeMap::new(),
        actions: Arc::new(actions),
        tools: cachalot_workflow::action::runtime::ToolServices::default(),
        sandbox: None,
        reporter: Arc::new(Silence),
    })
}

/// Runs the agent as a process of its own would: on the memory in `directory`, which it opens and
/// closes. Its final state, and how often the words were counted.
fn run(directory: &Path, path: &str) -> (Result<Map<String, Value>, RunFailure>, u32) {
    tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(run_once(directory, path))
}

async fn run_once(directory: &Path, path: &str) -> (Result<Map<String, Value>, RunFailure>, u32) {
    let (actions, done) = registry();
    let agent = format::load(
        "counting.yaml",
        AGENT,
        &actions,
        &BTreeMap::new(),
        &format::Builtins::default(),
    )
    .unwrap();
    let memory =
        JournalMemory::open(&directory.join("memory.jsonl"), Arc::new(SystemClock)).unwrap();
    let runtime = runtime(directory, Arc::new(memory), actions);
    let input = Map::from_iter([("path".to_owned(), Value::from(path))]);
    let code: Arc<dyn ScriptRunner> = Arc::new(NoCode);
    let scripts = Scripts {
        python: Arc::clone(&code),
        lua: Arc::clone(&code),
        python3: code,
    };
    let ended = graph::run(&agent, input, &runtime, &scripts).await;
    runtime.cache.close().await;
    (ended, done.load(Ordering::SeqCst))
}

#[test]
fn words_are_counted_once_per_content() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write("a.txt", "a sperm whale dives for an hour");
    write("copy.txt", "a sperm whale dives for an hour");

    let (state, counted) = run(directory.path(), "a.txt");
    let state = state.unwrap();
    assert_eq!(
        (counted, &state["counted"]["result"]["words"]),
        (1, &json!(4))
    );
    assert_eq!(state["counted"]["_cache_stored"], true);
    assert_eq!(state["recalled"]["value"], 4);

    // Each run opens the memory anew: what is a hit now was in its file.
    for path in ["a.txt", "copy.txt"] {
        let (state, counted) = run(directory.path(), path);
        let state = state.unwrap();
        assert_eq!(
            (counted, &state["counted"]["_cache_hit"]),
            (0, &json!(true)),
            "{path}"
        );
        assert_eq!(state["counted"]["result"]["words"], 4);
    }

    write("a.txt", "a sperm whale dives for more than an hour");
    let (state, counted) = run(directory.path(), "a.txt");
    assert_eq!(
        (counted, &state.unwrap()["recalled"]["value"]),
        (1, &json!(6))
    );
}

#[test]
fn failed_action_fails_the_node_and_is_not_cached() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.txt"), [0xff]).unwrap();
    for _ in 0..2 {
        let (ended, _) = run(directory.path(), "a.txt");
        let failure = ended.unwrap_err();
        assert_eq!(
            (failure.node.as_str(), failure.kind),
            ("count", "validation_error")
        );
    }
}

#[test]
fn invalid_arguments_are_problems_at_load() {
    let (actions, _) = registry();
    let misspelt = AGENT.replace("at_least", "at_lest");
    let problems = format::load(
        "counting.yaml",
        &misspelt,
        &actions,
        &BTreeMap::new(),
        &format::Builtins::default(),
    )
    .map(drop)
    .unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].to_string().contains("at_least"),
        "{}",
        problems[0]
    );
}
