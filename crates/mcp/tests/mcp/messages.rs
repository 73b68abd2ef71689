//! Messages that are too large, malformed, or beside the answers: progress and logs.

use std::time::{Duration, Instant};

use serde_json::json;

use super::House;
use super::site::{KEY, Site};
use crate::workshop::until;

const TOO_LARGE: &str = "the MCP server `test` sent a message of more than 100000 bytes, which was left out; ask for less, or raise its `max_message`";

#[tokio::test]
async fn a_message_that_is_too_large_is_an_error_at_once() {
    let (house, site) = (House::new(), Site::open(0).await);
    for mut settings in [house.program("plain"), site.settings("test", KEY)] {
        settings.message_limit = 100_000;
        let workshop = house.workshop(&[settings]).await;
        let began = Instant::now();
        for tool in ["mcp_test_large", "mcp_test_large_stream"] {
            assert_eq!(workshop.fails(tool, json!({})).await, TOO_LARGE, "{tool}");
        }
        assert!(began.elapsed() < Duration::from_secs(20));
        let shown = workshop
            .done("mcp_test_echo", json!({ "text": "on" }))
            .await;
        assert_eq!(shown, "on");
    }
    // It is the same process, and the call that failed is all that is told.
    let warnings = house.warnings();
    let told = warnings.iter().any(|told| told.contains("max_message"));
    assert_eq!((house.starts(), told), (1, false), "{warnings:?}");
}

#[tokio::test]
async fn the_limit_of_messages_is_the_servers_own() {
    let (house, site) = (House::new(), Site::open(0).await);
    for mut settings in [house.program("plain"), site.settings("test", KEY)] {
        settings.message_limit = 300_000;
        settings.output_limit = 1_000_000;
        let workshop = house.workshop(&[settings]).await;
        for tool in ["mcp_test_large", "mcp_test_large_stream"] {
            let shown = workshop.done(tool, json!({})).await;
            assert_eq!(shown.len(), 200_000, "{tool}");
        }
    }
}

#[tokio::test]
async fn malformed_tools_cost_themselves_and_are_named() {
    let house = House::new();
    let assembled = house.assemble(&[house.program("malformed")]).await;
    let names: Vec<&str> = assembled
        .tools
        .iter()
        .map(|tool| &*tool.metadata().name)
        .collect();
    for name in ["mcp_test_echo", "mcp_test_add", "mcp_test_look"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let warnings = house.warnings();
    for bad in ["bare", "listed", "typo"] {
        assert!(!names.iter().any(|name| name.ends_with(bad)), "{names:?}");
        let named = format!("the MCP server `test` has a tool `{bad}` ");
        let told = warnings.iter().filter(|told| told.starts_with(&named));
        assert_eq!(told.count(), 1, "{warnings:?}");
    }
    let workshop = house.workshop_of(assembled);
    let shown = workshop
        .done("mcp_test_echo", json!({ "text": "on" }))
        .await;
    assert_eq!(shown, "on");
}

#[tokio::test]
async fn a_malformed_answer_is_an_error_at_once_or_loses_what_is_malformed() {
    let (house, site) = (House::new(), Site::open(0).await);
    for settings in [house.program("plain"), site.settings("test", KEY)] {
        let workshop = house.workshop(&[settings]).await;
        let began = Instant::now();
        let shown = workshop.fails("mcp_test_nonsense", json!({})).await;
        assert!(shown.contains("violated the protocol"), "{shown}");
        assert!(began.elapsed() < Duration::from_secs(20));
        assert_eq!(workshop.done("mcp_test_hologram", json!({})).await, "flat");
        let warning = house.warnings().pop().unwrap();
        assert!(
            warning.contains("a piece of content `hologram` that is malformed"),
            "{warning}"
        );
    }
}

#[tokio::test]
async fn progress_is_reported_and_extends_the_timeout() {
    let house = House::new();
    let mut settings = house.program("plain");
    settings.timeout = Duration::from_millis(800);
    settings.max_timeout = Duration::from_millis(2_000);
    let workshop = house.workshop(&[settings]).await;
    let shown = workshop.done("mcp_test_work", json!({ "steps": 4 })).await;
    assert_eq!(shown, "worked");
    let told = house.told.progress.lock().unwrap().clone();
    assert!(
        told.contains(&"mcp_test_work: 1 of 3: [secret]".to_owned()),
        "{told:?}"
    );
    let shown = workshop
        .fails("mcp_test_work", json!({ "steps": 20 }))
        .await;
    assert_eq!(
        shown,
        "the MCP server `test` was still at work after 2 seconds and was canceled; request less, or raise its `max_timeout`"
    );
}

#[tokio::test]
async fn logs_of_a_server_are_reported() {
    let house = House::new();
    let workshop = house.workshop(&[house.program("plain")]).await;
    assert_eq!(workshop.done("mcp_test_note", json!({})).await, "noted");
    for line in [
        "test: [info] the [secret] swims",
        "test: no message of the protocol: plain words",
    ] {
        until(line, || {
            house.told.lines.lock().unwrap().contains(&line.to_owned())
        })
        .await;
    }
}

#[tokio::test]
async fn what_changes_while_it_is_listed_is_no_news() {
    let house = House::new();
    let assembled = house.assemble(&[house.program("restless")]).await;
    let has_more = assembled
        .tools
        .iter()
        .any(|tool| tool.metadata().name == "mcp_test_added");
    assert!(has_more);
    assert_eq!(*house.told.changes.lock().unwrap(), [] as [String; 0]);
    // Neither is the same list, announced once more.
    let workshop = house.workshop_of(assembled);
    assert_eq!(workshop.done("mcp_test_more", json!({})).await, "more");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(*house.told.changes.lock().unwrap(), [] as [String; 0]);
}
