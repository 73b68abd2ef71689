//! What a cached hit costs beyond its witnesses, and what checking a witness costs beyond its `stat`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cachalot_cache::{CacheMode, Ledger, Observation, Witness};
use cachalot_core::{Effects, SecretSet, SystemClock};
use cachalot_storage::{HttpClient, HttpOptions};
use cachalot_tools::cached::{CachedToolsOptions, ToolCacheSettings, WriteNotifier};
use cachalot_tools::{
    Arguments, BatchContext, CacheClass, CachedTools, CallOutcome, Operation, OperationMetadata,
    Origin, PreparedCall, Registry, ToolCall, ToolContext, ToolOutput, Toolbox, Workspace, builtin,
};
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// A tool whose result depends on nothing but its arguments.
struct Constant(OperationMetadata);

#[async_trait]
impl Operation for Constant {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        &self.0
    }

    fn effects(&self, _: &Arguments, _: &ToolContext) -> Effects {
        Effects::reading(Vec::new())
    }

    async fn run(&self, arguments: Arguments, _: &ToolContext) -> ToolOutput {
        let size = arguments["size"].as_u64().unwrap();
        ToolOutput::text("x".repeat(usize::try_from(size).unwrap()))
    }
}

struct Bench {
    runtime: Runtime,
    home: tempfile::TempDir,
    plain: Registry,
    kept: CachedTools,
    batch: BatchContext,
}

impl Bench {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join("src/deep")).unwrap();
        for (name, size) in [("small", 100), ("src/deep/large", 10_000)] {
            let line = format!("{}\n", "x".repeat(49));
            std::fs::write(home.path().join(name), line.repeat(size / 50)).unwrap();
        }
        for number in 0..100 {
            let path = home.path().join(format!("src/file{number}.rs"));
            std::fs::write(path, format!("fn number_{number}() {{}}\n")).unwrap();
        }
        // Old enough that their time stamps are trusted.
        std::thread::sleep(Duration::from_millis(2_500));
        let mut tools = builtin::files();
        tools.push(Arc::new(Constant(OperationMetadata {
            name: "constant".into(),
            aliases: &[],
            description: String::new().into(),
            parameters: json!({"type": "object", "properties": {"size": {"type": "integer"}}})
                .into(),
            version: 1,
            origin: Origin::BuiltIn,
            read_only: true,
            exclusive: false,
            cache_class: CacheClass::Immutable,
        })));
        let plain = Registry::new(tools).unwrap();
        let ledger = home.path().join("ledger.db");
        let log: Arc<dyn Fn(&str) + Send + Sync> = Arc::new(|line| panic!("{line}"));
        let options = CachedToolsOptions {
            settings: ToolCacheSettings {
                enabled: true,
                ..ToolCacheSettings::default()
            },
            mode: CacheMode::On,
            ledger: Ledger::at(&ledger, "bench", Arc::clone(&log)),
            clock: Arc::new(SystemClock),
            secret_set: Arc::new(SecretSet::empty()),
            log,
            persistent: None,
            user: "bench".into(),
            write_notifier: WriteNotifier::new(),
        };
        Self {
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
            kept: CachedTools::new(&plain, options).unwrap(),
            plain,
            batch: batch(home.path()),
            home,
        }
    }

    fn prepared(&self, tool: &str, arguments: &Value) -> PreparedCall {
        self.kept.prepare(ToolCall {
            id: "id".into(),
            name: tool.into(),
            arguments: arguments.to_string(),
        })
    }

    /// So many calls, one after the other.
    fn calls(
        &self,
        tools: &dyn Toolbox,
        prepared: &PreparedCall,
        calls: u64,
        hits: bool,
    ) -> Duration {
        let calls: Vec<Vec<PreparedCall>> = (0..calls).map(|_| vec![prepared.clone()]).collect();
        self.runtime.block_on(async {
            let began = Instant::now();
            for call in calls {
                let answers = tools.run(call, &self.batch).await;
                assert_eq!(
                    answers[0].outcome == CallOutcome::Hit,
                    hits,
                    "{:?}",
                    answers[0].outcome
                );
                black_box(answers);
            }
            began.elapsed()
        })
    }

    fn hit(
        &self,
        group: &mut BenchmarkGroup<'_, criterion::measurement::WallTime>,
        name: &str,
        tool: &str,
        arguments: Value,
    ) {
        let prepared = self.prepared(tool, &arguments);
        self.calls(&self.kept, &prepared, 1, false);
        group.bench_function(format!("hit: {name}"), |bencher| {
            bencher.iter_custom(|calls| self.calls(&self.kept, &prepared, calls, true));
        });
        group.bench_function(format!("run: {name}"), |bencher| {
            bencher.iter_custom(|calls| self.calls(&self.plain, &prepared, calls, false));
        });
    }

    /// Checking what a look at these files noted.
    fn witness(
        &self,
        group: &mut BenchmarkGroup<'_, criterion::measurement::WallTime>,
        name: &str,
        paths: &[&str],
    ) {
        let paths: Vec<_> = paths
            .iter()
            .map(|path| self.home.path().join(path))
            .collect();
        let witness = Witness::default();
        for path in &paths {
            witness.observe(Observation::Content(path));
        }
        let snapshot = witness.snapshot();
        group.bench_function(format!("check: {name}"), |bencher| {
            bencher.iter_custom(|checks| {
                self.runtime.block_on(async {
                    let began = Instant::now();
                    for _ in 0..checks {
                        snapshot.holds().await.unwrap();
                    }
                    began.elapsed()
                })
            });
        });
        group.bench_function(format!("stat: {name}"), |bencher| {
            bencher.iter(|| {
                for path in &paths {
                    black_box(std::fs::metadata(path).unwrap());
                }
            });
        });
    }
}

fn batch(root: &Path) -> BatchContext {
    BatchContext {
        context: ToolContext {
            workspace: Arc::new(Workspace::open(root).unwrap()),
            session: "bench".into(),
            environment: Arc::new(BTreeMap::new()),
            clock: Arc::new(SystemClock),
            http: HttpClient::new(HttpOptions::default()).unwrap(),
            store: None,
            secret_set: Arc::new(SecretSet::empty()),
            user: None,
            sampler: None,
            gate: None,
            rules: Arc::default(),
            sandbox: None,
            witness: Witness::default(),
            output: cachalot_tools::LiveOutput::default(),
        },
        verbatim: Arc::new(BTreeSet::new()),
        observer: Arc::new(()),
    }
}

fn hits(criterion: &mut Criterion) {
    let bench = Bench::new();
    let mut group = criterion.benchmark_group("cached");
    bench.hit(
        &mut group,
        "nothing to check, 100 B",
        "constant",
        json!({"size": 100}),
    );
    bench.hit(
        &mut group,
        "nothing to check, 10 kB",
        "constant",
        json!({"size": 10_000}),
    );
    bench.hit(
        &mut group,
        "read_file, 100 B",
        "read_file",
        json!({"path": "small"}),
    );
    bench.hit(
        &mut group,
        "read_file, 10 kB",
        "read_file",
        json!({"path": "src/deep/large"}),
    );
    bench.hit(
        &mut group,
        "grep, 100 files",
        "grep",
        json!({"pattern": "number_7", "path": "src"}),
    );
    bench.witness(&mut group, "1 file", &["small"]);
    bench.witness(&mut group, "1 file, deeper", &["src/deep/large"]);
    let read = bench.plain.tool("read_file").unwrap();
    let Value::Object(arguments) = json!({"path": "src/deep/large"}) else {
        unreachable!()
    };
    group.bench_function("what it depends on: read_file", |bencher| {
        bencher.iter(|| black_box(read.effects(&arguments, &bench.batch.context)));
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .measurement_time(Duration::from_secs(3))
        .warm_up_time(Duration::from_millis(500));
    targets = hits
}
criterion_main!(benches);
