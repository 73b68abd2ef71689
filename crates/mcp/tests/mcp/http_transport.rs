//! Servers behind streamable HTTP.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;

use super::http_server::{HttpServer, KEY};
use super::{Fixture, call_the_usual_tools};
use crate::tool_fixture::text;
use crate::tool_fixture::until;

#[tokio::test]
async fn http_server_is_called_with_its_headers() {
    let (fixture, http_server) = (Fixture::new(), HttpServer::open(0).await);
    let tool_fixture = fixture
        .tool_fixture(&[http_server.settings("test", KEY)])
        .await;
    call_the_usual_tools(&tool_fixture).await;
    // Its headers are secrets from now on.
    assert_eq!(
        tool_fixture
            .done("mcp_test_echo", json!({ "text": KEY }))
            .await,
        "[secret]"
    );
}

#[tokio::test]
async fn wrong_credentials_and_urls_are_reported_with_a_remedy() {
    let (fixture, http_server) = (Fixture::new(), HttpServer::open(0).await);
    fixture
        .assemble(&[http_server.settings("locked", "wrong-key-entirely")])
        .await;
    let warning = fixture.warnings().pop().unwrap();
    assert!(
        warning.contains("401") && warning.contains("give valid credentials in `headers`"),
        "{warning}"
    );
    assert!(!warning.contains("wrong-key"), "{warning}");
    let settings = http_server.settings("gone", KEY);
    http_server.close().await;
    fixture.assemble(&[settings]).await;
    let warning = fixture.warnings().pop().unwrap();
    assert!(
        warning.contains("cannot be reached") && warning.contains("check its address"),
        "{warning}"
    );
}

#[tokio::test]
async fn a_challenge_names_the_command_and_the_setting() {
    let (fixture, http_server) = (Fixture::new(), HttpServer::open(0).await);
    let settings = http_server.settings("test", KEY);
    let tool_fixture = fixture.tool_fixture(std::slice::from_ref(&settings)).await;
    http_server.challenges.store(true, Ordering::SeqCst);
    let port = http_server.port;
    let remedy = &format!(
        "wants a login (HTTP 401, invalid_token): run `cachalot mcp login http://127.0.0.1:{port}/mcp`, or give a token in `headers` of the server in the agent file"
    );
    // In the middle of a session.
    let shown = tool_fixture
        .fails("mcp_test_echo", json!({ "text": "x" }))
        .await;
    assert_eq!(shown, format!("the MCP server `test` {remedy}"));
    // At the start of one.
    let fixture = Fixture::new();
    fixture.assemble(&[settings]).await;
    let warning = fixture.warnings().pop().unwrap();
    assert!(warning.contains(remedy.as_str()), "{warning}");
}

#[tokio::test]
async fn changed_tool_list_is_announced_in_a_response_stream() {
    let (fixture, http_server) = (Fixture::new(), HttpServer::open(0).await);
    let assembled = fixture.assemble(&[http_server.settings("test", KEY)]).await;
    let server = assembled.servers[0].clone();
    let mut changes = server.changes();
    let before = assembled.tools.len();
    let tool_fixture = fixture
        .tool_fixture(&[http_server.settings("test", KEY)])
        .await;
    tool_fixture.done("mcp_test_more", json!({})).await;
    tokio::time::timeout(Duration::from_secs(20), changes.changed())
        .await
        .unwrap()
        .unwrap();
    let assembled = fixture.assemble(&[http_server.settings("test", KEY)]).await;
    assert_eq!(assembled.tools.len(), before + 1);
}

#[tokio::test]
async fn dropped_or_timed_out_call_is_cancelled() {
    let (fixture, http_server) = (Fixture::new(), HttpServer::open(0).await);
    let mut settings = http_server.settings("test", KEY);
    settings.limits.timeout = Duration::from_millis(500);
    let tool_fixture = fixture.tool_fixture(&[settings]).await;
    let cancelled = || {
        http_server
            .methods()
            .iter()
            .filter(|method| *method == "notifications/cancelled")
            .count()
    };
    tokio::select! {
        output = tool_fixture.call("mcp_test_slow", json!({})) => panic!("it ended: {}", text(&output)),
        () = until("it got the call", || http_server.methods().last().is_some_and(|last| last == "tools/call")) => {}
    }
    until("it is told to stop", || cancelled() == 1).await;
    let shown = tool_fixture.fails("mcp_test_slow", json!({})).await;
    assert!(
        shown.contains("did not answer within 0.5 seconds"),
        "{shown}"
    );
    until("it is told to stop", || cancelled() == 2).await;
    assert_eq!(
        tool_fixture
            .done("mcp_test_echo", json!({ "text": "still there" }))
            .await,
        "still there"
    );
}

#[tokio::test]
async fn restarted_server_is_reconnected() {
    let (fixture, http_server) = (Fixture::new(), HttpServer::open(0).await);
    let tool_fixture = fixture
        .tool_fixture(&[http_server.settings("test", KEY)])
        .await;
    let port = http_server.close().await;
    let shown = tool_fixture
        .fails("mcp_test_echo", json!({ "text": "x" }))
        .await;
    assert!(
        shown.contains("could not be talked to") || shown.contains("cannot be reached"),
        "{shown}"
    );
    assert!(!shown.contains(KEY), "{shown}");
    let http_server = HttpServer::open(port).await;
    // At once, since the server answered before: only who fails again and again has to wait.
    assert_eq!(
        tool_fixture
            .done("mcp_test_echo", json!({ "text": "back" }))
            .await,
        "back"
    );
    assert!(http_server.methods().contains(&"initialize".to_owned()));
}
