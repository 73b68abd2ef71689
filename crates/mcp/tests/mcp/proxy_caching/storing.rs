//! Which answers are stored, and what a hit looks like.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cachalot_mcp::relay::{Frame, FrameKind, RequestContext, Upstream as _};
use serde_json::json;
use tokio::sync::Semaphore;

use super::fake::{
    FakeServer, Proxy, frame, is_served, meta, modern_call, read_only, response, status, tools,
    until, value, with_headers,
};

const POLICY: &str = "{tools: {read: {ttl: 1h}}}";

fn one_tool() -> String {
    tools(&[("read", read_only())])
}

#[tokio::test]
async fn an_equal_call_is_a_hit_with_the_bytes_of_the_server() {
    let result = r#"{ "content":[{"type":"text","text":"\u00e9 1.50"}],"structuredContent":{"big":1180591620717411303424,"f":1.50,"e":1e2},"x":null,"_meta":{"own":[1]}}"#;
    let server = FakeServer::answering(one_tool(), result);
    let proxy = Proxy::new(&server, POLICY);
    let first = proxy.call("read", r#"{"a":1180591620717411303424}"#).await;
    assert_eq!(first.result(), Some(result));
    let again = proxy.call("read", r#"{"a":1180591620717411303424}"#).await;
    assert!(is_served(&again), "{again:?}");
    // Everything but the mark.
    let text = again.result().unwrap();
    let start = text.find("\"dev.cachalot/cache\"").unwrap();
    let end = start + text[start..].find("},").unwrap() + 2;
    let unmarked = format!("{}{}", &text[..start], &text[end..]);
    assert_eq!(unmarked, result);
    let mark = &value(&again)["result"]["_meta"]["dev.cachalot/cache"];
    assert!(mark["ttlMs"].as_u64().unwrap() > 0 && mark["ageMs"].is_u64());
    assert_eq!(mark["key"].as_str().unwrap().len(), 10);
    assert_eq!(server.count("tools/call"), 1);
    for other in [
        r#"{"a":1180591620717411303425}"#,
        r#"{"a":1180591620717411303424.0}"#,
        r#"{"a":"1180591620717411303424"}"#,
        "{}",
    ] {
        assert!(!is_served(&proxy.call("read", other).await), "{other}");
    }
    assert_eq!(server.count("tools/call"), 5);
}

#[tokio::test]
async fn ids_tokens_traces_and_clients_are_in_no_key_and_the_rest_is() {
    let server = FakeServer::counting(one_tool());
    let proxy = Proxy::new(&server, POLICY);
    let call = |more: &str| {
        format!(
            "{{\"name\":\"read\",\"arguments\":{{}},\"_meta\":{}}}",
            meta(more)
        )
    };
    let context = RequestContext::default();
    proxy.ask("tools/call", &call(""), &context).await;
    for more in [
        r#","progressToken":"other""#,
        r#","traceparent":"00-1","tracestate":"a=b","baggage":"c=d""#,
        r#","io.modelcontextprotocol/clientInfo":{"name":"c","version":"2"}"#,
        r#","io.modelcontextprotocol/logLevel":"debug""#,
    ] {
        let again = proxy.ask("tools/call", &call(more), &context).await;
        assert!(is_served(&again), "{more}");
    }
    let again = Frame::request("\"text\"", "tools/call", &call(""));
    assert!(is_served(&proxy.send(again, &context).await));
    for more in [
        r#","com.example/tenant":"a""#,
        r#","com.example/tenant":"b""#,
    ] {
        let other = proxy.ask("tools/call", &call(more), &context).await;
        assert!(!is_served(&other), "{more}");
    }
    let other = r#"{"name":"read","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"sampling":{}}}}"#;
    assert!(!is_served(&proxy.ask("tools/call", other, &context).await));
    assert_eq!(server.count("tools/call"), 4);
}

#[tokio::test]
async fn results_that_must_not_be_stored_are_asked_for_each_time() {
    let large = json!({"content": [{"type": "text", "text": "x".repeat(17 << 20)}]}).to_string();
    for result in [
        r#"{"content":[],"isError":true}"#,
        r#"{"resultType":"input_required","inputRequests":{},"requestState":"s"}"#,
        r#"{"resultType":"task","taskId":"1","status":"working"}"#,
        r#"{"content":[{"type":"text","text":"Error: no library of this name"}]}"#,
        r#"{"content":[{"type":"text","text":"Failed to fetch"}]}"#,
        r#"{"content":[],"ttlMs":0}"#,
        &large,
    ] {
        let server = FakeServer::answering(one_tool(), result);
        let proxy = Proxy::new(&server, POLICY);
        for _ in 0..2 {
            let answer = proxy.call("read", "{}").await;
            assert_eq!(answer.result(), Some(result));
        }
        assert_eq!(server.count("tools/call"), 2, "{result:.80}");
    }
    let text = r#"{"content":[{"type":"text","text":"Error: a title"}]}"#;
    let server = FakeServer::answering(one_tool(), text);
    let proxy = Proxy::new(
        &server,
        "{tools: {read: {ttl: 1h, allow_error_text: true}}}",
    );
    proxy.call("read", "{}").await;
    assert!(is_served(&proxy.call("read", "{}").await));
}

#[tokio::test]
async fn errors_pass_with_code_and_data_and_are_not_stored() {
    let server = FakeServer::new(one_tool(), |request, _, sender| {
        let id = request.id().unwrap();
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32042,"message":"m","data":{{"x":[1.0]}}}}}}"#
        );
        Box::pin(async move {
            sender.send(frame(&text));
        })
    });
    let proxy = Proxy::new(&server, POLICY);
    for _ in 0..2 {
        let answer = proxy.call("read", "{}").await;
        assert_eq!(
            answer.error(),
            Some(r#"{"code":-32042,"message":"m","data":{"x":[1.0]}}"#)
        );
    }
    assert_eq!(server.count("tools/call"), 2);
}

#[tokio::test]
async fn continuations_and_tasks_reach_the_server_each_time() {
    let server = FakeServer::counting(one_tool());
    let proxy = Proxy::new(&server, POLICY);
    proxy.call("read", "{}").await;
    let context = RequestContext::default();
    for member in [
        r#""inputResponses":{}"#,
        r#""requestState":"opaque""#,
        r#""task":{"ttl":1000}"#,
    ] {
        for _ in 0..2 {
            let meta = meta("");
            let params =
                format!("{{\"name\":\"read\",\"arguments\":{{}},{member},\"_meta\":{meta}}}");
            let answer = proxy.ask("tools/call", &params, &context).await;
            assert_eq!(status(&answer), "", "{member}");
        }
    }
    assert_eq!(server.count("tools/call"), 7);
    // They change nothing, so that the stored answer is still served.
    assert!(is_served(&proxy.call("read", "{}").await));
}

#[tokio::test]
async fn a_policy_for_all_tools_stores_only_what_annotations_permit_and_warns_once() {
    let listed = tools(&[
        ("a", read_only()),
        ("b", json!({})),
        ("c", json!({"readOnlyHint": false})),
        ("d", json!({"readOnlyHint": true, "destructiveHint": true})),
        ("get_current_time", read_only()),
    ]);
    let server = FakeServer::counting(listed);
    let proxy = Proxy::new(&server, "{tools: {'*': {ttl: 1h}}}");
    for tool in ["b", "c", "d", "get_current_time", "unlisted"] {
        for _ in 0..2 {
            assert_eq!(status(&proxy.call(tool, "{}").await), "", "{tool}");
        }
    }
    assert_eq!(server.count("tools/call"), 10);
    proxy.call("a", "{}").await;
    assert!(is_served(&proxy.call("a", "{}").await));
    let warnings = proxy.warnings.lock().unwrap().clone();
    assert_eq!(warnings.len(), 4, "{warnings:?}");
    for (tool, reason) in [
        ("mcp:fake/b", "assume_read_only"),
        ("mcp:fake/c", "readOnlyHint: false"),
        ("mcp:fake/d", "destructiveHint: true"),
        ("mcp:fake/get_current_time", "current time"),
    ] {
        let is_named = |warning: &&String| warning.contains(tool) && warning.contains(reason);
        assert!(
            warnings.iter().any(|it| is_named(&it)),
            "{tool}: {warnings:?}"
        );
    }
    assert_eq!(server.count("tools/list"), 1);
}

#[tokio::test]
async fn misspelled_names_of_a_policy_are_warned_of_once() {
    let listed = r#"[{"name":"read_file","inputSchema":{"type":"object","properties":{"path":{},"branch":{}}},"annotations":{"readOnlyHint":true}},{"name":"open","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]"#;
    let policy = "{tools: {read_file: {paths: {pth: file}, also: {'{path}/.git/{brnach}': file}}, 'nothing_*': {}, raed_file: {ttl: 1h}, open: {paths: {x: file}, also: {'{y}': file}}}}";
    let server = FakeServer::counting(listed.to_owned());
    let proxy = Proxy::new(&server, policy);
    let context = proxy.initialize("one").await;
    proxy.ask("tools/list", "{}", &context).await;
    for _ in 0..2 {
        proxy.call("read_file", "{}").await;
    }
    let warnings = proxy.warnings.lock().unwrap().clone();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    for (wrong, right) in [
        (
            "`paths` of `mcp:fake/read_file` names the argument `pth`",
            "did you mean `path`?",
        ),
        (
            "`also` of `mcp:fake/read_file` names the argument `brnach`",
            "did you mean `branch`?",
        ),
        ("`raed_file`", "did you mean `read_file`?"),
    ] {
        let is_named = |it: &String| it.contains(wrong) && it.ends_with(right);
        assert!(warnings.iter().any(is_named), "{wrong}: {warnings:?}");
    }
}

#[tokio::test]
async fn a_call_during_which_the_server_asks_the_client_is_not_stored() {
    let server = FakeServer::new(one_tool(), |request, _, sender| {
        Box::pin(async move {
            sender.send(Frame::request("\"ask\"", "sampling/createMessage", "{}"));
            let result = r#"{"content":[]}"#;
            sender.send(Frame::response(request.id().unwrap(), result));
        })
    });
    let proxy = Proxy::new(&server, POLICY);
    for _ in 0..2 {
        let request = Frame::request("1", "tools/call", &modern_call("read", "{}"));
        let mut exchange = proxy.begin(request, &RequestContext::default()).await;
        let asked = exchange.next().await.unwrap();
        assert_eq!(asked.kind(), FrameKind::Request);
        assert_eq!(asked.method(), "sampling/createMessage");
        assert!(exchange.next().await.unwrap().result().is_some());
    }
    assert_eq!(server.count("tools/call"), 2);
}

/// In older revisions, requests of the server belong to no exchange.
#[tokio::test]
async fn a_request_of_the_server_in_the_meantime_keeps_the_answer_from_being_stored() {
    let gate = Arc::new(Semaphore::new(0));
    let server = FakeServer::gated(one_tool(), &gate);
    let proxy = Proxy::new(&server, POLICY);
    let mut unattached = proxy.upstream.take_unattached().unwrap();
    assert!(proxy.upstream.take_unattached().is_none());
    let request = Frame::request("1", "tools/call", &modern_call("read", "{}"));
    let mut exchange = proxy.begin(request, &RequestContext::default()).await;
    until("the server has the call", || {
        server.count("tools/call") == 1
    })
    .await;
    let asked = Frame::request("\"s\"", "roots/list", "{}");
    server.announce.send(asked).await.unwrap();
    assert_eq!(unattached.recv().await.unwrap().method(), "roots/list");
    gate.add_permits(10);
    response(&mut exchange).await;
    for is_hit in [false, true] {
        let again = proxy.call("read", "{}").await;
        assert_eq!(is_served(&again), is_hit);
    }
}

#[tokio::test]
async fn headers_that_repeat_arguments_are_in_the_key() {
    let server = FakeServer::counting(one_tool());
    let proxy = Proxy::new(&server, POLICY);
    let params = modern_call("read", "{}");
    for (header, served) in [("a", false), ("a", true), ("b", false)] {
        let context = with_headers(&[("mcp-param-region", header)]);
        let answer = proxy.ask("tools/call", &params, &context).await;
        assert_eq!(is_served(&answer), served, "{header}");
    }
    // The proxy's own list is no call of a tool.
    let seen = server.seen.lock().unwrap();
    let list = seen.iter().find(|it| it.method() == "tools/list").unwrap();
    assert!(list.params().unwrap().contains("2026-07-28"));
    assert_eq!(server.cancelled.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn unknown_messages_pass_unchanged() {
    let server = FakeServer::answering(one_tool(), r#"{"odd":1.0}"#);
    let proxy = Proxy::new(&server, POLICY);
    let text = r#" {"jsonrpc":"2.0","extra":[1e400],"method":"com.example/odd","params":{"n":1180591620717411303424},"id":"x"} "#;
    let answer = proxy.send(frame(text), &RequestContext::default()).await;
    assert_eq!(answer.result(), Some(r#"{"odd":1.0}"#));
    assert_eq!(server.seen.lock().unwrap()[0].bytes(), text.as_bytes());
    let mut exchange = proxy.begin(frame(text), &RequestContext::default()).await;
    response(&mut exchange).await;
    assert!(exchange.next().await.is_none());
}
