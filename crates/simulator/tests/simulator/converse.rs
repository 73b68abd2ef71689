//! Amazon Bedrock's Converse.

use cachalot_simulator::{
    Fault, FaultKind, Format, RunningSimulator, Script, ScriptedReply, ScriptedStop,
};
use serde_json::{Value, json};

use crate::{post, shared_client, start, with};

const SONNET: &str = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse";
const OPUS_48: &str = "/model/anthropic.claude-opus-4-8/converse";
const NOVA: &str = "/model/amazon.nova-pro-v1%3A0/converse";

fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"text": text}]})
}

fn asking(text: &str) -> Value {
    json!({"messages": [user(text)]})
}

fn tools() -> Value {
    let schema = json!({"json": {"type": "object", "properties": {}}});
    json!({"tools": [{"toolSpec": {"name": "look", "inputSchema": schema}}]})
}

fn long() -> String {
    "whale ".repeat(3_000)
}

/// A frame of an event stream: its headers, and its payload.
type Frame = (Vec<(String, String)>, Value);

/// Takes an event stream apart, as AWS describes it; checksums are checked by the official client.
fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0, |n, byte| (n << 8) | usize::from(*byte))
    };
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let (frame, rest) = bytes.split_at(number(&bytes[..4]));
        bytes = rest;
        let length = number(&frame[4..8]);
        let (mut headers, payload) = frame[12..frame.len() - 4].split_at(length);
        let mut read = Vec::new();
        while let [length, rest @ ..] = headers {
            let (name, rest) = rest.split_at(usize::from(*length));
            assert_eq!(rest[0], 7);
            let (value, rest) = rest[3..].split_at(number(&rest[1..3]));
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            read.push((text(name), text(value)));
            headers = rest;
        }
        frames.push((read, serde_json::from_slice(payload).unwrap()));
    }
    frames
}

fn header<'f>(frame: &'f Frame, name: &str) -> &'f str {
    let found = frame.0.iter().find(|(known, _)| known == name);
    found.map_or("", |(_, value)| value.as_str())
}

async fn stream(running: &RunningSimulator, path: &str, body: &Value) -> Vec<Frame> {
    let response = shared_client()
        .post(format!("{}{path}-stream", running.url()))
        .bearer_auth("bedrock")
        .body(body.to_string())
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(
        response.headers()["content-type"],
        "application/vnd.amazon.eventstream"
    );
    frames(&response.bytes().await.unwrap())
}

#[tokio::test]
async fn converse_answer_is_a_message_with_usage() {
    let running = start(Script::answers(["Deep."])).await;
    let got = post(&running, SONNET, &asking("How deep?")).await;
    let answer = got.json();
    assert_eq!(
        answer["output"]["message"],
        json!({"role": "assistant", "content": [{"text": "Deep."}]})
    );
    assert_eq!(answer["stopReason"], "end_turn");
    let count = |name: &str| answer["usage"][name].as_u64().unwrap();
    assert_eq!(
        count("totalTokens"),
        count("inputTokens") + count("outputTokens")
    );
    assert!(!got.header("x-amzn-requestid").is_empty());
}

#[tokio::test]
async fn converse_stream_frames_join_to_the_answer() {
    let reply = || {
        ScriptedReply::call(
            "look",
            json!({"path": "a file with a long name, in pieces"}),
        )
        .with_reasoning("A thought.")
    };
    let running = start(Script::replies(vec![reply(), reply()])).await;
    let thinking = json!({"type": "enabled", "budget_tokens": 1_024});
    let request = with(
        asking("Look."),
        json!({"toolConfig": tools(), "additionalModelRequestFields": {"thinking": thinking}}),
    );
    let whole = post(&running, SONNET, &request).await.json();
    let content = &whole["output"]["message"]["content"];
    let frames = stream(&running, SONNET, &request).await;
    let names: Vec<&str> = frames
        .iter()
        .map(|frame| header(frame, ":event-type"))
        .collect();
    assert_eq!(names.first(), Some(&"messageStart"));
    assert_eq!(names[names.len() - 2..], ["messageStop", "metadata"]);
    let deltas = |index: u64, at: &str| -> String {
        let of = |frame: &&Frame| frame.1["contentBlockIndex"] == index;
        let texts = frames.iter().filter(of);
        texts
            .filter_map(|frame| frame.1["delta"].pointer(at)?.as_str())
            .collect()
    };
    let reasoning = &content[0]["reasoningContent"]["reasoningText"];
    assert_eq!(deltas(0, "/reasoningContent/text"), reasoning["text"]);
    assert_eq!(
        deltas(0, "/reasoningContent/signature"),
        reasoning["signature"]
    );
    let input: Value = serde_json::from_str(&deltas(1, "/toolUse/input")).unwrap();
    assert_eq!(input, content[1]["toolUse"]["input"]);
    let last = frames.last().unwrap();
    assert_eq!(
        last.1["usage"]["outputTokens"],
        whole["usage"]["outputTokens"]
    );
}

#[tokio::test]
async fn converse_errors_are_named_also_in_a_stream() {
    for (status, name) in [
        (400, "ValidationException"),
        (424, "ModelErrorException"),
        (429, "ThrottlingException"),
        (503, "ServiceUnavailableException"),
        (500, "InternalServerException"),
    ] {
        let fault = Fault::status(status);
        let running = start(Script::replies(vec![
            ScriptedReply::text("x").with_fault(fault),
        ]))
        .await;
        let got = post(&running, SONNET, &asking("x")).await;
        assert_eq!((got.status, got.header("x-amzn-errortype")), (status, name));
        assert!(got.json()["message"].is_string());
    }
    let fault = Fault::from(FaultKind::ErrorEvent { after_events: 1 });
    let running = start(Script::replies(vec![
        ScriptedReply::text("x").with_fault(fault),
    ]))
    .await;
    let frames = stream(&running, SONNET, &asking("x")).await;
    let last = frames.last().unwrap();
    assert_eq!(header(last, ":message-type"), "exception");
    assert_eq!(header(last, ":exception-type"), "internalServerException");
    let filtered = ScriptedReply::text("no").with_stop(ScriptedStop::Refusal);
    let running = start(Script::replies(vec![filtered])).await;
    let answer = post(&running, SONNET, &asking("x")).await.json();
    assert_eq!(answer["stopReason"], "content_filtered");
}

/// A prefix up to a cache point is written once and read then, also within a longer request.
#[tokio::test]
async fn cache_points_write_and_read_the_cache() {
    let running = start(Script::answers(["a", "b", "c"])).await;
    let request = |ttl: &str, more: &str| {
        let point = json!({"cachePoint": {"type": "default", "ttl": ttl}});
        with(
            asking(more),
            json!({"system": [{"text": long()}, point], "toolConfig": tools()}),
        )
    };
    let usage = post(&running, SONNET, &request("1h", "x")).await.json()["usage"].clone();
    let written = usage["cacheWriteInputTokens"].as_u64().unwrap();
    assert!(written > 4_000);
    assert_eq!(
        usage["cacheDetails"],
        json!([{"ttl": "1h", "inputTokens": written}])
    );
    let usage = post(&running, SONNET, &request("1h", "y")).await.json()["usage"].clone();
    assert_eq!(usage["cacheReadInputTokens"], written);
    assert_eq!(usage["cacheWriteInputTokens"], 0);
}

#[tokio::test]
async fn converse_refuses_invalid_requests() {
    let point = || json!({"cachePoint": {"type": "default"}});
    let call = |id: &str| json!({"toolUse": {"toolUseId": id, "name": "look", "input": {}}});
    let result = |id: &str| json!({"toolResult": {"toolUseId": id, "content": [{"text": "x"}]}});
    let model = |blocks: Value| json!({"role": "assistant", "content": blocks});
    let said = |blocks: Value| json!({"role": "user", "content": blocks});
    let with_tools = |messages: Value| json!({"messages": messages, "toolConfig": tools()});
    let fields = |fields: Value| with(asking("x"), json!({"additionalModelRequestFields": fields}));
    let cases = [
        (SONNET, json!({}), "must start with a user message"),
        (
            SONNET,
            json!({"messages": [user("a"), user("b")]}),
            "must alternate",
        ),
        (
            SONNET,
            json!({"messages": [model(json!([{"text": "a"}]))]}),
            "must start with a user message",
        ),
        (SONNET, asking("  "), "messages.0.content.0 is blank"),
        (
            SONNET,
            json!({"messages": [said(json!([]))]}),
            "messages.0 is empty",
        ),
        (
            SONNET,
            json!({"messages": [user("a"), model(json!([call("a")])), said(json!([result("a")]))]}),
            "toolConfig field must be defined",
        ),
        (
            SONNET,
            with_tools(json!([user("a"), model(json!([call("a")])), user("b")])),
            "Expected toolResult blocks at messages.2.content for the following Ids: a",
        ),
        (
            SONNET,
            with_tools(json!([
                user("a"),
                model(json!([call("a")])),
                said(json!([result("a"), result("b")]))
            ])),
            "exceeds the number of toolUse blocks",
        ),
        (
            SONNET,
            with_tools(json!([
                user("a"),
                model(json!([call("a"), call("a")])),
                said(json!([result("a")]))
            ])),
            "duplicate Ids",
        ),
        (
            SONNET,
            json!({"messages": [said(json!([point()]))]}),
            "no content before it",
        ),
        (
            SONNET,
            json!({"messages": [said(json!([{"text": "a"}, point(), {"text": "b"}, point(), {"text": "c"}, point(), {"text": "d"}, point(), {"text": "e"}, point()]))]}),
            "maximum of 4",
        ),
        (
            SONNET,
            with(
                asking("x"),
                json!({"system": [{"text": "a"}, point()], "messages": [said(json!([{"text": "a"}, {"cachePoint": {"type": "default", "ttl": "1h"}}]))]}),
            ),
            "must not come after",
        ),
        (
            SONNET,
            with(asking("x"), json!({"temperature": 1})),
            "Unknown parameter in input: \"temperature\"",
        ),
        (
            SONNET,
            with(
                asking("x"),
                json!({"inferenceConfig": {"temperature": 1.5}}),
            ),
            "inferenceConfig.temperature",
        ),
        (
            SONNET,
            json!({"messages": [said(json!([{"text": "a", "cachePoint": {"type": "default"}}]))]}),
            "messages.0.content.0",
        ),
        (
            SONNET,
            json!({"messages": [said(json!([{"text": "a"}, {"cachePoint": {"type": "ephemeral"}}]))]}),
            "messages.0.content.1.cachePoint.type",
        ),
        (
            SONNET,
            fields(json!({"thinking": {"type": "adaptive"}})),
            "adaptive thinking is not supported",
        ),
        (SONNET, fields(json!({"no_such_field": 1})), "no_such_field"),
        (
            OPUS_48,
            fields(json!({"thinking": {"type": "enabled", "budget_tokens": 2_000}})),
            "thinking.type.enabled",
        ),
        (
            OPUS_48,
            with(
                asking("x"),
                json!({"inferenceConfig": {"temperature": 0.5}}),
            ),
            "`temperature` is deprecated",
        ),
        (
            SONNET,
            with(asking("x"), json!({"outputConfig": {"effort": "low"}})),
            "effort",
        ),
    ];
    let running = start(Script::default()).await;
    for (path, body, words) in &cases {
        let got = post(&running, path, body).await;
        let message = got.json()["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert_eq!(got.status, 400, "{body}\n{message}");
        assert_eq!(got.header("x-amzn-errortype"), "ValidationException");
        assert!(message.contains(words), "{message}\nshould say: {words}");
    }
    assert_eq!(running.violations().len(), cases.len());
    let points = json!({"messages": [said(json!([{"text": "a"}, point()]))]});
    let llama = "/model/meta.llama3-70b-instruct-v1%3A0/converse";
    let got = post(&running, llama, &points).await;
    assert_eq!(
        (got.status, got.header("x-amzn-errortype")),
        (403, "AccessDeniedException")
    );
    assert_eq!(post(&running, NOVA, &points).await.status, 200);
    let got = post(
        &running,
        NOVA,
        &with(
            points,
            json!({"toolConfig": {"tools": [tools()["tools"][0], point()]}}),
        ),
    )
    .await;
    assert_eq!(got.status, 403);
}

#[tokio::test]
async fn converse_keys_are_checked() {
    let script = Script::parse("script.yaml", "key: right\n").unwrap();
    let running = start(script).await;
    let got = post(&running, SONNET, &asking("x")).await;
    assert_eq!(
        (got.status, got.header("x-amzn-errortype")),
        (403, "AccessDeniedException")
    );
}

#[test]
fn converse_bodies_are_checked_without_a_server() {
    let check = |body: &Value| {
        cachalot_simulator::check_request(Format::Converse, false, body.to_string().as_bytes())
    };
    check(&asking("x")).unwrap();
    assert!(check(&with(asking("x"), json!({"max_tokens": 1}))).is_err());
}
