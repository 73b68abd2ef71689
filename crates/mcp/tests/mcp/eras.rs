//! The eras of servers: how they are found, and remembered.

use std::time::Duration;

use cachalot_mcp::settings::McpServerPool;
use cachalot_mcp::{EraMemory, McpSettings};
use serde_json::json;

use super::conformance::legacy;
use super::scripted::{Reply, ScriptedServer};
use super::{Fixture, program};

fn got(fixture: &Fixture, method: &str) -> usize {
    let method = format!("\"method\":\"{method}\"");
    let notes = program::notes(&fixture.notes());
    notes.iter().filter(|note| note.contains(&method)).count()
}

/// Settings of a server that is silent for a part of this time.
fn settings(fixture: &Fixture, behavior: &str) -> McpSettings {
    let mut settings = fixture.program(behavior);
    settings.limits.startup_timeout = Duration::from_secs(9);
    settings
}

async fn echoes(fixture: &Fixture, settings: McpSettings) {
    let tool_fixture = fixture.tool_fixture(&[settings]).await;
    let shown = tool_fixture
        .done("mcp_test_echo", json!({ "text": "hé" }))
        .await;
    assert_eq!(shown, "hé", "{:?}", fixture.warnings());
}

#[tokio::test]
async fn older_servers_are_found_by_any_answer_that_is_not_modern() {
    for (answer, starts) in [
        ("-32601", 1),
        ("-32602", 1),
        ("-32600", 1),
        ("-32000", 1),
        // A modern server says which versions it supports.
        ("-32022", 1),
        ("{}", 1),
        ("{\"tools\":[]}", 1),
        ("{\"unheard\":\"of\"}", 1),
        ("7", 1),
        ("silent", 1),
        ("exit", 2),
    ] {
        let fixture = Fixture::new();
        echoes(&fixture, settings(&fixture, &format!("discover {answer}"))).await;
        assert_eq!(got(&fixture, "initialize"), 1, "{answer}");
        assert_eq!(fixture.starts(), starts, "{answer}");
    }
}

#[tokio::test]
async fn newer_servers_are_found_whatever_they_answer_to_a_handshake() {
    for code in ["-32601", "-32602", "-32600", "-32020", "-32022"] {
        let fixture = Fixture::new();
        echoes(&fixture, settings(&fixture, &format!("modern {code}"))).await;
        assert_eq!(got(&fixture, "initialize"), 0, "{code}");
        assert_eq!(fixture.starts(), 1, "{code}");
    }
    // One that starts slowly: the probe is not answered in time.
    let fixture = Fixture::new();
    echoes(&fixture, settings(&fixture, "modern late")).await;
    assert_eq!(got(&fixture, "initialize"), 1);
    assert_eq!(fixture.starts(), 2);
}

#[tokio::test]
async fn errors_of_newer_servers_do_not_lead_to_a_handshake() {
    for code in ["-32020", "-32021", "-32022 2030-01-01"] {
        let fixture = Fixture::new();
        let assembled = fixture
            .assemble(&[settings(&fixture, &format!("discover {code}"))])
            .await;
        assert!(assembled.tools.is_empty());
        assert_eq!(got(&fixture, "initialize"), 0, "{code}");
    }
    // Unless the server names a version that begins with one.
    let fixture = Fixture::new();
    echoes(&fixture, settings(&fixture, "discover -32022 2025-11-25")).await;
    assert_eq!(got(&fixture, "initialize"), 1);
}

#[tokio::test]
async fn eras_are_remembered_between_processes_and_a_wrong_one_is_corrected() {
    let mut fixture = Fixture::new();
    let file = fixture.home.path().join("eras");
    let settings = settings(&fixture, "switch");
    for probes in [1, 1] {
        // Each pool is one of a process of its own.
        fixture.dependencies.servers = McpServerPool::with_eras(EraMemory::in_file(file.clone()));
        echoes(&fixture, settings.clone()).await;
        fixture.dependencies.servers.close().await;
        assert_eq!(got(&fixture, "server/discover"), probes);
    }
    assert_eq!(got(&fixture, "initialize"), 2);
    // It becomes one without a handshake.
    std::fs::write(fixture.notes().with_extension("modern"), "").unwrap();
    for handshakes in [3, 3] {
        fixture.dependencies.servers = McpServerPool::with_eras(EraMemory::in_file(file.clone()));
        echoes(&fixture, settings.clone()).await;
        fixture.dependencies.servers.close().await;
        assert_eq!(got(&fixture, "initialize"), handshakes);
    }
    // A file that cannot be read is replaced.
    std::fs::write(&file, "[").unwrap();
    fixture.dependencies.servers = McpServerPool::with_eras(EraMemory::in_file(file));
    echoes(&fixture, settings).await;
}

#[tokio::test]
async fn older_servers_are_found_over_http() {
    let error = |code: i64| json!({ "code": code, "message": "no" });
    let answers: [fn() -> Reply; 9] = [
        || Reply::Text(400, ""),
        || Reply::Text(400, "Bad Request: Server not initialized"),
        || Reply::Text(404, "not found"),
        || Reply::Text(405, "not allowed"),
        || Reply::Text(500, "oops"),
        || Reply::Text(200, "hello"),
        || Reply::Result(json!({})),
        || Reply::Result(json!({ "unheard": "of" })),
        || Reply::Events(String::new()),
    ];
    for (index, answer) in answers.into_iter().enumerate() {
        let tools = json!([{ "name": "echo", "inputSchema": { "type": "object" } }]);
        let server = ScriptedServer::open(move |seen| match seen.method() {
            "server/discover" => answer(),
            _ => legacy(seen, &tools),
        })
        .await;
        let fixture = Fixture::new();
        let tool_fixture = fixture.tool_fixture(&[server.settings()]).await;
        let shown = tool_fixture.done("mcp_test_echo", json!({})).await;
        assert_eq!(shown, "called", "{index}");
        assert_eq!(server.of("initialize").len(), 1, "{index}");
    }
    for (status, code, handshakes) in [(400, -32600, 1), (200, -32601, 1), (400, -32021, 0)] {
        let refusal = error(code);
        let tools = json!([]);
        let server = ScriptedServer::open(move |seen| match seen.method() {
            "server/discover" => Reply::Error(status, refusal.clone()),
            _ => legacy(seen, &tools),
        })
        .await;
        let fixture = Fixture::new();
        fixture.assemble(&[server.settings()]).await;
        assert_eq!(server.of("initialize").len(), handshakes, "{code}");
    }
}
