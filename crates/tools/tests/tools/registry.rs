//! The registry: order, names, what becomes of calls, and which run beside which.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cachalot_cache::Observation;
use cachalot_core::{DigestKey, SecretSet};
use cachalot_tools::{
    Arguments, BatchContext, CacheClass, CallObserver, CallOutcome, LiveOutput, Operation,
    OperationMetadata, Origin, PreparedCall, Registry, RegistryError, Tool, ToolCall,
    ToolCallResult, ToolContext, ToolOutput, Toolbox as _,
};
use futures_util::future::BoxFuture;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::tool_fixture::{ToolFixture, call, text};

type Work = dyn Fn(Arguments, ToolContext) -> BoxFuture<'static, ToolOutput> + Send + Sync;

struct Stub {
    metadata: OperationMetadata,
    work: Box<Work>,
}

#[async_trait]
impl Operation for Stub {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    async fn run(&self, arguments: Arguments, context: &ToolContext) -> ToolOutput {
        (self.work)(arguments, context.clone()).await
    }
}

fn metadata(name: &str) -> OperationMetadata {
    OperationMetadata {
        name: name.to_owned().into(),
        aliases: &[],
        description: format!("{name}s").into(),
        parameters: json!({"type": "object", "properties": {"n": {"type": "integer"}}}).into(),
        version: 1,
        origin: Origin::BuiltIn,
        read_only: true,
        exclusive: false,
        cache_class: CacheClass::Never,
    }
}

fn stub<F>(
    metadata: OperationMetadata,
    work: impl Fn(Arguments, ToolContext) -> F + Send + Sync + 'static,
) -> Arc<dyn Tool>
where
    F: Future<Output = ToolOutput> + Send + 'static,
{
    Arc::new(Stub {
        metadata,
        work: Box::new(move |arguments, context| Box::pin(work(arguments, context))),
    })
}

fn named(name: &str, origin: Origin) -> Arc<dyn Tool> {
    let metadata = OperationMetadata {
        origin,
        ..metadata(name)
    };
    stub(metadata, |_, _| async { ToolOutput::text("done") })
}

fn mcp(server: &str) -> Origin {
    Origin::Mcp(server.to_owned())
}

fn names(registry: &Registry) -> Vec<String> {
    registry
        .definitions()
        .into_iter()
        .map(|definition| definition.name)
        .collect()
}

#[test]
fn built_in_definitions_come_first_then_by_server_and_name() {
    let tools = vec![
        named("zeta", mcp("a-server")),
        named("alpha", mcp("b-server")),
        named("write", Origin::BuiltIn),
        named("beta", mcp("a-server")),
        named("read", Origin::BuiltIn),
    ];
    let mut backwards = tools.clone();
    backwards.reverse();
    let registry = Registry::new(tools).unwrap();
    let expected = ["read", "write", "beta", "zeta", "alpha"];
    assert_eq!(names(&registry), expected);
    assert_eq!(names(&Registry::new(backwards).unwrap()), expected);
    assert_eq!(registry.definitions()[0].description, "reads");
    assert!(registry.tool("read").is_some() && registry.tool("Read").is_none());
}

#[test]
fn duplicate_tool_name_is_an_error_with_both_origins() {
    let twice = vec![named("read", mcp("files")), named("read", Origin::BuiltIn)];
    let error = Registry::new(twice).err().unwrap();
    assert_eq!(
        error,
        RegistryError::DuplicateName {
            name: "read".to_owned(),
            first: Origin::BuiltIn,
            second: mcp("files"),
        }
    );
    let said = error.to_string();
    assert!(
        said.contains("a built-in tool, and a tool of the MCP server `files`"),
        "{said}"
    );
}

#[test]
fn tool_names_and_schemas_are_validated() {
    for name in ["", "two words", "dots.in.it", "ünicode", &"x".repeat(65)] {
        let error = Registry::new(vec![named(name, Origin::BuiltIn)])
            .err()
            .unwrap();
        assert!(matches!(error, RegistryError::Name { .. }), "{error}");
    }
    let with_schema = |origin: Origin, parameters: Value| {
        let metadata = OperationMetadata {
            parameters: parameters.into(),
            origin,
            ..metadata("odd")
        };
        Registry::new(vec![stub(metadata, |_, _| async { ToolOutput::text("") })])
    };
    for schema in [
        json!("text"),
        json!({"type": "string"}),
        json!({"type": "object", "properties": 5}),
    ] {
        let error = with_schema(Origin::BuiltIn, schema).err().unwrap();
        assert!(matches!(error, RegistryError::Schema { .. }), "{error}");
    }
    // Schemas of servers are not checked here.
    let elsewhere = json!({"type": "object", "properties": {"n": {"type": "integer"}, "x": {"$ref": "https://example.com/x"}}});
    assert!(with_schema(Origin::BuiltIn, elsewhere.clone()).is_err());
    let registry = with_schema(mcp("odd"), elsewhere).unwrap();
    let prepared = registry.prepare(call("odd", r#"{"n": "5", "x": 1}"#));
    let ready = prepared.ready().expect("the call is not refused");
    assert_eq!(
        Value::Object(ready.arguments.clone()),
        json!({"n": 5, "x": 1})
    );
}

#[tokio::test]
async fn unknown_tool_is_refused_with_a_suggestion() {
    let tool_fixture = ToolFixture::new();
    let said = tool_fixture.fails("reed_file", json!({})).await;
    assert!(
        said.contains("there is no tool `reed_file`; did you mean `read_file`?"),
        "{said}"
    );
    assert!(said.contains("apply_patch, edit_file, glob"), "{said}");
    let said = tool_fixture.fails("frobnicate", json!({})).await;
    assert!(!said.contains("did you mean"), "{said}");
}

#[tokio::test]
async fn prepared_call_of_a_removed_tool_is_refused() {
    let tool_fixture = ToolFixture::with(vec![
        named("gone", mcp("a")),
        named("here", Origin::BuiltIn),
    ]);
    let prepared = tool_fixture.registry.prepare(call("gone", "{}"));
    assert!(prepared.ready().is_some_and(|ready| ready.read_only));
    let successor = Registry::new(vec![named("here", Origin::BuiltIn)]).unwrap();
    let answers = successor.run(vec![prepared], &tool_fixture.batch()).await;
    assert_eq!(answers[0].outcome, CallOutcome::Refused);
    assert!(text(&answers[0].output).contains("there is no tool `gone`"));
}

fn prepared(registry: &Registry, calls: &[(&str, i64)]) -> Vec<PreparedCall> {
    calls
        .iter()
        .enumerate()
        .map(|(index, (name, n))| {
            registry.prepare(ToolCall {
                id: format!("call-{index}"),
                ..call(name, &json!({"n": n}).to_string())
            })
        })
        .collect()
}

fn results(answers: &[ToolCallResult]) -> Vec<String> {
    answers.iter().map(|answer| text(&answer.output)).collect()
}

async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), work)
        .await
        .expect("calls wait for each other")
}

#[tokio::test]
async fn read_only_calls_run_concurrently_and_answer_in_order() {
    let barrier = Arc::new(Barrier::new(3));
    // Each waits for the one behind it, so that they end in the opposite order.
    let ends: Arc<Vec<tokio::sync::Semaphore>> =
        Arc::new((0..4).map(|_| tokio::sync::Semaphore::new(0)).collect());
    ends[3].add_permits(1);
    let meet = stub(metadata("meet"), move |arguments, _| {
        let (barrier, ends) = (Arc::clone(&barrier), Arc::clone(&ends));
        async move {
            let n = usize::try_from(arguments["n"].as_u64().unwrap()).unwrap();
            barrier.wait().await;
            let _turn = ends[n + 1].acquire().await.unwrap();
            ends[n].add_permits(1);
            ToolOutput::text(n.to_string())
        }
    });
    let tool_fixture = ToolFixture::with(vec![meet]);
    let calls = prepared(
        &tool_fixture.registry,
        &[("meet", 0), ("meet", 1), ("meet", 2)],
    );
    let answers = soon(tool_fixture.registry.run(calls, &tool_fixture.batch())).await;
    assert_eq!(results(&answers), ["0", "1", "2"]);
    assert_eq!(answers[2].call.id, "call-2");
    assert_eq!(answers[2].outcome, CallOutcome::Ran(None));
}

/// Tools that count how many run at the same time.
struct ConcurrencyCounter {
    running: AtomicUsize,
    maximum: AtomicUsize,
    /// Calls that ran beside a call that must run alone.
    violations: AtomicUsize,
}

fn concurrency_counter() -> (Arc<ConcurrencyCounter>, Vec<Arc<dyn Tool>>) {
    let concurrency_counter = Arc::new(ConcurrencyCounter {
        running: AtomicUsize::new(0),
        maximum: AtomicUsize::new(0),
        violations: AtomicUsize::new(0),
    });
    let tool = |name: &str, read_only: bool, exclusive: bool| {
        let concurrency_counter = Arc::clone(&concurrency_counter);
        let metadata = OperationMetadata {
            read_only,
            exclusive,
            ..metadata(name)
        };
        let alone = !metadata.concurrency_safe();
        stub(metadata, move |arguments, _| {
            let concurrency_counter = Arc::clone(&concurrency_counter);
            async move {
                let now = concurrency_counter.running.fetch_add(1, Ordering::SeqCst) + 1;
                concurrency_counter.maximum.fetch_max(now, Ordering::SeqCst);
                for _ in 0..5 {
                    tokio::task::yield_now().await;
                    if alone && concurrency_counter.running.load(Ordering::SeqCst) > 1 {
                        concurrency_counter
                            .violations
                            .fetch_add(1, Ordering::SeqCst);
                    }
                }
                concurrency_counter.running.fetch_sub(1, Ordering::SeqCst);
                ToolOutput::text(arguments["n"].to_string())
            }
        })
    };
    let tools = vec![
        tool("look", true, false),
        tool("lone", true, true),
        tool("write", false, false),
    ];
    (concurrency_counter, tools)
}

#[tokio::test]
async fn at_most_eight_calls_run_concurrently() {
    let (concurrency_counter, tools) = concurrency_counter();
    let tool_fixture = ToolFixture::with(tools);
    let calls: Vec<(&str, i64)> = (0..40).map(|n| ("look", n)).collect();
    let calls = prepared(&tool_fixture.registry, &calls);
    let answers = soon(tool_fixture.registry.run(calls, &tool_fixture.batch())).await;
    assert_eq!(answers.len(), 40);
    assert_eq!(concurrency_counter.maximum.load(Ordering::SeqCst), 8);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn order_and_exclusivity_hold_for_all_batches(kinds in prop::collection::vec(0..4_usize, 0..24)) {
        let (concurrency_counter, tools) = concurrency_counter();
        let tool_fixture = ToolFixture::with(tools);
        let names = ["look", "lone", "write", "absent"];
        let calls: Vec<(&str, i64)> = kinds
            .iter()
            .enumerate()
            .map(|(n, kind)| (names[*kind], i64::try_from(n).unwrap()))
            .collect();
        let answers = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(soon(tool_fixture.registry.run(
                prepared(&tool_fixture.registry, &calls),
                &tool_fixture.batch(),
            )));
        prop_assert_eq!(answers.len(), calls.len());
        prop_assert_eq!(concurrency_counter.violations.load(Ordering::SeqCst), 0);
        for (n, ((name, _), answer)) in calls.iter().zip(&answers).enumerate() {
            prop_assert_eq!(&answer.call.id, &format!("call-{n}"));
            if *name == "absent" {
                prop_assert_eq!(&answer.outcome, &CallOutcome::Refused);
            } else {
                prop_assert_eq!(text(&answer.output), n.to_string());
            }
        }
        // A refused call runs nothing and separates no batch.
        let longest = kinds
            .split(|kind| matches!(kind, 1 | 2))
            .map(|group| group.iter().filter(|kind| **kind == 0).count())
            .max()
            .unwrap_or(0);
        let alone = usize::from(kinds.iter().any(|kind| *kind < 3));
        prop_assert_eq!(concurrency_counter.maximum.load(Ordering::SeqCst), longest.min(8).max(alone));
    }
}

#[tokio::test]
async fn panicking_tool_fails_its_own_call_only() {
    let breaks = stub(metadata("breaks"), |_, context| async move {
        context.secret_set.learn("hunter2-hunter2");
        panic!("no such index: hunter2-hunter2")
    });
    let elsewhere = stub(metadata("elsewhere"), |_, _| async {
        tokio::task::spawn_blocking(|| panic!("on another thread"))
            .await
            .unwrap();
        ToolOutput::text("")
    });
    let mut tool_fixture =
        ToolFixture::with(vec![breaks, elsewhere, named("fine", Origin::BuiltIn)]);
    tool_fixture.context.secret_set = Arc::new(SecretSet::with_key(DigestKey::new([7; 32])));
    let calls = prepared(
        &tool_fixture.registry,
        &[("fine", 0), ("breaks", 1), ("elsewhere", 2), ("fine", 3)],
    );
    let answers = tool_fixture
        .registry
        .run(calls, &tool_fixture.batch())
        .await;
    let failed: Vec<bool> = answers
        .iter()
        .map(|answer| answer.output.is_error)
        .collect();
    assert_eq!(failed, [false, true, true, false]);
    let said = text(&answers[1].output);
    assert!(
        said.contains("the tool `breaks` broke down (no such index: "),
        "{said}"
    );
    assert!(!said.contains("hunter2"), "{said}");
}

#[tokio::test]
async fn each_call_has_its_own_witness() {
    let look = stub(metadata("look"), |_, context| async move {
        let path = context.workspace.root().join("file");
        context.witness.observe(Observation::Content(&path));
        // One file is noted, and not those of the other calls.
        ToolOutput::text(
            context
                .witness
                .snapshot()
                .content_digest()
                .is_ok()
                .to_string(),
        )
    });
    let tool_fixture = ToolFixture::with(vec![look]);
    tool_fixture.write("file", "content");
    let calls = prepared(
        &tool_fixture.registry,
        &[("look", 0), ("look", 1), ("look", 2)],
    );
    let batch = tool_fixture.batch();
    let answers = tool_fixture.registry.run(calls, &batch).await;
    assert_eq!(results(&answers), ["true", "true", "true"]);
    let digest = batch.context.witness.snapshot().content_digest();
    assert_eq!(digest, Err(cachalot_cache::ObservationError::NoSingleFile));
}

#[derive(Default)]
struct EventRecorder(Mutex<Vec<String>>);

impl CallObserver for EventRecorder {
    fn call_started(&self, call: &ToolCall, _: &LiveOutput) {
        self.0.lock().unwrap().push(format!("{} began", call.id));
    }

    fn call_finished(&self, answer: &ToolCallResult) {
        let line = format!("{} ended: {:?}", answer.call.id, answer.outcome);
        self.0.lock().unwrap().push(line);
    }
}

#[tokio::test]
async fn observer_receives_events_as_they_occur() {
    let (_, tools) = concurrency_counter();
    let tool_fixture = ToolFixture::with(tools);
    let event_recorder = Arc::new(EventRecorder::default());
    let batch = BatchContext {
        observer: Arc::clone(&event_recorder) as Arc<dyn CallObserver>,
        ..tool_fixture.batch()
    };
    let calls = prepared(
        &tool_fixture.registry,
        &[("look", 0), ("absent", 1), ("write", 2)],
    );
    tool_fixture.registry.run(calls, &batch).await;
    let reported = event_recorder.0.lock().unwrap().clone();
    assert_eq!(
        reported,
        [
            "call-0 began",
            "call-1 began",
            "call-1 ended: Refused",
            "call-0 ended: Ran(None)",
            "call-2 began",
            "call-2 ended: Ran(None)",
        ]
    );
}

#[tokio::test]
async fn dropping_the_batch_cancels_running_and_pending_calls() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (started, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (Arc::clone(&started), Arc::clone(&dropped));
    let waits = stub(metadata("waits"), move |_, _| {
        let (started, dropped) = (Arc::clone(&counts.0), Arc::clone(&counts.1));
        async move {
            let _guard = Dropped(dropped);
            started.fetch_add(1, Ordering::SeqCst);
            std::future::pending().await
        }
    });
    let tool_fixture = ToolFixture::with(vec![waits]);
    let calls: Vec<(&str, i64)> = (0..10).map(|n| ("waits", n)).collect();
    let calls = prepared(&tool_fixture.registry, &calls);
    let batch = tool_fixture.batch();
    let mut run = Box::pin(tool_fixture.registry.run(calls, &batch));
    assert!(futures_util::poll!(&mut run).is_pending());
    assert_eq!(started.load(Ordering::SeqCst), 8);
    drop(run);
    assert_eq!(dropped.load(Ordering::SeqCst), 8);
    assert_eq!(started.load(Ordering::SeqCst), 8);
}
