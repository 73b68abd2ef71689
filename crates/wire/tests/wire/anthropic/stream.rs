//! Streamed answers.

use cachalot_wire::{Block, Delta, ErrorKind, StopReason, Usage, sse::Event};
use serde_json::{Value, json};

use super::{body, events, messages, read, reply};

fn start() -> Value {
    json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 25, "output_tokens": 1}}})
}

fn block(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn stop_block(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn end() -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null},
            "usage": {"output_tokens": 15}}),
        json!({"type": "message_stop"}),
    ]
}

fn stream(blocks: &[Value]) -> Vec<Event> {
    events(&[&[start()], blocks, &end()].concat())
}

/// The content of an answer of these events, as it would have come whole.
fn content(blocks: &[Value]) -> Vec<Block> {
    read(&stream(blocks)).unwrap().1.message.content
}

fn whole(content: Value) -> Vec<Block> {
    reply(&body(content)).unwrap().message.content
}

/// The example of the provider's documentation, with thinking and a call.
#[test]
fn stream_emits_deltas_in_order() {
    let blocks = [
        block(
            0,
            json!({"type": "thinking", "thinking": "", "signature": ""}),
        ),
        json!({"type": "ping"}),
        delta(0, json!({"type": "thinking_delta", "thinking": "Let me "})),
        delta(0, json!({"type": "thinking_delta", "thinking": "see."})),
        delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
        stop_block(0),
        block(1, json!({"type": "text", "text": ""})),
        delta(1, json!({"type": "text_delta", "text": "Okay"})),
        delta(1, json!({"type": "text_delta", "text": ", ..."})),
        stop_block(1),
        block(
            2,
            json!({"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}}),
        ),
        delta(2, json!({"type": "input_json_delta", "partial_json": ""})),
        delta(
            2,
            json!({"type": "input_json_delta", "partial_json": "{\"location\":"}),
        ),
        delta(
            2,
            json!({"type": "input_json_delta", "partial_json": " \"San Francisco\"}"}),
        ),
        stop_block(2),
        block(
            3,
            json!({"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}}),
        ),
        delta(3, json!({"type": "input_json_delta", "partial_json": ""})),
        stop_block(3),
    ];
    let (deltas, reply) = read(&stream(&blocks)).unwrap();
    let use_of = |index, id: &str, name: &str| Delta::ToolUse {
        index,
        id: id.into(),
        name: name.into(),
    };
    let arguments = |index, text: &str| Delta::Arguments {
        index,
        text: text.into(),
    };
    assert_eq!(
        deltas,
        [
            Delta::Reasoning("Let me ".into()),
            Delta::Reasoning("see.".into()),
            Delta::Text("Okay".into()),
            Delta::Text(", ...".into()),
            use_of(0, "toolu_1", "get_weather"),
            arguments(0, "{\"location\":"),
            arguments(0, " \"San Francisco\"}"),
            use_of(1, "toolu_2", "now"),
            arguments(1, "{}"),
        ]
    );
    let mut same = body(json!([
        {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"},
        {"type": "text", "text": "Okay, ..."},
        {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": "INPUT"},
        {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
    ]));
    same["usage"] = json!({"input_tokens": 25, "output_tokens": 15});
    let same = same
        .to_string()
        .replace("\"INPUT\"", "{\"location\": \"San Francisco\"}");
    assert_eq!(reply, messages().reply(same.as_bytes()).unwrap());
    assert_eq!(reply.stop, StopReason::End);
}

#[test]
fn citations_are_collected() {
    let citation =
        |index: u64| json!({"type": "char_location", "cited_text": "x", "document_index": index});
    let blocks = [
        block(0, json!({"type": "text", "text": "", "citations": []})),
        delta(
            0,
            json!({"type": "citations_delta", "citation": citation(0)}),
        ),
        delta(0, json!({"type": "text_delta", "text": "a"})),
        delta(
            0,
            json!({"type": "citations_delta", "citation": citation(1)}),
        ),
        stop_block(0),
        block(1, json!({"type": "text", "text": "", "citations": null})),
        delta(
            1,
            json!({"type": "citations_delta", "citation": citation(2)}),
        ),
        delta(1, json!({"type": "text_delta", "text": "b"})),
        stop_block(1),
    ];
    assert_eq!(
        content(&blocks),
        whole(json!([
            {"type": "text", "text": "a", "citations": [citation(0), citation(1)]},
            {"type": "text", "text": "b", "citations": [citation(2)]},
        ]))
    );
}

#[test]
fn unknown_blocks_are_kept_and_unknown_deltas_merged() {
    let blocks = [
        json!({"type": "not_known_yet", "a": 1}),
        block(
            0,
            json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
        ),
        delta(
            0,
            json!({"type": "input_json_delta", "partial_json": "{\"query\":"}),
        ),
        delta(
            0,
            json!({"type": "input_json_delta", "partial_json": "\"x\"}"}),
        ),
        stop_block(0),
        block(
            1,
            json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u"}]}),
        ),
        stop_block(1),
        block(2, json!({"type": "compaction", "content": null})),
        delta(
            2,
            json!({"type": "compaction_delta", "content": "short", "encrypted_content": "eA=="}),
        ),
        stop_block(2),
        block(3, json!({"type": "strange", "text": "a"})),
        delta(3, json!({"type": "text_delta", "text": "b"})),
        delta(
            3,
            json!({"type": "strange_delta", "text": 1, "n": 2, "more": "c"}),
        ),
        delta(3, json!({"type": "strange_delta", "n": null, "more": "d"})),
        stop_block(3),
    ];
    let (deltas, reply) = read(&stream(&blocks)).unwrap();
    assert_eq!(deltas, []);
    assert_eq!(
        reply.message.content,
        whole(json!([
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u"}]},
            {"type": "compaction", "content": "short", "encrypted_content": "eA=="},
            {"type": "strange", "text": "ab", "n": 2, "more": "cd"},
        ]))
    );
}

/// The form of compatible servers.
#[test]
fn blocks_may_start_with_content() {
    let message = json!({"type": "message_start", "message": {"model": "m", "content": [
        {"type": "text", "text": "zero"}]}});
    let blocks = [
        block(1, json!({"type": "text", "text": "one"})),
        block(
            2,
            json!({"type": "tool_use", "id": "1", "name": "f", "input": {"n": 1.50}}),
        ),
        stop_block(2),
        block(
            3,
            json!({"type": "tool_use", "id": "2", "name": "g", "input": {"a": 1}}),
        ),
        block(4, json!({"type": "text"})),
    ];
    let all = events(&[&[message], blocks.as_slice(), &end()].concat());
    let (deltas, reply) = read(&all).unwrap();
    assert_eq!(
        reply.message.content,
        whole(json!([
            {"type": "text", "text": "zero"},
            {"type": "text", "text": "one"},
            {"type": "tool_use", "id": "1", "name": "f", "input": {"n": 1.50}},
            {"type": "tool_use", "id": "2", "name": "g", "input": {"a": 1}},
            {"type": "text", "text": ""},
        ]))
    );
    let text = |text: &str| Delta::Text(text.into());
    assert_eq!(deltas[..2], [text("zero"), text("one")]);
    assert_eq!(
        deltas.last(),
        Some(&Delta::Arguments {
            index: 1,
            text: "{\"a\":1}".into()
        })
    );
}

#[test]
fn usage_is_accumulated_from_the_start_event() {
    let mut start = start();
    start["message"]["usage"] = json!({
        "input_tokens": 3, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 50,
        "cache_creation": {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 60},
        "output_tokens": 1, "service_tier": "standard"});
    let say = |usage: Value| json!({"type": "message_delta", "delta": {}, "usage": usage});
    let all = events(&[
        start,
        say(json!({"output_tokens": 7, "cache_read_input_tokens": null})),
        say(
            json!({"output_tokens": 9, "input_tokens": 4, "cache_creation_input_tokens": 130,
            "output_tokens_details": {"thinking_tokens": 2}}),
        ),
        json!({"type": "message_stop"}),
    ]);
    let (_, reply) = read(&all).unwrap();
    assert_eq!(
        reply.usage,
        Some(Usage {
            uncached_input: 4,
            cache_read: 50,
            cache_write_5m: 40,
            cache_write_1h: 60,
            cache_write_other: 30,
            output: 9,
            reasoning: 2,
            ..Usage::default()
        })
    );
    assert_eq!(reply.extra["usage"], json!({"service_tier": "standard"}));
}

#[test]
fn message_delta_fields_are_added_to_the_reply() {
    let mut start = start();
    start["message"]["container"] = json!({"id": "c"});
    let all = events(&[
        start,
        json!({"type": "message_delta", "context_management": {"applied_edits": []},
            "delta": {"stop_reason": "stop_sequence", "stop_sequence": "END", "container": null}}),
        json!({"type": "message_stop"}),
    ]);
    let (_, reply) = read(&all).unwrap();
    assert_eq!(reply.stop, StopReason::StopText);
    assert_eq!(
        Value::Object(reply.extra),
        json!({"stop_sequence": "END", "container": {"id": "c"},
            "context_management": {"applied_edits": []}})
    );
}

#[test]
fn truncated_stream_is_cut_off() {
    let all = stream(&[
        block(0, json!({"type": "text", "text": ""})),
        delta(0, json!({"type": "text_delta", "text": "a"})),
        stop_block(0),
    ]);
    for length in 0..all.len() {
        let mut reader = messages().reader();
        for event in &all[..length] {
            reader.event(event).unwrap();
        }
        assert!(!reader.complete());
        assert_eq!(reader.finish().unwrap_err().kind, ErrorKind::CutOff);
    }
    let mut reader = messages().reader();
    for event in &all {
        reader.event(event).unwrap();
    }
    assert!(reader.complete());
    // What proxies add behind the end is no part of it.
    let done = Event {
        name: "message".into(),
        data: "[DONE]".into(),
    };
    assert_eq!(reader.event(&done).unwrap(), []);
    reader.finish().unwrap();
}

#[test]
fn stream_errors_have_a_kind_and_end_the_answer() {
    for (code, message, kind) in [
        ("overloaded_error", "Overloaded", ErrorKind::Unavailable),
        ("api_error", "Internal server error", ErrorKind::Unavailable),
        ("something_new", "?", ErrorKind::Unavailable),
        ("rate_limit_error", "Slow down", ErrorKind::Limited),
        ("timeout_error", "Too slow", ErrorKind::TimedOut),
        (
            "authentication_error",
            "invalid x-api-key",
            ErrorKind::Unauthorized,
        ),
        ("permission_error", "no", ErrorKind::Unauthorized),
        ("billing_error", "no credit", ErrorKind::Rejected),
        ("not_found_error", "model: x", ErrorKind::Rejected),
        ("request_too_large", "too large", ErrorKind::TooLong),
        (
            "invalid_request_error",
            "messages: at least one",
            ErrorKind::Rejected,
        ),
        (
            "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
            ErrorKind::TooLong,
        ),
    ] {
        let error = json!({"type": "error", "error": {"type": code, "message": message}});
        let all = events(&[&[start(), error], end().as_slice()].concat());
        let mut reader = messages().reader();
        reader.event(&all[0]).unwrap();
        let failure = reader.event(&all[1]).unwrap_err();
        assert_eq!(failure.kind, kind, "{code}");
        assert_eq!(failure.code.as_deref(), Some(code));
        assert_eq!(failure.message, message);
        // Whatever follows makes no answer of it.
        for event in &all[2..] {
            reader.event(event).unwrap();
        }
        assert!(!reader.complete());
        assert_eq!(reader.finish().unwrap_err().kind, ErrorKind::CutOff);
    }
}

#[test]
fn stream_error_without_message_is_unavailable() {
    for (name, data) in [
        ("error", r#"{"type":"error"}"#),
        ("error", r#"{"error":null}"#),
        ("message", r#"{"error":{}}"#),
    ] {
        let event = Event {
            name: name.into(),
            data: data.into(),
        };
        let failure = messages().reader().event(&event).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Unavailable);
        assert!(!failure.message.is_empty());
    }
}

#[test]
fn invalid_event_order_is_an_error_with_the_reason() {
    let text = || block(0, json!({"type": "text", "text": ""}));
    for (values, why) in [
        (vec![text()], "does not begin"),
        (vec![end()[0].clone()], "does not begin"),
        (vec![end()[1].clone()], "does not begin"),
        (vec![start(), start()], "two `message_start`"),
        (vec![json!({"type": "message_start"})], "no `message`"),
        (
            vec![start(), delta(0, json!({}))],
            "block 0 of the stream has not begun",
        ),
        (vec![start(), stop_block(3)], "block 3"),
        (vec![start(), text(), text()], "out of turn"),
        (
            vec![start(), text(), stop_block(0), delta(0, json!({}))],
            "after its end",
        ),
        (
            vec![
                start(),
                json!({"type": "content_block_start", "content_block": {}}),
            ],
            "names no block",
        ),
        (
            vec![start(), json!({"type": "content_block_start", "index": 0})],
            "no `content_block`",
        ),
        (
            vec![
                start(),
                text(),
                json!({"type": "content_block_delta", "index": 0}),
            ],
            "no `delta`",
        ),
    ] {
        let failure = read(&events(&values)).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Malformed, "{failure}");
        assert!(failure.message.contains(why), "{failure}");
    }
    let event = Event {
        name: "message_start".into(),
        data: "{".into(),
    };
    let failure = messages().reader().event(&event).unwrap_err();
    assert!(failure.message.contains("not JSON"), "{failure}");
}

#[test]
fn event_name_is_used_if_the_data_has_no_type() {
    let event = |name: &str, data: Value| Event {
        name: name.into(),
        data: data.to_string(),
    };
    let all = [
        event("message_start", json!({"message": {"model": "m"}})),
        event(
            "content_block_start",
            json!({"index": 0, "content_block": {"type": "text"}}),
        ),
        event(
            "content_block_delta",
            json!({"index": 0, "delta": {"type": "text_delta", "text": "a"}}),
        ),
        event("message_stop", json!({})),
    ];
    let (_, reply) = read(&all).unwrap();
    assert_eq!(reply.message.text(), "a");
    assert_eq!(reply.usage, None);
}

#[test]
fn endless_answer_is_malformed() {
    let much = "x".repeat(1 << 20);
    for endless in [
        delta(0, json!({"type": "text_delta", "text": much})),
        delta(0, json!({"type": "text_delta", "text": "", "more": much})),
        delta(0, json!({"type": "citations_delta", "citation": much})),
        json!({"type": "message_delta", "more": much}),
    ] {
        let mut reader = messages().reader();
        let text = block(0, json!({"type": "text", "text": ""}));
        for event in events(&[start(), text]) {
            reader.event(&event).unwrap();
        }
        let endless = &events(&[endless])[0];
        let failure = (0..100).find_map(|_| reader.event(endless).err()).unwrap();
        assert_eq!(failure.kind, ErrorKind::Malformed);
        assert!(failure.message.contains("longer than"), "{failure}");
    }
}
