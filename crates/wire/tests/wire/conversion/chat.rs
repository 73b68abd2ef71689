//! OpenAI Chat Completions.

use serde_json::{Value, json};

use super::*;

fn chunk(delta: Value, finish_reason: Option<&str>) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "gpt-4o-mini",
        "service_tier": "default", "system_fingerprint": "fp_1",
        "choices": [
            {"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason},
        ],
        "usage": null, "obfuscation": "x9",
    })
}

fn usage_chunk() -> Value {
    let mut chunk = chunk(json!({}), None);
    chunk["choices"] = json!([]);
    chunk["usage"] = usage();
    chunk
}

fn usage() -> Value {
    json!({
        "prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    })
}

fn done(chunks: &[Value]) -> String {
    unnamed(chunks) + "data: [DONE]\n\n"
}

fn whole(message: Value, logprobs: Value, finish_reason: &str) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000, "model": "gpt-4o-mini",
        "choices": [
            {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": finish_reason},
        ],
        "usage": usage(), "service_tier": "default", "system_fingerprint": "fp_1",
    })
}

/// The chunks of an answer with text, as OpenAI sends them.
fn text_chunks() -> Vec<Value> {
    vec![
        chunk(
            json!({"role": "assistant", "content": "", "refusal": null}),
            None,
        ),
        chunk(json!({"content": "Hello"}), None),
        chunk(json!({"content": " there"}), None),
        chunk(json!({}), Some("stop")),
        usage_chunk(),
    ]
}

fn text() -> Value {
    whole(
        json!({"role": "assistant", "content": "Hello there", "refusal": null, "annotations": []}),
        Value::Null,
        "stop",
    )
}

fn call(id: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}})
}

#[test]
fn chunks_with_text_become_the_document_and_its_members_have_the_order_of_openai() {
    let whole = to_whole(Format::Chat, done(&text_chunks()).as_bytes()).unwrap();
    assert_eq!(whole, text().to_string());
}

#[test]
fn parallel_calls_are_collected_by_their_indices() {
    let calls = |calls: Value| chunk(json!({"tool_calls": calls}), None);
    let begin = |index: u64, id: &str| {
        let mut call = call(id, "");
        call["index"] = json!(index);
        call
    };
    let piece = |index: u64, piece: &str| json!({"index": index, "function": {"arguments": piece}});
    let mut first = chunk(
        json!({"role": "assistant", "content": null, "tool_calls": [begin(0, "call_1")], "refusal": null}),
        None,
    );
    let chunks = [
        first.take(),
        calls(json!([piece(0, "{\"city\":")])),
        calls(json!([begin(1, "call_2"), piece(0, "\"Rome\"}")])),
        calls(json!([{"index": 1, "id": "", "function": {"name": null, "arguments": "{}"}}])),
        chunk(json!({}), Some("tool_calls")),
        usage_chunk(),
    ];
    let expected = whole(
        json!({
            "role": "assistant", "content": null,
            "tool_calls": [call("call_1", "{\"city\":\"Rome\"}"), call("call_2", "{}")],
            "refusal": null, "annotations": [],
        }),
        Value::Null,
        "tool_calls",
    );
    assert_eq!(
        whole_of(Format::Chat, &done(&chunks)),
        Some(expected.clone())
    );
    round_trip(Format::Chat, &expected);
}

#[test]
fn a_call_without_a_text_begins_in_the_first_chunk() {
    let deltas = |message: Value| {
        let document = whole(message, Value::Null, "tool_calls");
        let chunks = data_of(&round_trip(Format::Chat, &document));
        chunks
            .iter()
            .filter_map(|chunk| chunk.pointer("/choices/0/delta").cloned())
            .collect::<Vec<_>>()
    };
    let message = |content: Value, calls: &[Value]| json!({"role": "assistant", "content": content, "tool_calls": calls, "refusal": null, "annotations": []});
    let mut begin = call("call_1", "");
    begin["index"] = json!(0);
    let one = deltas(message(Value::Null, &[call("call_1", "{}")]));
    let first =
        json!({"role": "assistant", "content": null, "tool_calls": [begin], "refusal": null});
    assert_eq!(one[0], first);
    assert_eq!(
        one[1],
        json!({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]})
    );
    assert_eq!(one.len(), 3);
    let two = deltas(message(
        Value::Null,
        &[call("call_1", "{}"), call("call_2", "{}")],
    ));
    assert_eq!(
        two[0],
        json!({"role": "assistant", "content": null, "refusal": null})
    );
    let after_text = deltas(message(json!("I look."), &[call("call_1", "{}")]));
    assert_eq!(after_text[1], json!({"content": "I look."}));
}

#[test]
fn indices_of_calls_in_a_document_are_those_of_the_stream() {
    let mut indexed = [call("call_1", "{}"), call("call_2", "{}")];
    let message =
        |calls: &[Value]| json!({"role": "assistant", "content": "", "tool_calls": calls});
    let without = whole(message(&indexed), Value::Null, "tool_calls");
    for (index, call) in indexed.iter_mut().enumerate() {
        call["index"] = json!(index);
    }
    let document = whole(message(&indexed), Value::Null, "tool_calls");
    let events = events_of(Format::Chat, &document, &with_usage()).unwrap();
    assert_eq!(whole_of(Format::Chat, &events), Some(without));
    indexed.reverse();
    let reversed = whole(message(&indexed), Value::Null, "tool_calls");
    assert_eq!(events_of(Format::Chat, &reversed, &with_usage()), None);
}

#[test]
fn members_of_compatible_servers_are_kept() {
    let mut chunks = vec![
        chunk(
            json!({"role": "assistant", "content": "", "reasoning_content": null}),
            None,
        ),
        chunk(
            json!({"role": "assistant", "reasoning_content": "Let me"}),
            None,
        ),
        chunk(json!({"reasoning_content": " see.", "content": null}), None),
        chunk(json!({"content": "Yes"}), None),
        chunk(json!({"content": ""}), Some("stop")),
        usage_chunk(),
    ];
    for chunk in &mut chunks {
        chunk["provider"] = json!("Other");
    }
    chunks[4]["choices"][0]["stop_reason"] = json!("END");
    let mut expected = whole(
        json!({"role": "assistant", "content": "Yes", "reasoning_content": "Let me see."}),
        Value::Null,
        "stop",
    );
    expected["provider"] = json!("Other");
    expected["choices"][0]["stop_reason"] = json!("END");
    assert_eq!(
        whole_of(Format::Chat, &done(&chunks)),
        Some(expected.clone())
    );
    round_trip(Format::Chat, &expected);
}

#[test]
fn lists_and_objects_of_a_document_are_in_the_first_chunk() {
    let mut document = text();
    document["x_groq"] = json!({"id": "req_1"});
    document["prompt_token_ids"] = json!([1, 2]);
    document["provider"] = json!("Other");
    let chunks = data_of(&round_trip(Format::Chat, &document));
    for (index, chunk) in chunks.iter().enumerate() {
        assert_eq!(chunk["provider"], "Other");
        assert_eq!(chunk.get("x_groq").is_some(), index == 0);
        assert_eq!(chunk.get("prompt_token_ids").is_some(), index == 0);
    }
}

#[test]
fn refusals_annotations_and_empty_members_are_kept() {
    let annotation = json!({"type": "url_citation", "url_citation": {
        "start_index": 0, "end_index": 2, "url": "https://a.example", "title": "A"}});
    for message in [
        json!({"role": "assistant", "content": null, "refusal": "I can't.", "annotations": []}),
        json!({"role": "assistant", "content": "Yes", "refusal": null, "annotations": [annotation]}),
        json!({"role": "assistant", "content": "", "tool_calls": [], "audio": null}),
    ] {
        round_trip(Format::Chat, &whole(message, Value::Null, "stop"));
    }
}

#[test]
fn probabilities_are_those_of_their_tokens() {
    let token =
        |token: &str| json!({"token": token, "logprob": -0.5, "bytes": null, "top_logprobs": []});
    let probabilities = json!({"content": [token("Hello"), token(" there")], "refusal": null});
    let mut expected = text();
    expected["choices"][0]["logprobs"] = probabilities;
    let events = round_trip(Format::Chat, &expected);
    let chunks = data_of(&events);
    assert_eq!(
        chunks[0]["choices"][0]["logprobs"],
        json!({"content": [], "refusal": null})
    );
    assert_eq!(
        chunks[1]["choices"][0]["delta"],
        json!({"content": "Hello"})
    );
    assert_eq!(
        chunks[2]["choices"][0]["logprobs"],
        json!({"content": [token(" there")], "refusal": null})
    );
    // Tokens that are not those of the text, because one has a part of a character only.
    expected["choices"][0]["logprobs"]["content"][1] = token("\\xf0");
    let events = round_trip(Format::Chat, &expected);
    let whole_text = json!({"content": "Hello there"});
    assert_eq!(data_of(&events)[1]["choices"][0]["delta"], whole_text);
}

#[test]
fn events_are_those_of_openai() {
    let events = events_of(Format::Chat, &text(), &with_usage()).unwrap();
    let mut chunks = text_chunks();
    chunks.remove(2);
    chunks[1]["choices"][0]["delta"]["content"] = json!("Hello there");
    for chunk in &mut chunks {
        chunk.as_object_mut().unwrap().shift_remove("obfuscation");
    }
    assert_eq!(events, done(&chunks));
}

#[test]
fn usage_is_streamed_on_request_only() {
    for request in [
        json!({"stream": true}),
        json!({"stream": true, "stream_options": {"include_usage": false}}),
        json!({"stream": true, "stream_options": null}),
    ] {
        let events = events_of(Format::Chat, &text(), &request).unwrap();
        assert!(!events.contains("usage"), "{events}");
        assert_eq!(data_of(&events).len(), 3);
        // A document always has it.
        assert_eq!(whole_of(Format::Chat, &events), None);
    }
    let mut without = text();
    without["usage"].take();
    assert_eq!(events_of(Format::Chat, &without, &with_usage()), None);
}

#[test]
fn ambiguous_streams_are_not_converted() {
    let delta =
        |delta: Value| move |chunks: &mut Vec<Value>| chunks.insert(1, chunk(delta.clone(), None));
    let set = |at: usize, pointer: &'static str, value: Value| {
        move |chunks: &mut Vec<Value>| {
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            chunks[at].pointer_mut(parent).unwrap()[name] = value.clone();
        }
    };
    let text = text_chunks();
    refused(
        Format::Chat,
        &text,
        done,
        &[
            ("an error", &|chunks| {
                chunks.insert(1, json!({"error": {"message": "x"}}))
            }),
            (
                "an error in a chunk",
                &set(1, "/error", json!({"code": 500})),
            ),
            ("another kind of object", &set(1, "/object", json!("other"))),
            ("another id", &set(1, "/id", json!("chatcmpl-2"))),
            ("another model", &set(4, "/model", json!("b"))),
            ("a member of some chunks", &|chunks| {
                chunks[0]["x"] = json!(1);
                chunks[1]["x"] = json!(1);
            }),
            ("two usages", &set(3, "/usage", usage())),
            (
                "an error in a choice",
                &set(1, "/choices/0/error", json!({"code": 500})),
            ),
            ("two choices", &set(1, "/choices/0/index", json!(1))),
            ("no index", &set(1, "/choices/0/index", Value::Null)),
            ("two choices in a chunk", &|chunks| {
                let choice = chunks[1]["choices"][0].clone();
                chunks[1]["choices"].as_array_mut().unwrap().push(choice);
            }),
            ("no end", &|chunks| drop(chunks.remove(3))),
            ("two ends", &|chunks| {
                chunks.insert(3, chunk(json!({}), Some("stop")))
            }),
            ("a piece after the end", &|chunks| {
                chunks.insert(4, chunk(json!({"content": "x"}), None))
            }),
            (
                "a reason that is no text",
                &set(3, "/choices/0/finish_reason", json!(1)),
            ),
            (
                "no role",
                &set(0, "/choices/0/delta", json!({"content": ""})),
            ),
            ("another role", &delta(json!({"role": "user"}))),
            ("a content that is no text", &delta(json!({"content": []}))),
            ("an unknown member", &delta(json!({"x": 1}))),
            (
                "details of reasoning",
                &delta(json!({"reasoning_details": [{"index": 0}]})),
            ),
            ("audio", &delta(json!({"audio": {"id": "a"}}))),
            (
                "the older form of calls",
                &delta(json!({"function_call": {"name": "f"}})),
            ),
            ("a whole message", &set(1, "/choices/0/message", json!({}))),
            (
                "probabilities that are no list",
                &set(1, "/choices/0/logprobs", json!({"content": 1})),
            ),
            ("no usage", &|chunks| drop(chunks.pop())),
        ],
    );
    assert_eq!(whole_of(Format::Chat, &unnamed(&text)), None);
    assert_eq!(whole_of(Format::Chat, "data: [DONE]\n\n"), None);
    let named = done(&text).replacen("data", "event: error\ndata", 1);
    assert_eq!(whole_of(Format::Chat, &named), None);
}

#[test]
fn ambiguous_calls_are_not_converted() {
    let calls = |calls: Value| chunk(json!({"tool_calls": calls}), None);
    let mut begin = call("call_1", "{}");
    begin["index"] = json!(0);
    let mut chunks = text_chunks();
    chunks.insert(1, calls(json!([begin])));
    let insert = |list: Value| move |chunks: &mut Vec<Value>| chunks.insert(2, calls(list.clone()));
    let change = |pointer: &'static str, value: Value| {
        move |chunks: &mut Vec<Value>| {
            let call = &mut chunks[1]["choices"][0]["delta"]["tool_calls"][0];
            *call.pointer_mut(pointer).unwrap() = value.clone();
        }
    };
    refused(
        Format::Chat,
        &chunks,
        done,
        &[
            (
                "a gap",
                &insert(json!([{"index": 2, "function": {"arguments": "x"}}])),
            ),
            (
                "no index",
                &insert(json!([{"function": {"arguments": "x"}}])),
            ),
            (
                "a name that is repeated",
                &insert(json!([{"index": 0, "function": {"name": "f"}}])),
            ),
            (
                "an id that is repeated",
                &insert(json!([{"index": 0, "id": "call_1"}])),
            ),
            ("no id", &change("/id", Value::Null)),
            ("no type", &change("/type", Value::Null)),
            ("another type", &change("/type", json!("custom"))),
            ("no name", &change("/function/name", Value::Null)),
            ("no arguments", &change("/function/arguments", Value::Null)),
        ],
    );
}

#[test]
fn ambiguous_documents_are_not_converted() {
    let changes: [(&str, Value); 13] = [
        ("/choices/0/index", json!(1)),
        ("/choices/0/finish_reason", Value::Null),
        ("/choices/0/finish_reason", json!(1)),
        ("/choices/0/message/role", Value::Null),
        ("/choices/0/message/content", json!([])),
        ("/choices/0/message/refusal", json!(1)),
        (
            "/choices/0/message",
            json!({"role": "assistant", "content": "", "x": 1}),
        ),
        (
            "/choices/0/message",
            json!({"role": "assistant", "content": null, "audio": {"id": "a"}}),
        ),
        (
            "/choices/0/message",
            json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "a", "type": "custom", "custom": {"name": "f", "input": ""}}]}),
        ),
        ("/choices/0/logprobs", json!([1])),
        ("/choices", json!([])),
        ("/object", json!("other")),
        ("/usage", json!(1)),
    ];
    for (pointer, value) in changes {
        let mut whole = text();
        *whole.pointer_mut(pointer).unwrap() = value.clone();
        let events = events_of(Format::Chat, &whole, &with_usage());
        assert_eq!(events, None, "{pointer} {value}");
    }
    let mut several = text();
    let mut second = several["choices"][0].clone();
    second["index"] = json!(1);
    several["choices"].as_array_mut().unwrap().push(second);
    assert_eq!(events_of(Format::Chat, &several, &json!({})), None);
    let mut moderated = text();
    moderated["moderation"] = json!({"input": {}, "output": {}});
    assert_eq!(events_of(Format::Chat, &moderated, &json!({})), None);
    let error = json!({"error": {"message": "x"}});
    assert_eq!(events_of(Format::Chat, &error, &json!({})), None);
}
