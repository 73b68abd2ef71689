//! Servers without a handshake: lifetimes of their lists, updates of their resources, and refused headers.

use std::sync::atomic::{AtomicUsize, Ordering};

use cachalot_mcp::settings::McpServerPool;
use cachalot_tools::filter::NameFilter;
use serde_json::json;

use super::scripted::{Reply, ScriptedServer, Seen};
use super::{Fixture, program};

/// A server with one tool, whose list has this lifetime.
fn answer(seen: &Seen, ttl_ms: u64) -> Reply {
    let schema = json!({
        "type": "object", "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
    });
    Reply::Result(match seen.method() {
        "server/discover" => json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": { "tools": {} }, "ttlMs": 0, "cacheScope": "public",
        }),
        "tools/list" => json!({
            "resultType": "complete", "tools": [{ "name": "echo", "inputSchema": schema }],
            "ttlMs": ttl_ms, "cacheScope": "public",
        }),
        _ => json!({ "resultType": "complete", "content": [{ "type": "text", "text": "called" }] }),
    })
}

#[tokio::test]
async fn lists_hold_for_their_lifetime() {
    for (ttl_ms, listings) in [(60_000, 1), (0, 3)] {
        let server = ScriptedServer::open(move |seen| answer(seen, ttl_ms)).await;
        let fixture = Fixture::new();
        let pool = McpServerPool::new();
        let mcp_server = pool.server(&server.settings(), &fixture.dependencies.mcp);
        for _ in 0..3 {
            let tool = pool.tool(&mcp_server, "echo", &NameFilter::default()).await;
            tool.unwrap();
        }
        assert_eq!(server.of("tools/list").len(), listings, "{ttl_ms}");
    }
}

#[tokio::test]
async fn a_call_that_is_refused_for_its_headers_is_repeated_with_those_of_the_list() {
    let calls = AtomicUsize::new(0);
    let server = ScriptedServer::open(move |seen| match seen.method() {
        "tools/call" if calls.fetch_add(1, Ordering::SeqCst) == 0 => Reply::Error(
            400,
            json!({ "code": -32020, "message": "Mcp-Param-Region does not match" }),
        ),
        _ => answer(seen, 0),
    })
    .await;
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[server.settings()]).await;
    let shown = tool_fixture
        .done("mcp_test_echo", json!({ "region": "x" }))
        .await;
    assert_eq!(shown, "called");
    let posted = server.posted();
    let methods: Vec<&str> = posted.iter().map(Seen::method).collect();
    assert_eq!(
        methods,
        [
            "server/discover",
            "tools/list",
            "tools/call",
            "tools/list",
            "tools/call"
        ]
    );
}

#[tokio::test]
async fn updates_of_a_read_resource_are_listened_to_once() {
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[fixture.program("modern")]).await;
    for _ in 0..2 {
        tool_fixture.done("mcp_test_resource_mine", json!({})).await;
    }
    let notes = program::notes(&fixture.notes());
    let listened = notes.iter().filter(|note| {
        note.contains("\"subscriptions/listen\"")
            && note.contains("\"resourceSubscriptions\":[\"test://mine\"]")
    });
    assert_eq!(listened.count(), 1, "{notes:?}");
    assert!(
        !notes
            .iter()
            .any(|note| note.contains("resources/subscribe"))
    );
}
