//! What a hit of `cache.wrap` costs, whole action (key, lookup, response), as a ratio to a bare prepared
//! SELECT of the same row in the same run: medians over interleaved rounds.
//! `cargo bench -p cachalot-workflow --bench wrap`; with `-- profile`, only warm hits on the small
//! result, over and over, for a profiler.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cachalot_cache::{Cache, CacheBounds, CacheMode, CacheOptions, Ledger};
use cachalot_core::{SecretSet, SystemClock};
use cachalot_model::{Budget, Meter, ModelConfiguration, Models};
use cachalot_storage::{HttpClient, HttpOptions, Storage};
use cachalot_store::sqlite::{self, SqliteStore};
use cachalot_store::{PageRequest, RecordFilter, Store, space};
use cachalot_workflow::Registry;
use cachalot_workflow::action::runtime::Random;
use cachalot_workflow::actions::builtin;
use cachalot_workflow::report::{Event, Reporter};
use cachalot_workflow::{
    Action, Arguments, Failure, Operation, OperationMetadata, Parameter, ParameterKind, Runtime,
};
use rusqlite::{Connection, params};
use serde_json::{Value, json};

const ROUNDS: usize = 61;
const CALLS: usize = 1_000;

fn main() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    if std::env::args().any(|argument| argument == "profile") {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let warm = run(
            &directory.path().join("memory.db"),
            &directory.path().join("ledger"),
            64 << 20,
            &fields(100),
        );
        for _ in 0..300 {
            hits(&runtime, &warm);
        }
        return;
    }
    println!("B2: ns per call, median of {ROUNDS} rounds of {CALLS}; (ratio to the SELECT)");
    println!(
        "{:<28}{:>10}{:>18}{:>18}",
        "result", "SELECT", "hit, front warm", "hit, front off"
    );
    for (name, result) in [
        ("100 B, fields", fields(100)),
        ("10 kB, text", text(10_000)),
        ("10 kB, records", records(10_000)),
    ] {
        let place = directory.path().join(name.replace([' ', ','], "-"));
        std::fs::create_dir(&place).unwrap();
        measure(name, &place, &result);
    }
}

/// A small answer with a few fields.
fn fields(bytes: usize) -> Value {
    let filler = |text: &str| json!({"id": 4711, "status": "done", "score": 0.75, "text": text});
    let taken = filler("").to_string().len();
    filler(&"x".repeat(bytes - taken))
}

/// An answer that is mostly one text, as of a model or of a page.
fn text(bytes: usize) -> Value {
    let taken = json!({"text": "", "pages": 3}).to_string().len();
    json!({"text": "lorem ips ".repeat(bytes / 10 + 1)[..bytes - taken], "pages": 3})
}

/// An answer of many small records, as of an extraction.
fn records(bytes: usize) -> Value {
    let record = |id: usize| json!({"id": id + 1_000, "name": format!("item {id:04}"), "price": 12.5, "tags": ["a", "b"]});
    let one = record(0).to_string().len() + 1;
    Value::Array((0..bytes / one).map(record).collect())
}

fn measure(name: &str, place: &Path, result: &Value) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let path = place.join("memory.db");
    let warm = run(&path, &place.join("ledger"), 64 << 20, result);
    let cold = run(&path, &place.join("ledger"), 0, result);
    runtime.block_on(async {
        // The miss, then the hit that fills the front.
        wrap(&warm, arguments()).await;
        assert_eq!(wrap(&warm, arguments()).await["_cache_hit"], true);
        assert_eq!(wrap(&cold, arguments()).await["_cache_hit"], true);
    });
    let store = warm.store.as_ref().unwrap();
    let key = runtime.block_on(async {
        let every = RecordFilter::default();
        let found = store.find(space::CACHE, &every, PageRequest::keys(1));
        found.settle().await.unwrap().records.remove(0).key
    });
    let bare = bare(&path);
    let mut statement = bare
        .prepare("SELECT value FROM records WHERE space = ?1 AND key = ?2")
        .unwrap();
    let [selected, with_front, without_front] = medians([
        Box::new(|| {
            each(|| {
                let value: Vec<u8> = statement
                    .query_row(params![space::CACHE, key], |row| row.get(0))
                    .unwrap();
                std::hint::black_box(value);
            })
        }),
        Box::new(|| hits(&runtime, &warm)),
        Box::new(|| hits(&runtime, &cold)),
    ]);
    let shown = |hit: f64| format!("{hit:.0} ({:.2}×)", hit / selected);
    println!(
        "{name:<28}{selected:>10.0}{:>18}{:>18}",
        shown(with_front),
        shown(without_front)
    );
}

/// Nanoseconds per call: the median over rounds, one figure per candidate.
fn medians<const N: usize>(mut candidates: [Box<dyn FnMut() -> Duration + '_>; N]) -> [f64; N] {
    let mut times: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (candidate, times) in candidates.iter_mut().zip(&mut times) {
            times.push(candidate().as_secs_f64() * 1e9 / CALLS as f64);
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    })
}

fn each(mut call: impl FnMut()) -> Duration {
    let start = Instant::now();
    (0..CALLS).for_each(|_| call());
    start.elapsed()
}

/// The time of the hits alone: their arguments are there before, as a node's are.
fn hits(runtime: &tokio::runtime::Runtime, run: &Runtime) -> Duration {
    let given: Vec<Arguments> = vec![arguments(); CALLS];
    runtime.block_on(async {
        let start = Instant::now();
        for arguments in given {
            std::hint::black_box(wrap(run, arguments).await);
        }
        start.elapsed()
    })
}

/// Calls the action as a step does.
async fn wrap(run: &Runtime, arguments: Arguments) -> Arc<Value> {
    let action = run.actions.get("cache.wrap").unwrap();
    action.run_shared(arguments, run).await.unwrap()
}

/// What a node of the story passes on: a model call, keyed by its arguments.
fn arguments() -> Arguments {
    let with = json!({
        "action": "bench.answer",
        "key_strategy": "args",
        "ttl_days": 30,
        "args": {
            "model": "gpt-4o",
            "messages": [{"role": "user", "content": "Translate to Spanish: the whale is white"}],
        },
    });
    let Value::Object(with) = with else {
        unreachable!()
    };
    builtin()
        .get("cache.wrap")
        .unwrap()
        .metadata()
        .check(with)
        .unwrap()
}

/// A bare connection, set as the memory's are.
fn bare(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    let settings =
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA mmap_size=268435456;";
    connection.execute_batch(settings).unwrap();
    connection
}

struct Answer {
    result: Value,
}

static ANSWER: OperationMetadata = OperationMetadata::declared(
    "bench.answer",
    &[],
    "Answers.",
    &[
        Parameter::required("model", ParameterKind::Text, "Which."),
        Parameter::required("messages", ParameterKind::List, "What."),
    ],
);

#[async_trait]
impl Operation for Answer {
    type Context = Runtime;
    type Output = Result<Value, Failure>;

    fn metadata(&self) -> &OperationMetadata {
        &ANSWER
    }

    async fn run(&self, _arguments: Arguments, _runtime: &Runtime) -> Result<Value, Failure> {
        Ok(self.result.clone())
    }
}

impl Action for Answer {}

/// Listens to what it is told and forgets it.
struct NullReporter;

impl Reporter for NullReporter {
    fn report(&self, event: Event) {
        std::hint::black_box(event);
    }
}

struct HalfRandom;

impl Random for HalfRandom {
    fn unit(&self) -> f64 {
        0.5
    }
}

fn run(path: &Path, ledger: &Path, front_bytes: u64, result: &Value) -> Runtime {
    let clock = Arc::new(SystemClock);
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::open(path, sqlite::SqliteOptions::new(clock.clone())).unwrap());
    let secret_set = Arc::new(SecretSet::empty());
    let warn: Arc<dyn Fn(&str) + Send + Sync> = Arc::new(|text: &str| println!("{text}"));
    let cache = Cache::new(CacheOptions {
        local: None,
        store: Some(Arc::clone(&store)),
        ledger: Ledger::at(ledger, "run", Arc::clone(&warn)),
        clock: clock.clone(),
        secret_set: Arc::clone(&secret_set),
        bounds: CacheBounds {
            front_bytes,
            ..CacheBounds::default()
        },
        warn,
    });
    let mut actions: Registry = builtin();
    actions.register(Answer {
        result: result.clone(),
    });
    let directory = path.parent().unwrap().to_owned();
    let storage = Storage::new(cachalot_storage::StorageOptions {
        directory: directory.clone(),
        environment: BTreeMap::new(),
        http: HttpClient::new(HttpOptions::default()).unwrap(),
    });
    Runtime {
        models: Models::new(
            cachalot_model::ModelDependencies {
                environment: BTreeMap::new(),
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
        agent: "bench".to_owned(),
        directory,
        environment: BTreeMap::new(),
        settings: json!({}),
        clock,
        random: Arc::new(HalfRandom),
        storage,
        store: Some(store),
        cache,
        mode: CacheMode::On,
        secret_set,
        secrets: BTreeMap::new(),
        actions: Arc::new(actions),
        tools: cachalot_workflow::action::runtime::ToolServices::default(),
        sandbox: None,
        reporter: Arc::new(NullReporter),
    }
}
