//! A write invalidates the results that read it, and no others.

use std::sync::Arc;
use std::time::Duration;

use cachalot_core::{EffectTarget, Effects};
use cachalot_tools::cached::{ToolCacheSettings, WriteNotifier};
use cachalot_tools::{CallOutcome, ToolOutput};
use serde_json::json;
use tokio::sync::Semaphore;

use super::cache_fixture::{
    CacheFixture, CacheFixtureBuilder, CountingTool, cache_fixture, note, on, reads_unknown, text,
};

/// A tool whose results depend on a file that no witness tells of: only what is announced counts.
fn blind(name: &str, reads: Vec<EffectTarget>) -> CountingTool {
    CountingTool::reader(name)
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

async fn is_hit(cache_fixture: &CacheFixture, tool: &str) -> bool {
    cache_fixture.call(tool, json!({})).await.outcome == CallOutcome::Hit
}

#[tokio::test]
async fn write_invalidates_exactly_the_results_that_read_it() {
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
        CountingTool::reader("reads_unknown")
            .touching(|_| reads_unknown())
            .doing(|_, context, _| {
                note(context, "absent");
                ToolOutput::text("unknown")
            }),
    ];
    let writer = CountingTool::named("write")
        .writing()
        .touching(|arguments| {
            let what = arguments["what"].as_str().unwrap();
            Effects::writing(vec![match what.strip_prefix("name:") {
                Some(name) => named(name),
                None => path(what),
            }])
        });
    let shell = CountingTool::unknown("shell");
    let mut tools: Vec<&CountingTool> = readers.iter().collect();
    tools.extend([&writer, &shell]);
    let cache_fixture = cache_fixture(&tools);
    for directory in ["src", "doc"] {
        std::fs::create_dir(cache_fixture.root().join(directory)).unwrap();
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
            is_hit(&cache_fixture, tool).await;
            assert!(is_hit(&cache_fixture, tool).await, "{tool} before {what}");
        }
        if what.is_empty() {
            cache_fixture.call("shell", json!({})).await;
        } else {
            cache_fixture.call("write", json!({ "what": what })).await;
        }
        for tool in all {
            assert_eq!(
                !is_hit(&cache_fixture, tool).await,
                unservable.contains(&tool),
                "{tool} after {what}"
            );
        }
    }
}

#[tokio::test]
async fn reason_of_a_rerun_is_reported() {
    let cache_fixture = cache_fixture(&[
        &blind("look", vec![path("a")]),
        &CountingTool::file_writer("write"),
        &CountingTool::unknown("shell"),
    ]);
    let why = async || match cache_fixture.call("look", json!({})).await.outcome {
        CallOutcome::Ran(why) => why.unwrap(),
        other => panic!("{other:?}"),
    };
    let root = cache_fixture.root().display().to_string();
    assert_eq!(why().await, "not in the cache");
    cache_fixture
        .call("write", json!({"path": "a", "text": ""}))
        .await;
    assert_eq!(
        why().await,
        format!("entries:{root}/a was written to since")
    );
    cache_fixture.call("shell", json!({})).await;
    let said = why().await;
    assert!(
        said.contains(&root) && said.contains("was written to since"),
        "{said}"
    );
    let counters = &cache_fixture.tools.counters("main")["look"];
    assert_eq!((counters.invalidated, counters.stale_prevented), (2, 2));
}

#[tokio::test]
async fn write_in_one_session_invalidates_others() {
    let write_notifier = WriteNotifier::new();
    let (reader, writer) = (
        blind("look", vec![path("a")]),
        CountingTool::file_writer("write"),
    );
    let cache_fixture_builder = |settings: ToolCacheSettings| {
        let mut cache_fixture_builder = CacheFixtureBuilder::with(settings);
        cache_fixture_builder.write_notifier = write_notifier.clone();
        cache_fixture_builder
    };
    // A layer of its own, say of a sub-agent; and one that keeps nothing.
    let here = cache_fixture_builder(on()).of(&[&reader, &writer]);
    for there in [
        cache_fixture_builder(on()),
        cache_fixture_builder(ToolCacheSettings::default()),
    ] {
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
async fn write_invalidates_enclosing_and_nested_workspaces_only() {
    let write_notifier = WriteNotifier::new();
    let tools = [
        blind("look", vec![path("a")]),
        blind("search", vec![tree(".")]),
        CountingTool::unknown("shell"),
    ];
    let mut cache_fixture_builder = CacheFixtureBuilder::with(on());
    cache_fixture_builder.write_notifier = write_notifier;
    let cache_fixture = cache_fixture_builder.of(&[&tools[0], &tools[1], &tools[2]]);
    let root = cache_fixture.root();
    for directory in ["one/in", "other"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    let call = async |at: &str, tool: &str| {
        let batch = cache_fixture.batch_in(&root.join(at), at, &[]);
        cache_fixture
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
async fn read_during_a_write_is_neither_stored_nor_coalesced() {
    let reading = Arc::new(Semaphore::new(0));
    let reader = blind("look", vec![path("a")]).gated(&reading);
    let writer = CountingTool::file_writer("write");
    let cache_fixture = Arc::new(cache_fixture(&[&reader, &writer]));
    let look = || {
        let cache_fixture = Arc::clone(&cache_fixture);
        tokio::spawn(async move { cache_fixture.call("look", json!({})).await })
    };
    let until = async |runs: usize| {
        while reader.runs() < runs {
            tokio::task::yield_now().await;
        }
    };
    // It began before the write, and ends after it.
    let before = look();
    until(1).await;
    cache_fixture
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
    let answer = cache_fixture.call("look", json!({})).await;
    assert_eq!(
        (text(&answer).as_str(), answer.outcome),
        ("run 1", CallOutcome::Hit)
    );
    let counters = &cache_fixture.tools.counters("main")["look"];
    assert_eq!(
        counters.not_kept["what it read was written to meanwhile"],
        1
    );
}

#[tokio::test]
async fn results_are_not_served_to_any_session_during_a_write() {
    let writing = Arc::new(Semaphore::new(0));
    let reader = blind("look", vec![path("a")]);
    let writer = CountingTool::file_writer("write").gated(&writing);
    let cache_fixture = Arc::new(cache_fixture(&[&reader, &writer]));
    cache_fixture.call("look", json!({})).await;
    assert!(is_hit(&cache_fixture, "look").await);
    let write = {
        let cache_fixture = Arc::clone(&cache_fixture);
        let call = json!({"path": "a", "text": "x"});
        tokio::spawn(async move { cache_fixture.call_in("other", "write", call).await })
    };
    while writer.runs() == 0 {
        tokio::task::yield_now().await;
    }
    for _ in 0..2 {
        assert!(
            !is_hit(&cache_fixture, "look").await,
            "neither served nor kept"
        );
    }
    // A session that begins in the middle of it knows of it, too.
    for _ in 0..2 {
        let outcome = cache_fixture
            .call_in("late", "look", json!({}))
            .await
            .outcome;
        assert!(matches!(outcome, CallOutcome::Ran(Some(_))), "{outcome:?}");
    }
    writing.add_permits(1);
    write.await.unwrap();
    for session in ["main", "late"] {
        assert_ne!(
            cache_fixture
                .call_in(session, "look", json!({}))
                .await
                .outcome,
            CallOutcome::Hit
        );
        assert_eq!(
            cache_fixture
                .call_in(session, "look", json!({}))
                .await
                .outcome,
            CallOutcome::Hit
        );
    }
}

#[tokio::test]
async fn cancelled_write_invalidates() {
    let never = Arc::new(Semaphore::new(0));
    let reader = blind("look", vec![path("a")]);
    let writer = CountingTool::file_writer("write").gated(&never);
    let cache_fixture = cache_fixture(&[&reader, &writer]);
    cache_fixture.call("look", json!({})).await;
    let call = [("write", json!({"path": "a", "text": "half"}))];
    {
        let mut writing = Box::pin(cache_fixture.calls(&call));
        while writer.runs() == 0 {
            assert!(futures_util::poll!(&mut writing).is_pending());
        }
    }
    let answer = cache_fixture.call("look", json!({})).await;
    assert!(matches!(answer.outcome, CallOutcome::Ran(_)));
    // After the announcement, results are stored again.
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while !is_hit(&cache_fixture, "look").await {
        assert!(
            std::time::Instant::now() < until,
            "it stays blocked for ever"
        );
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn panicking_write_invalidates() {
    let reader = blind("look", vec![path("a")]);
    let writer = CountingTool::file_writer("write").doing(|_, _, _| panic!("half-way"));
    let cache_fixture = cache_fixture(&[&reader, &writer]);
    cache_fixture.call("look", json!({})).await;
    let answer = cache_fixture.call("write", json!({"path": "a"})).await;
    assert!(answer.output.is_error);
    assert!(!is_hit(&cache_fixture, "look").await);
    assert!(is_hit(&cache_fixture, "look").await);
}

#[tokio::test]
async fn calls_of_a_batch_see_earlier_writes() {
    let cache_fixture = cache_fixture(&[
        &CountingTool::file_reader("look"),
        &CountingTool::file_writer("write"),
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
    let answers = cache_fixture.calls(&batch).await;
    let texts: Vec<String> = answers.iter().map(text).collect();
    assert_eq!(
        texts,
        ["written", "1", "1", "written", "2", "written", "2", "2"]
    );
}
