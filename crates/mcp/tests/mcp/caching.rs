//! Results of a server in the cache: which are kept, and what expires them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::Cache;
use cachalot_core::ManualClock;
use cachalot_mcp::{McpSettings, OfferSettings, ToolTrust};
use cachalot_tools::cached::{ToolCacheScope, ToolCacheSettings};
use cachalot_tools::{CallOutcome, Registry, ToolCallResult};
use serde_json::{Value, json};

use super::Fixture;
use super::server::{list_changed, updated};
use crate::cache_fixture::{CacheFixture, CacheFixtureBuilder, START, on, persistent, text};
use crate::tool_fixture::until;

/// A session of a process with a server of its own, and results that outlive it.
struct Session {
    _fixture: Fixture,
    cached: CacheFixture,
    engine: Cache,
}

impl Session {
    /// Starts a session that shares the store at `store` with others.
    async fn start(settings: &McpSettings, store: &Path) -> Self {
        let fixture = Fixture::new();
        let assembled = fixture.assemble(std::slice::from_ref(settings)).await;
        let registry = Registry::new(assembled.tools).unwrap();
        let clock = Arc::new(ManualClock::at(START));
        let engine = persistent(store, &clock);
        let cached = CacheFixtureBuilder {
            persistent: Some(engine.clone()),
            write_notifier: fixture.dependencies.mcp.write_notifier.clone(),
            secret_set: Arc::clone(&fixture.dependencies.mcp.secret_set),
            clock,
            ..CacheFixtureBuilder::with(ToolCacheSettings {
                scope: ToolCacheScope::User,
                ..on()
            })
        };
        Self {
            cached: cached.over(&registry),
            _fixture: fixture,
            engine,
        }
    }

    /// Calls a tool in the directory `root`.
    async fn call(&self, root: &Path, tool: &str, arguments: Value) -> ToolCallResult {
        let batch = self.cached.batch_in(root, "main", &[]);
        let name = format!("mcp_test_{tool}");
        let mut answers = self.cached.run(&batch, &[(name.as_str(), arguments)]).await;
        let answer = answers.remove(0);
        assert!(!answer.output.is_error, "{}", text(&answer));
        answer
    }

    /// The reasons why results of a tool were not kept.
    fn not_kept(&self, tool: &str) -> Vec<String> {
        let counters = self.cached.tools.counters("main");
        let counters = &counters[&format!("mcp_test_{tool}")];
        counters.not_kept.keys().cloned().collect()
    }
}

/// A server whose resources, prompts and some tools are cached for an hour.
fn settings(fixture: &Fixture) -> McpSettings {
    let hour = Some(Duration::from_secs(3_600));
    let offer = OfferSettings {
        is_offered: true,
        lifetime: hour,
    };
    let trust = |tool: &str, lifetime| {
        let read_only = true;
        (
            tool.to_owned(),
            ToolTrust {
                read_only,
                lifetime,
            },
        )
    };
    McpSettings {
        resources: offer,
        prompts: offer,
        trust: vec![
            trust("echo", hour),
            trust("json", hour),
            trust("announce", None),
        ],
        ..fixture.program("plain")
    }
}

const REPAIRED: &str = "the server's answer was malformed and had to be repaired";
const NO_LIFETIME: &str = "the server's hint `ttlMs` about caching cannot be read";
const NO_SCOPE: &str = "the server's hint `cacheScope` about caching cannot be read";
const ZERO: &str = "its author declares that its results do not stay valid";

#[tokio::test]
async fn answers_whose_hints_are_unreadable_are_not_cached() {
    let fixture = Fixture::new();
    let home = tempfile::tempdir().unwrap();
    let session = Session::start(&settings(&fixture), &home.path().join("store.db")).await;
    let whole = r#"{"uri":"x://a","text":"read @N"}"#;
    for (members, reason) in [
        (r#""ttlMs":60000,"cacheScope":"public""#, None),
        (r#""ttlMs":60000,"cacheScope":"private""#, None),
        (r#""ttlMs":0,"cacheScope":"public""#, Some(ZERO)),
        (r#""ttlMs":-1,"cacheScope":"public""#, Some(ZERO)),
        (r#""ttlMs":"60000""#, Some(NO_LIFETIME)),
        (r#""ttlMs":null"#, Some(NO_LIFETIME)),
        (r#""ttlMs":1.5"#, Some(NO_LIFETIME)),
        (r#""ttlMs":60000,"ttlMs":0"#, Some(NO_LIFETIME)),
        (r#""cacheScope":"team""#, Some(NO_SCOPE)),
        (r#""cacheScope":"""#, Some(NO_SCOPE)),
        (
            r#""cacheScope":"private","cacheScope":"public""#,
            Some(NO_SCOPE),
        ),
        (r#""ttlMs":60000,"nextCursor":5,"isError":7"#, None),
    ] {
        for (tool, result, reason) in [
            (
                "resource_json",
                format!(r#"{{"contents":[{whole}],{members}}}"#),
                reason,
            ),
            (
                "resource_json",
                format!(r#"{{"contents":[{whole},{{"uri":5}}],{members}}}"#),
                reason.filter(|reason| *reason != ZERO).or(Some(REPAIRED)),
            ),
        ] {
            let root = tempfile::tempdir().unwrap();
            let first = session
                .call(root.path(), tool, json!({ "text": result }))
                .await;
            let again = session
                .call(root.path(), tool, json!({ "text": result }))
                .await;
            assert_eq!(
                again.outcome == CallOutcome::Hit,
                reason.is_none(),
                "{result}: {:?}",
                session.not_kept(tool)
            );
            assert_eq!(text(&first) == text(&again), reason.is_none(), "{result}");
            if let Some(reason) = reason {
                let not_kept = session.not_kept(tool);
                assert!(
                    not_kept.iter().any(|told| told.contains(reason)),
                    "{not_kept:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn hints_in_the_result_of_a_tool_forbid_to_cache_it() {
    let fixture = Fixture::new();
    let home = tempfile::tempdir().unwrap();
    let session = Session::start(&settings(&fixture), &home.path().join("store.db")).await;
    let content = r#""content":[{"type":"text","text":"x"}]"#;
    for (members, is_hit) in [
        (content.to_owned(), true),
        (format!(r#"{content},"ttlMs":60000"#), true),
        (format!(r#"{content},"ttlMs":0"#), false),
        (format!(r#"{content},"ttlMs":[]"#), false),
        (format!(r#"{content},"cacheScope":0"#), false),
        (
            r#""content":[{"type":"text","text":"x"},{"type":"hologram"}]"#.to_owned(),
            false,
        ),
        (
            format!(r#"{content},"_meta":{{"dev.cachalot/notes":{{"ttlMs":0}}}}"#),
            true,
        ),
    ] {
        let arguments = json!({ "text": format!("{{{members}}}") });
        session.call(home.path(), "json", arguments.clone()).await;
        let again = session.call(home.path(), "json", arguments).await;
        assert_eq!(again.outcome == CallOutcome::Hit, is_hit, "{members}");
    }
}

/// Calls whose results are kept: a tool, a prompt, and resources.
fn calls() -> [(&'static str, Value); 4] {
    [
        ("echo", json!({ "text": "x" })),
        ("prompt_review", json!({ "code": "x" })),
        ("resource_counted", json!({ "name": "a" })),
        ("resource_counted", json!({ "name": "b" })),
    ]
}

#[tokio::test]
async fn announcements_expire_what_they_name_in_all_sessions() {
    let fixture = Fixture::new();
    let home = tempfile::tempdir().unwrap();
    let (root, store) = (home.path(), home.path().join("store.db"));
    let settings = settings(&fixture);
    let here = Session::start(&settings, &store).await;
    let there = Session::start(&settings, &store).await;
    for (announcement, expired) in [
        (list_changed("tools"), [true, false, false, false]),
        (list_changed("prompts"), [false, true, false, false]),
        (list_changed("resources"), [false, false, true, true]),
        (updated("test://counted/a"), [false, false, true, false]),
        (updated("test://counted/a/b"), [false, false, true, false]),
        (updated("test://counted/c"), [false; 4]),
        // Without a URI, any resource may be meant.
        (
            json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated" }),
            [false, false, true, true],
        ),
        (
            json!({ "jsonrpc": "2.0", "method": "notifications/other" }),
            [false; 4],
        ),
    ] {
        for (asked, is_same) in [(&here, true), (&there, false)] {
            for (tool, arguments) in calls() {
                asked.call(root, tool, arguments.clone()).await;
                let again = asked.call(root, tool, arguments).await;
                assert_eq!(again.outcome, CallOutcome::Hit, "{tool}");
            }
            let announcements = json!([announcement]).to_string();
            here.call(root, "announce", json!({ "text": announcements }))
                .await;
            if !is_same {
                // In this process, it takes effect at once; others learn of it from the store.
                here.engine.close().await;
            }
            for ((tool, arguments), expired) in calls().into_iter().zip(expired) {
                let again = asked.call(root, tool, arguments).await;
                let is_hit = again.outcome == CallOutcome::Hit;
                assert_eq!(is_hit, !expired, "{announcement} {tool} {is_same}");
            }
            here.engine.close().await;
        }
    }
}

#[tokio::test]
async fn a_read_that_is_overtaken_by_an_announcement_is_not_stored() {
    let fixture = Fixture::new();
    let home = tempfile::tempdir().unwrap();
    let session = Session::start(&settings(&fixture), &home.path().join("store.db")).await;
    for _ in 0..2 {
        let arguments = json!({ "name": "a" });
        let answer = session
            .call(home.path(), "resource_racing", arguments)
            .await;
        assert_ne!(answer.outcome, CallOutcome::Hit);
        session.engine.close().await;
    }
    let not_kept = session.not_kept("resource_racing");
    assert!(
        not_kept.contains(&"what it read was written to meanwhile".to_owned()),
        "{not_kept:?}"
    );
}

/// The server of a process announces to it only what the process has subscribed to.
#[tokio::test]
async fn hits_on_reads_of_another_process_subscribe_to_updates() {
    let fixture = Fixture::new();
    let home = tempfile::tempdir().unwrap();
    let store = home.path().join("store.db");
    let here = Session::start(&settings(&fixture), &store).await;
    let arguments = json!({ "name": "a" });
    here.call(home.path(), "resource_counted", arguments.clone())
        .await;
    here.engine.close().await;
    let there = Session::start(&settings(&fixture), &store).await;
    for _ in 0..2 {
        let hit = there
            .call(home.path(), "resource_counted", arguments.clone())
            .await;
        assert_eq!(hit.outcome, CallOutcome::Hit);
    }
    until("both have subscribed", || {
        let notes = super::program::notes(&fixture.notes());
        let asked = notes
            .iter()
            .filter(|line| line.contains("\"resources/subscribe\""));
        asked.count() == 2
    })
    .await;
}

#[tokio::test]
async fn updates_of_a_read_resource_are_subscribed_to_once() {
    let fixture = Fixture::new();
    let home = tempfile::tempdir().unwrap();
    let session = Session::start(&settings(&fixture), &home.path().join("store.db")).await;
    for _ in 0..2 {
        let arguments = json!({ "name": "a", "force": true });
        session
            .call(home.path(), "resource_counted", arguments)
            .await;
    }
    let notes = super::program::notes(&fixture.notes());
    let requests: Vec<&String> = notes
        .iter()
        .filter(|line| {
            line.contains("\"resources/subscribe\"") || line.contains("\"resources/read\"")
        })
        .collect();
    assert_eq!(requests.len(), 3, "{requests:?}");
    assert!(requests[0].contains("resources/subscribe"), "{requests:?}");
    assert!(requests[0].contains("test://counted/a"), "{requests:?}");
}
