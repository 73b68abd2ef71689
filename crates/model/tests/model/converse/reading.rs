//! Answers, in one piece and as a stream.

use cachalot_model::wire::sse::Event;
use cachalot_model::{
    Block, Delta, Error, ErrorKind, Format, Message, Reply, Request, StopReason, Usage,
};
use serde_json::{Value, json};

use super::{SONNET, body, wire};

fn whole(answer: &Value) -> Result<Reply, Error> {
    wire().reply(answer.to_string().as_bytes())
}

fn streamed(events: &[(&str, Value)]) -> (Result<Reply, Error>, Vec<Delta>) {
    let mut reader = wire().reader();
    let mut deltas = Vec::new();
    for (name, data) in events {
        let event = Event {
            name: (*name).to_owned(),
            data: data.to_string(),
        };
        match reader.event(&event) {
            Ok(more) => deltas.extend(more),
            Err(error) => return (Err(error), deltas),
        }
    }
    (reader.finish(), deltas)
}

fn answer(content: Value, stop: &str) -> Value {
    json!({
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": stop,
        "usage": usage(),
        "metrics": {"latencyMs": 1_000},
    })
}

fn usage() -> Value {
    json!({
        "inputTokens": 10, "outputTokens": 7, "totalTokens": 77,
        "cacheReadInputTokens": 20, "cacheWriteInputTokens": 40,
        "cacheDetails": [{"ttl": "1h", "inputTokens": 30}, {"ttl": "5m", "inputTokens": 10}],
    })
}

#[test]
fn answer_contains_text_reasoning_and_usage() {
    let thought =
        json!({"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}});
    let redacted = json!({"reasoningContent": {"redactedContent": "aGk="}});
    let content = json!([thought, redacted, {"text": "Deep."}]);
    let mut answer = answer(content, "end_turn");
    answer["trace"] = json!({"promptRouter": {"invokedModelId": "chosen"}});
    let reply = whole(&answer).unwrap();
    assert_eq!(
        (reply.message.text().as_str(), reply.stop),
        ("Deep.", StopReason::End)
    );
    for (block, (text, verbatim)) in reply
        .message
        .content
        .iter()
        .zip([("Hm.", &thought), ("", &redacted)])
    {
        let Block::Reasoning(reasoning) = block else {
            panic!("{block:?}");
        };
        assert_eq!(
            (reasoning.text.as_str(), &reasoning.verbatim),
            (text, verbatim)
        );
    }
    assert_eq!(reply.model, "chosen");
    assert_eq!(
        reply.usage,
        Some(Usage {
            uncached_input: 10,
            cache_read: 20,
            cache_write_5m: 10,
            cache_write_1h: 30,
            output: 7,
            ..Usage::default()
        })
    );
    assert_eq!(reply.usage.unwrap().total_input(), 70);
    assert_eq!(
        cachalot_model::wire::usage(Format::Chat, &usage()),
        reply.usage
    );
    let without_details = json!({"inputTokens": 1, "cacheWriteInputTokens": 5});
    let used = cachalot_model::wire::usage(Format::Converse, &without_details).unwrap();
    assert_eq!((used.cache_write_other, used.total_input()), (5, 6));
}

#[test]
fn stop_reasons_are_mapped() {
    for (reason, stop) in [
        ("end_turn", StopReason::End),
        ("tool_use", StopReason::ToolUse),
        ("max_tokens", StopReason::Length),
        ("model_context_window_exceeded", StopReason::Length),
        ("stop_sequence", StopReason::StopText),
        ("guardrail_intervened", StopReason::Refusal),
        ("content_filtered", StopReason::Refusal),
        (
            "malformed_tool_use",
            StopReason::Other("malformed_tool_use".to_owned()),
        ),
    ] {
        assert_eq!(whole(&answer(json!([]), reason)).unwrap().stop, stop);
    }
}

#[test]
fn arguments_keep_their_json_text() {
    let body = r#"{"output": {"message": {"role": "assistant", "content": [
        {"text": "I look."},
        {"toolUse": {"toolUseId": "a", "name": "look", "input": {"path":  "x", "n": 1.50}}}]}},
        "stopReason": "tool_use", "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}}"#;
    let reply = wire().reply(body.as_bytes()).unwrap();
    let call = reply.message.tool_uses().next().unwrap();
    assert_eq!(call.arguments, r#"{"path":  "x", "n": 1.50}"#);
    assert_eq!(reply.stop, StopReason::ToolUse);
}

fn events() -> Vec<(&'static str, Value)> {
    let delta = |index: u64, delta: Value| {
        let data = json!({"contentBlockIndex": index, "delta": delta, "p": "abc"});
        ("contentBlockDelta", data)
    };
    let reasoning = |part: Value| delta(0, json!({"reasoningContent": part}));
    let call = json!({"toolUse": {"toolUseId": "a", "name": "look"}});
    vec![
        ("messageStart", json!({"role": "assistant", "p": "abc"})),
        reasoning(json!({"text": "Let me "})),
        reasoning(json!({"text": "think."})),
        reasoning(json!({"signature": "c2ln"})),
        ("contentBlockStop", json!({"contentBlockIndex": 0})),
        delta(1, json!({"text": "Two "})),
        delta(1, json!({"text": "thousand."})),
        delta(1, json!({"citation": {"title": "Whales"}})),
        ("contentBlockStop", json!({"contentBlockIndex": 1})),
        (
            "contentBlockStart",
            json!({"contentBlockIndex": 2, "start": call}),
        ),
        delta(2, json!({"toolUse": {"input": "{\"path\":"}})),
        delta(2, json!({"toolUse": {"input": " \"x\"}"}})),
        ("contentBlockStop", json!({"contentBlockIndex": 2})),
        ("somethingNew", json!({"contentBlockIndex": 2})),
        ("messageStop", json!({"stopReason": "tool_use", "p": "ab"})),
        (
            "metadata",
            json!({"usage": usage(), "metrics": {"latencyMs": 1}, "p": "a"}),
        ),
    ]
}

#[test]
fn streamed_answer_equals_the_whole_answer() {
    let (reply, deltas) = streamed(&events());
    let cited = json!({"citationsContent": {
        "content": [{"text": "Two thousand."}], "citations": [{"title": "Whales"}]}});
    let content = json!([
        {"reasoningContent": {"reasoningText": {"text": "Let me think.", "signature": "c2ln"}}},
        cited,
        {"toolUse": {"toolUseId": "a", "name": "look", "input": {"path": "x"}}},
    ]);
    let mut expected = whole(&answer(content, "tool_use")).unwrap();
    // The arguments as they were written.
    if let Some(Block::ToolUse(call)) = expected.message.content.last_mut() {
        call.arguments = r#"{"path": "x"}"#.to_owned();
    }
    let reply = reply.unwrap();
    assert_eq!(reply, expected);
    assert_eq!(reply.message.text(), "Two thousand.");
    let text = |text: &str| Delta::Text(text.to_owned());
    let reasoning = |text: &str| Delta::Reasoning(text.to_owned());
    let arguments = |text: &str| Delta::Arguments {
        index: 0,
        text: text.to_owned(),
    };
    let call = Delta::ToolUse {
        index: 0,
        id: "a".to_owned(),
        name: "look".to_owned(),
    };
    assert_eq!(
        deltas,
        [
            reasoning("Let me "),
            reasoning("think."),
            text("Two "),
            text("thousand."),
            call,
            arguments("{\"path\":"),
            arguments(" \"x\"}"),
        ]
    );
    // It goes back as it came.
    let request = Request {
        messages: vec![Message::user("x"), reply.message],
        ..Request::default()
    };
    let sent = request.body(wire(), false).unwrap();
    let sent: Value = serde_json::from_slice(&sent).unwrap();
    let said = &sent["messages"][1]["content"];
    assert_eq!(
        said[0]["reasoningContent"]["reasoningText"]["signature"],
        "c2ln"
    );
    assert_eq!(said[1], cited);
}

#[test]
fn server_tool_blocks_are_kept_verbatim() {
    let start = |index: u64, start: Value| {
        (
            "contentBlockStart",
            json!({"contentBlockIndex": index, "start": start}),
        )
    };
    let delta = |index: u64, delta: Value| {
        (
            "contentBlockDelta",
            json!({"contentBlockIndex": index, "delta": delta}),
        )
    };
    let call = json!({"toolUse": {"toolUseId": "s", "name": "search", "type": "server_tool_use"}});
    let result = json!({"toolResult": {"toolUseId": "s", "status": "success"}});
    let (reply, deltas) = streamed(&[
        start(0, call),
        delta(0, json!({"toolUse": {"input": "{\"q\": 1}"}})),
        start(1, result),
        delta(1, json!({"toolResult": [{"text": "found"}]})),
        delta(2, json!({"text": "Found."})),
        ("messageStop", json!({"stopReason": "end_turn"})),
    ]);
    let reply = reply.unwrap();
    assert_eq!(deltas, [Delta::Text("Found.".to_owned())]);
    assert_eq!(reply.message.tool_uses().count(), 0);
    let Block::Other { verbatim, .. } = &reply.message.content[0] else {
        panic!("{reply:?}");
    };
    assert_eq!(verbatim["toolUse"]["input"], json!({"q": 1}));
    let Block::Other { verbatim, .. } = &reply.message.content[1] else {
        panic!("{reply:?}");
    };
    assert_eq!(
        verbatim["toolResult"]["content"],
        json!([{"text": "found"}])
    );
    // What was used may not come.
    assert_eq!(reply.usage, None);
}

#[test]
fn truncated_stream_is_cut_off() {
    let events = events();
    for length in 0..events.len() - 2 {
        let (reply, _) = streamed(&events[..length]);
        assert_eq!(reply.unwrap_err().kind, ErrorKind::CutOff, "{length}");
    }
}

#[test]
fn invalid_answer_is_malformed() {
    for answer in [
        json!({}),
        json!({"output": {}}),
        json!({"output": {"message": {"content": "x"}}}),
        json!({"output": {"message": {"content": [1]}}}),
        json!({"output": {"message": {"content": [{"toolUse": {"name": "x"}}]}}}),
    ] {
        assert_eq!(whole(&answer).unwrap_err().kind, ErrorKind::Malformed);
    }
    for event in [
        ("contentBlockDelta", json!({"delta": {"text": "x"}})),
        ("contentBlockDelta", json!({"contentBlockIndex": 0})),
        ("contentBlockStart", json!({"contentBlockIndex": 0})),
        ("contentBlockDelta", json!("x")),
    ] {
        let (reply, _) = streamed(&[event]);
        assert_eq!(reply.unwrap_err().kind, ErrorKind::Malformed);
    }
}

/// Requests of this file are as good as those of `rendering`.
#[test]
fn an_answer_can_be_continued() {
    let content = json!([{"text": "Deep."}]);
    let reply = whole(&answer(content, "end_turn")).unwrap();
    let mut request = Request {
        messages: vec![
            Message::user("How deep?"),
            reply.message,
            Message::user("Why?"),
        ],
        ..Request::default()
    };
    request.parameters.model = SONNET.to_owned();
    assert_eq!(
        body(&request)["messages"][1]["content"],
        json!([{"text": "Deep."}])
    );
}
