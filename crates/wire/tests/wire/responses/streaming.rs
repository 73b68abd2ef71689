//! Streamed answers.

use cachalot_wire::{Delta, ErrorKind, RESPONSES, Reply, StopReason, sse::Event};
use serde_json::{Value, json};

use crate::chat::support::*;

fn typed(kind: &str, mut fields: Value) -> Event {
    fields["type"] = json!(kind);
    Event {
        name: kind.into(),
        data: fields.to_string(),
    }
}

fn reasoning() -> Value {
    json!({
        "id": "rs_1", "type": "reasoning", "encrypted_content": "gAAA==",
        "summary": [{"type": "summary_text", "text": "First."},
                    {"type": "summary_text", "text": "Then."}],
    })
}

fn message() -> Value {
    json!({
        "id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
        "content": [{"type": "output_text", "text": "Hello there", "annotations": []}],
    })
}

fn call_item(at: usize) -> Value {
    json!({
        "id": format!("fc_{at}"), "type": "function_call", "status": "completed",
        "call_id": format!("call_{at}"), "name": "t", "arguments": "{\"a\": 1}",
    })
}

fn response(output: Value) -> Value {
    json!({
        "id": "resp_1", "object": "response", "created_at": 1, "status": "completed",
        "model": "gpt-5", "output": output, "error": null,
        "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
    })
}

/// The events of an answer with reasoning, text and two calls, up to its end.
fn events() -> Vec<Event> {
    let begun = json!({
        "id": "resp_1", "object": "response", "created_at": 1, "status": "in_progress",
        "model": "gpt-5", "output": [], "usage": null,
    });
    let mut events = vec![
        typed(
            "response.created",
            json!({"response": begun, "sequence_number": 0}),
        ),
        typed("response.in_progress", json!({"response": begun})),
        typed(
            "response.output_item.added",
            json!({"output_index": 0, "item": {
                "id": "rs_1", "type": "reasoning", "summary": [],
            }}),
        ),
    ];
    for (index, pieces) in [["Fir", "st."], ["Th", "en."]].iter().enumerate() {
        let about = |fields: Value| {
            let mut about = json!({"output_index": 0, "item_id": "rs_1", "summary_index": index});
            about.as_object_mut().unwrap().extend(extra(fields));
            about
        };
        let part = json!({"part": {"type": "summary_text", "text": ""}});
        events.push(typed("response.reasoning_summary_part.added", about(part)));
        for piece in pieces {
            events.push(typed(
                "response.reasoning_summary_text.delta",
                about(json!({"delta": piece})),
            ));
        }
    }
    events.push(typed(
        "response.output_item.done",
        json!({"output_index": 0, "item": reasoning()}),
    ));
    events.push(typed(
        "response.output_item.added",
        json!({"output_index": 1, "item": {
            "id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant",
            "content": [],
        }}),
    ));
    for piece in ["Hello", " there"] {
        events.push(typed(
            "response.output_text.delta",
            json!({"output_index": 1, "item_id": "msg_1", "content_index": 0, "delta": piece}),
        ));
    }
    events.push(typed(
        "response.output_text.done",
        json!({"output_index": 1, "content_index": 0, "text": "Hello there"}),
    ));
    events.push(typed(
        "response.output_item.done",
        json!({"output_index": 1, "item": message()}),
    ));
    for at in [2, 3] {
        let mut begun = call_item(at);
        begun["arguments"] = json!("");
        begun["status"] = json!("in_progress");
        events.push(typed(
            "response.output_item.added",
            json!({"output_index": at, "item": begun}),
        ));
        for piece in ["{\"a\"", ": 1}"] {
            events.push(typed(
                "response.function_call_arguments.delta",
                json!({"output_index": at, "item_id": format!("fc_{at}"), "delta": piece}),
            ));
        }
        events.push(typed(
            "response.function_call_arguments.done",
            json!({"output_index": at, "arguments": "{\"a\": 1}"}),
        ));
        events.push(typed(
            "response.output_item.done",
            json!({"output_index": at, "item": call_item(at)}),
        ));
    }
    events
}

fn output() -> Value {
    json!([reasoning(), message(), call_item(2), call_item(3)])
}

fn whole() -> Reply {
    let body = response(output()).to_string();
    RESPONSES.reply(body.as_bytes()).unwrap()
}

fn read(mut events: Vec<Event>, end: Event) -> (Vec<Delta>, Reply) {
    events.push(end);
    stream(&*RESPONSES, &events).unwrap()
}

#[test]
fn streamed_answer_equals_the_whole_answer() {
    let end = typed(
        "response.completed",
        json!({"response": response(output())}),
    );
    let (deltas, reply) = read(events(), end);
    assert_eq!(reply, whole());
    let (text, thought, called) = shown(&deltas);
    assert_eq!(text, "Hello there");
    assert_eq!(thought, "First.\n\nThen.");
    assert_eq!(called, calls(&reply));
    assert_eq!(called.len(), 2);
}

#[test]
fn completed_event_without_output_keeps_streamed_items() {
    for output in [json!([]), json!(null)] {
        let end = typed("response.completed", json!({"response": response(output)}));
        assert_eq!(read(events(), end).1, whole());
    }
    // What the last response leaves out is known from the first.
    let end = json!({"response": {
        "id": "resp_1", "error": null,
        "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
    }});
    assert_eq!(read(events(), typed("response.completed", end)).1, whole());
}

#[test]
fn incomplete_items_are_assembled_from_deltas() {
    let without_done: Vec<Event> = events()
        .into_iter()
        .filter(|event| event.name != "response.output_item.done")
        .collect();
    let end = typed(
        "response.completed",
        json!({"response": response(json!([]))}),
    );
    let (deltas, reply) = read(without_done, end);
    assert_eq!(reply.message.text(), "Hello there");
    assert_eq!(calls(&reply), calls(&whole()));
    assert_eq!(shown(&deltas).2, calls(&reply));
    let pieces = pieces(&*RESPONSES, &reply.message);
    assert_eq!(pieces[0]["summary"], reasoning()["summary"]);
    assert_eq!(pieces[1], message());
    assert_eq!(pieces[3], call_item(3));
}

#[test]
fn text_delta_without_an_item_is_text() {
    let delta = |piece: &str| {
        typed(
            "response.output_text.delta",
            json!({"item_id": "msg_1", "content_index": 0, "delta": piece}),
        )
    };
    let end = typed(
        "response.completed",
        json!({"response": response(json!([]))}),
    );
    let (deltas, reply) = read(vec![delta("a"), delta("b")], end);
    assert_eq!(reply.message.text(), "ab");
    assert_eq!(shown(&deltas).0, "ab");
}

#[test]
fn items_without_deltas_are_shown_when_done() {
    let events = vec![
        typed(
            "response.output_item.done",
            json!({"output_index": 0, "item": message()}),
        ),
        typed(
            "response.output_item.done",
            json!({"output_index": 1, "item": call_item(1)}),
        ),
    ];
    let end = typed(
        "response.completed",
        json!({"response": response(json!([message(), call_item(1)]))}),
    );
    let (deltas, reply) = read(events, end);
    let (text, _, called) = shown(&deltas);
    assert_eq!(text, "Hello there");
    assert_eq!(called, calls(&reply));
}

#[test]
fn answer_is_complete_at_its_last_event() {
    let mut reader = RESPONSES.reader();
    for event in events() {
        reader.event(&event).unwrap();
        assert!(!reader.complete());
    }
    let end = json!({"response": {"status": "incomplete", "output": output(),
                                  "incomplete_details": {"reason": "max_output_tokens"}}});
    reader.event(&typed("response.incomplete", end)).unwrap();
    assert!(reader.complete());
    assert_eq!(reader.event(&event("[DONE]")).unwrap(), []);
    assert_eq!(reader.finish().unwrap().stop, StopReason::Length);
}

#[test]
fn truncated_stream_is_cut_off() {
    let mut cut = events();
    assert_eq!(
        stream(&*RESPONSES, &cut).unwrap_err().kind,
        ErrorKind::CutOff
    );
    cut.push(event("[DONE]"));
    assert_eq!(
        stream(&*RESPONSES, &cut).unwrap_err().kind,
        ErrorKind::CutOff
    );
}

#[test]
fn errors_in_a_stream_are_errors() {
    let mut failed = response(json!([]));
    failed["status"] = json!("failed");
    failed["error"] = json!({"code": "server_error", "message": "It broke"});
    let flat = json!({"code": "rate_limit_exceeded", "message": "Slow down", "param": null});
    let nested = json!({"error": {"type": "invalid_request_error", "message": "Bad"}});
    let unnamed = event(json!({"error": {"message": "Odd"}}));
    let expected = [
        (
            typed("response.failed", json!({"response": failed})),
            ErrorKind::Unavailable,
            "It broke",
        ),
        (
            typed("response.failed", json!({"response": {"error": null}})),
            ErrorKind::Unavailable,
            "failed without a reason",
        ),
        (typed("error", flat), ErrorKind::Limited, "Slow down"),
        (typed("error", nested), ErrorKind::Rejected, "Bad"),
        (unnamed, ErrorKind::Unavailable, "Odd"),
        (event("{\"typ"), ErrorKind::Malformed, "{\"typ"),
    ];
    for (failing, kind, message) in expected {
        let mut events = events();
        events.push(failing);
        let error = stream(&*RESPONSES, &events).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(message), "{error}");
    }
}

#[test]
fn refusal_is_streamed() {
    let refusal = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
        "content": [{"type": "refusal", "refusal": "I will not."}],
    });
    let delta = |piece: &str| {
        typed(
            "response.refusal.delta",
            json!({"output_index": 0, "content_index": 0, "delta": piece}),
        )
    };
    let end = typed(
        "response.completed",
        json!({"response": response(json!([]))}),
    );
    let mut events = vec![
        typed(
            "response.output_item.added",
            json!({"output_index": 0, "item": {
                "id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress",
                "content": [],
            }}),
        ),
        delta("I will"),
        delta(" not."),
    ];
    let (deltas, reply) = read(events.clone(), end.clone());
    assert_eq!(shown(&deltas).0, "I will not.");
    assert_eq!(reply.stop, StopReason::Refusal);
    assert_eq!(pieces(&*RESPONSES, &reply.message)[0], refusal);

    events.push(typed(
        "response.output_item.done",
        json!({"output_index": 0, "item": refusal}),
    ));
    assert_eq!(read(events, end).1, reply);
}

#[test]
fn unknown_events_are_ignored() {
    let mut events = events();
    events.insert(
        4,
        typed(
            "response.hologram.delta",
            json!({"output_index": 0, "delta": "x"}),
        ),
    );
    events.push(event(""));
    let end = typed(
        "response.completed",
        json!({"response": response(output())}),
    );
    assert_eq!(read(events, end).1, whole());
}
