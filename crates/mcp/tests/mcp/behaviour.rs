//! Programs: how they are started, talked to, lost and ended.

use std::time::Duration;

use cachalot_model::Block;
use cachalot_tools::ToolOutput;
use serde_json::json;

use super::program::notes;
use super::{House, call_the_usual_tools};
use crate::workshop::text;
use crate::workshop::{runs, until};

fn got(house: &House, method: &str) -> usize {
    let wanted = format!("\"method\":\"{method}\"");
    notes(&house.notes())
        .iter()
        .filter(|line| line.contains(&wanted))
        .count()
}

#[tokio::test]
async fn tools_are_called() {
    let house = House::new();
    let workshop = house.workshop(&[house.program("plain")]).await;
    call_the_usual_tools(&workshop).await;
    let ToolOutput { content, .. } = workshop.call("mcp_test_picture", json!({})).await;
    assert!(
        matches!(content.as_slice(), [Block::Image(_)]),
        "{content:?}"
    );
    assert_eq!(
        workshop.fails("mcp_test_fail", json!({})).await,
        "it failed"
    );
    let shown = workshop.fails("mcp_test_ask", json!({})).await;
    assert!(
        shown.contains("wants further input, which is not possible here"),
        "{shown}"
    );
    // What the schema does not take never reaches the server.
    let calls = got(&house, "tools/call");
    workshop
        .fails("mcp_test_echo", json!({ "text": ["no"] }))
        .await;
    assert_eq!(got(&house, "tools/call"), calls);
}

#[tokio::test]
async fn a_program_gets_its_own_environment_and_directory() {
    let house = House::new();
    let workshop = house.workshop(&[house.program("plain")]).await;
    let variable = async |name: &str| {
        workshop
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
    let directory = house.dependencies.mcp.directory.display().to_string();
    assert_eq!(
        workshop.done("mcp_test_directory", json!({})).await,
        directory
    );
}

#[tokio::test]
async fn stderr_of_a_server_is_reported() {
    let house = House::new();
    let _tools = house.assemble(&[house.program("plain")]).await;
    until("it is told", || {
        house
            .told
            .lines
            .lock()
            .unwrap()
            .contains(&"test: ready to serve".to_owned())
    })
    .await;
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_given_up_and_cancelled() {
    let house = House::new();
    let mut settings = house.program("plain");
    settings.timeout = Duration::from_millis(500);
    let workshop = house.workshop(&[settings]).await;
    let shown = workshop.fails("mcp_test_slow", json!({})).await;
    assert!(
        shown.contains("did not answer within 0.5 seconds"),
        "{shown}"
    );
    until("it is told to stop", || {
        got(&house, "notifications/cancelled") == 1
    })
    .await;
    assert_eq!(
        workshop
            .done("mcp_test_echo", json!({ "text": "still there" }))
            .await,
        "still there"
    );
    assert_eq!(house.starts(), 1);
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled() {
    let house = House::new();
    let workshop = house.workshop(&[house.program("plain")]).await;
    tokio::select! {
        output = workshop.call("mcp_test_slow", json!({})) => panic!("it ended: {}", text(&output)),
        () = until("it got the call", || got(&house, "tools/call") == 1) => {}
    }
    until("it is told to stop", || {
        got(&house, "notifications/cancelled") == 1
    })
    .await;
}

#[tokio::test]
async fn a_dead_server_is_reported_and_restarted() {
    let house = House::new();
    let workshop = house.workshop(&[house.program("plain")]).await;
    let shown = workshop.fails("mcp_test_die", json!({})).await;
    assert!(
        shown.contains("ended before it answered; whether the call took effect is not known"),
        "{shown}"
    );
    assert!(
        shown.contains("(exit status 3)") && shown.contains("out of [secret]"),
        "{shown}"
    );
    assert_eq!(
        workshop
            .done("mcp_test_echo", json!({ "text": "again" }))
            .await,
        "again"
    );
    assert_eq!(house.starts(), 2);
}

#[tokio::test]
async fn a_server_that_never_answers_anything_is_left_alone_for_a_while() {
    let house = House::new();
    let assembled = house.assemble(&[house.program("fragile")]).await;
    assert!(assembled.tools.is_empty());
    let warnings = house.warnings();
    assert!(
        warnings[0].contains("does not list its tools: it ended before it answered")
            && warnings[0].contains("exit status 9"),
        "{warnings:?}"
    );
    let Err(again) = assembled.tools_of(&assembled.servers[0]).await else {
        panic!("it worked");
    };
    assert!(
        again
            .to_string()
            .contains("it is not tried again for 1 seconds"),
        "{again}"
    );
    assert!(again.retry);
    assert_eq!(house.starts(), 1);
}

#[tokio::test]
async fn a_server_that_does_not_start_is_a_warning_or_an_error_if_it_is_required() {
    let house = House::new();
    let mut settings = house.program("broken");
    let assembled = house.assemble(std::slice::from_ref(&settings)).await;
    assert!(assembled.tools.is_empty());
    let warnings = house.warnings();
    assert!(
        warnings[0].starts_with("the MCP server `test` ended before it was ready (exit status 7); the end of its stderr: ready to serve | no licence, says [secret]"),
        "{warnings:?}"
    );
    assert!(
        warnings[0].ends_with("the agent has to do without its tools"),
        "{warnings:?}"
    );
    settings.required = true;
    let Err(error) = house.try_assemble(&[settings]).await else {
        panic!("it worked");
    };
    assert!(error.to_string().ends_with("it is `required`"), "{error}");
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    use cachalot_mcp::McpTransport;
    let house = House::new();
    for (change, why) in [
        (
            "command",
            "cannot be started: there is no program `no-such-program-here`; check `command` and PATH",
        ),
        ("directory", "there is no directory"),
        ("silent", "was not ready within 0.3 seconds"),
    ] {
        let mut settings = house.program("silent");
        settings.name = change.to_owned();
        settings.startup_timeout = Duration::from_millis(300);
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
        house.assemble(&[settings]).await;
        let warnings = house.warnings();
        assert!(warnings.last().unwrap().contains(why), "{warnings:?}");
    }
}

#[tokio::test]
async fn programs_end_with_all_that_they_started() {
    let house = House::new();
    let workshop = house.workshop(&[house.program("plain")]).await;
    let server = workshop.done("mcp_test_process", json!({})).await;
    let child = workshop.done("mcp_test_child", json!({})).await;
    assert!(runs(&server) && runs(&child));
    // Whoever has the tools keeps the server.
    let House {
        dependencies,
        told,
        home,
    } = house;
    drop((dependencies, told));
    assert_eq!(
        workshop
            .done("mcp_test_echo", json!({ "text": "here" }))
            .await,
        "here"
    );
    drop(workshop);
    until("both are gone", || !runs(&server) && !runs(&child)).await;
    drop(home);
}

#[tokio::test]
async fn closing_waits_for_the_end() {
    let house = House::new();
    let workshop = house.workshop(&[house.program("plain")]).await;
    let server = workshop.done("mcp_test_process", json!({})).await;
    house.dependencies.servers.close().await;
    assert!(!runs(&server));
}

#[tokio::test]
async fn agents_share_a_server() {
    let house = House::new();
    let one = house.workshop(&[house.program("plain")]).await;
    let other = house.workshop(&[house.program("plain")]).await;
    let process = async |workshop: &crate::workshop::Workshop| {
        workshop.done("mcp_test_process", json!({})).await
    };
    assert_eq!(process(&one).await, process(&other).await);
    assert_eq!(house.starts(), 1);
}

#[tokio::test]
async fn calls_run_beside_each_other() {
    let house = House::new();
    let workshop = house.workshop(&[house.program("plain")]).await;
    let slow = workshop.call("mcp_test_slow", json!({}));
    let quick = workshop.done("mcp_test_echo", json!({ "text": "quick" }));
    tokio::select! {
        output = slow => panic!("it ended: {}", text(&output)),
        shown = quick => assert_eq!(shown, "quick"),
    }
}
