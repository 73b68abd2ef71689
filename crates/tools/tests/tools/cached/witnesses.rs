//! Witnesses of results, passed on to answers that are built from them.

use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::{BeginResult, CacheStatus, Call, CallKind, Policy, Reason, RunResult, Scope};
use cachalot_core::{Canonical, EffectTarget, EffectTargets, Effects, Witnesses};
use cachalot_tools::cached::{RepeatDelivery, ToolCacheSettings};
use cachalot_tools::{
    CacheClass, CallOutcome, Registry, Tool, ToolCallResult, ToolOutput, Toolbox as _, builtin,
};
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::cache_fixture::{
    CacheFixture, CacheFixtureBuilder, CountingTool, cache_fixture, in_process, on, reads_unknown,
    text,
};

/// Why it is not known what an answer was built from.
fn why(answer: &ToolCallResult) -> String {
    answer.witnesses.items().unwrap_err().to_owned()
}

/// The number of non-empty lists of witnesses.
fn known(answer: &ToolCallResult) -> usize {
    match answer.witnesses.items() {
        Ok(items) => items.len(),
        Err(why) => panic!("unknown: {why}"),
    }
}

/// Whether something that is built from these would be served still: stores it, lets `between` happen,
/// and asks again.
async fn lasts(witnesses: &Witnesses, between: impl FnOnce()) -> Result<CacheStatus, Reason> {
    let cache = in_process(&Arc::new(cachalot_core::ManualClock::at(0)));
    let input = Canonical::value(&Value::Null);
    let call = Call {
        kind: CallKind::Turn,
        scope: &Scope::Global,
        name: "agent",
        input: &input,
    };
    let policy = Policy::default();
    let Ok(BeginResult::Run(ticket)) = cache.begin(&call, &policy).await else {
        panic!("nothing is stored yet")
    };
    ticket.witness().adopt(witnesses);
    let product = RunResult::storable("answer".into(), cachalot_core::Spend::default());
    ticket.finish(product).await.stored?;
    between();
    match cache.begin(&call, &policy).await {
        Ok(BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. }) => Ok(outcome.status),
        Ok(BeginResult::Run(ticket)) => Ok(ticket.status().clone()),
        Err(miss) => Err(miss.reason),
    }
}

fn is_changed(how: Result<CacheStatus, Reason>) -> bool {
    matches!(how, Ok(CacheStatus::Miss(Reason::Changed(_))))
}

fn off() -> ToolCacheSettings {
    ToolCacheSettings {
        enabled: false,
        ..on()
    }
}

/// Every way to the files of a workspace: with results kept and without, by the registry itself.
fn with_files(settings: ToolCacheSettings) -> CacheFixture {
    let cache_fixture =
        CacheFixtureBuilder::with(settings).over(&Registry::new(builtin::files()).unwrap());
    cache_fixture.write("a", "one\n");
    std::fs::create_dir(cache_fixture.root().join("src")).unwrap();
    cache_fixture.write("src/b.rs", "fn b() {}\n");
    cache_fixture
}

#[tokio::test]
async fn file_tools_carry_witnesses_for_runs_and_hits() {
    for settings in [on(), off()] {
        for (tool, arguments, touch) in [
            ("read_file", json!({"path": "a"}), "a"),
            ("grep", json!({"pattern": "fn", "path": "src"}), "src/b.rs"),
            ("glob", json!({"pattern": "**/*.rs"}), "src/new.rs"),
            ("list_dir", json!({"path": "src"}), "src/new"),
        ] {
            let cache_fixture = with_files(settings.clone());
            for _ in 0..2 {
                let answer = cache_fixture.call(tool, arguments.clone()).await;
                assert!(!answer.output.is_error, "{}", text(&answer));
                assert_eq!(known(&answer), 1, "{tool}");
                let held = lasts(&answer.witnesses, || {}).await;
                assert_eq!(held, Ok(CacheStatus::Hit), "{tool} {:?}", answer.outcome);
            }
            let answer = cache_fixture.call(tool, arguments).await;
            assert_eq!(
                answer.outcome == CallOutcome::Hit,
                settings.enabled,
                "{tool}"
            );
            let after = lasts(&answer.witnesses, || {
                cache_fixture.write(touch, "fn other() {}")
            })
            .await;
            assert!(is_changed(after), "{tool}");
        }
    }
}

#[tokio::test]
async fn uncached_registry_carries_witnesses() {
    let registry = Registry::new(builtin::files()).unwrap();
    let cache_fixture = with_files(off());
    let call = cachalot_tools::ToolCall {
        id: "1".to_owned(),
        name: "read_file".to_owned(),
        arguments: json!({"path": "a"}).to_string(),
    };
    let prepared = registry.prepare(call);
    let answers = registry
        .run(vec![prepared], &cache_fixture.batch("main", &[]))
        .await;
    assert_eq!(known(&answers[0]), 1);
    let after = lasts(&answers[0].witnesses, || cache_fixture.write("a", "two")).await;
    assert!(is_changed(after));
}

#[tokio::test]
async fn followers_carry_the_witnesses_of_the_run() {
    let gate = Arc::new(Semaphore::new(0));
    let tool = CountingTool::file_reader("look").gated(&gate);
    let cache_fixture = cache_fixture(&[&tool]);
    cache_fixture.write("a", "one");
    let batch = vec![("look", json!({"path": "a"})); 2];
    let mut running = Box::pin(cache_fixture.calls(&batch));
    while tool.runs() == 0 {
        assert!((&mut running).now_or_never().is_none());
    }
    gate.add_permits(2);
    let answers = running.await;
    assert_eq!(answers[1].outcome, CallOutcome::Coalesced);
    for answer in &answers {
        assert_eq!(known(answer), 1);
        let after = lasts(&answer.witnesses, || cache_fixture.write("a", "two")).await;
        assert!(is_changed(after), "{:?}", answer.outcome);
        cache_fixture.write("a", "one");
    }
}

#[tokio::test]
async fn note_carries_the_witnesses_of_its_result() {
    let settings = ToolCacheSettings {
        delivery: RepeatDelivery::Marker,
        ..on()
    };
    let cache_fixture =
        CacheFixtureBuilder::with(settings).of(&[&CountingTool::file_reader("look")]);
    cache_fixture.write("a", &"long ".repeat(1_000));
    let arguments = json!({"path": "a"});
    cache_fixture
        .calls_in("main", &[], &[("look", arguments.clone())])
        .await;
    let answer = cache_fixture
        .calls_in("main", &["call-0"], &[("look", arguments)])
        .await
        .remove(0);
    assert!(text(&answer).contains("unchanged"), "{}", text(&answer));
    assert_eq!(known(&answer), 1);
    let after = lasts(&answer.witnesses, || cache_fixture.write("a", "short")).await;
    assert!(is_changed(after));
}

/// The results of a tool with the cache and without it.
async fn both(tool: &CountingTool) -> [ToolCallResult; 2] {
    let call = |settings: ToolCacheSettings| async {
        let cache_fixture = CacheFixtureBuilder::with(settings).of(&[tool]);
        cache_fixture.write("a", "one");
        cache_fixture.call("look", json!({"path": "a"})).await
    };
    [call(on()).await, call(off()).await]
}

#[tokio::test]
async fn immutable_result_has_empty_witnesses() {
    let tool = CountingTool::named("look").cache_class(CacheClass::Immutable);
    for answer in both(&tool).await {
        assert_eq!(known(&answer), 0);
        assert_eq!(lasts(&answer.witnesses, || {}).await, Ok(CacheStatus::Hit));
    }
}

#[tokio::test]
async fn result_without_declared_dependencies_has_unknown_witnesses() {
    let named = |_: &_| Effects::reading(vec![EffectTarget::Named("memory".into())]);
    let for_a_minute = |_: &_, _: &_, _| ToolOutput {
        lifetime: Some(Duration::from_secs(60)),
        ..ToolOutput::text("")
    };
    let private = |_: &_, _: &_, _| ToolOutput {
        private: true,
        ..ToolOutput::text("")
    };
    let writes = |_: &_| Effects {
        reads: EffectTargets::NOTHING,
        writes: EffectTargets::Unknown,
    };
    let a_file = |_: &_| Effects::reading(vec![EffectTarget::Path("a".into())]);
    for (tool, expected) in [
        (CountingTool::unknown("look"), "may have changed"),
        (CountingTool::reader("look").writing(), "may have changed"),
        (
            CountingTool::reader("look").touching(writes),
            "may have changed",
        ),
        (CountingTool::reader("look").from("server"), "MCP server"),
        (CountingTool::named("look"), "not declared as reusable"),
        (
            CountingTool::named("look").cache_class(CacheClass::Ttl(Duration::from_secs(9))),
            "for a time only",
        ),
        (
            CountingTool::reader("look").touching(named),
            "something else",
        ),
        (
            CountingTool::reader("look").touching(|_| reads_unknown()),
            "not known what it read",
        ),
        (
            CountingTool::reader("look").touching(a_file),
            "noted nothing",
        ),
        (
            CountingTool::reader("look").doing(for_a_minute),
            "for a time",
        ),
        (
            CountingTool::reader("look").doing(private),
            "this user alone",
        ),
        (
            CountingTool::reader("look").doing(|_, _, _| ToolOutput::error("no")),
            "failed",
        ),
    ] {
        for answer in both(&tool).await {
            let why = why(&answer);
            assert!(why.contains(expected), "{expected}: {why}");
        }
    }
}

#[tokio::test]
async fn configured_ttl_bounds_entries_built_from_the_result() {
    for tool in [
        CountingTool::file_reader("look"),
        CountingTool::named("look").cache_class(CacheClass::Immutable),
    ] {
        let settings = ToolCacheSettings {
            ttl: [("look".to_owned(), Duration::from_secs(60))].into(),
            ..on()
        };
        let cache_fixture = CacheFixtureBuilder::with(settings).of(&[&tool]);
        cache_fixture.write("a", "one");
        for _ in 0..2 {
            let answer = cache_fixture.call("look", json!({"path": "a"})).await;
            assert!(why(&answer).contains("for a time only"));
        }
    }
}

#[tokio::test]
async fn refused_call_has_unknown_witnesses() {
    for settings in [on(), off()] {
        let cache_fixture =
            CacheFixtureBuilder::with(settings).of(&[&CountingTool::reader("look")]);
        let answer = cache_fixture.call("lok", json!({})).await;
        assert_eq!(answer.outcome, CallOutcome::Refused);
        assert!(why(&answer).contains("did not run"));
    }
}

#[tokio::test]
async fn incomplete_witness_is_unknown() {
    let tool = CountingTool::file_reader("look").doing(|_, context, _| {
        context
            .witness
            .mark_incomplete("a changed while it was read");
        ToolOutput::text("half")
    });
    for answer in both(&tool).await {
        assert_eq!(why(&answer), "a changed while it was read");
    }
}

#[test]
fn only_reading_file_tools_are_validated() {
    let is_vouched_for = |tool: &&Arc<dyn Tool>| {
        let metadata = tool.metadata();
        metadata.read_only
            && matches!(
                metadata.cache_class,
                CacheClass::Validated | CacheClass::Immutable
            )
    };
    let tools = builtin::files();
    let names = tools.iter().filter(is_vouched_for);
    let mut names: Vec<&str> = names.map(|tool| &*tool.metadata().name).collect();
    names.sort_unstable();
    assert_eq!(names, ["glob", "grep", "list_dir", "read_file"]);
}

/// A search under other rules is another search, also where its result was kept.
#[tokio::test]
async fn search_result_is_not_served_after_a_permission_rule_change() {
    let cache_fixture = with_files(on());
    cache_fixture.write(".env", "fn secret() {}\n");
    for (tool, arguments) in [
        ("grep", json!({"pattern": "fn", "hidden": true})),
        ("glob", json!({"pattern": "*", "hidden": true})),
        ("list_dir", json!({})),
    ] {
        let is_open = |answer: &ToolCallResult| {
            let text = text(answer);
            text.contains(".env")
        };
        let free = cache_fixture.batch("main", &[]);
        let mut bound = cache_fixture.batch("main", &[]);
        bound.context.rules = crate::files::denied::rules("deny: ['*:path=**/.env']");
        for _ in 0..2 {
            let answer = cache_fixture
                .run(&free, &[(tool, arguments.clone())])
                .await
                .remove(0);
            assert!(is_open(&answer), "{tool}");
            let answer = cache_fixture
                .run(&bound, &[(tool, arguments.clone())])
                .await
                .remove(0);
            assert!(!is_open(&answer), "{tool} {:?}", answer.outcome);
        }
        let answer = cache_fixture
            .run(&bound, &[(tool, arguments)])
            .await
            .remove(0);
        assert_eq!(answer.outcome, CallOutcome::Hit, "{tool}");
    }
}
