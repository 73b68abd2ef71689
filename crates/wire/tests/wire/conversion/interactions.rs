//! Gemini's Interactions.

use serde_json::{Value, json};

use super::*;

fn interaction(status: &str, steps: Value) -> Value {
    json!({
        "id": "v1_1", "object": "interaction", "model": "gemini-3-pro-preview", "status": status,
        "created": "2026-11-29T00:00:00Z", "service_tier": "standard", "steps": steps,
        "usage": {"total_input_tokens": 10, "total_output_tokens": 7, "total_thought_tokens": 3},
    })
}

/// The events of a provider: a thought, a text and a call.
fn events() -> Vec<Value> {
    let start = |index: usize, step: Value| json!({"event_type": "step.start", "index": index, "step": step});
    let delta = |index: usize, delta: Value| {
        json!({"event_type": "step.delta", "event_id": "e", "index": index, "delta": delta,
            "metadata": {"total_usage": {"total_input_tokens": 10}}})
    };
    let stop = |index: usize| json!({"event_type": "step.stop", "index": index, "step_usage": {"total_output_tokens": 1}});
    let thought =
        |text: &str| json!({"type": "thought_summary", "content": {"type": "text", "text": text}});
    let mut ended = interaction("requires_action", Value::Null);
    ended.as_object_mut().unwrap().shift_remove("steps");
    ended.as_object_mut().unwrap().shift_remove("service_tier");
    vec![
        json!({"event_type": "interaction.created", "interaction": {"id": "v1_1", "status": "in_progress", "service_tier": "standard"}}),
        json!({"event_type": "interaction.status_update", "interaction_id": "v1_1", "status": "in_progress"}),
        start(0, json!({"type": "thought"})),
        delta(0, thought("Let me ")),
        delta(0, thought("see.")),
        delta(0, json!({"type": "thought_signature", "signature": "c2ln"})),
        stop(0),
        start(1, json!({"type": "model_output"})),
        delta(1, json!({"type": "text", "text": "I "})),
        delta(1, json!({"type": "text", "text": "look."})),
        stop(1),
        start(
            2,
            json!({"type": "function_call", "id": "c1", "name": "f", "arguments": {}}),
        ),
        delta(
            2,
            json!({"type": "arguments_delta", "arguments": "{\"n\":"}),
        ),
        delta(2, json!({"type": "arguments_delta", "arguments": "1}"})),
        stop(2),
        json!({"event_type": "interaction.completed", "interaction": ended}),
    ]
}

fn steps() -> Value {
    json!([
        {"type": "thought", "summary": [{"type": "text", "text": "Let me see."}], "signature": "c2ln"},
        {"type": "model_output", "content": [{"type": "text", "text": "I look."}]},
        {"type": "function_call", "id": "c1", "name": "f", "arguments": {"n": 1}},
    ])
}

#[test]
fn steps_become_those_of_the_interaction() {
    let events = named(&events());
    let expected = interaction("requires_action", steps());
    assert_eq!(whole_of(Format::Interactions, &events), Some(expected));
    let done = events + "event: done\ndata: [DONE]\n\n";
    let whole = whole_of(Format::Interactions, &done).unwrap();
    assert_eq!(
        read_whole(Format::Interactions, &whole),
        read_events(Format::Interactions, &done)
    );
}

#[test]
fn interaction_becomes_the_events_of_the_provider() {
    let whole = interaction("requires_action", steps());
    let events = round_trip(Format::Interactions, &whole);
    assert!(events.ends_with("data: [DONE]\n\n") && !events.contains("event_id"));
    let kinds = data_of(&events);
    let kinds: Vec<_> = kinds
        .iter()
        .map(|event| event["event_type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds[..3],
        [
            "interaction.created",
            "interaction.status_update",
            "step.start"
        ]
    );
    assert_eq!(kinds.last(), Some(&"interaction.completed"));
    round_trip(Format::Interactions, &interaction("incomplete", json!([])));
}

#[test]
fn streams_with_more_than_the_steps_of_the_model_are_not_converted() {
    let set = |at: usize, pointer: &'static str, value: Value| {
        move |events: &mut Vec<Value>| *events[at].pointer_mut(pointer).unwrap() = value.clone()
    };
    let add = |at: usize, name: &'static str| {
        move |events: &mut Vec<Value>| events[at][name] = json!({"a": 1})
    };
    refused(
        Format::Interactions,
        &events(),
        named,
        &[
            (
                "a tool of the provider",
                &set(7, "/step/type", json!("google_search_result")),
            ),
            ("another index", &set(7, "/index", json!(2))),
            (
                "an annotation",
                &set(8, "/delta/type", json!("text_annotation_delta")),
            ),
            ("a piece of another step", &set(8, "/index", json!(0))),
            (
                "a member of a piece",
                &set(8, "/delta", json!({"type": "text", "text": "I ", "a": 1})),
            ),
            (
                "a picture",
                &set(
                    3,
                    "/delta/content",
                    json!({"type": "image", "data": "AA=="}),
                ),
            ),
            (
                "arguments that are no JSON",
                &set(13, "/delta/arguments", json!("1")),
            ),
            (
                "arguments at the beginning, too",
                &set(11, "/step/arguments", json!({"n": 1})),
            ),
            ("another state", &set(1, "/status", json!("failed"))),
            ("a member of an event", &add(14, "a")),
            (
                "an unknown event",
                &set(1, "/event_type", json!("interaction.a")),
            ),
            ("no usage", &|events: &mut Vec<Value>| {
                let interaction = &mut events.last_mut().unwrap()["interaction"];
                interaction.as_object_mut().unwrap().shift_remove("usage");
            }),
            ("a call without arguments", &|events: &mut Vec<Value>| {
                events.drain(12..14);
                events[11]["step"]
                    .as_object_mut()
                    .unwrap()
                    .shift_remove("arguments");
            }),
            ("further counts", &set(8, "/metadata", json!({"a": 1}))),
            ("other steps at the end", &|events: &mut Vec<Value>| {
                events.last_mut().unwrap()["interaction"]["steps"] = json!([{"type": "thought"}]);
            }),
            ("two signatures", &|events: &mut Vec<Value>| {
                events.insert(5, events[5].clone())
            }),
            ("a step that does not end", &|events: &mut Vec<Value>| {
                drop(events.remove(14))
            }),
            ("no end", &|events: &mut Vec<Value>| drop(events.pop())),
            ("no beginning", &|events: &mut Vec<Value>| {
                drop(events.remove(0))
            }),
        ],
    );
}

#[test]
fn interactions_with_more_than_the_steps_of_the_model_are_not_converted() {
    let text = |text: &str| json!({"type": "text", "text": text});
    for (status, steps) in [
        (
            "completed",
            json!([{"type": "google_search_call", "arguments": {}}]),
        ),
        (
            "completed",
            json!([{"type": "model_output", "content": [text("a"), text("b")]}]),
        ),
        (
            "completed",
            json!([{"type": "model_output", "content": [{"type": "text", "text": "a", "annotations": [{}]}]}]),
        ),
        (
            "completed",
            json!([{"type": "model_output", "content": [{"type": "image", "data": "AA=="}]}]),
        ),
        ("completed", json!({})),
        ("failed", json!([])),
        ("in_progress", json!([])),
    ] {
        let whole = interaction(status, steps);
        assert_eq!(
            events_of(Format::Interactions, &whole, &json!({})),
            None,
            "{whole}"
        );
    }
}
