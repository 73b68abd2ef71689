//! Messages that are too large, malformed, or beside the answers: progress and logs.

use std::time::{Duration, Instant};

use serde_json::json;

use super::Fixture;
use super::http_server::{HttpServer, KEY};
use crate::tool_fixture::until;

const TOO_LARGE: &str = "the MCP server `test` sent a message of more than 100000 bytes, which was left out; ask for less, or raise its `max_message`";

#[tokio::test]
async fn too_large_message_is_an_error() {
    let (fixture, http_server) = (Fixture::new(), HttpServer::open(0).await);
    for mut settings in [fixture.program("plain"), http_server.settings("test", KEY)] {
        settings.limits.message_limit = 100_000;
        let tool_fixture = fixture.tool_fixture(&[settings]).await;
        let began = Instant::now();
        for tool in ["mcp_test_large", "mcp_test_large_stream"] {
            assert_eq!(
                tool_fixture.fails(tool, json!({})).await,
                TOO_LARGE,
                "{tool}"
            );
        }
        assert!(began.elapsed() < Duration::from_secs(20));
        let shown = tool_fixture
            .done("mcp_test_echo", json!({ "text": "on" }))
            .await;
        assert_eq!(shown, "on");
    }
    // It is the same process, and the call that failed is all that is told.
    let warnings = fixture.warnings();
    let reported = warnings
        .iter()
        .any(|reported| reported.contains("max_message"));
    assert_eq!((fixture.starts(), reported), (1, false), "{warnings:?}");
}

#[tokio::test]
async fn message_limit_is_configurable_per_server() {
    let (fixture, http_server) = (Fixture::new(), HttpServer::open(0).await);
    for mut settings in [fixture.program("plain"), http_server.settings("test", KEY)] {
        settings.limits.message_limit = 300_000;
        settings.limits.output_limit = 1_000_000;
        let tool_fixture = fixture.tool_fixture(&[settings]).await;
        for tool in ["mcp_test_large", "mcp_test_large_stream"] {
            let shown = tool_fixture.done(tool, json!({})).await;
            assert_eq!(shown.len(), 200_000, "{tool}");
        }
    }
}

#[tokio::test]
async fn malformed_tools_are_skipped_and_reported() {
    let fixture = Fixture::new();
    let assembled = fixture.assemble(&[fixture.program("malformed")]).await;
    let names: Vec<&str> = assembled
        .tools
        .iter()
        .map(|tool| &*tool.metadata().name)
        .collect();
    for name in ["mcp_test_echo", "mcp_test_add", "mcp_test_look"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let warnings = fixture.warnings();
    for bad in ["bare", "listed", "typo"] {
        assert!(!names.iter().any(|name| name.ends_with(bad)), "{names:?}");
        let named = format!("the MCP server `test` has a tool `{bad}` ");
        let reported = warnings
            .iter()
            .filter(|reported| reported.starts_with(&named));
        assert_eq!(reported.count(), 1, "{warnings:?}");
    }
    let tool_fixture = fixture.tool_fixture_of(assembled);
    let shown = tool_fixture
        .done("mcp_test_echo", json!({ "text": "on" }))
        .await;
    assert_eq!(shown, "on");
}

#[tokio::test]
async fn malformed_response_is_an_error_or_loses_its_malformed_items() {
    let (fixture, http_server) = (Fixture::new(), HttpServer::open(0).await);
    for settings in [fixture.program("plain"), http_server.settings("test", KEY)] {
        let tool_fixture = fixture.tool_fixture(&[settings]).await;
        let began = Instant::now();
        let shown = tool_fixture.fails("mcp_test_nonsense", json!({})).await;
        assert!(shown.contains("violated the protocol"), "{shown}");
        assert!(began.elapsed() < Duration::from_secs(20));
        assert_eq!(
            tool_fixture.done("mcp_test_hologram", json!({})).await,
            "flat"
        );
        let warning = fixture.warnings().pop().unwrap();
        assert!(
            warning.contains("a piece of content `hologram` that is malformed"),
            "{warning}"
        );
    }
}

#[tokio::test]
async fn progress_is_reported_and_extends_the_timeout() {
    let fixture = Fixture::new();
    let mut settings = fixture.program("plain");
    settings.limits.timeout = Duration::from_millis(800);
    settings.limits.max_timeout = Duration::from_millis(2_000);
    let tool_fixture = fixture.tool_fixture(&[settings]).await;
    let shown = tool_fixture
        .done("mcp_test_work", json!({ "steps": 4 }))
        .await;
    assert_eq!(shown, "worked");
    let reported = fixture.reported.progress.lock().unwrap().clone();
    assert!(
        reported.contains(&"mcp_test_work: 1 of 3: [secret]".to_owned()),
        "{reported:?}"
    );
    let shown = tool_fixture
        .fails("mcp_test_work", json!({ "steps": 20 }))
        .await;
    assert_eq!(
        shown,
        "the MCP server `test` was still at work after 2 seconds and was canceled; request less, or raise its `max_timeout`"
    );
}

#[tokio::test]
async fn logs_of_a_server_are_reported() {
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[fixture.program("plain")]).await;
    assert_eq!(tool_fixture.done("mcp_test_note", json!({})).await, "noted");
    for line in [
        "test: [info] the [secret] swims",
        "test: [info] 12345678901234567890123",
        "test: no message of the protocol: plain words",
    ] {
        until(line, || {
            fixture
                .reported
                .lines
                .lock()
                .unwrap()
                .contains(&line.to_owned())
        })
        .await;
    }
}

#[tokio::test]
async fn list_change_during_listing_is_not_announced() {
    let fixture = Fixture::new();
    let assembled = fixture.assemble(&[fixture.program("restless")]).await;
    let has_more = assembled
        .tools
        .iter()
        .any(|tool| tool.metadata().name == "mcp_test_added");
    assert!(has_more);
    assert_eq!(*fixture.reported.changes.lock().unwrap(), [] as [String; 0]);
    // Neither is the same list, announced once more.
    let tool_fixture = fixture.tool_fixture_of(assembled);
    assert_eq!(tool_fixture.done("mcp_test_more", json!({})).await, "more");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(*fixture.reported.changes.lock().unwrap(), [] as [String; 0]);
}
