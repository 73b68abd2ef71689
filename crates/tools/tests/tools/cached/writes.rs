//! What is written makes unservable what was read of it, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use cachalot_core::{EffectTarget, Effects};
use cachalot_tools::cached::{ToolCacheSettings, WriteNotifier};
use cachalot_tools::{CallOutcome, ToolOutput};
use serde_json::json;
use tokio::sync::Semaphore;

use super::world::{Counting, Making, World, note, on, reads_unknown, text, world};

/// A tool whose results depend on a file that no witness tells of: only what is announced counts.
fn blind(name: &str, reads: Vec<EffectTarget>) -> Counting {
    Counting::reader(name)
        .cache_class(cachalot_tools::CacheClass::Ttl(Duration::from_secs(3_600)))
        .touching(move |_| Effects::reading(reads.clone()))
}

fn path(path: &str) -> EffectTarget {
    EffectTarget::Path(path.into())
}

fn tree(root: &str) -> EffectTarget {
    EffectTarget::Glob {
        root: root.into(),
        pattern: "**/*.rs".into(),
    }
}

fn named(name: &str) -> EffectTarget {
    EffectTarget::Named(name.into())
}

async fn is_hit(world: &World, tool: &str) -> bool {
    world.call(tool, json!({})).await.outcome == CallOutcome::Hit
}

#[tokio::test]
async fn a_write_makes_unservable_exactly_what_read_it() {
    let readers = [
        blind("reads_a", vec![path("src/a")]),
        blind("reads_b", vec![path("src/b")]),
        blind("reads_both", vec![path("src/a"), path("src/b")]),
        blind("lists_src", vec![path("src")]),
        blind("lists_root", vec![path(".")]),
        blind("greps_src", vec![tree("src")]),
        blind("greps_doc", vec![tree("doc")]),
        blind("reads_name", vec![named("n")]),
        blind("reads_nothing", vec![]),
        Counting::reader("reads_unknown")
            .touching(|_| reads_unknown())
            .doing(|_, context, _| {
                note(context, "absent");
                ToolOutput::text("unknown")
            }),
    ];
    let writer = Counting::named("write").writing().touching(|arguments| {
        let what = arguments["what"].as_str().unwrap();
        Effects::writing(vec![match what.strip_prefix("name:") {
            Some(name) => named(name),
            None => path(what),
        }])
    });
    let shell = Counting::unknown("shell");
    let mut tools: Vec<&Counting> = readers.iter().collect();
    tools.extend([&writer, &shell]);
    let world = world(&tools);
    for directory in ["src", "doc"] {
        std::fs::create_dir(world.root().join(directory)).unwrap();
    }
    let all = [
        "reads_a",
        "reads_b",
        "reads_both",
        "lists_src",
        "lists_root",
        "greps_src",
        "greps_doc",
        "reads_name",
        "reads_nothing",
        "reads_unknown",
    ];
    for (what, unservable) in [
        (
            "src/a",
            vec![
                "reads_a",
                "reads_both",
                "lists_src",
                "greps_src",
                "reads_unknown",
            ],
        ),
        ("src/new", vec!["lists_src", "greps_src", "reads_unknown"]),
        ("doc/x", vec!["greps_doc", "reads_unknown"]),
        ("top", vec!["lists_root", "reads_unknown"]),
        (
            "src",
            vec![
                "reads_a",
                "reads_b",
                "reads_both",
                "lists_src",
                "lists_root",
                "greps_src",
                "reads_unknown",
            ],
        ),
        ("name:n", vec!["reads_name", "reads_unknown"]),
        ("name:m", vec!["reads_unknown"]),
        ("", all.to_vec()),
    ] {
        for tool in all {
            is_hit(&world, tool).await;
            assert!(is_hit(&world, tool).await, "{tool} before {what}");
        }
        if what.is_empty() {
            world.call("shell", json!({})).await;
        } else {
            world.call("write", json!({ "what": what })).await;
        }
        for tool in all {
            assert_eq!(
                !is_hit(&world, tool).await,
                unservable.contains(&tool),
                "{tool} after {what}"
            );
        }
    }
}

#[tokio::test]
async fn the_reason_of_a_run_is_reported() {
    let world = world(&[
        &blind("look", vec![path("a")]),
        &Counting::file_writer("write"),
        &Counting::unknown("shell"),
    ]);
    let why = async || match world.call("look", json!({})).await.outcome {
        CallOutcome::Ran(why) => why.unwrap(),
        other => panic!("{other:?}"),
    };
    let root = world.root().display().to_string();
    assert_eq!(why().await, "not in the cache");
    world.call("write", json!({"path": "a", "text": ""})).await;
    assert_eq!(
        why().await,
        format!("entries:{root}/a was written to since")
    );
    world.call("shell", json!({})).await;
    let said = why().await;
    assert!(
        said.contains(&root) && said.contains("was written to since"),
        "{said}"
    );
    let counters = &world.tools.counters("main")["look"];
    assert_eq!((counters.invalidated, counters.stale_prevented), (2, 2));
}

#[tokio::test]
async fn sessions_see_each_others_writes() {
    let write_notifier = WriteNotifier::new();
    let (reader, writer) = (
        blind("look", vec![path("a")]),
        Counting::file_writer("write"),
    );
    let making = |settings: ToolCacheSettings| {
        let mut making = Making::with(settings);
        making.write_notifier = write_notifier.clone();
        making
    };
    // A layer of its own, say of a sub-agent; and one that keeps nothing.
    let here = making(on()).of(&[&reader, &writer]);
    for there in [making(on()), making(ToolCacheSettings::default())] {
        let there = there.of(&[&reader, &writer]);
        let batch = there.batch_in(&here.root(), "other", &[]);
        here.call("look", json!({})).await;
        assert!(is_hit(&here, "look").await);
        let hit = here.call_in("third", "look", json!({})).await;
        assert_ne!(hit.outcome, CallOutcome::Hit, "results are a session's own");
        there
            .run(&batch, &[("write", json!({"path": "a", "text": "x"}))])
            .await;
        assert!(!is_hit(&here, "look").await);
        assert_ne!(
            here.call_in("third", "look", json!({})).await.outcome,
            CallOutcome::Hit
        );
        here.call_in("third", "write", json!({"path": "a", "text": "y"}))
            .await;
        assert!(!is_hit(&here, "look").await);
    }
}

#[tokio::test]
async fn other_workspaces_are_left_alone_except_those_around_and_inside() {
    let write_notifier = WriteNotifier::new();
    let tools = [
        blind("look", vec![path("a")]),
        blind("search", vec![tree(".")]),
        Counting::unknown("shell"),
    ];
    let mut making = Making::with(on());
    making.write_notifier = write_notifier;
    let world = making.of(&[&tools[0], &tools[1], &tools[2]]);
    let root = world.root();
    for directory in ["one/in", "other"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    let call = async |at: &str, tool: &str| {
        let batch = world.batch_in(&root.join(at), at, &[]);
        world
            .run(&batch, &[(tool, json!({}))])
            .await
            .remove(0)
            .outcome
            == CallOutcome::Hit
    };
    for at in ["one", "one/in", "other"] {
        for tool in ["look", "search"] {
            call(at, tool).await;
            assert!(call(at, tool).await);
        }
    }
    call("one", "shell").await;
    assert!(!call("one", "look").await && !call("one", "search").await);
    assert!(!call("one/in", "look").await && !call("one/in", "search").await);
    assert!(call("other", "look").await && call("other", "search").await);
    call("one/in", "shell").await;
    assert!(call("one", "look").await, "it read nothing in there");
    assert!(!call("one", "search").await);
    assert!(!call("one/in", "look").await && !call("one/in", "search").await);
    assert!(call("other", "look").await && call("other", "search").await);
}

#[tokio::test]
async fn a_read_during_a_write_is_neither_kept_nor_joined() {
    let reading = Arc::new(Semaphore::new(0));
    let reader = blind("look", vec![path("a")]).gated(&reading);
    let writer = Counting::file_writer("write");
    let world = Arc::new(world(&[&reader, &writer]));
    let look = || {
        let world = Arc::clone(&world);
        tokio::spawn(async move { world.call("look", json!({})).await })
    };
    let until = async |runs: usize| {
        while reader.runs() < runs {
            tokio::task::yield_now().await;
        }
    };
    // It began before the write, and ends after it.
    let before = look();
    until(1).await;
    world
        .call_in("other", "write", json!({"path": "a", "text": "x"}))
        .await;
    let after = look();
    until(2).await;
    reading.add_permits(2);
    let (before, after) = (before.await.unwrap(), after.await.unwrap());
    assert_eq!(
        (text(&before).as_str(), text(&after).as_str()),
        ("run 0", "run 1")
    );
    assert!(
        matches!(after.outcome, CallOutcome::Ran(_)),
        "it did not join"
    );
    let answer = world.call("look", json!({})).await;
    assert_eq!(
        (text(&answer).as_str(), answer.outcome),
        ("run 1", CallOutcome::Hit)
    );
    let counters = &world.tools.counters("main")["look"];
    assert_eq!(
        counters.not_kept["what it read was written to meanwhile"],
        1
    );
}

#[tokio::test]
async fn while_something_is_written_nothing_of_it_is_served_by_anybody() {
    let writing = Arc::new(Semaphore::new(0));
    let reader = blind("look", vec![path("a")]);
    let writer = Counting::file_writer("write").gated(&writing);
    let world = Arc::new(world(&[&reader, &writer]));
    world.call("look", json!({})).await;
    assert!(is_hit(&world, "look").await);
    let write = {
        let world = Arc::clone(&world);
        let call = json!({"path": "a", "text": "x"});
        tokio::spawn(async move { world.call_in("other", "write", call).await })
    };
    while writer.runs() == 0 {
        tokio::task::yield_now().await;
    }
    for _ in 0..2 {
        assert!(!is_hit(&world, "look").await, "neither served nor kept");
    }
    // A session that begins in the middle of it knows of it, too.
    for _ in 0..2 {
        let outcome = world.call_in("late", "look", json!({})).await.outcome;
        assert!(matches!(outcome, CallOutcome::Ran(Some(_))), "{outcome:?}");
    }
    writing.add_permits(1);
    write.await.unwrap();
    for session in ["main", "late"] {
        assert_ne!(
            world.call_in(session, "look", json!({})).await.outcome,
            CallOutcome::Hit
        );
        assert_eq!(
            world.call_in(session, "look", json!({})).await.outcome,
            CallOutcome::Hit
        );
    }
}

#[tokio::test]
async fn a_write_that_is_cut_short_counts() {
    let never = Arc::new(Semaphore::new(0));
    let reader = blind("look", vec![path("a")]);
    let writer = Counting::file_writer("write").gated(&never);
    let world = world(&[&reader, &writer]);
    world.call("look", json!({})).await;
    let call = [("write", json!({"path": "a", "text": "half"}))];
    {
        let mut writing = Box::pin(world.calls(&call));
        while writer.runs() == 0 {
            assert!(futures_util::poll!(&mut writing).is_pending());
        }
    }
    let answer = world.call("look", json!({})).await;
    assert!(matches!(answer.outcome, CallOutcome::Ran(_)));
    // Once everybody knows, results are kept again.
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while !is_hit(&world, "look").await {
        assert!(
            std::time::Instant::now() < until,
            "it stays blocked for ever"
        );
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_tool_that_breaks_down_while_it_writes_counts() {
    let reader = blind("look", vec![path("a")]);
    let writer = Counting::file_writer("write").doing(|_, _, _| panic!("half-way"));
    let world = world(&[&reader, &writer]);
    world.call("look", json!({})).await;
    let answer = world.call("write", json!({"path": "a"})).await;
    assert!(answer.output.is_error);
    assert!(!is_hit(&world, "look").await);
    assert!(is_hit(&world, "look").await);
}

#[tokio::test]
async fn calls_of_a_batch_see_what_was_written_before_them() {
    let world = world(&[
        &Counting::file_reader("look"),
        &Counting::file_writer("write"),
    ]);
    let look = ("look", json!({"path": "a"}));
    let write = |text: &str| ("write", json!({"path": "a", "text": text}));
    let batch = [
        write("1"),
        look.clone(),
        look.clone(),
        write("2"),
        look.clone(),
        write("2"),
        look.clone(),
        look,
    ];
    let answers = world.calls(&batch).await;
    let texts: Vec<String> = answers.iter().map(text).collect();
    assert_eq!(
        texts,
        ["written", "1", "1", "written", "2", "written", "2", "2"]
    );
}
