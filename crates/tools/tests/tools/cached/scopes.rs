//! Scopes of cached results.

use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::{Cache, CacheMode};
use cachalot_core::{EffectTarget, Effects, ManualClock};
use cachalot_tools::cached::{ToolCacheScope, ToolCacheSettings};
use cachalot_tools::{CacheClass, CallOutcome, Registry, Tool, ToolOutput};
use serde_json::json;

use super::cache_fixture::{
    CacheFixture, CacheFixtureBuilder, CountingTool, START, cache_fixture, in_process, on,
    persistent, text,
};

fn shared_by(scope: ToolCacheScope) -> ToolCacheSettings {
    ToolCacheSettings { scope, ..on() }
}

fn cache_fixture_builder(
    scope: ToolCacheScope,
    engine: &Cache,
    user: &str,
    clock: &Arc<ManualClock>,
) -> CacheFixtureBuilder {
    CacheFixtureBuilder {
        persistent: Some(engine.clone()),
        user: user.to_owned(),
        clock: Arc::clone(clock),
        ..CacheFixtureBuilder::with(shared_by(scope))
    }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(START))
}

/// Asks in a session of `there` that works in the workspace of `here`.
async fn ask(
    there: &CacheFixture,
    here: &CacheFixture,
    session: &str,
    tool: &str,
) -> (String, CallOutcome) {
    let batch = there.batch_in(&here.root(), session, &[]);
    let answer = there.run(&batch, &[(tool, json!({}))]).await.remove(0);
    (text(&answer), answer.outcome)
}

#[tokio::test]
async fn session_scope_is_private_to_the_session() {
    let cache_fixture = cache_fixture(&[&CountingTool::reader("look")]);
    for (session, expected) in [("one", "run 0"), ("other", "run 1"), ("one", "run 0")] {
        assert_eq!(
            text(&cache_fixture.call_in(session, "look", json!({})).await),
            expected
        );
    }
    cache_fixture.tools.clear("one");
    assert_eq!(
        text(&cache_fixture.call_in("one", "look", json!({})).await),
        "run 2"
    );
    let other = cache_fixture.call_in("other", "look", json!({})).await;
    assert_eq!(
        other.outcome,
        CallOutcome::Hit,
        "another session's are left alone"
    );
}

#[tokio::test]
async fn oldest_sessions_are_evicted() {
    let tool = CountingTool::reader("look");
    let cache_fixture = cache_fixture(&[&tool]);
    for session in 0..300 {
        cache_fixture
            .call_in(&session.to_string(), "look", json!({}))
            .await;
        cache_fixture.call_in("busy", "look", json!({})).await;
    }
    assert_eq!(tool.runs(), 301);
    assert_eq!(
        cache_fixture
            .call_in("299", "look", json!({}))
            .await
            .outcome,
        CallOutcome::Hit
    );
    assert_eq!(
        cache_fixture
            .call_in("busy", "look", json!({}))
            .await
            .outcome,
        CallOutcome::Hit
    );
    assert_ne!(
        cache_fixture.call_in("0", "look", json!({})).await.outcome,
        CallOutcome::Hit
    );
}

#[tokio::test]
async fn workspace_scope_is_shared_by_all_sessions_of_the_workspace_only() {
    let clock = clock();
    let home = tempfile::tempdir().unwrap();
    let engine = persistent(&home.path().join("cachalot.db"), &clock);
    let tool = CountingTool::reader("look");
    let one = cache_fixture_builder(ToolCacheScope::Workspace, &engine, "ada", &clock).of(&[&tool]);
    assert_eq!(ask(&one, &one, "first", "look").await.0, "run 0");
    assert_eq!(
        ask(&one, &one, "second", "look").await,
        ("run 0".into(), CallOutcome::Hit)
    );
    one.tools.clear("first");
    // Another process, as it were: its own engine over the same file, another user.
    let again = persistent(&home.path().join("cachalot.db"), &clock);
    let other =
        cache_fixture_builder(ToolCacheScope::Workspace, &again, "bob", &clock).of(&[&tool]);
    assert_eq!(
        ask(&other, &one, "third", "look").await,
        ("run 0".into(), CallOutcome::Hit)
    );
    assert_eq!(ask(&other, &other, "fourth", "look").await.0, "run 1");
}

#[tokio::test]
async fn user_scope_is_private_to_the_user() {
    let clock = clock();
    let engine = in_process(&clock);
    let tool = CountingTool::reader("look");
    let ada = cache_fixture_builder(ToolCacheScope::User, &engine, "ada", &clock).of(&[&tool]);
    let bob = cache_fixture_builder(ToolCacheScope::User, &engine, "bob", &clock).of(&[&tool]);
    assert_eq!(ask(&ada, &ada, "first", "look").await.0, "run 0");
    assert_eq!(ask(&ada, &ada, "second", "look").await.1, CallOutcome::Hit);
    assert_eq!(ask(&bob, &ada, "first", "look").await.0, "run 1");
}

#[tokio::test]
async fn session_scope_is_used_without_a_persistent_store() {
    let cache_fixture = CacheFixtureBuilder::with(shared_by(ToolCacheScope::User))
        .of(&[&CountingTool::reader("look")]);
    assert!(
        cache_fixture.said()[0].contains("for their session only"),
        "{:?}",
        cache_fixture.said()
    );
    cache_fixture.call_in("one", "look", json!({})).await;
    assert_ne!(
        cache_fixture
            .call_in("other", "look", json!({}))
            .await
            .outcome,
        CallOutcome::Hit
    );
}

#[tokio::test]
async fn writes_invalidate_entries_of_other_processes() {
    let clock = clock();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("cachalot.db");
    let reader = CountingTool::reader("look")
        .cache_class(CacheClass::Ttl(Duration::from_secs(3_600)))
        .touching(|_| Effects::reading(vec![EffectTarget::Path("a".into())]));
    let writer = CountingTool::named("write")
        .writing()
        .touching(|_| Effects::writing(vec![EffectTarget::Path("a".into())]));
    let shell = CountingTool::unknown("shell");
    let tools = [&reader, &writer, &shell];
    let here = cache_fixture_builder(
        ToolCacheScope::Workspace,
        &persistent(&path, &clock),
        "u",
        &clock,
    )
    .of(&tools);
    // Whoever keeps results for a session only tells the shared memory of writes all the same.
    for scope in [ToolCacheScope::Workspace, ToolCacheScope::Session] {
        let there =
            cache_fixture_builder(scope, &persistent(&path, &clock), "u", &clock).of(&tools);
        for tool in ["write", "shell"] {
            ask(&here, &here, "s", "look").await;
            assert_eq!(ask(&here, &here, "s", "look").await.1, CallOutcome::Hit);
            ask(&there, &here, "s", tool).await;
            assert_ne!(
                ask(&here, &here, "s", "look").await.1,
                CallOutcome::Hit,
                "{tool}"
            );
        }
    }
}

#[tokio::test]
async fn private_result_is_not_shared_in_the_workspace() {
    let clock = clock();
    let private = || {
        CountingTool::named("look")
            .from("server")
            .doing(|_, _, run| ToolOutput {
                lifetime: Some(Duration::from_secs(60)),
                private: true,
                ..ToolOutput::text(format!("run {run}"))
            })
    };
    for (scope, kept) in [
        (ToolCacheScope::Workspace, false),
        (ToolCacheScope::User, true),
        (ToolCacheScope::Session, true),
    ] {
        let cache_fixture =
            cache_fixture_builder(scope, &in_process(&clock), "ada", &clock).of(&[&private()]);
        cache_fixture.call("look", json!({})).await;
        let answer = cache_fixture.call("look", json!({})).await;
        assert_eq!(answer.outcome == CallOutcome::Hit, kept, "{scope:?}");
        assert!(answer.output.private);
    }
}

#[tokio::test]
async fn calls_of_different_users_are_not_coalesced() {
    let clock = clock();
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let tool = CountingTool::named("look")
        .cache_class(CacheClass::Ttl(Duration::from_secs(60)))
        .from("server")
        .gated(&gate);
    let registry = Registry::new(vec![Arc::new(tool.clone()) as Arc<dyn Tool>]).unwrap();
    let engine = in_process(&clock);
    let cache_fixture = Arc::new(
        cache_fixture_builder(ToolCacheScope::Workspace, &engine, "ada", &clock).over(&registry),
    );
    let asking: Vec<_> = ["one", "other"]
        .map(|session| {
            let cache_fixture = Arc::clone(&cache_fixture);
            tokio::spawn(async move { cache_fixture.call_in(session, "look", json!({})).await })
        })
        .into();
    while tool.runs() < 2 {
        tokio::task::yield_now().await;
    }
    gate.add_permits(2);
    for one in asking {
        assert!(matches!(one.await.unwrap().outcome, CallOutcome::Ran(_)));
    }
}

#[tokio::test]
async fn user_scope_without_a_user_name_falls_back_to_the_session() {
    let clock = clock();
    let engine = in_process(&clock);
    let cache_fixture = cache_fixture_builder(ToolCacheScope::User, &engine, " ", &clock)
        .of(&[&CountingTool::reader("look")]);
    assert!(
        cache_fixture.said()[0].contains("the user is unknown"),
        "{:?}",
        cache_fixture.said()
    );
    cache_fixture.call_in("one", "look", json!({})).await;
    let other = cache_fixture.call_in("other", "look", json!({})).await;
    assert_ne!(other.outcome, CallOutcome::Hit);
}

#[tokio::test]
async fn writes_are_announced_to_the_store_even_without_stored_results() {
    use cachalot_cache::{
        self as cache, BeginResult, CallKind, Domain, HitPolicy, Policy, RunResult, Scope,
    };
    use cachalot_core::{Canonical, Spend};
    let clock = clock();
    let engine = in_process(&clock);
    let writer = CountingTool::named("remember")
        .writing()
        .touching(|_| Effects::writing(vec![EffectTarget::Named("ltm".into())]));
    let mut cache_fixture_builder = CacheFixtureBuilder::with(ToolCacheSettings::default());
    cache_fixture_builder.persistent = Some(engine.clone());
    let cache_fixture = cache_fixture_builder.of(&[&writer]);
    // Something else that depends on long-term memory: a step of a workflow.
    let input = Canonical::value(&json!(1));
    let call = cache::Call {
        kind: CallKind::Action,
        scope: &Scope::Global,
        name: "ltm.search",
        input: &input,
    };
    let policy = Policy {
        hit: HitPolicy {
            domains: vec![Domain::new("ltm")],
            ..HitPolicy::default()
        },
        ..Policy::default()
    };
    let is_served = async || match engine.begin(&call, &policy).await.unwrap() {
        BeginResult::Served(_) | BeginResult::Stale { .. } => true,
        BeginResult::Run(ticket) => {
            let product = RunResult::storable("found".into(), Spend::default());
            ticket.finish(product).await;
            false
        }
    };
    assert!(!is_served().await && is_served().await);
    cache_fixture.call("remember", json!({})).await;
    assert!(!is_served().await && is_served().await);
}

/// A newer version may store results in another form.
#[tokio::test]
async fn unreadable_result_is_replaced_except_in_a_frozen_run() {
    let clock = clock();
    let engine = in_process(&clock);
    let tool = CountingTool::reader("look");
    let here = cache_fixture_builder(ToolCacheScope::User, &engine, "ada", &clock).of(&[&tool]);
    assert_eq!(ask(&here, &here, "first", "look").await.0, "run 0");
    let mut cassette = Vec::new();
    engine.export(&mut cassette, None).await.unwrap();
    let cassette = String::from_utf8(cassette).unwrap();
    let damaged = cassette.replace(r#"\"content\""#, r#"\"contents\""#);
    assert_ne!(damaged, cassette);
    let imported = engine.import(&mut damaged.as_bytes()).await.unwrap();
    assert_eq!(imported.entries, 1);

    let frozen = CacheFixtureBuilder {
        mode: CacheMode::Frozen,
        ..cache_fixture_builder(ToolCacheScope::User, &engine, "ada", &clock)
    };
    let (said, outcome) = ask(&frozen.of(&[&tool]), &here, "second", "look").await;
    assert!(said.contains("its entry cannot be read"), "{said}");
    assert!(matches!(outcome, CallOutcome::Ran(Some(_))), "{outcome:?}");
    assert_eq!(tool.runs(), 1);

    assert_eq!(ask(&here, &here, "third", "look").await.0, "run 1");
    let again = ask(&here, &here, "fourth", "look").await;
    assert_eq!(again, ("run 1".to_owned(), CallOutcome::Hit));
}
