//! Answers, in one piece and as a stream.

use cachalot_wire::sse::Event;
use cachalot_wire::{
    Block, Delta, Error, ErrorKind, Format, Message, Parameters, Reply, Request, StopReason, Usage,
    server_output,
};
use serde_json::{Value, json};

use super::{checked, wire};
use crate::chat::support::stream;

fn interaction(status: &str, steps: Value) -> Value {
    json!({
        "id": "v1_1",
        "object": "interaction",
        "model": "models/gemini-3.8-flash",
        "status": status,
        "created": "2026-11-28T00:00:00Z",
        "steps": steps,
        "usage": {
            "total_input_tokens": 100, "total_cached_tokens": 40, "total_tool_use_tokens": 5,
            "total_output_tokens": 7, "total_thought_tokens": 3, "total_tokens": 115,
        },
        // They repeat the request.
        "tools": [{"type": "function", "name": "look"}],
        "system_instruction": "Be brief.",
        "generation_config": {"seed": 7},
        "previous_interaction_id": null,
    })
}

fn whole(answer: &Value) -> Result<Reply, Error> {
    wire().reply(answer.to_string().as_bytes())
}

/// An event with the name of its type.
fn event(kind: &str, mut fields: Value) -> Event {
    fields["event_type"] = kind.into();
    Event {
        name: kind.to_owned(),
        data: fields.to_string(),
    }
}

fn step(index: u64, begun: Value, deltas: &[Value]) -> Vec<Event> {
    let start = event("step.start", json!({"index": index, "step": begun}));
    let deltas = deltas
        .iter()
        .map(|delta| event("step.delta", json!({"index": index, "delta": delta})));
    std::iter::once(start)
        .chain(deltas)
        .chain([event("step.stop", json!({"index": index}))])
        .collect()
}

/// The events of an interaction that has these steps, and ends with this one without them.
fn events(steps: Vec<Vec<Event>>, ended: &Value) -> Vec<Event> {
    let begun = json!({"id": "v1_1", "object": "interaction", "status": "in_progress"});
    let mut ended = ended.clone();
    ended.as_object_mut().unwrap().shift_remove("steps");
    let update = json!({"interaction_id": "v1_1", "status": "in_progress"});
    let mut events = vec![
        event("interaction.created", json!({"interaction": begun})),
        event("interaction.status_update", update),
    ];
    events.extend(steps.into_iter().flatten());
    events.push(event(
        "interaction.completed",
        json!({"interaction": ended}),
    ));
    events.push(Event {
        name: "done".to_owned(),
        data: "[DONE]".to_owned(),
    });
    events
}

#[test]
fn answer_contains_text_reasoning_and_usage() {
    let steps = json!([
        {"type": "thought", "signature": "c2ln", "summary": [{"type": "text", "text": "Hm."}]},
        {"type": "model_output", "content": [{"type": "text", "text": "Deep."}]},
    ]);
    let reply = whole(&interaction("completed", steps)).unwrap();
    assert_eq!(
        (reply.message.text().as_str(), reply.stop),
        ("Deep.", StopReason::End)
    );
    assert!(
        matches!(&reply.message.content[0], Block::Reasoning(thought) if thought.text == "Hm.")
    );
    assert_eq!(
        (reply.model.as_str(), reply.id.as_deref()),
        ("gemini-3.8-flash", Some("v1_1"))
    );
    assert_eq!(
        reply.usage,
        Some(Usage {
            uncached_input: 65,
            cache_read: 40,
            output: 10,
            reasoning: 3,
            ..Usage::default()
        })
    );
    let kept: Vec<&str> = reply.extra.keys().map(String::as_str).collect();
    assert_eq!(kept, ["created", "usage"]);
}

#[test]
fn streamed_answer_equals_the_whole_answer() {
    let answer = interaction(
        "requires_action",
        json!([
            {"type": "thought", "summary": [{"type": "text", "text": "Let me think."}], "signature": "c2ln"},
            {"type": "model_output", "content": [
                {"type": "text", "text": "Two thousand.", "annotations": [{"type": "url_citation", "url": "https://whales.example"}]},
                {"type": "image", "mime_type": "image/png", "data": "aGk="},
            ]},
            {"type": "google_search_call", "id": "s", "arguments": {"queries": ["a", "b"]}, "signature": "c2ln"},
            {"type": "function_call", "id": "c", "name": "look", "arguments": {"path": "a"}},
            {"type": "function_call", "id": "d", "name": "look", "arguments": {"path": "b"}},
            {"type": "function_call", "id": "e", "name": "look", "arguments": {}},
        ]),
    );
    let thought =
        |text: &str| json!({"type": "thought_summary", "content": {"type": "text", "text": text}});
    let called =
        |id: &str| json!({"type": "function_call", "id": id, "name": "look", "arguments": {}});
    let arguments = |text: &str| json!({"type": "arguments_delta", "arguments": text});
    let mut given = called("d");
    given["arguments"] = json!({"path": "b"});
    let steps = vec![
        step(
            0,
            json!({"type": "thought"}),
            &[
                thought("Let me "),
                thought("think."),
                json!({"type": "thought_signature", "signature": "c2ln"}),
            ],
        ),
        step(
            1,
            json!({"type": "model_output"}),
            &[
                json!({"type": "text", "text": "Two "}),
                json!({"type": "text", "text": "thousand."}),
                json!({"type": "text_annotation_delta", "annotations": [{"type": "url_citation", "url": "https://whales.example"}]}),
                json!({"type": "image", "mime_type": "image/png", "data": "aGk="}),
            ],
        ),
        step(
            2,
            json!({"type": "google_search_call", "id": "s"}),
            &[
                json!({"type": "google_search_call", "arguments": {"queries": ["a", "b"]}, "signature": "c2ln"}),
            ],
        ),
        step(
            3,
            called("c"),
            &[arguments("{\"path\":"), arguments("\"a\"}")],
        ),
        step(4, given, &[]),
        step(5, called("e"), &[]),
    ];
    let (deltas, reply) = stream(wire(), &events(steps, &answer)).unwrap();
    assert_eq!(reply, whole(&answer).unwrap());
    assert_eq!(reply.stop, StopReason::ToolUse);
    // No counter says how often it searched: the queries do.
    assert_eq!(reply.usage.unwrap().web_searches, 2);
    let use_of = |index, id: &str| Delta::ToolUse {
        index,
        id: id.into(),
        name: "look".into(),
    };
    let part = |index, text: &str| Delta::Arguments {
        index,
        text: text.into(),
    };
    assert_eq!(
        deltas,
        [
            Delta::Reasoning("Let me ".into()),
            Delta::Reasoning("think.".into()),
            Delta::Text("Two ".into()),
            Delta::Text("thousand.".into()),
            use_of(0, "c"),
            part(0, "{\"path\":"),
            part(0, "\"a\"}"),
            use_of(1, "d"),
            part(1, "{\"path\":\"b\"}"),
            use_of(2, "e"),
        ]
    );
}

/// Servers may send the steps with the last event instead of one by one.
#[test]
fn steps_of_the_last_event_are_read_if_none_came_before() {
    let text = json!([{"type": "model_output", "content": [{"type": "text", "text": "Deep."}]}]);
    let answer = interaction("completed", text);
    let begun = event(
        "interaction.created",
        json!({"interaction": {"id": "v1_1"}}),
    );
    let ended = event("interaction.completed", json!({"interaction": answer}));
    let (deltas, reply) = stream(wire(), &[begun.clone(), ended.clone()]).unwrap();
    assert_eq!(reply, whole(&answer).unwrap());
    assert_eq!(deltas, [Delta::Text("Deep.".into())]);
    let mut all = vec![begun];
    let shown = json!({"type": "text", "text": "Deeper."});
    all.extend(step(0, json!({"type": "model_output"}), &[shown]));
    all.push(ended);
    let (_, reply) = stream(wire(), &all).unwrap();
    assert_eq!(reply.message.text(), "Deeper.");
}

/// An answer is sent back step by step, signatures and arguments byte for byte.
#[test]
fn answer_is_sent_back_unchanged() {
    let steps = json!([
        {"type": "thought", "signature": "AAA=", "summary": [{"type": "text", "text": "Let me think."}]},
        {"type": "model_output", "content": [
            {"type": "text", "text": "I look"},
            {"type": "text", "text": " here.", "annotations": [{"type": "url_citation", "url": "https://whales.example"}]},
        ]},
        {"type": "model_output", "content": [
            {"type": "text", "text": "Now."},
            {"type": "image", "mime_type": "image/png", "data": "aGk="},
        ]},
        {"type": "function_call", "id": "c1", "name": "look", "arguments": {"b": 1, "a": [2.0, "ä"]}},
        {"type": "google_search_call", "id": "s1", "arguments": {"queries": ["a"]}, "signature": "BBB="},
        {"type": "function_call", "id": "c2", "name": "look", "arguments": {}},
    ]);
    let reply = whole(&interaction("requires_action", steps.clone())).unwrap();
    assert_eq!(reply.message.text(), "I look here.Now.");
    let kept: Message =
        serde_json::from_value(serde_json::to_value(&reply.message).unwrap()).unwrap();
    let request = Request {
        messages: vec![Message::user("x"), kept],
        parameters: Parameters {
            model: "gemini-3.8-flash".to_owned(),
            ..Parameters::default()
        },
        ..Request::default()
    };
    let bytes = request.body(wire(), true).unwrap();
    let body = checked(&bytes);
    let sent = &body["input"].as_array().unwrap()[1..];
    assert_eq!(sent, steps.as_array().unwrap());
    let text = std::str::from_utf8(&bytes).unwrap();
    assert!(text.contains(r#"{"b":1,"a":[2.0,"ä"]}"#), "{text}");
}

/// What is not known is sent back where it was, and says nothing.
#[test]
fn unknown_steps_and_contents_are_kept() {
    let steps = json!([
        {"type": "dream", "of": "whales"},
        {"type": "model_output", "content": [{"type": "hologram", "data": "aGk="}]},
        {"type": "model_output", "mood": "calm", "content": [{"type": "text", "text": "x"}]},
    ]);
    let reply = whole(&interaction("completed", steps.clone())).unwrap();
    assert_eq!(
        (reply.message.text().as_str(), &reply.stop),
        ("x", &StopReason::End)
    );
    let pieces = wire().message(&reply.message).unwrap();
    let sent = pieces
        .iter()
        .map(|piece| serde_json::from_slice(&piece.bytes));
    let sent: Vec<Value> = sent.map(Result::unwrap).collect();
    assert_eq!(&sent, steps.as_array().unwrap());
}

#[test]
fn calls_without_ids_get_derived_ids() {
    let steps = json!([
        {"type": "function_call", "name": "look", "arguments": {"path": "a"}},
        {"type": "function_call", "name": "look"},
    ]);
    let answer = interaction("requires_action", steps);
    let reply = whole(&answer).unwrap();
    let calls: Vec<_> = reply.message.tool_uses().cloned().collect();
    assert_ne!(calls[0].id, calls[1].id);
    assert!(calls.iter().all(|call| call.id.starts_with("call_")));
    assert_eq!(
        (calls[0].arguments.as_str(), calls[1].arguments.as_str()),
        (r#"{"path":"a"}"#, "{}")
    );
    assert_eq!(reply, whole(&answer).unwrap());
}

#[test]
fn statuses_are_mapped() {
    let text = json!([{"type": "model_output", "content": [{"type": "text", "text": "x"}]}]);
    let call = json!([{"type": "function_call", "id": "c", "name": "look", "arguments": {}}]);
    let failed =
        json!([{"type": "model_output", "error": {"code": 8, "message": "No."}, "content": []}]);
    let other = |name: &str| StopReason::Other(name.to_owned());
    for (status, steps, stop) in [
        ("completed", &text, StopReason::End),
        ("completed", &call, StopReason::ToolUse),
        ("completed", &failed, other("error")),
        ("requires_action", &call, StopReason::ToolUse),
        ("requires_action", &text, other("requires_action")),
        ("incomplete", &text, StopReason::Length),
        ("incomplete", &call, StopReason::Length),
        ("budget_exceeded", &text, other("budget_exceeded")),
        (
            "requires_continuation",
            &text,
            other("requires_continuation"),
        ),
        ("something_new", &text, other("something_new")),
    ] {
        let reply = whole(&interaction(status, steps.clone())).unwrap();
        assert_eq!(reply.stop, stop, "{status}");
        assert_eq!(reply.usage.unwrap().total_input(), 105);
    }
    let mut with_errors = interaction("completed", text.clone());
    with_errors["errors"] = json!([{"code": "internal", "message": "No."}]);
    assert_eq!(whole(&with_errors).unwrap().stop, other("error"));
}

#[test]
fn answers_that_are_none_are_reported() {
    let text = json!([{"type": "model_output", "content": [{"type": "text", "text": "x"}]}]);
    for status in ["queued", "in_progress", "cancelled"] {
        let error = whole(&interaction(status, text.clone())).unwrap_err();
        assert_eq!(error.kind, ErrorKind::CutOff, "{status}");
    }
    let mut failed = interaction("failed", json!([]));
    let error = whole(&failed).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    failed["errors"] = json!([{"code": "invalid_request_error", "message": "No such tool."}]);
    let error = whole(&failed).unwrap_err();
    assert_eq!(
        (error.kind, error.message.as_str()),
        (ErrorKind::Rejected, "No such tool.")
    );
    for body in [
        json!({}),
        json!({"id": "v1_1", "steps": []}),
        json!({"status": "completed", "steps": "x"}),
        json!({"status": "completed", "steps": ["x"]}),
        json!({"status": "completed", "steps": [{"type": "model_output", "content": "x"}]}),
    ] {
        assert_eq!(
            whole(&body).unwrap_err().kind,
            ErrorKind::Malformed,
            "{body}"
        );
    }
    assert!(wire().reply(b"[1]").is_err());
}

#[test]
fn output_of_tools_of_the_provider_is_found_wherever_a_stream_has_it() {
    let mut ended = interaction("completed", json!([]));
    ended["usage"]["total_tool_use_tokens"] = json!(0);
    let text = json!({"type": "text", "text": "x"});
    let output = |more: &[Value]| step(0, json!({"type": "model_output"}), more);
    let searched = json!({"type": "google_search_result", "result": [{"title": "x"}]});
    let found = |steps: Vec<Vec<Event>>, ended: &Value, carried: Value| {
        let mut events = events(steps, ended);
        if let Some(last) = events
            .iter_mut()
            .rfind(|event| event.name == "interaction.completed")
        {
            let mut data: Value = serde_json::from_str(&last.data).unwrap();
            data["interaction"]["steps"] = carried;
            last.data = data.to_string();
        }
        let (_, reply) = stream(wire(), &events).unwrap();
        server_output(Format::Interactions, &reply)
    };
    assert_eq!(
        found(
            vec![output(std::slice::from_ref(&text))],
            &ended,
            Value::Null
        ),
        None
    );
    for steps in [
        vec![output(&[text.clone(), searched.clone()])],
        vec![step(
            0,
            json!({"type": "thought"}),
            std::slice::from_ref(&searched),
        )],
        vec![step(
            0,
            json!({"type": "function_call", "name": "f"}),
            std::slice::from_ref(&searched),
        )],
        vec![step(0, json!({"type": "google_search_result"}), &[])],
    ] {
        assert!(
            found(steps.clone(), &ended, Value::Null).is_some(),
            "{steps:?}"
        );
    }
    let carried = json!([{"type": "model_output", "content": [text]}, searched]);
    assert!(found(vec![output(std::slice::from_ref(&text))], &ended, carried).is_some());
    ended["usage"]["total_tool_use_tokens"] = json!(5);
    assert!(
        found(
            vec![output(std::slice::from_ref(&text))],
            &ended,
            Value::Null
        )
        .is_some()
    );
}

#[test]
fn errors_within_streams_are_reported() {
    let overloaded =
        json!({"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"});
    let begun = event(
        "interaction.created",
        json!({"interaction": {"id": "v1_1"}}),
    );
    let output = || {
        step(
            0,
            json!({"type": "model_output"}),
            &[json!({"type": "text", "text": "x"})],
        )
    };
    let failed = |last: Event| {
        let mut all = vec![begun.clone()];
        all.extend(output());
        all.push(last);
        stream(wire(), &all).unwrap_err()
    };
    let error = failed(event("error", json!({"error": overloaded})));
    assert_eq!(
        (error.kind, error.status),
        (ErrorKind::Unavailable, Some(503))
    );
    let unnamed = Event {
        name: "message".to_owned(),
        data: json!({"error": overloaded}).to_string(),
    };
    assert_eq!(failed(unnamed).kind, ErrorKind::Unavailable);
    let ended = |fields: Value| event("interaction.completed", json!({"interaction": fields}));
    assert_eq!(
        failed(ended(json!({"status": "failed"}))).kind,
        ErrorKind::Unavailable
    );
    assert_eq!(
        failed(ended(json!({"status": "cancelled"}))).kind,
        ErrorKind::CutOff
    );
    let update = |status: &str| event("interaction.status_update", json!({"status": status}));
    assert_eq!(failed(update("failed")).kind, ErrorKind::Unavailable);
    // The stream ends here.
    assert_eq!(failed(update("completed")).kind, ErrorKind::CutOff);
    // Parts of unknown steps.
    let text = json!({"type": "text", "text": "x"});
    let lost = event("step.delta", json!({"index": 7, "delta": text}));
    assert_eq!(failed(lost).kind, ErrorKind::Malformed);
}
