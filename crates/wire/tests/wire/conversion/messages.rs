//! Anthropic Messages.

use serde_json::{Value, json};

use super::*;

fn message(content: Value) -> Value {
    json!({
        "model": "claude-sonnet-4-5", "id": "msg_1", "type": "message", "role": "assistant",
        "content": content, "stop_reason": "tool_use", "stop_sequence": null,
        "usage": {
            "input_tokens": 25, "cache_creation_input_tokens": 3, "cache_read_input_tokens": null,
            "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 15, "service_tier": "standard",
        },
    })
}

fn start() -> Value {
    let mut message = message(json!([]));
    message["stop_reason"] = Value::Null;
    message["usage"]["output_tokens"] = json!(1);
    json!({"type": "message_start", "message": message})
}

fn begin(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn end() -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null},
            "usage": {"input_tokens": 25, "cache_creation_input_tokens": 3, "output_tokens": 15}}),
        json!({"type": "message_stop"}),
    ]
}

/// The events of an answer with thinking, text and two calls.
fn events() -> Vec<Value> {
    let blocks = [
        begin(
            0,
            json!({"type": "thinking", "thinking": "", "signature": ""}),
        ),
        json!({"type": "ping"}),
        delta(
            0,
            json!({"type": "thinking_delta", "thinking": "Let me see."}),
        ),
        delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
        stop(0),
        begin(1, json!({"type": "redacted_thinking", "data": "ZGF0YQ=="})),
        stop(1),
        begin(2, json!({"type": "text", "text": ""})),
        delta(2, json!({"type": "text_delta", "text": "I look it up."})),
        stop(2),
        begin(
            3,
            json!({"type": "tool_use", "id": "toolu_1", "name": "find", "input": {}}),
        ),
        delta(3, json!({"type": "input_json_delta", "partial_json": ""})),
        delta(
            3,
            json!({"type": "input_json_delta", "partial_json": "{\"city\":\"Rome\",\"n\":[1,2.5]}"}),
        ),
        stop(3),
        begin(
            4,
            json!({"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}, "caller": {"type": "direct"}}),
        ),
        delta(4, json!({"type": "input_json_delta", "partial_json": ""})),
        stop(4),
    ];
    [&[start()][..], &blocks, &end()].concat()
}

fn whole() -> Value {
    message(json!([
        {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "ZGF0YQ=="},
        {"type": "text", "text": "I look it up."},
        {"type": "tool_use", "id": "toolu_1", "name": "find", "input": {"city": "Rome", "n": [1, 2.5]}},
        {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}, "caller": {"type": "direct"}},
    ]))
}

#[test]
fn events_become_the_message_and_its_members_keep_their_order() {
    let converted = to_whole(Format::Messages, named(&events()).as_bytes()).unwrap();
    assert_eq!(converted, whole().to_string());
    // Names of events, which some servers leave out, repeat the types.
    assert_eq!(
        whole_of(Format::Messages, &unnamed(&events())),
        Some(whole())
    );
}

#[test]
fn message_becomes_the_events_of_the_provider() {
    let converted = events_of(Format::Messages, &whole(), &json!({})).unwrap();
    assert_eq!(converted, named(&events()));
    round_trip(Format::Messages, &whole());
}

#[test]
fn pieces_are_joined_and_an_input_may_be_split_anywhere() {
    let blocks = [
        begin(0, json!({"type": "text", "text": ""})),
        delta(0, json!({"type": "text_delta", "text": "a"})),
        delta(0, json!({"type": "text_delta", "text": "b"})),
        stop(0),
        begin(
            1,
            json!({"type": "tool_use", "id": "t", "name": "f", "input": {}}),
        ),
        delta(
            1,
            json!({"type": "input_json_delta", "partial_json": "{\"a\": \"x\\"}),
        ),
        delta(
            1,
            json!({"type": "input_json_delta", "partial_json": "n\", \"b\": 1"}),
        ),
        delta(1, json!({"type": "input_json_delta", "partial_json": "2}"})),
        stop(1),
    ];
    let events = [&[start()][..], &blocks, &end()].concat();
    let expected = message(json!([
        {"type": "text", "text": "ab"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": "x\n", "b": 12}},
    ]));
    assert_eq!(whole_of(Format::Messages, &named(&events)), Some(expected));
}

#[test]
fn citations_are_collected() {
    let citation = |n: u64| {
        json!({"type": "char_location", "cited_text": "x", "document_index": 0, "document_title": null,
            "start_char_index": n, "end_char_index": n + 1})
    };
    let blocks = [
        begin(0, json!({"type": "text", "text": "", "citations": []})),
        delta(
            0,
            json!({"type": "citations_delta", "citation": citation(1)}),
        ),
        delta(0, json!({"type": "text_delta", "text": "x"})),
        delta(
            0,
            json!({"type": "citations_delta", "citation": citation(2)}),
        ),
        stop(0),
    ];
    let events = [&[start()][..], &blocks, &end()].concat();
    let expected = message(json!([
        {"type": "text", "text": "x", "citations": [citation(1), citation(2)]},
    ]));
    assert_eq!(
        whole_of(Format::Messages, &named(&events)),
        Some(expected.clone())
    );
    round_trip(Format::Messages, &expected);
    for citations in [json!([]), Value::Null] {
        let block = json!({"type": "text", "text": "x", "citations": citations});
        round_trip(Format::Messages, &message(json!([block])));
    }
}

#[test]
fn usage_is_accumulated_as_the_official_client_does() {
    let mut events = events();
    let at = events.len() - 2;
    events[at]["usage"] = json!({
        "input_tokens": 30, "cache_creation_input_tokens": null, "cache_read_input_tokens": 7, "output_tokens": 40,
        "output_tokens_details": {"thinking_tokens": 20}, "server_tool_use": null, "service_tier": "standard",
    });
    // Totals of an earlier event of the same kind are replaced.
    let earlier = json!({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 12}});
    events.insert(at, earlier);
    let mut expected = whole();
    expected["usage"] = json!({
        "input_tokens": 30, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 7,
        "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 40, "service_tier": "standard",
        "output_tokens_details": {"thinking_tokens": 20}, "server_tool_use": null,
    });
    assert_eq!(
        whole_of(Format::Messages, &named(&events)),
        Some(expected.clone())
    );
    round_trip(Format::Messages, &expected);
}

#[test]
fn members_that_are_known_at_the_end_are_sent_at_the_end() {
    let mut expected = whole();
    expected["stop_reason"] = json!("stop_sequence");
    expected["stop_sequence"] = json!("END");
    expected["stop_details"] = json!({"type": "refusal", "category": null, "explanation": "x"});
    expected["container"] = Value::Null;
    expected["context_management"] = json!({"applied_edits": []});
    expected["diagnostics"] = json!({"cache_miss_reason": null});
    let events = data_of(&round_trip(Format::Messages, &expected));
    let begun = &events[0]["message"];
    assert_eq!(begun["stop_details"], Value::Null);
    assert_eq!(begun["context_management"], Value::Null);
    assert_eq!(begun["diagnostics"], expected["diagnostics"]);
    let last = &events[events.len() - 2];
    assert_eq!(last["delta"]["stop_sequence"], "END");
    assert_eq!(last["delta"]["stop_details"], expected["stop_details"]);
    assert_eq!(last["context_management"], expected["context_management"]);
}

#[test]
fn answer_without_blocks_is_converted() {
    let events = round_trip(Format::Messages, &message(json!([])));
    assert_eq!(data_of(&events).len(), 3);
    for empty in [
        json!({"type": "text", "text": ""}),
        json!({"type": "thinking", "thinking": "", "signature": "c2ln"}),
    ] {
        round_trip(Format::Messages, &message(json!([empty])));
    }
}

#[test]
fn estimates_for_progress_are_left_out() {
    let mut events = events();
    events[3]["delta"]["estimated_tokens"] = json!(50);
    assert_eq!(whole_of(Format::Messages, &named(&events)), Some(whole()));
}

#[test]
fn ambiguous_streams_are_not_converted() {
    let insert =
        |at: usize, event: Value| move |events: &mut Vec<Value>| events.insert(at, event.clone());
    let set = |at: usize, pointer: &'static str, value: Value| {
        move |events: &mut Vec<Value>| {
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            events[at].pointer_mut(parent).unwrap()[name] = value.clone();
        }
    };
    let remove = |at: usize| move |events: &mut Vec<Value>| drop(events.remove(at));
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "x"}});
    refused(
        Format::Messages,
        &events(),
        named,
        &[
            ("an error", &insert(5, error)),
            ("an unknown event", &insert(5, json!({"type": "later"}))),
            ("a member of an event", &set(4, "/x", json!(1))),
            ("no start", &remove(0)),
            ("two starts", &insert(1, start())),
            (
                "content at the start",
                &set(
                    0,
                    "/message/content",
                    json!([{"type": "text", "text": "x"}]),
                ),
            ),
            (
                "no usage at the start",
                &set(0, "/message/usage", Value::Null),
            ),
            (
                "an unknown block",
                &set(6, "/content_block/type", json!("later")),
            ),
            (
                "a tool that the provider runs",
                &set(11, "/content_block/type", json!("server_tool_use")),
            ),
            (
                "an unknown delta",
                &set(9, "/delta/type", json!("later_delta")),
            ),
            (
                "a delta of another block",
                &set(9, "/delta/type", json!("thinking_delta")),
            ),
            ("a member of a delta", &set(9, "/delta/x", json!(1))),
            ("a text that is none", &set(9, "/delta/text", json!(1))),
            (
                "two signatures",
                &insert(
                    4,
                    delta(0, json!({"type": "signature_delta", "signature": "x"})),
                ),
            ),
            (
                "an input that is cut off",
                &set(13, "/delta/partial_json", json!("{\"city\":")),
            ),
            (
                "an input that is no object",
                &set(13, "/delta/partial_json", json!("[]")),
            ),
            (
                "a member of an input twice",
                &set(13, "/delta/partial_json", json!("{\"a\":1,\"a\":1}")),
            ),
            (
                "two inputs",
                &set(11, "/content_block/input", json!({"a": 1})),
            ),
            ("a block out of turn", &set(8, "/index", json!(3))),
            (
                "a block that begins twice",
                &insert(9, begin(2, json!({"type": "text", "text": ""}))),
            ),
            ("a block without an end", &remove(10)),
            (
                "a delta after the end of its block",
                &insert(11, delta(2, json!({"type": "text_delta", "text": "x"}))),
            ),
            (
                "a reason that is no text",
                &set(18, "/delta/stop_reason", json!(1)),
            ),
            ("no reason", &set(18, "/delta/stop_reason", Value::Null)),
            ("a member of the last event", &set(18, "/x", json!(1))),
            (
                "a count that is no total",
                &set(18, "/usage/service_tier", json!("priority")),
            ),
            ("no total", &set(18, "/usage", json!({"input_tokens": 25}))),
            ("no usage at the end", &set(18, "/usage", Value::Null)),
            ("no last delta", &remove(18)),
            ("no end", &remove(19)),
            ("a ping after the end", &|events| {
                events.push(json!({"type": "ping"}))
            }),
            ("a block after the last delta", &|events| {
                let at = events.len() - 1;
                events.insert(at, begin(5, json!({"type": "text", "text": ""})));
                events.insert(at + 1, stop(5));
            }),
        ],
    );
    let misnamed = named(&events()).replacen("event: ping", "event: pong", 1);
    assert_eq!(whole_of(Format::Messages, &misnamed), None);
}

#[test]
fn ambiguous_documents_are_not_converted() {
    let changes = [
        ("/stop_reason", Value::Null),
        ("/content", json!("text")),
        ("/content", json!([{"type": "later"}])),
        (
            "/content",
            json!([{"type": "server_tool_use", "id": "a", "name": "web_search", "input": {}}]),
        ),
        ("/content", json!([{"type": "text"}])),
        (
            "/content",
            json!([{"type": "tool_use", "id": "a", "name": "b", "input": []}]),
        ),
        (
            "/content",
            json!([{"type": "thinking", "thinking": "x", "signature": null}]),
        ),
        ("/usage", json!({"input_tokens": 1})),
        ("/usage", json!({"input_tokens": 1, "output_tokens": "2"})),
    ];
    for (pointer, value) in changes {
        let mut whole = whole();
        *whole.pointer_mut(pointer).unwrap() = value.clone();
        let events = events_of(Format::Messages, &whole, &json!({}));
        assert_eq!(events, None, "{pointer} {value}");
    }
    let error = json!({"type": "error", "error": {"type": "api_error", "message": "x"}});
    assert_eq!(events_of(Format::Messages, &error, &json!({})), None);
}
