//! Properties of every conversation, every answer and every division into chunks.

use std::collections::HashSet;

use cachalot_wire::{Block, Message, Parameters, Pieces, RESPONSES, sse::Event};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::chat::support::*;

/// An item of an answer.
fn item() -> impl Strategy<Value = Value> {
    let parts = prop::collection::vec(
        prop_oneof![
            any::<String>()
                .prop_map(|text| json!({"type": "output_text", "text": text, "annotations": []})),
            "[a-z]{1,5}".prop_map(|text| json!({"type": "refusal", "refusal": text})),
        ],
        1..3,
    );
    prop_oneof![
        (
            parts,
            prop::sample::select(vec!["commentary", "final_answer"])
        )
            .prop_map(|(parts, phase)| json!({
                "type": "message", "role": "assistant", "status": "completed", "phase": phase,
                "content": parts,
            })),
        any::<String>().prop_map(|text| json!({
            "type": "reasoning", "encrypted_content": "AAAA",
            "summary": [{"type": "summary_text", "text": text}],
        })),
        "\\{[a-z\" :]{0,8}\\}".prop_map(|arguments| json!({
            "type": "function_call", "status": "completed", "name": "t", "arguments": arguments,
        })),
        "[a-z]{1,5}".prop_map(|query| json!({
            "type": "web_search_call", "status": "completed",
            "action": {"type": "search", "query": query},
        })),
    ]
}

/// The output of an answer, with an id of its own for each item.
fn output() -> impl Strategy<Value = Vec<Value>> {
    (prop::collection::vec(item(), 0..5), any::<u32>()).prop_map(|(mut items, answer)| {
        for (at, item) in items.iter_mut().enumerate() {
            let prefix = match item["type"].as_str().unwrap() {
                "message" => "msg",
                "reasoning" => "rs",
                "function_call" => "fc",
                _ => "ws",
            };
            item["id"] = json!(format!("{prefix}_{answer}_{at}"));
            if item["type"] == "function_call" {
                item["call_id"] = json!(format!("call_{answer}_{at}"));
            }
        }
        items
    })
}

fn response(output: &[Value]) -> Value {
    json!({"id": "resp", "model": "m", "status": "completed", "output": output})
}

/// Turns of a conversation: an answer, and the results of its calls.
fn conversation() -> impl Strategy<Value = Vec<Message>> {
    let turn = (output(), any::<String>(), any::<bool>());
    prop::collection::vec(turn, 0..4).prop_map(|turns| {
        let mut messages = vec![Message::user("begin")];
        for (output, said, is_error) in turns {
            let body = response(&output).to_string();
            let answer = RESPONSES.reply(body.as_bytes()).unwrap().message;
            let mut back: Vec<_> = answer
                .tool_uses()
                .map(|call| {
                    result(
                        &call.id,
                        vec![Block::text(said.as_str()), picture()],
                        is_error,
                    )
                })
                .collect();
            back.push(Block::text(said.as_str()));
            messages.extend([answer, user(back)]);
        }
        messages
    })
}

fn render(messages: &[Message]) -> Pieces {
    Pieces {
        tools: Vec::new(),
        system: vec![RESPONSES.system("system")],
        messages: messages
            .iter()
            .flat_map(|message| RESPONSES.message(message).unwrap())
            .collect(),
    }
}

/// Every result answers a call that stands before it, and every call has one.
fn assert_no_orphans(items: &[Value]) {
    let mut open = HashSet::new();
    for item in items {
        match item["type"].as_str().unwrap() {
            "function_call" => assert!(open.insert(item["call_id"].clone())),
            "function_call_output" => assert!(open.remove(&item["call_id"])),
            _ => {}
        }
    }
    assert!(open.is_empty());
}

/// The events of an answer, every text and argument cut into characters.
fn events(output: &[Value], carried: bool, done: bool) -> Vec<Event> {
    let typed = |kind: &str, mut fields: Value| {
        fields["type"] = json!(kind);
        event(fields)
    };
    let mut events = vec![typed(
        "response.created",
        json!({"response": {"id": "resp", "model": "m", "status": "in_progress"}}),
    )];
    for (at, item) in output.iter().enumerate() {
        let mut begun = item.clone();
        match item["type"].as_str().unwrap() {
            "message" => begun["content"] = json!([]),
            "function_call" => begun["arguments"] = json!(""),
            _ => {}
        }
        events.push(typed(
            "response.output_item.added",
            json!({"output_index": at, "item": begun}),
        ));
        let parts = item["content"].as_array().into_iter().flatten();
        for (place, part) in parts.enumerate() {
            let (kind, text) = match part.get("text") {
                Some(text) => ("response.output_text.delta", text),
                None => ("response.refusal.delta", &part["refusal"]),
            };
            for character in text.as_str().unwrap().chars() {
                events.push(typed(
                    kind,
                    json!({
                        "output_index": at, "content_index": place, "delta": character,
                    }),
                ));
            }
        }
        let arguments = item.get("arguments").and_then(Value::as_str);
        for character in arguments.unwrap_or_default().chars() {
            events.push(typed(
                "response.function_call_arguments.delta",
                json!({"output_index": at, "delta": character}),
            ));
        }
        if done {
            events.push(typed(
                "response.output_item.done",
                json!({"output_index": at, "item": item}),
            ));
        }
    }
    let output = if carried { output } else { &[] };
    events.push(typed(
        "response.completed",
        json!({"response": response(output)}),
    ));
    events
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_item_is_sent_back_except_reasoning_without_a_result(output in output()) {
        let reply = RESPONSES.reply(response(&output).to_string().as_bytes()).unwrap();
        let mut expected = output;
        while expected.last().is_some_and(|item| item["type"] == "reasoning") {
            expected.pop();
        }
        prop_assert_eq!(pieces(&*RESPONSES, &reply.message), expected);
    }

    #[test]
    fn request_is_a_prefix_of_the_next_request(messages in conversation()) {
        let all = render(&messages);
        prop_assert_eq!(&all.messages, &render(&messages).messages, "rendering is deterministic");
        for length in 0..messages.len() {
            let fewer = render(&messages[..length]).messages;
            prop_assert_eq!(&fewer[..], &all.messages[..fewer.len()]);
        }
        let tail = RESPONSES.tail(&Parameters { model: "m".into(), ..Parameters::default() }, true);
        let body = body(&*RESPONSES, &all, &tail);
        assert_no_orphans(body["input"].as_array().unwrap());
        prop_assert_eq!(&body["store"], &json!(false));
    }

    #[test]
    fn streamed_answer_equals_the_whole_answer(output in output(), carried in any::<bool>()) {
        let whole = RESPONSES.reply(response(&output).to_string().as_bytes()).unwrap();
        let (deltas, reply) = stream(&*RESPONSES, &events(&output, carried, true)).unwrap();
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
            let _ = RESPONSES.reply(body.as_bytes());
        }
        let mut reader = RESPONSES.reader();
        for fields in &odd {
            let _ = RESPONSES.reply(fields.to_string().as_bytes());
            let _ = reader.event(&event(fields));
        }
        let _ = reader.finish();
    }
}

/// Events of the right names and any values.
fn odd_event() -> impl Strategy<Value = Value> {
    let kinds = prop::sample::select(vec![
        "response.created",
        "response.completed",
        "response.output_item.added",
        "response.output_item.done",
        "response.output_text.delta",
        "response.output_text.done",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_part.added",
    ]);
    let leaf = prop_oneof![
        Just(json!(null)),
        (0_u64..3).prop_map(Value::from),
        any::<f32>().prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "a",
            "message",
            "function_call",
            "reasoning",
            "completed"
        ])
        .prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "output_index",
        "content_index",
        "summary_index",
        "item_id",
        "item",
        "delta",
        "text",
        "arguments",
        "response",
        "output",
        "content",
        "summary",
        "type",
        "id",
        "call_id",
        "name",
        "usage",
        "input_tokens",
        "status",
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
            other => json!({"item": other}),
        };
        fields["type"] = json!(kind);
        fields
    })
}
