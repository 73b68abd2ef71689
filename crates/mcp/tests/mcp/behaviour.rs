//! Programs: how they are started, talked to, lost and ended.

use std::time::Duration;

use cachalot_model::Block;
use cachalot_tools::ToolOutput;
use serde_json::json;

use super::program::notes;
use super::{Fixture, call_the_usual_tools};
use crate::tool_fixture::text;
use crate::tool_fixture::{runs, until};

fn got(fixture: &Fixture, method: &str) -> usize {
    let wanted = format!("\"method\":\"{method}\"");
    notes(&fixture.notes())
        .iter()
        .filter(|line| line.contains(&wanted))
        .count()
}

#[tokio::test]
async fn tools_are_called() {
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[fixture.program("plain")]).await;
    call_the_usual_tools(&tool_fixture).await;
    let ToolOutput { content, .. } = tool_fixture.call("mcp_test_picture", json!({})).await;
    assert!(
        matches!(content.as_slice(), [Block::Image(_)]),
        "{content:?}"
    );
    assert_eq!(
        tool_fixture.fails("mcp_test_fail", json!({})).await,
        "it failed"
    );
    let shown = tool_fixture.fails("mcp_test_ask", json!({})).await;
    assert!(
        shown.contains("asked for input more than 10 times"),
        "{shown}"
    );
    // What the schema does not take never reaches the server.
    let calls = got(&fixture, "tools/call");
    tool_fixture
        .fails("mcp_test_echo", json!({ "text": ["no"] }))
        .await;
    assert_eq!(got(&fixture, "tools/call"), calls);
}

#[tokio::test]
async fn numbers_of_structured_content_keep_their_spelling() {
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[fixture.program("plain")]).await;
    for structured in [
        r#"{"n":1180591620717411303424,"m":9007199254740993,"f":1.10}"#,
        "12345678901234567890123",
        r#"["12345678901234567890123",-12345678901234567890123,1e400]"#,
    ] {
        let text = format!(r#"{{"content":[],"structuredContent":{structured}}}"#);
        let shown = tool_fixture
            .done("mcp_test_json", json!({ "text": text }))
            .await;
        assert_eq!(shown, structured);
    }
}

#[tokio::test]
async fn server_program_receives_its_environment_and_directory() {
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[fixture.program("plain")]).await;
    let variable = async |name: &str| {
        tool_fixture
            .done("mcp_test_variable", json!({ "text": name }))
            .await
    };
    assert_eq!(variable("OWN").await, "of its own");
    assert_eq!(variable("PRIVATE").await, "unset");
    assert_ne!(variable("PATH").await, "unset");
    assert_eq!(
        variable("SERVICE_TOKEN").await,
        "[secret]",
        "its credentials are known, and masked"
    );
    let directory = fixture.dependencies.mcp.directory.display().to_string();
    assert_eq!(
        tool_fixture.done("mcp_test_directory", json!({})).await,
        directory
    );
}

#[tokio::test]
async fn stderr_of_a_server_is_reported() {
    let fixture = Fixture::new();
    let _tools = fixture.assemble(&[fixture.program("plain")]).await;
    until("it is told", || {
        fixture
            .reported
            .lines
            .lock()
            .unwrap()
            .contains(&"test: ready to serve".to_owned())
    })
    .await;
}

#[tokio::test]
async fn timed_out_call_is_cancelled() {
    let fixture = Fixture::new();
    let mut settings = fixture.program("plain");
    settings.limits.timeout = Duration::from_millis(500);
    let tool_fixture = fixture.tool_fixture(&[settings]).await;
    let shown = tool_fixture.fails("mcp_test_slow", json!({})).await;
    assert!(
        shown.contains("did not answer within 0.5 seconds"),
        "{shown}"
    );
    until("it is told to stop", || {
        got(&fixture, "notifications/cancelled") == 1
    })
    .await;
    assert_eq!(
        tool_fixture
            .done("mcp_test_echo", json!({ "text": "still there" }))
            .await,
        "still there"
    );
    assert_eq!(fixture.starts(), 1);
}

#[tokio::test]
async fn dropped_call_is_cancelled() {
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[fixture.program("plain")]).await;
    tokio::select! {
        output = tool_fixture.call("mcp_test_slow", json!({})) => panic!("it ended: {}", text(&output)),
        () = until("it got the call", || got(&fixture, "tools/call") == 1) => {}
    }
    until("it is told to stop", || {
        got(&fixture, "notifications/cancelled") == 1
    })
    .await;
}

#[tokio::test]
async fn a_dead_server_is_reported_and_restarted() {
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[fixture.program("plain")]).await;
    let shown = tool_fixture.fails("mcp_test_die", json!({})).await;
    assert!(
        shown.contains("ended before it answered; whether the call took effect is not known"),
        "{shown}"
    );
    assert!(
        shown.contains("(exit status 3)") && shown.contains("out of [secret]"),
        "{shown}"
    );
    assert_eq!(
        tool_fixture
            .done("mcp_test_echo", json!({ "text": "again" }))
            .await,
        "again"
    );
    assert_eq!(fixture.starts(), 2);
}

#[tokio::test]
async fn server_that_never_answers_is_not_retried_immediately() {
    let fixture = Fixture::new();
    let assembled = fixture.assemble(&[fixture.program("fragile")]).await;
    assert!(assembled.tools.is_empty());
    let warnings = fixture.warnings();
    assert!(
        warnings[0].contains("does not list its tools: it ended before it answered")
            && warnings[0].contains("exit status 9"),
        "{warnings:?}"
    );
    let Err(again) = assembled.servers[0].list().await else {
        panic!("it worked");
    };
    assert!(
        again
            .to_string()
            .contains("it is not tried again for 1 seconds"),
        "{again}"
    );
    assert!(again.retry);
    assert_eq!(fixture.starts(), 2, "the probe ends it once");
}

#[tokio::test]
async fn failed_start_is_a_warning_or_an_error_if_required() {
    let fixture = Fixture::new();
    let mut settings = fixture.program("broken");
    let assembled = fixture.assemble(std::slice::from_ref(&settings)).await;
    assert!(assembled.tools.is_empty());
    let warnings = fixture.warnings();
    assert!(
        warnings[0].starts_with("the MCP server `test` ended before it was ready (exit status 7); the end of its stderr: ready to serve | no licence, says [secret]"),
        "{warnings:?}"
    );
    assert!(
        warnings[0].ends_with("the agent has to do without its tools"),
        "{warnings:?}"
    );
    settings.limits.required = true;
    let Err(error) = fixture.try_assemble(&[settings]).await else {
        panic!("it worked");
    };
    assert!(error.to_string().ends_with("it is `required`"), "{error}");
}

#[tokio::test]
async fn start_errors_give_the_reason() {
    use cachalot_mcp::McpTransport;
    let fixture = Fixture::new();
    for (change, why) in [
        (
            "command",
            "cannot be started: there is no program `no-such-program-here`; check `command` and PATH",
        ),
        ("directory", "there is no directory"),
        ("silent", "was not ready within 0.3 seconds"),
    ] {
        let mut settings = fixture.program("silent");
        settings.name = change.to_owned();
        settings.limits.startup_timeout = Duration::from_millis(300);
        if let McpTransport::Stdio {
            command, directory, ..
        } = &mut settings.transport
        {
            match change {
                "command" => *command = "no-such-program-here".to_owned(),
                "directory" => *directory = Some("nowhere".into()),
                _ => {}
            }
        }
        fixture.assemble(&[settings]).await;
        let warnings = fixture.warnings();
        assert!(warnings.last().unwrap().contains(why), "{warnings:?}");
    }
}

#[tokio::test]
async fn closing_kills_server_programs_and_their_descendants() {
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[fixture.program("plain")]).await;
    let server = tool_fixture.done("mcp_test_process", json!({})).await;
    let child = tool_fixture.done("mcp_test_child", json!({})).await;
    assert!(runs(&server) && runs(&child));
    // A server lives as long as its tools.
    let Fixture {
        dependencies,
        reported,
        home,
    } = fixture;
    drop((dependencies, reported));
    assert_eq!(
        tool_fixture
            .done("mcp_test_echo", json!({ "text": "here" }))
            .await,
        "here"
    );
    drop(tool_fixture);
    until("both are gone", || !runs(&server) && !runs(&child)).await;
    drop(home);
}

#[tokio::test]
async fn closing_waits_for_the_end_of_programs() {
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[fixture.program("plain")]).await;
    let server = tool_fixture.done("mcp_test_process", json!({})).await;
    fixture.dependencies.servers.close().await;
    assert!(!runs(&server));
}

#[tokio::test]
async fn agents_share_one_server_process() {
    let fixture = Fixture::new();
    let one = fixture.tool_fixture(&[fixture.program("plain")]).await;
    let other = fixture.tool_fixture(&[fixture.program("plain")]).await;
    let process = async |tool_fixture: &crate::tool_fixture::ToolFixture| {
        tool_fixture.done("mcp_test_process", json!({})).await
    };
    assert_eq!(process(&one).await, process(&other).await);
    assert_eq!(fixture.starts(), 1);
}

#[tokio::test]
async fn calls_of_one_server_run_concurrently() {
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[fixture.program("plain")]).await;
    let slow = tool_fixture.call("mcp_test_slow", json!({}));
    let quick = tool_fixture.done("mcp_test_echo", json!({ "text": "quick" }));
    tokio::select! {
        output = slow => panic!("it ended: {}", text(&output)),
        shown = quick => assert_eq!(shown, "quick"),
    }
}
