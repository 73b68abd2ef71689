//! Properties of every conversation, every answer and every division into parts.

use cachalot_wire::sse::Event;
use cachalot_wire::{Block, INTERACTIONS, Message, Parameters, Pieces};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{checked, wire};
use crate::chat::support::*;

/// A text that is not empty, as any content of an answer.
fn said() -> impl Strategy<Value = String> {
    any::<String>().prop_map(|text| format!("x{text}"))
}

/// A step of an answer.
fn step() -> impl Strategy<Value = Value> {
    let image = json!({"type": "image", "mime_type": "image/png", "data": "aGk="});
    let contents = (said(), proptest::option::of(proptest::option::of(said())));
    let contents = contents.prop_map(move |(first, further)| {
        let text = |text: String| json!({"type": "text", "text": text});
        let mut contents = vec![text(first)];
        if let Some(last) = further {
            contents.push(image.clone());
            contents.extend(last.map(text));
        }
        contents
    });
    prop_oneof![
        contents.prop_map(|contents| json!({"type": "model_output", "content": contents})),
        said().prop_map(|text| json!({
            "type": "thought", "signature": "c2ln", "summary": [{"type": "text", "text": text}],
        })),
        said().prop_map(|text| json!({
            "type": "function_call", "name": "look", "arguments": {"at": text},
        })),
        "[a-z]{1,5}".prop_map(|query| json!({
            "type": "google_search_call", "arguments": {"queries": [query]}, "signature": "c2ln",
        })),
    ]
}

/// The steps of an answer, with an id of its own for each call.
fn steps() -> impl Strategy<Value = Vec<Value>> {
    (prop::collection::vec(step(), 0..6), any::<u32>()).prop_map(|(mut steps, answer)| {
        for (at, step) in steps.iter_mut().enumerate() {
            if step["type"].as_str().unwrap().ends_with("_call") {
                step["id"] = json!(format!("call_{answer}_{at}"));
            }
        }
        steps
    })
}

fn interaction(steps: &[Value]) -> Value {
    json!({
        "id": "v1_1", "object": "interaction", "model": "gemini-3.8-flash", "status": "completed",
        "steps": steps,
        "usage": {"total_input_tokens": 10, "total_output_tokens": 5},
    })
}

/// Turns of a conversation: an answer, and the results of its calls.
fn conversation() -> impl Strategy<Value = Vec<Message>> {
    let turn = (steps(), any::<String>(), any::<bool>());
    prop::collection::vec(turn, 0..4).prop_map(|turns| {
        let mut messages = vec![Message::user("begin")];
        for (steps, text, is_error) in turns {
            let body = interaction(&steps).to_string();
            let answer = wire().reply(body.as_bytes()).unwrap().message;
            let mut back: Vec<Block> = answer
                .tool_uses()
                .map(|call| {
                    let content = vec![Block::text(text.as_str()), picture()];
                    result(&call.id, content, is_error)
                })
                .collect();
            back.push(Block::text(text.as_str()));
            messages.extend([answer, user(back)]);
        }
        messages
    })
}

fn render(messages: &[Message]) -> Pieces {
    Pieces {
        tools: Vec::new(),
        system: ["Be brief.", "Be \"kind\"."]
            .map(|text| wire().system(text))
            .into(),
        messages: messages
            .iter()
            .flat_map(|message| wire().message(message).unwrap())
            .collect(),
    }
}

/// The events of an answer, every text and argument cut into characters.
fn events(steps: &[Value], carried: bool) -> Vec<Event> {
    let typed = |kind: &str, mut fields: Value| {
        fields["event_type"] = json!(kind);
        event(fields)
    };
    let begun = json!({"id": "v1_1", "status": "in_progress"});
    let mut events = vec![typed("interaction.created", json!({"interaction": begun}))];
    for (index, step) in steps.iter().enumerate() {
        let mut begun = step.clone();
        let mut deltas = Vec::new();
        let members = begun.as_object_mut().unwrap();
        for member in ["content", "summary", "signature", "arguments"] {
            members.shift_remove(member);
        }
        match step["type"].as_str().unwrap() {
            "model_output" => {
                for content in step["content"].as_array().unwrap() {
                    match content["text"].as_str() {
                        Some(text) => deltas.extend(
                            text.chars().map(|part| json!({"type": "text", "text": part})),
                        ),
                        None => deltas.push(content.clone()),
                    }
                }
            }
            "thought" => {
                let text = step["summary"][0]["text"].as_str().unwrap();
                deltas.extend(text.chars().map(|part| {
                    let content = json!({"type": "text", "text": part});
                    json!({"type": "thought_summary", "content": content})
                }));
                let signature = &step["signature"];
                deltas.push(json!({"type": "thought_signature", "signature": signature}));
            }
            "function_call" => {
                begun["arguments"] = json!({});
                let text = step["arguments"].to_string();
                deltas.extend(
                    text.chars()
                        .map(|part| json!({"type": "arguments_delta", "arguments": part})),
                );
            }
            kind => deltas.push(
                json!({"type": kind, "arguments": step["arguments"], "signature": step["signature"]}),
            ),
        }
        events.push(typed("step.start", json!({"index": index, "step": begun})));
        for delta in deltas {
            events.push(typed("step.delta", json!({"index": index, "delta": delta})));
        }
        events.push(typed("step.stop", json!({"index": index})));
    }
    let mut ended = interaction(steps);
    if !carried {
        ended.as_object_mut().unwrap().shift_remove("steps");
    }
    events.push(typed(
        "interaction.completed",
        json!({"interaction": ended}),
    ));
    events
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_step_is_sent_back(steps in steps()) {
        let reply = wire().reply(interaction(&steps).to_string().as_bytes()).unwrap();
        prop_assert_eq!(pieces(&*INTERACTIONS, &reply.message), steps);
    }

    #[test]
    fn request_is_a_prefix_of_the_next_request(messages in conversation()) {
        let all = render(&messages);
        prop_assert_eq!(&all.messages, &render(&messages).messages, "rendering is deterministic");
        for length in 0..messages.len() {
            let fewer = render(&messages[..length]).messages;
            prop_assert_eq!(&fewer[..], &all.messages[..fewer.len()]);
        }
        let parameters = Parameters { model: "gemini-3.8-flash".into(), ..Parameters::default() };
        let body = checked(&all.body(wire(), &wire().tail(&parameters, true)));
        prop_assert_eq!(&body["system_instruction"], &json!("Be brief.\n\nBe \"kind\"."));
        prop_assert_eq!(&body["store"], &json!(false));
        prop_assert_eq!(body["input"].as_array().unwrap().len(), all.messages.len());
    }

    #[test]
    fn streamed_answer_equals_the_whole_answer(steps in steps(), carried in any::<bool>()) {
        let whole = wire().reply(interaction(&steps).to_string().as_bytes()).unwrap();
        let (deltas, reply) = stream(wire(), &events(&steps, carried)).unwrap();
        prop_assert_eq!(&reply, &whole);
        let (text, _, called) = shown(&deltas);
        prop_assert_eq!(text, whole.message.text());
        prop_assert_eq!(called, calls(&whole));
    }

    #[test]
    fn arbitrary_server_output_does_not_panic(
        bodies in prop::collection::vec(any::<String>(), 0..4),
        odd in prop::collection::vec(odd_event(), 0..8),
    ) {
        for body in &bodies {
            let _ = wire().reply(body.as_bytes());
        }
        for fields in &odd {
            let _ = wire().reply(fields.to_string().as_bytes());
        }
        let events: Vec<Event> = odd.iter().map(event).collect();
        if let Ok((deltas, reply)) = stream(wire(), &events) {
            prop_assert_eq!(shown_text(&deltas), reply.message.text());
        }
    }
}

fn shown_text(deltas: &[cachalot_wire::Delta]) -> String {
    let texts = deltas.iter().filter_map(|delta| match delta {
        cachalot_wire::Delta::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// Events of the right names and any values.
fn odd_event() -> impl Strategy<Value = Value> {
    let kinds = prop::sample::select(vec![
        "interaction.created",
        "interaction.status_update",
        "interaction.completed",
        "step.start",
        "step.delta",
        "step.stop",
    ]);
    let leaf = prop_oneof![
        Just(json!(null)),
        (0_u64..3).prop_map(Value::from),
        any::<f32>().prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "a",
            "text",
            "image",
            "model_output",
            "function_call",
            "thought",
            "thought_summary",
            "arguments_delta",
            "text_annotation_delta",
            "completed",
            "failed",
        ])
        .prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "index",
        "step",
        "delta",
        "interaction",
        "steps",
        "content",
        "summary",
        "signature",
        "arguments",
        "annotations",
        "text",
        "type",
        "id",
        "name",
        "usage",
        "total_input_tokens",
        "grounding_tool_count",
        "status",
        "error",
        "errors",
    ]);
    let value = leaf.prop_recursive(5, 30, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::hash_map(names.clone(), inner, 0..6).prop_map(|fields| {
                fields
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect()
            }),
        ]
    });
    (kinds, value).prop_map(|(kind, value)| {
        let mut fields = match value {
            Value::Object(fields) => Value::Object(fields),
            other => json!({"step": other}),
        };
        fields["event_type"] = json!(kind);
        fields
    })
}
