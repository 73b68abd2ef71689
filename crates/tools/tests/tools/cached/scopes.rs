//! Who shares results.

use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::Cache;
use cachalot_core::{Effects, ManualClock, Touched};
use cachalot_tools::cached::{Settings, Sharing};
use cachalot_tools::{Answered, CacheClass, Output, Registry, Tool};
use serde_json::json;

use super::world::{Counting, Making, START, World, in_process, on, persistent, text, world};

fn shared_by(scope: Sharing) -> Settings {
    Settings { scope, ..on() }
}

fn making(scope: Sharing, engine: &Cache, user: &str, clock: &Arc<ManualClock>) -> Making {
    Making {
        persistent: Some(engine.clone()),
        user: user.to_owned(),
        clock: Arc::clone(clock),
        ..Making::with(shared_by(scope))
    }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(START))
}

/// Asks in a session of `there` that works in the workspace of `here`.
async fn ask(there: &World, here: &World, session: &str, tool: &str) -> (String, Answered) {
    let batch = there.batch_in(&here.root(), session, &[]);
    let answer = there.run(&batch, &[(tool, json!({}))]).await.remove(0);
    (text(&answer), answer.how)
}

#[tokio::test]
async fn a_sessions_results_are_its_own() {
    let world = world(&[&Counting::reader("look")]);
    for (session, expected) in [("one", "run 0"), ("other", "run 1"), ("one", "run 0")] {
        assert_eq!(
            text(&world.call_in(session, "look", json!({})).await),
            expected
        );
    }
    world.tools.clear("one");
    assert_eq!(
        text(&world.call_in("one", "look", json!({})).await),
        "run 2"
    );
    let other = world.call_in("other", "look", json!({})).await;
    assert_eq!(other.how, Answered::Hit, "another session's are left alone");
}

#[tokio::test]
async fn of_very_many_sessions_the_oldest_begin_anew() {
    let tool = Counting::reader("look");
    let world = world(&[&tool]);
    for session in 0..300 {
        world.call_in(&session.to_string(), "look", json!({})).await;
        world.call_in("busy", "look", json!({})).await;
    }
    assert_eq!(tool.runs(), 301);
    assert_eq!(
        world.call_in("299", "look", json!({})).await.how,
        Answered::Hit
    );
    assert_eq!(
        world.call_in("busy", "look", json!({})).await.how,
        Answered::Hit
    );
    assert_ne!(
        world.call_in("0", "look", json!({})).await.how,
        Answered::Hit
    );
}

#[tokio::test]
async fn a_workspace_is_shared_by_its_sessions_also_later_ones_and_by_nobody_else() {
    let clock = clock();
    let home = tempfile::tempdir().unwrap();
    let engine = persistent(&home.path().join("cachalot.db"), &clock);
    let tool = Counting::reader("look");
    let one = making(Sharing::Workspace, &engine, "ada", &clock).of(&[&tool]);
    assert_eq!(ask(&one, &one, "first", "look").await.0, "run 0");
    assert_eq!(
        ask(&one, &one, "second", "look").await,
        ("run 0".into(), Answered::Hit)
    );
    one.tools.clear("first");
    // Another process, as it were: its own engine over the same file, another user.
    let again = persistent(&home.path().join("cachalot.db"), &clock);
    let other = making(Sharing::Workspace, &again, "bob", &clock).of(&[&tool]);
    assert_eq!(
        ask(&other, &one, "third", "look").await,
        ("run 0".into(), Answered::Hit)
    );
    assert_eq!(ask(&other, &other, "fourth", "look").await.0, "run 1");
}

#[tokio::test]
async fn a_user_shares_with_themselves_alone() {
    let clock = clock();
    let engine = in_process(&clock);
    let tool = Counting::reader("look");
    let ada = making(Sharing::User, &engine, "ada", &clock).of(&[&tool]);
    let bob = making(Sharing::User, &engine, "bob", &clock).of(&[&tool]);
    assert_eq!(ask(&ada, &ada, "first", "look").await.0, "run 0");
    assert_eq!(ask(&ada, &ada, "second", "look").await.1, Answered::Hit);
    assert_eq!(ask(&bob, &ada, "first", "look").await.0, "run 1");
}

#[tokio::test]
async fn without_a_memory_that_lasts_it_is_the_session_and_that_is_said() {
    let world = Making::with(shared_by(Sharing::User)).of(&[&Counting::reader("look")]);
    assert!(
        world.said()[0].contains("for their session only"),
        "{:?}",
        world.said()
    );
    world.call_in("one", "look", json!({})).await;
    assert_ne!(
        world.call_in("other", "look", json!({})).await.how,
        Answered::Hit
    );
}

#[tokio::test]
async fn other_processes_hear_of_writes() {
    let clock = clock();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("cachalot.db");
    let reader = Counting::reader("look")
        .class(CacheClass::Ttl(Duration::from_secs(3_600)))
        .touching(|_| Effects::reading(vec![Touched::Path("a".into())]));
    let writer = Counting::named("write")
        .writing()
        .touching(|_| Effects::writing(vec![Touched::Path("a".into())]));
    let shell = Counting::unknown("shell");
    let tools = [&reader, &writer, &shell];
    let here = making(Sharing::Workspace, &persistent(&path, &clock), "u", &clock).of(&tools);
    // Whoever keeps results for a session only tells the shared memory of writes all the same.
    for scope in [Sharing::Workspace, Sharing::Session] {
        let there = making(scope, &persistent(&path, &clock), "u", &clock).of(&tools);
        for tool in ["write", "shell"] {
            ask(&here, &here, "s", "look").await;
            assert_eq!(ask(&here, &here, "s", "look").await.1, Answered::Hit);
            ask(&there, &here, "s", tool).await;
            assert_ne!(
                ask(&here, &here, "s", "look").await.1,
                Answered::Hit,
                "{tool}"
            );
        }
    }
}

#[tokio::test]
async fn what_is_for_one_user_alone_is_not_shared_by_a_workspace() {
    let clock = clock();
    let private = || {
        Counting::named("look")
            .from("server")
            .doing(|_, _, run| Output {
                lifetime: Some(Duration::from_secs(60)),
                private: true,
                ..Output::text(format!("run {run}"))
            })
    };
    for (scope, kept) in [
        (Sharing::Workspace, false),
        (Sharing::User, true),
        (Sharing::Session, true),
    ] {
        let world = making(scope, &in_process(&clock), "ada", &clock).of(&[&private()]);
        world.call("look", json!({})).await;
        let answer = world.call("look", json!({})).await;
        assert_eq!(answer.how == Answered::Hit, kept, "{scope:?}");
        assert!(answer.output.private);
    }
}

#[tokio::test]
async fn nobody_waits_for_what_may_be_for_another_user_alone() {
    let clock = clock();
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let tool = Counting::named("look")
        .class(CacheClass::Ttl(Duration::from_secs(60)))
        .from("server")
        .gated(&gate);
    let registry = Registry::new(vec![Arc::new(tool.clone()) as Arc<dyn Tool>]).unwrap();
    let engine = in_process(&clock);
    let world = Arc::new(making(Sharing::Workspace, &engine, "ada", &clock).over(&registry));
    let asking: Vec<_> = ["one", "other"]
        .map(|session| {
            let world = Arc::clone(&world);
            tokio::spawn(async move { world.call_in(session, "look", json!({})).await })
        })
        .into();
    while tool.runs() < 2 {
        tokio::task::yield_now().await;
    }
    gate.add_permits(2);
    for one in asking {
        assert!(matches!(one.await.unwrap().how, Answered::Ran(_)));
    }
}

#[tokio::test]
async fn nothing_is_shared_with_nobody() {
    let clock = clock();
    let engine = in_process(&clock);
    let world = making(Sharing::User, &engine, " ", &clock).of(&[&Counting::reader("look")]);
    assert!(
        world.said()[0].contains("who the user is"),
        "{:?}",
        world.said()
    );
    world.call_in("one", "look", json!({})).await;
    let other = world.call_in("other", "look", json!({})).await;
    assert_ne!(other.how, Answered::Hit);
}

#[tokio::test]
async fn the_memory_that_lasts_hears_of_writes_though_nothing_is_kept() {
    use cachalot_cache::{self as cache, Begun, Domain, Kind, Policy, Product, Scope};
    use cachalot_core::{Canonical, Spend};
    let clock = clock();
    let engine = in_process(&clock);
    let writer = Counting::named("remember")
        .writing()
        .touching(|_| Effects::writing(vec![Touched::Named("ltm".into())]));
    let mut making = Making::with(Settings::default());
    making.persistent = Some(engine.clone());
    let world = making.of(&[&writer]);
    // Something else that depends on long-term memory: a step of a workflow.
    let input = Canonical::value(&json!(1));
    let call = cache::Call {
        kind: Kind::Action,
        scope: &Scope::Global,
        name: "ltm.search",
        input: &input,
    };
    let policy = Policy {
        domains: vec![Domain::new("ltm")],
        ..Policy::default()
    };
    let is_served = async || match engine.begin(&call, &policy).await.unwrap() {
        Begun::Served(_) => true,
        Begun::Run(ticket) => {
            let product = Product::kept("found".into(), Spend::default());
            ticket.finish(product).await;
            false
        }
    };
    assert!(!is_served().await && is_served().await);
    world.call("remember", json!({})).await;
    assert!(!is_served().await && is_served().await);
}
