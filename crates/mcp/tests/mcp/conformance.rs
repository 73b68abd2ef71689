//! Expectations of the official conformance suite for clients, against servers of our own. Each test has the name of
//! the scenario that states the same.

use std::sync::Mutex;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Fixture;
use super::interaction::DefaultAnswers;
use super::scripted::{Reply, ScriptedServer, Seen};

const MODERN: &str = "2026-07-28";

/// The answers that all modern servers here have.
fn modern(seen: &Seen, tools: &Value) -> Reply {
    let mut result = match seen.method() {
        "server/discover" => json!({
            "supportedVersions": [MODERN],
            "capabilities": { "tools": {}, "resources": {}, "prompts": {} },
        }),
        "tools/list" => json!({ "tools": tools }),
        "resources/list" => json!({ "resources": [{ "uri": "test://é", "name": "page" }] }),
        "resources/templates/list" => json!({ "resourceTemplates": [] }),
        "prompts/list" => json!({ "prompts": [{ "name": "review" }] }),
        "resources/read" => json!({ "contents": [{ "uri": "test://é", "text": "read" }] }),
        "prompts/get" => json!({ "messages": [
            { "role": "user", "content": { "type": "text", "text": "reviewed" } },
        ] }),
        "tools/call" => return Reply::Result(text("called")),
        other => {
            let error = json!({ "code": -32601, "message": format!("no method {other}") });
            return Reply::Error(404, error);
        }
    };
    result["resultType"] = json!("complete");
    if seen.method() != "prompts/get" {
        result["ttlMs"] = json!(0);
        result["cacheScope"] = json!("private");
    }
    Reply::Result(result)
}

/// The answers that all legacy servers here have: they do not know discovery.
pub(crate) fn legacy(seen: &Seen, tools: &Value) -> Reply {
    match seen.method() {
        "initialize" => Reply::Session(
            "session-1",
            json!({
                "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                "serverInfo": { "name": "test", "version": "1" },
            }),
        ),
        "tools/list" => Reply::Result(json!({ "tools": tools })),
        "tools/call" => Reply::Result(text("called")),
        _ if seen.http_method == "GET" => Reply::Text(405, "no stream"),
        _ => Reply::Text(400, "Bad Request: Server not initialized"),
    }
}

fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

fn tool(name: &str, properties: Value) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object", "properties": properties } })
}

#[tokio::test]
async fn initialize() {
    let tools = json!([tool("echo", json!({}))]);
    let server = ScriptedServer::open(move |seen| legacy(seen, &tools)).await;
    let fixture = Fixture::new();
    fixture.assemble(&[server.settings()]).await;
    let posted = server.posted();
    let methods: Vec<&str> = posted.iter().map(Seen::method).collect();
    assert_eq!(
        methods[..4],
        [
            "server/discover",
            "initialize",
            "notifications/initialized",
            "tools/list"
        ]
    );
    let params = posted[1].params();
    assert_eq!(params["protocolVersion"], "2025-11-25");
    assert_eq!(params["clientInfo"]["name"], "cachalot");
    assert!(params["clientInfo"]["version"].is_string(), "{params}");
    assert!(params["capabilities"].is_object(), "{params}");
    for later in &posted[2..] {
        assert_eq!(later.header("mcp-session-id"), Some("session-1"));
        assert_eq!(later.header("mcp-protocol-version"), Some("2025-11-25"));
    }
}

#[tokio::test]
async fn tools_call_of_2025_11_25() {
    let tools = json!([tool("add", json!({ "a": { "type": "number" } }))]);
    let server = ScriptedServer::open(move |seen| legacy(seen, &tools)).await;
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[server.settings()]).await;
    let shown = tool_fixture.done("mcp_test_add", json!({ "a": 5 })).await;
    assert_eq!(shown, "called");
    let call = &server.of("tools/call")[0];
    assert_eq!(call.params()["name"], "add");
    assert_eq!(call.params()["arguments"], json!({ "a": 5 }));
    // Headers of the newer protocol are not for it.
    assert_eq!(call.header("mcp-method"), None);
}

#[tokio::test]
async fn tools_call_of_2026_07_28() {
    let tools = json!([tool("add", json!({ "a": { "type": "number" } }))]);
    let server = ScriptedServer::open(move |seen| modern(seen, &tools)).await;
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[server.settings()]).await;
    let shown = tool_fixture.done("mcp_test_add", json!({ "a": 5 })).await;
    assert_eq!(shown, "called");
    assert_eq!(server.of("initialize").len(), 0);
    let call = &server.of("tools/call")[0];
    assert_eq!(call.params()["arguments"], json!({ "a": 5 }));
    assert_eq!(call.meta("protocolVersion"), MODERN);
}

#[tokio::test]
async fn elicitation_sep1034_client_defaults() {
    let fixture = Fixture::new();
    let mut tool_fixture = fixture.tool_fixture(&[fixture.program("asking")]).await;
    tool_fixture.context.user = Some(DefaultAnswers::new());
    let schema = json!({ "type": "object", "properties": {
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "idle"], "default": "active" },
        "verified": { "type": "boolean", "default": true },
        "note": { "type": "string" },
    }, "required": [] });
    let question = json!({ "message": "Accept?", "requestedSchema": schema });
    let shown = tool_fixture
        .done("mcp_test_question", json!({ "text": question.to_string() }))
        .await;
    let answer: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(
        answer,
        json!({ "action": "accept", "content": {
            "name": "John Doe", "age": 30, "score": 95.5, "status": "active", "verified": true,
        } })
    );
}

#[tokio::test]
async fn sse_retry() {
    let tools = json!([tool("wait", json!({}))]);
    let pending = Mutex::new(Value::Null);
    let server = ScriptedServer::open(move |seen| match seen.method() {
        // The stream ends before the answer.
        "tools/call" => {
            *pending.lock().unwrap() = seen.message["id"].clone();
            Reply::Events("id: event-1\nretry: 300\ndata: \n\n".to_owned())
        }
        "" if seen.header("last-event-id").is_some() => {
            let id = pending.lock().unwrap().clone();
            let answer = json!({ "jsonrpc": "2.0", "id": id, "result": text("resumed") });
            Reply::Events(format!("id: event-2\ndata: {answer}\n\n"))
        }
        _ => legacy(seen, &tools),
    })
    .await;
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[server.settings()]).await;
    let shown = tool_fixture.done("mcp_test_wait", json!({})).await;
    assert_eq!(shown, "resumed");
    let seen = server.seen();
    let resumed = seen
        .iter()
        .find(|seen| seen.header("last-event-id").is_some())
        .unwrap();
    assert_eq!(resumed.http_method, "GET");
    assert_eq!(resumed.header("last-event-id"), Some("event-1"));
    let waited = resumed.at - server.of("tools/call")[0].at;
    assert!(waited >= Duration::from_millis(300), "{waited:?}");
    assert_eq!(server.of("tools/call").len(), 1);
}

#[tokio::test]
async fn request_metadata() {
    let tools = json!([tool("echo", json!({}))]);
    let refused = Mutex::new(false);
    let server = ScriptedServer::open(move |seen| {
        if !std::mem::replace(&mut *refused.lock().unwrap(), true) {
            return Reply::Error(
                400,
                json!({
                    "code": -32022, "message": "Unsupported protocol version",
                    "data": { "supported": [MODERN], "requested": "?" },
                }),
            );
        }
        modern(seen, &tools)
    })
    .await;
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[server.settings()]).await;
    tool_fixture.done("mcp_test_echo", json!({})).await;
    let posted = server.posted();
    assert_eq!(posted[0].method(), "server/discover");
    assert_eq!(posted[1].method(), "server/discover");
    for seen in &posted {
        assert_ne!(seen.method(), "initialize");
        assert_eq!(seen.header("mcp-protocol-version"), Some(MODERN));
        assert_eq!(seen.meta("protocolVersion"), MODERN, "{seen:?}");
        assert_eq!(seen.meta("clientInfo")["name"], "cachalot", "{seen:?}");
        let capabilities = seen.meta("clientCapabilities");
        for capability in ["roots", "elicitation", "sampling"] {
            assert!(capabilities[capability].is_object(), "{seen:?}");
        }
    }
}

#[tokio::test]
async fn sep_2322_client_request_state() {
    // Not canonical: it must come back as it is.
    const STATE: &str = "{\"a\" : 1.0,  \"b\":\"\\u00e9é\"}";
    let names = ["with_state", "without_state", "unrelated", "no_result_type"];
    let tools: Value = names
        .map(|name| tool(name, json!({})))
        .into_iter()
        .collect();
    let server = ScriptedServer::open(move |seen| {
        if seen.method() != "tools/call" {
            return modern(seen, &tools);
        }
        let params = seen.params();
        let name = params["name"].as_str().unwrap();
        if !name.starts_with("with") || params.get("inputResponses").is_some() {
            return Reply::Result(text(name));
        }
        let mut result = json!({ "resultType": "input_required", "inputRequests": {
            "confirm": { "method": "elicitation/create", "params": {
                "message": "Continue?",
                "requestedSchema": { "type": "object", "properties": { "confirmed": { "type": "boolean", "default": true } } },
            } },
        } });
        if name == "with_state" {
            result["requestState"] = json!(STATE);
        }
        Reply::Result(result)
    })
    .await;
    let fixture = Fixture::new();
    let mut tool_fixture = fixture.tool_fixture(&[server.settings()]).await;
    tool_fixture.context.user = Some(DefaultAnswers::new());
    for name in names {
        let tool = format!("mcp_test_{name}");
        assert_eq!(tool_fixture.done(&tool, json!({})).await, name);
    }
    let calls = server.of("tools/call");
    let of = |name: &str| -> Vec<&Seen> {
        let of = calls.iter().filter(|call| call.params()["name"] == name);
        of.collect()
    };
    for name in ["with_state", "without_state"] {
        let [first, retry] = of(name)[..] else {
            panic!("{calls:?}");
        };
        assert!(first.params().get("requestState").is_none());
        assert_ne!(first.message["id"], retry.message["id"]);
        assert_eq!(first.params()["arguments"], retry.params()["arguments"]);
        assert_eq!(
            retry.params()["inputResponses"],
            json!({ "confirm": { "action": "accept", "content": { "confirmed": true } } })
        );
        let state = retry.params().get("requestState");
        let expected = (name == "with_state").then(|| json!(STATE));
        assert_eq!(state, expected.as_ref());
    }
    for name in ["unrelated", "no_result_type"] {
        let [only] = of(name)[..] else {
            panic!("{calls:?}");
        };
        assert!(only.params().get("inputResponses").is_none());
        assert!(only.params().get("requestState").is_none());
    }
    // Without a user, questions are declined.
    tool_fixture.context.user = None;
    tool_fixture.done("mcp_test_without_state", json!({})).await;
    let last = server.of("tools/call").pop().unwrap();
    assert_eq!(
        last.params()["inputResponses"],
        json!({ "confirm": { "action": "decline" } })
    );
}

#[tokio::test]
async fn http_standard_headers() {
    let tools = json!([tool("weird name/é", json!({}))]);
    let server = ScriptedServer::open(move |seen| modern(seen, &tools)).await;
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[server.settings()]).await;
    tool_fixture.done("mcp_test_weird_name__", json!({})).await;
    tool_fixture.done("mcp_test_resource_page", json!({})).await;
    tool_fixture.done("mcp_test_prompt_review", json!({})).await;
    for seen in server.posted() {
        assert_eq!(seen.header("mcp-method"), Some(seen.method()));
        let named = match seen.method() {
            "tools/call" | "prompts/get" => seen.params()["name"].as_str(),
            "resources/read" => seen.params()["uri"].as_str(),
            _ => None,
        };
        let header = seen.header("mcp-name").map(decoded);
        assert_eq!(header.as_deref(), named, "{seen:?}");
    }
}

/// Decodes the value of a header.
fn decoded(value: &str) -> String {
    let encoded = value.strip_prefix("=?base64?");
    match encoded.and_then(|encoded| encoded.strip_suffix("?=")) {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap(),
        None => value.to_owned(),
    }
}

/// A property that is sent as a header, too.
fn mirrored(kind: &str, header: &str) -> Value {
    json!({ "type": kind, "x-mcp-header": header })
}

#[tokio::test]
async fn http_custom_headers() {
    let properties = json!({
        "region": mirrored("string", "Region"),
        "words": mirrored("string", "Words"),
        "lines": mirrored("string", "Lines"),
        "padded": mirrored("string", "Padded"),
        "priority": mirrored("integer", "Priority"),
        "debug": mirrored("boolean", "Debug"),
        "left_out": mirrored("string", "Left-Out"),
        "query": { "type": "string" },
    });
    let tools = json!([tool("query", properties)]);
    let server = ScriptedServer::open(move |seen| modern(seen, &tools)).await;
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[server.settings()]).await;
    let arguments = json!({
        "region": "us-west1", "words": "Hello, 世界", "lines": "a\r\nb", "padded": " x ",
        "priority": 42, "debug": false, "query": "SELECT 1",
    });
    tool_fixture.done("mcp_test_query", arguments.clone()).await;
    let call = &server.of("tools/call")[0];
    assert_eq!(call.params()["arguments"], arguments);
    for (header, value) in [
        ("mcp-param-region", "us-west1"),
        ("mcp-param-words", "Hello, 世界"),
        ("mcp-param-lines", "a\r\nb"),
        ("mcp-param-padded", " x "),
        ("mcp-param-priority", "42"),
        ("mcp-param-debug", "false"),
    ] {
        let sent = call.header(header).map(decoded);
        assert_eq!(sent.as_deref(), Some(value), "{header}");
    }
    assert!(call.header("mcp-param-words").unwrap().is_ascii());
    for absent in ["mcp-param-left-out", "mcp-param-query"] {
        assert_eq!(call.header(absent), None);
    }
}

#[tokio::test]
async fn http_invalid_tool_headers() {
    let tools = json!([
        tool("valid", json!({ "a": mirrored("string", "A") })),
        tool("empty", json!({ "a": mirrored("string", "") })),
        tool("object", json!({ "a": mirrored("object", "A") })),
        tool("array", json!({ "a": mirrored("array", "A") })),
        tool(
            "twice",
            json!({ "a": mirrored("string", "A"), "b": mirrored("string", "a") })
        ),
        tool("space", json!({ "a": mirrored("string", "A B") })),
        tool("colon", json!({ "a": mirrored("string", "A:B") })),
        tool("foreign", json!({ "a": mirrored("string", "É") })),
        tool("control", json!({ "a": mirrored("string", "A\tB") })),
    ]);
    let server = ScriptedServer::open(move |seen| modern(seen, &tools)).await;
    let fixture = Fixture::new();
    let assembled = fixture.assemble(&[server.settings()]).await;
    let mut names: Vec<String> = assembled
        .tools
        .iter()
        .map(|tool| tool.metadata().name.to_string())
        .collect();
    names.retain(|name| !name.contains("resource") && !name.contains("prompt"));
    assert_eq!(names, ["mcp_test_valid"]);
}

#[tokio::test]
async fn json_schema_ref_no_deref() {
    let server = ScriptedServer::open(|seen| {
        let host = seen.header("host").unwrap_or_default();
        let reference = json!({ "$ref": format!("http://{host}/schema.json") });
        let tools = json!([
            tool("remote", json!({ "a": reference })),
            tool("local", json!({})),
        ]);
        modern(seen, &tools)
    })
    .await;
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[server.settings()]).await;
    tool_fixture.done("mcp_test_local", json!({})).await;
    let seen = server.seen();
    let others: Vec<_> = seen.iter().filter(|seen| seen.path != "/mcp").collect();
    assert!(others.is_empty(), "{others:?}");
}

#[tokio::test]
async fn json_schema_2020_12_preservation() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": {
            "$anchor": "address", "type": "object",
            "properties": { "street": { "type": "string" } },
        } },
        "properties": {
            "name": { "type": "string" }, "kind": { "const": "x" },
            "address": { "$ref": "#/$defs/address" },
        },
        "allOf": [{ "anyOf": [{ "required": ["name"] }, { "required": ["kind"] }] }],
        "if": { "properties": { "kind": { "const": "x" } } },
        "then": { "required": ["address"] },
        "dependentRequired": { "name": ["kind"] },
        "additionalProperties": false,
    });
    let tools = json!([{ "name": "strict", "inputSchema": schema.clone() }]);
    let server = ScriptedServer::open(move |seen| modern(seen, &tools)).await;
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[server.settings()]).await;
    let tool = tool_fixture.registry.tool("mcp_test_strict").unwrap();
    let shown = tool.metadata().parameters.schema().into_owned();
    assert_eq!(shown, schema);
}
