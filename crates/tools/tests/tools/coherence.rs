//! No sequence of reads and writes makes the cache answer with anything but what the tools would answer.
//!
//! Random batches of calls and random changes from outside, over a small tree: every reader of every
//! batch is run with the cache and without it, on the same files at the same moment, and both must
//! say the same. `CACHALOT_TEST_STEPS` makes it longer, `CACHALOT_TEST_SEED` repeats a run.

mod calls;
mod concurrent;
mod random;
mod tree;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use cachalot_tools::builtin::{Shell, ShellSettings, files};
use cachalot_tools::cached::{ToolCacheScope, ToolCacheSettings, WriteNotifier};
use cachalot_tools::{
    BatchContext, CallObserver, CallOutcome, LiveOutput, Registry, Tool, ToolCall, ToolCallResult,
    ToolOutput, Toolbox as _,
};
use serde_json::Value;

use crate::cached::cache_fixture::{CacheFixture, CacheFixtureBuilder, in_process, on};
use calls::{ToolRequest, is_reader, readers, writer};
use random::Random;
use tree::Tree;

/// The default number of calls and external changes.
const STEPS: usize = 100_000;

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn registry() -> Registry {
    let mut tools = files();
    tools.push(Arc::new(Shell::new(ShellSettings::default()).unwrap()) as Arc<dyn Tool>);
    Registry::new(tools).unwrap()
}

/// Runs every reader without the cache at the moment at which it begins with it.
struct ComparingObserver {
    plain: Registry,
    batch: BatchContext,
    expected: Mutex<BTreeMap<String, ToolOutput>>,
}

impl CallObserver for ComparingObserver {
    fn call_started(&self, call: &ToolCall, _: &LiveOutput) {
        if !is_reader(&call.name) {
            return;
        }
        let prepared = self.plain.prepare(call.clone());
        let output = tokio::task::block_in_place(|| {
            let running = self.plain.run(vec![prepared], &self.batch);
            tokio::runtime::Handle::current().block_on(running)
        });
        let mut expected = self.expected.lock().unwrap();
        expected.insert(call.id.clone(), output.into_iter().next().unwrap().output);
    }
}

/// Layers that keep results, each in its way, and know of each other's writes.
struct Run {
    seed: u64,
    random: Random,
    tree: Tree,
    plain: Registry,
    layers: Vec<CacheFixture>,
    readers: Vec<ToolRequest>,
    /// The last steps, for the analysis of a failure.
    history: VecDeque<String>,
    steps: usize,
    calls: usize,
    answered: BTreeMap<&'static str, usize>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let write_notifier = WriteNotifier::new();
        let settings = |scope, max_size| ToolCacheSettings {
            max_size,
            scope,
            ..on()
        };
        let layers = [
            settings(ToolCacheScope::Session, 40),
            settings(ToolCacheScope::Workspace, 128),
        ];
        let layers = layers.map(|settings| {
            let mut cache_fixture_builder = CacheFixtureBuilder::with(settings);
            cache_fixture_builder.persistent = Some(in_process(&cache_fixture_builder.clock));
            cache_fixture_builder.write_notifier = write_notifier.clone();
            cache_fixture_builder.over(&registry())
        });
        Self {
            seed,
            random: Random::new(seed),
            tree: Tree::new(),
            plain: registry(),
            layers: layers.into(),
            readers: readers(),
            history: VecDeque::new(),
            steps: 0,
            calls: 0,
            answered: BTreeMap::new(),
        }
    }

    fn tell(&mut self, what: String) {
        self.history.push_back(what);
        if self.history.len() > 40 {
            self.history.pop_front();
        }
    }

    async fn go(&mut self, steps: usize) {
        while self.steps < steps {
            if self.random.permille(160) {
                let disturbed = self.tree.disturb(&mut self.random);
                self.tell(disturbed);
                self.steps += 1;
            } else {
                self.batch().await;
            }
            // So seldom that the files' time stamps are trusted in between.
            if self.steps.is_multiple_of(4_001) {
                let disturbed = self.tree.disturb_library(&mut self.random);
                self.tell(disturbed);
                self.steps += 1;
            }
        }
    }

    /// A batch of calls: readers, sometimes repeated, and now and then a writer among them.
    async fn batch(&mut self) {
        let mut asked: Vec<ToolRequest> = Vec::new();
        for _ in 0..=self.random.below(6) {
            let call = match asked.last() {
                Some(last) if self.random.permille(150) => last.clone(),
                _ if self.random.permille(45) => writer(&mut self.random, &self.tree),
                _ => self.random.favour(&self.readers).clone(),
            };
            asked.push(call);
        }
        let only_reads = asked.iter().all(|(tool, _)| is_reader(tool));
        let layer = self.random.below(self.layers.len());
        let session = *self.random.pick(&["one", "one", "other"]);
        let batch = self.layers[layer].batch_in(self.tree.root(), session, &[]);
        let calls: Vec<ToolCall> = asked.iter().map(|asked| self.call(asked)).collect();
        for call in &calls {
            self.tell(format!(
                "{session}@{layer}: {} {}",
                call.name, call.arguments
            ));
        }
        self.steps += calls.len();
        let cached = &self.layers[layer].tools;
        let prepare = |call: &ToolCall| cached.prepare(call.clone());
        let (answers, expected) = if only_reads {
            let prepared = calls.iter().map(|call| self.plain.prepare(call.clone()));
            let expected = self.plain.run(prepared.collect(), &batch).await;
            let answers = cached
                .run(calls.iter().map(prepare).collect(), &batch)
                .await;
            let by_id = |answer: ToolCallResult| (answer.call.id.clone(), answer.output);
            (answers, expected.into_iter().map(by_id).collect())
        } else {
            let comparing = Arc::new(ComparingObserver {
                plain: self.plain.clone(),
                batch: batch.clone(),
                expected: Mutex::default(),
            });
            let batch = BatchContext {
                observer: Arc::clone(&comparing) as Arc<dyn CallObserver>,
                ..batch
            };
            let answers = cached
                .run(calls.iter().map(prepare).collect(), &batch)
                .await;
            let expected = std::mem::take(&mut *comparing.expected.lock().unwrap());
            (answers, expected)
        };
        self.compare(&answers, &expected);
    }

    fn call(&mut self, (tool, arguments): &ToolRequest) -> ToolCall {
        self.calls += 1;
        ToolCall {
            id: format!("call-{}", self.calls),
            name: (*tool).to_owned(),
            arguments: Value::to_string(arguments),
        }
    }

    fn compare(&mut self, answers: &[ToolCallResult], expected: &BTreeMap<String, ToolOutput>) {
        for answer in answers {
            if !is_reader(&answer.call.name) {
                continue;
            }
            let outcome = match answer.outcome {
                CallOutcome::Hit => "hit",
                CallOutcome::Coalesced => "coalesced",
                CallOutcome::Ran(_) => "ran",
                CallOutcome::Refused => "refused",
            };
            *self.answered.entry(outcome).or_default() += 1;
            let expected = &expected[&answer.call.id];
            assert!(
                answer.output == *expected,
                "CACHALOT_TEST_SEED={} at step {}: {} {} was answered ({:?})\n{:?}\nand not\n{:?}\nafter\n{}",
                self.seed,
                self.steps,
                answer.call.name,
                answer.call.arguments,
                answer.outcome,
                answer.output.content,
                expected.content,
                self.history.make_contiguous().join("\n"),
            );
        }
    }

    fn count(&self, outcome: &str) -> usize {
        self.answered.get(outcome).copied().unwrap_or(0)
    }
}

fn run(seed: u64, steps: usize) -> Run {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    // On a worker, because the watcher blocks in the middle of a call.
    let running = runtime.spawn(async move {
        let mut run = Run::new(seed);
        run.go(steps).await;
        run
    });
    match runtime.block_on(running) {
        Ok(run) => run,
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    }
}

#[test]
fn cached_results_equal_uncached_results() {
    let steps = from_environment("CACHALOT_TEST_STEPS").map_or(STEPS, |steps| steps as usize);
    let seeds = match from_environment("CACHALOT_TEST_SEED") {
        Some(seed) => vec![seed],
        None => vec![20_260_417, 42],
    };
    let each = steps / seeds.len();
    let runs: Vec<Run> = std::thread::scope(|scope| {
        let running: Vec<_> = seeds
            .iter()
            .map(|seed| scope.spawn(move || run(*seed, each)))
            .collect();
        running
            .into_iter()
            .map(|run| match run.join() {
                Ok(run) => run,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    });
    for run in runs {
        let all: usize = run.answered.values().sum();
        let hits = run.count("hit");
        let reported = format!("seed {}: {:?}", run.seed, run.answered);
        // Zero differences mean something only if there is something to differ.
        assert!(hits * 5 >= all, "{reported}");
        assert!(run.count("coalesced") > 0 || all < 10_000, "{reported}");
        let sum = |of: fn(&cachalot_tools::cached::Counters) -> u64| -> u64 {
            let layers = run.layers.iter();
            let counters = layers.flat_map(|layer| {
                let sessions = ["one", "other"].map(|session| layer.tools.counters(session));
                sessions.into_iter().flat_map(BTreeMap::into_values)
            });
            counters.map(|counters| of(&counters)).sum()
        };
        let figures = (
            sum(|one| one.invalidated),
            sum(|one| one.stale_prevented),
            sum(|one| one.evicted),
        );
        assert!(
            figures.0 > 0 && figures.1 > figures.0 && figures.2 > 0,
            "{reported} {figures:?}"
        );
        eprint_figures(&reported, figures);
    }
}

#[allow(
    clippy::print_stderr,
    reason = "figures of a test that is long on request"
)]
fn eprint_figures(reported: &str, (invalidated, stale, evicted): (u64, u64, u64)) {
    eprintln!("{reported}; invalidated {invalidated}, stale prevented {stale}, evicted {evicted}");
}

/// Only the target of a link changes, and the text behind it does not.
#[tokio::test]
async fn changed_link_target_with_equal_text_is_detected() {
    use std::os::unix::fs::symlink;
    let cache_fixture = CacheFixtureBuilder::with(on()).over(&registry());
    let outside = tempfile::tempdir().unwrap();
    for file in ["inside", "also_inside", "a.rs", "b.txt"] {
        cache_fixture.write(file, "*.rs\n");
    }
    std::fs::write(outside.path().join("rules"), "*.rs\n").unwrap();
    let targets = [
        cache_fixture.root().join("inside"),
        outside.path().join("rules"),
        cache_fixture.root().join("also_inside"),
        "nowhere".into(),
        cache_fixture.root().join("inside"),
    ];
    for link in [".gitignore", "link"] {
        let link = cache_fixture.root().join(link);
        for target in &targets {
            let _ = std::fs::remove_file(&link);
            symlink(target, &link).unwrap();
            for (tool, arguments) in [
                ("glob", serde_json::json!({"pattern": "**/*"})),
                ("grep", serde_json::json!({"pattern": "rs"})),
                ("list_dir", serde_json::json!({"depth": 2})),
                ("read_file", serde_json::json!({"path": "link"})),
            ] {
                let batch = cache_fixture.batch("main", &[]);
                let call = ToolCall {
                    id: "id".into(),
                    name: tool.into(),
                    arguments: arguments.to_string(),
                };
                let plain = registry();
                let expected = plain.run(vec![plain.prepare(call)], &batch).await;
                for _ in 0..2 {
                    let answer = cache_fixture.call(tool, arguments.clone()).await;
                    let outcome = (tool, target.display(), &answer.outcome);
                    assert_eq!(answer.output, expected[0].output, "{outcome:?}");
                }
            }
        }
    }
}
