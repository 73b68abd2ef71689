//! Streamed answers.

use cachalot_wire::{CHAT, Delta, Error, ErrorKind, Reply, StopReason, sse::Event};
use serde_json::{Value, json};

use super::support::*;

fn chunk(delta: Value) -> Value {
    json!({
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": null}],
    })
}

fn end(reason: &str) -> Value {
    let mut chunk = chunk(json!({}));
    chunk["choices"][0]["finish_reason"] = json!(reason);
    chunk
}

fn calls_chunk(calls: Value) -> Value {
    chunk(json!({"tool_calls": calls}))
}

fn read(chunks: &[Value]) -> Result<(Vec<Delta>, Reply), Error> {
    let events: Vec<Event> = chunks.iter().map(event).collect();
    stream(&*CHAT, &events)
}

/// The calls of an answer of these chunks, which are what was shown, too.
fn read_calls(chunks: &[Value]) -> Vec<(String, String, String)> {
    let mut chunks = chunks.to_vec();
    chunks.push(end("tool_calls"));
    let (deltas, reply) = read(&chunks).unwrap();
    assert_eq!(reply.stop, StopReason::ToolUse);
    assert_eq!(shown(&deltas).2, calls(&reply));
    calls(&reply)
}

fn named(id: &str, name: &str, arguments: &str) -> (String, String, String) {
    (id.into(), name.into(), arguments.into())
}

#[test]
fn streamed_answer_equals_the_whole_answer() {
    let whole = json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "m",
        "system_fingerprint": "fp",
        "choices": [{
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Hello there",
                "reasoning_content": "Let me see",
                "annotations": [{"n": 1}, {"n": 2}],
                "tool_calls": [
                    {"id": "a", "type": "function",
                     "function": {"name": "f", "arguments": "{\"x\": 1}"}},
                    {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
                ],
            },
            "finish_reason": "tool_calls",
        }],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    });
    let mut usage = chunk(json!({}));
    usage["choices"] = json!([]);
    usage["system_fingerprint"] = json!("fp");
    usage["usage"] = whole["usage"].clone();
    let chunks = [
        chunk(json!({"role": "assistant", "content": "", "reasoning_content": "Let me"})),
        chunk(json!({"content": null, "reasoning_content": " see"})),
        chunk(json!({"content": "Hello"})),
        chunk(json!({"content": " there", "annotations": [{"n": 1}]})),
        chunk(json!({"annotations": [{"n": 2}]})),
        calls_chunk(json!([{"index": 0, "id": "a", "type": "function",
                            "function": {"name": "f", "arguments": ""}}])),
        calls_chunk(json!([{"index": 0, "function": {"arguments": "{\"x\""}}])),
        calls_chunk(json!([{"index": 1, "id": "b", "type": "function",
                            "function": {"name": "g", "arguments": "{}"}}])),
        calls_chunk(json!([{"index": 0, "function": {"arguments": ": 1}"}}])),
        end("tool_calls"),
        usage,
    ];
    let mut events: Vec<Event> = chunks.iter().map(event).collect();
    events.push(event("[DONE]"));
    let (deltas, reply) = stream(&*CHAT, &events).unwrap();
    assert_eq!(reply, CHAT.reply(whole.to_string().as_bytes()).unwrap());
    let (text, reasoning, called) = shown(&deltas);
    assert_eq!(text, "Hello there");
    assert_eq!(reasoning, "Let me see");
    assert_eq!(called, calls(&reply));
}

#[test]
fn answer_is_complete_at_done_after_the_usage_chunk() {
    let mut reader = CHAT.reader();
    reader
        .event(&event(chunk(json!({"content": "a"}))))
        .unwrap();
    reader.event(&event(end("stop"))).unwrap();
    assert!(!reader.complete());
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}});
    reader.event(&event(usage)).unwrap();
    reader.event(&event("[DONE]")).unwrap();
    assert!(reader.complete());
    assert_eq!(reader.finish().unwrap().usage.unwrap().output, 1);
}

#[test]
fn finish_reason_without_done_is_an_end_and_done_alone_is_not() {
    let (_, reply) = read(&[chunk(json!({"content": "a"})), end("stop")]).unwrap();
    assert_eq!(reply.message.text(), "a");
    for chunks in [vec![], vec![chunk(json!({"content": "a"}))]] {
        let error = read(&chunks).unwrap_err();
        assert_eq!(error.kind, ErrorKind::CutOff);
    }
    let events = [event(chunk(json!({"content": "a"}))), event("[DONE]")];
    assert_eq!(stream(&*CHAT, &events).unwrap_err().kind, ErrorKind::CutOff);
}

#[test]
fn errors_in_a_stream_are_errors() {
    let begun = event(chunk(json!({"content": "a"})));
    let openrouter = json!({
        "id": "gen-1",
        "error": {"code": "server_error", "message": "Provider disconnected"},
        "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
    });
    let in_choice = json!({"choices": [{
        "index": 0, "delta": {}, "finish_reason": "error",
        "error": {"code": 502, "message": "upstream"},
    }]});
    let named = Event {
        name: "error".into(),
        data: json!({"message": "too many", "type": "rate_limit_error"}).to_string(),
    };
    let expected = [
        (
            event(openrouter),
            ErrorKind::Unavailable,
            "Provider disconnected",
        ),
        (event(in_choice), ErrorKind::Unavailable, "upstream"),
        (named, ErrorKind::Limited, "too many"),
        (
            event("{\"error\":\"out of memory\"}"),
            ErrorKind::Unavailable,
            "out of memory",
        ),
        (event("{\"choi"), ErrorKind::Malformed, "{\"choi"),
        (event("7"), ErrorKind::Malformed, "7"),
    ];
    for (failing, kind, message) in expected {
        let error = stream(&*CHAT, &[begun.clone(), failing]).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(message), "{error}");
    }
}

#[test]
fn call_chunks_are_joined_by_index() {
    let read = read_calls(&[
        calls_chunk(json!([
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}},
            {"index": 1, "id": "b", "function": {"name": "g", "arguments": "{"}},
        ])),
        calls_chunk(json!([{"index": 1, "id": "b", "function": {"arguments": "\"y\":2"}}])),
        calls_chunk(json!([{"index": 0, "id": "", "function": {"arguments": "\"x\":1"}}])),
        calls_chunk(json!([
            {"index": 0, "id": null, "function": {"name": null, "arguments": "}"}},
            {"index": 1, "function": {"name": "g", "arguments": "}"}},
        ])),
    ]);
    assert_eq!(
        read,
        [named("a", "f", "{\"x\":1}"), named("b", "g", "{\"y\":2}")]
    );
}

#[test]
fn complete_calls_with_one_index_are_distinct() {
    // Ollama sent every call with the index 0 (ollama/ollama#15457), earlier with none (#7881).
    for index in [json!({"index": 0}), json!({})] {
        let fragment = |id: &str, name: &str, arguments: &str| {
            let mut call = index.clone();
            call["id"] = json!(id);
            call["function"] = json!({"name": name, "arguments": arguments});
            calls_chunk(json!([call]))
        };
        assert_eq!(
            read_calls(&[
                fragment("a", "f", "{\"x\":1}"),
                fragment("b", "f", "{\"x\":2}"),
            ]),
            [named("a", "f", "{\"x\":1}"), named("b", "f", "{\"x\":2}")]
        );
        let without_id = read_calls(&[
            fragment("", "f", "{\"x\":1}"),
            fragment("", "f", "{\"x\":2}"),
            fragment("", "g", "{}"),
        ]);
        let said: Vec<_> = without_id
            .iter()
            .map(|(_, name, arguments)| (name.as_str(), arguments.as_str()))
            .collect();
        assert_eq!(said, [("f", "{\"x\":1}"), ("f", "{\"x\":2}"), ("g", "{}")]);
    }
}

#[test]
fn call_chunks_without_index_extend_the_newest_call() {
    assert_eq!(
        read_calls(&[
            calls_chunk(json!([{"id": "a", "function": {"name": "f", "arguments": ""}}])),
            calls_chunk(json!([{"function": {"arguments": "{\"x\""}}])),
            calls_chunk(json!([{"function": {"arguments": ":1}"}}])),
            calls_chunk(json!([{"id": "b", "function": {"name": "g"}}])),
            calls_chunk(json!([{"id": "b", "function": {"name": "g", "arguments": "{}"}}])),
        ]),
        [named("a", "f", "{\"x\":1}"), named("b", "g", "{}")]
    );
}

#[test]
fn repeated_call_is_merged_and_placeholder_arguments_replaced() {
    let whole =
        json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\":1}"}}]);
    let mut chunks = vec![calls_chunk(whole.clone()), calls_chunk(whole)];
    assert_eq!(read_calls(&chunks), [named("a", "f", "{\"x\":1}")]);

    chunks = vec![
        calls_chunk(json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}])),
        calls_chunk(json!([{"index": 0, "function": {"arguments": "{\"x\""}}])),
        calls_chunk(json!([{"index": 0, "function": {"arguments": ":1}"}}])),
        end("tool_calls"),
    ];
    let (_, reply) = read(&chunks).unwrap();
    assert_eq!(calls(&reply), [named("a", "f", "{\"x\":1}")]);
}

#[test]
fn generated_call_ids_are_stable_per_answer() {
    let chunks = |id: &str| {
        let mut chunk = calls_chunk(json!([
            {"index": 0, "function": {"name": "f", "arguments": "{}"}},
            {"index": 1, "function": {"name": "f", "arguments": "{}"}},
        ]));
        chunk["id"] = json!(id);
        [chunk]
    };
    let first = read_calls(&chunks("one"));
    assert_eq!(first, read_calls(&chunks("one")));
    assert_ne!(first[0].0, first[1].0);
    assert_ne!(first[0].0, read_calls(&chunks("two"))[0].0);
}

#[test]
fn call_is_announced_when_its_name_arrives() {
    let (deltas, reply) = read(&[
        calls_chunk(json!([{"index": 0, "id": "a", "function": {"arguments": "{\"x\""}}])),
        calls_chunk(json!([{"index": 0, "function": {"name": "f", "arguments": ":1}"}}])),
        end("tool_calls"),
    ])
    .unwrap();
    assert_eq!(
        deltas,
        [
            Delta::ToolUse {
                index: 0,
                id: "a".into(),
                name: "f".into()
            },
            Delta::Arguments {
                index: 0,
                text: "{\"x\":1}".into()
            },
        ]
    );
    assert_eq!(calls(&reply), [named("a", "f", "{\"x\":1}")]);
}

#[test]
fn complete_message_in_a_chunk_counts_once() {
    let mut only = chunk(json!(null));
    only["choices"][0]["message"] = json!({"role": "assistant", "content": "whole"});
    let (_, reply) = read(&[only.clone(), end("stop")]).unwrap();
    assert_eq!(reply.message.text(), "whole");

    let (_, reply) = read(&[chunk(json!({"content": "whole"})), only, end("stop")]).unwrap();
    assert_eq!(reply.message.text(), "whole");
}

#[test]
fn first_of_several_choices_is_streamed() {
    let mut second = chunk(json!({"content": "no"}));
    second["choices"][0]["index"] = json!(1);
    let (deltas, _) = read(&[chunk(json!({"content": "a"})), second, end("stop")]).unwrap();
    assert_eq!(deltas, [Delta::Text("a".into())]);
}

#[test]
fn texts_keep_their_stream_order() {
    let pieces_of = |order: &[(&str, &str)]| {
        let mut chunks: Vec<Value> = order
            .iter()
            .map(|(field, text)| chunk(json!({*field: text})))
            .collect();
        chunks.push(end("stop"));
        let (deltas, reply) = read(&chunks).unwrap();
        let all: String = order.iter().map(|(_, text)| *text).collect();
        assert_eq!(shown(&deltas).0, all);
        assert_eq!(reply.message.text(), all, "{order:?}");
        assert_eq!(reply.stop, StopReason::Refusal);
        pieces(&*CHAT, &reply.message)
    };
    for (order, expected) in [
        (
            &[
                ("refusal", "I wi"),
                ("refusal", "ll not."),
                ("content", " Or so."),
            ][..],
            json!({"role": "assistant", "content": " Or so.", "refusal": "I will not."}),
        ),
        (
            &[
                ("content", "a"),
                ("refusal", "b"),
                ("content", "c"),
                ("refusal", "d"),
            ],
            json!({"role": "assistant", "content": "ac", "refusal": "bd"}),
        ),
    ] {
        assert_eq!(pieces_of(order), [expected]);
    }
}
