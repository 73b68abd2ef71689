//! Properties of every conversation and every division of an answer into chunks.

use std::collections::HashSet;

use cachalot_wire::{Block, CHAT, Format, Message, Parameters, Pieces, Reasoning, sse::Event};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::*;

/// Blocks that a user may say or a tool may answer.
fn said() -> impl Strategy<Value = Block> {
    prop_oneof![
        4 => any::<String>().prop_map(Block::text),
        1 => Just(picture()),
    ]
}

/// A turn: what the model says, with calls or without, and what comes back.
fn turn() -> impl Strategy<Value = Vec<Message>> {
    let reasoning = prop::option::of(any::<String>());
    let answer = (prop::option::of(any::<String>()), reasoning);
    let calls = prop::collection::vec((any::<String>(), any::<bool>(), said()), 0..4);
    let question = prop::collection::vec(said(), 1..3);
    (answer, calls, question, any::<u32>()).prop_map(|((text, thought), calls, question, turn)| {
        let mut content: Vec<Block> = Vec::new();
        content.extend(thought.map(|text| {
            Block::Reasoning(Reasoning {
                verbatim: json!({"reasoning_content": text}),
                text,
                format: Format::Chat,
            })
        }));
        content.extend(text.map(Block::text));
        let mut back = question;
        for (at, (arguments, is_error, answer)) in calls.into_iter().enumerate() {
            let id = format!("call_{turn}_{at}");
            content.push(call(&id, "tool", &arguments));
            back.push(result(&id, vec![answer], is_error));
        }
        vec![assistant(content), user(back)]
    })
}

fn conversation() -> impl Strategy<Value = Vec<Message>> {
    let first = prop::collection::vec(said(), 1..3).prop_map(user);
    (first, prop::collection::vec(turn(), 0..4)).prop_map(|(first, turns)| {
        let mut messages = vec![first];
        messages.extend(turns.into_iter().flatten());
        messages
    })
}

fn render(messages: &[Message]) -> Pieces {
    Pieces {
        tools: Vec::new(),
        system: vec![CHAT.system("system")],
        messages: messages
            .iter()
            .flat_map(|message| CHAT.message(message).unwrap())
            .collect(),
    }
}

/// Every result stands behind the message with its call, with nothing but results between them.
fn assert_no_orphans(messages: &[Value]) {
    let mut open: HashSet<&str> = HashSet::new();
    for message in messages {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap();
            assert!(open.remove(id), "a result without its call: {message}");
            assert!(message["content"].is_string());
            continue;
        }
        assert!(open.is_empty(), "calls without results: {open:?}");
        let calls = message.get("tool_calls").and_then(Value::as_array);
        open.extend(
            calls
                .into_iter()
                .flatten()
                .map(|call| call["id"].as_str().unwrap()),
        );
    }
    assert!(open.is_empty());
}

/// Cuts a text at these places.
fn cut(text: &str, cuts: &[prop::sample::Index]) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let mut places: Vec<usize> = cuts
        .iter()
        .map(|cut| cut.index(characters.len() + 1))
        .collect();
    places.sort_unstable();
    let mut pieces = Vec::new();
    let mut from = 0;
    for place in places.into_iter().chain([characters.len()]) {
        pieces.push(characters[from..place].iter().collect());
        from = place;
    }
    pieces
}

fn cuts() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    prop::collection::vec(any::<prop::sample::Index>(), 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn request_is_a_prefix_of_the_next_request(messages in conversation()) {
        let all = render(&messages);
        prop_assert_eq!(&all.messages, &render(&messages).messages, "rendering is deterministic");
        for length in 0..messages.len() {
            let fewer = render(&messages[..length]).messages;
            prop_assert_eq!(&fewer[..], &all.messages[..fewer.len()]);
        }
        let tail = CHAT.tail(&Parameters { model: "m".into(), ..Parameters::default() }, true);
        let body = body(&*CHAT, &all, &tail);
        assert_no_orphans(body["messages"].as_array().unwrap());
    }

    #[test]
    fn tail_does_not_change_the_bytes_before_it(
        messages in conversation(),
        temperature in any::<f64>(),
        limit in any::<u64>(),
        model in any::<String>(),
    ) {
        let pieces = render(&messages);
        let parameters = Parameters {
            model,
            temperature: Some(temperature),
            max_output_tokens: Some(limit),
            ..Parameters::default()
        };
        let plain = pieces.body(&*CHAT, &CHAT.tail(&Parameters::default(), false));
        let other = pieces.body(&*CHAT, &CHAT.tail(&parameters, true));
        let end = plain.len() - CHAT.tail(&Parameters::default(), false).len();
        prop_assert_eq!(&plain[..end], &other[..end]);
        strict(&other);
    }

    #[test]
    fn streamed_text_equals_the_text_of_the_answer(
        texts in prop::collection::vec(
            (prop::sample::select(vec!["content", "refusal"]), "[a-z]{0,3}"),
            0..8,
        ),
    ) {
        let chunk = |delta: Value, finish: Value| json!({
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        });
        let mut chunks: Vec<Value> = texts
            .iter()
            .map(|(field, text)| chunk(json!({*field: text}), json!(null)))
            .collect();
        chunks.push(chunk(json!({}), json!("stop")));
        let events: Vec<_> = chunks.iter().map(event).collect();
        let (deltas, reply) = stream(&*CHAT, &events).unwrap();
        prop_assert_eq!(shown(&deltas).0, reply.message.text());
    }

    #[test]
    fn streamed_answer_is_independent_of_chunk_boundaries(
        text in any::<String>(),
        thought in "[a-z ]{0,20}",
        arguments in prop::collection::vec("\\{\"a\": \"[a-z{}]{0,6}\"\\}", 0..4),
        text_cuts in cuts(),
        thought_cuts in cuts(),
        argument_cuts in cuts(),
        repeat_ids in any::<bool>(),
        interleaved in any::<bool>(),
    ) {
        let calls: Vec<Value> = arguments.iter().enumerate().map(|(at, arguments)| json!({
            "id": format!("call_{at}"),
            "type": "function",
            "function": {"name": format!("tool_{at}"), "arguments": arguments},
        })).collect();
        let reason = if calls.is_empty() { "stop" } else { "tool_calls" };
        let mut message = json!({"role": "assistant", "content": text, "reasoning": thought});
        if !calls.is_empty() {
            message["tool_calls"] = json!(calls);
        }
        let whole = json!({
            "id": "x", "model": "m", "created": 1, "object": "chat.completion",
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        });

        let mut deltas: Vec<Value> = Vec::new();
        deltas.extend(cut(&thought, &thought_cuts).into_iter().map(|piece| json!({"reasoning": piece})));
        deltas.extend(cut(&text, &text_cuts).into_iter().map(|piece| json!({"content": piece})));
        let mut fragments: Vec<(usize, usize, Value)> = Vec::new();
        for (at, call) in calls.iter().enumerate() {
            let mut begin = call.clone();
            begin["index"] = json!(at);
            begin["function"]["arguments"] = json!("");
            fragments.push((0, at, begin));
            for (step, piece) in cut(&arguments[at], &argument_cuts).into_iter().enumerate() {
                let mut fragment = json!({"index": at, "function": {"arguments": piece}});
                if repeat_ids {
                    fragment["id"] = call["id"].clone();
                }
                fragments.push((step + 1, at, fragment));
            }
        }
        if interleaved {
            fragments.sort_by_key(|(step, at, _)| (*step, *at));
        }
        deltas.extend(fragments.into_iter().map(|(_, _, fragment)| json!({"tool_calls": [fragment]})));

        let chunk = |delta: Value, reason: Value| event(json!({
            "id": "x", "model": "m", "created": 1, "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }));
        let mut events: Vec<Event> =
            deltas.into_iter().map(|delta| chunk(delta, json!(null))).collect();
        events.push(chunk(json!({}), json!(reason)));
        events.push(event("[DONE]"));

        let (deltas, reply) = stream(&*CHAT, &events).unwrap();
        let expected = CHAT.reply(whole.to_string().as_bytes()).unwrap();
        prop_assert_eq!(&reply, &expected);
        let (shown_text, shown_thought, shown_calls) = shown(&deltas);
        prop_assert_eq!(shown_text, text);
        prop_assert_eq!(shown_thought, thought);
        prop_assert_eq!(shown_calls, super::support::calls(&reply));
    }

    #[test]
    fn arbitrary_server_output_does_not_panic(
        bodies in prop::collection::vec(any::<String>(), 0..4),
        odd in prop::collection::vec(odd_chunk(), 0..6),
    ) {
        for body in &bodies {
            let _ = CHAT.reply(body.as_bytes());
        }
        let mut reader = CHAT.reader();
        for chunk in &odd {
            let _ = CHAT.reply(chunk.to_string().as_bytes());
            let _ = reader.event(&event(chunk));
        }
        let _ = reader.finish();
    }
}

/// Chunks of the right names and any values.
fn odd_chunk() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<i64>().prop_map(Value::from),
        any::<f32>().prop_map(Value::from),
        "[{}a\"]{0,3}".prop_map(Value::from),
        Just(json!("stop")),
        Just(json!("thinking")),
    ];
    let names = prop::sample::select(vec![
        "choices",
        "delta",
        "message",
        "content",
        "tool_calls",
        "function",
        "arguments",
        "name",
        "index",
        "id",
        "type",
        "text",
        "thinking",
        "reasoning",
        "reasoning_details",
        "usage",
        "prompt_tokens",
        "prompt_tokens_details",
        "cached_tokens",
        "error",
        "finish_reason",
        "logprobs",
        "refusal",
        "function_call",
        "custom",
        "x",
    ]);
    leaf.prop_recursive(6, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::hash_map(names.clone(), inner, 0..5).prop_map(|fields| {
                fields
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect()
            }),
        ]
    })
}
