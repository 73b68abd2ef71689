//! Properties of every answer and every conversation.

use bytes::Bytes;
use cachalot_simulator::{Format, check_request};
use cachalot_wire::{
    Block, Delta, Extra, Image, ImageSource, MarkerTime, Message, Parameters, Pieces, Rendered,
    Reply, Role, ToolDefinition, ToolResult, sse::Decoder,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{messages, parsed, text};

/// Texts with what could be taken for JSON, for a marker, or for the end of a line.
fn texts() -> impl Strategy<Value = String> {
    let parts = [
        "a",
        " ",
        "\n",
        "\r\n",
        "\"",
        "\\",
        "}",
        "]}",
        "é",
        "🐋",
        "\u{2028}",
        "\u{0}",
        "data: x\n\n",
        r#","cache_control":{"type":"ephemeral"}"#,
        r#"{"type":"text","text":"x"}"#,
    ];
    prop::collection::vec(prop::sample::select(parts.to_vec()), 0..6)
        .prop_map(|parts| parts.concat())
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        texts().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-e]{1,2}", inner), 0..4)
                .prop_map(|fields| { fields.into_iter().collect::<Map<String, Value>>().into() }),
        ]
    })
}

fn objects() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::vec(("[a-e]{1,2}", values()), 0..4)
        .prop_map(|fields| fields.into_iter().collect())
}

/// Arguments as a model may write them: an object with spaces, or without.
fn arguments() -> impl Strategy<Value = String> {
    (objects(), any::<bool>()).prop_map(|(object, pretty)| {
        let object = Value::Object(object);
        if pretty {
            format!("{object:#}")
        } else {
            object.to_string()
        }
    })
}

/// A block of an answer, and the text of its arguments if it calls a tool.
fn blocks() -> impl Strategy<Value = (Value, Option<String>)> {
    let further = prop_oneof![Just(Map::new()), objects()].prop_map(|fields| {
        fields
            .into_iter()
            .map(|(name, value)| (format!("further_{name}"), value))
            .collect::<Map<String, Value>>()
    });
    let block = prop_oneof![
        texts().prop_map(|text| json!({"type": "text", "text": text})),
        (texts(), objects()).prop_map(|(text, citation)| {
            json!({"type": "text", "text": text, "citations": [citation]})
        }),
        (texts(), "[a-z]{0,9}").prop_map(|(thinking, signature)| {
            json!({"type": "thinking", "thinking": thinking, "signature": signature})
        }),
        "[a-z]{1,9}".prop_map(|data| json!({"type": "redacted_thinking", "data": data})),
        ("[a-z_]{1,9}", "[a-z0-9_-]{1,9}").prop_map(|(name, id)| {
            json!({"type": "tool_use", "id": id, "name": name, "input": "ARGUMENTS"})
        }),
        objects().prop_map(|input| {
            json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": input})
        }),
        objects().prop_map(|content| json!({"type": "not_known_yet", "content": content})),
    ];
    (block, further, arguments()).prop_map(|(mut block, mut further, arguments)| {
        block.as_object_mut().unwrap().append(&mut further);
        let calls = block["type"] == "tool_use";
        (block, calls.then_some(arguments))
    })
}

/// An answer: its text, and its blocks.
#[derive(Debug, Clone)]
struct Answer {
    fields: Map<String, Value>,
    blocks: Vec<(Value, Option<String>)>,
}

impl Answer {
    fn content(&self) -> Vec<String> {
        let block = |(block, arguments): &(Value, Option<String>)| match arguments {
            Some(arguments) => block.to_string().replacen("\"ARGUMENTS\"", arguments, 1),
            None => block.to_string(),
        };
        self.blocks.iter().map(block).collect()
    }

    fn body(&self) -> String {
        let fields = Value::Object(self.fields.clone()).to_string();
        let rest = fields.strip_prefix('{').unwrap();
        format!("{{\"content\":[{}],{rest}", self.content().join(","))
    }

    fn reply(&self) -> Reply {
        messages().reply(self.body().as_bytes()).unwrap()
    }
}

fn answers() -> impl Strategy<Value = Answer> {
    let stops = [
        "end_turn",
        "tool_use",
        "max_tokens",
        "refusal",
        "pause_turn",
    ];
    let tokens = || 0_u64..1 << 40;
    let fields = (
        prop::sample::select(stops.to_vec()),
        (tokens(), tokens(), tokens(), tokens()),
        objects(),
    )
        .prop_map(|(stop, (input, read, written, output), further)| {
            let fields = json!({
                "id": "msg_1", "type": "message", "role": "assistant", "model": "claude",
                "stop_reason": stop, "stop_sequence": null, "further": further,
                "usage": {
                    "input_tokens": input, "cache_read_input_tokens": read,
                    "cache_creation_input_tokens": written, "output_tokens": output,
                    "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
                    "service_tier": "standard"
                }
            });
            fields.as_object().unwrap().clone()
        });
    (fields, prop::collection::vec(blocks(), 0..5))
        .prop_map(|(fields, blocks)| Answer { fields, blocks })
}

/// The same answer as a stream: texts in pieces of about this many characters.
fn stream(answer: &Answer, length: usize) -> String {
    let mut stream = String::new();
    let mut say = |value: String| {
        let kind = parsed(&value)["type"].as_str().unwrap().to_owned();
        stream.push_str(&format!("event: {kind}\ndata: {value}\n\n"));
    };
    let mut start = answer.fields.clone();
    start.insert("content".into(), json!([]));
    start.insert("stop_reason".into(), Value::Null);
    start["usage"]["output_tokens"] = json!(1);
    say(json!({"type": "message_start", "message": start}).to_string());
    for (index, (block, arguments)) in answer.blocks.iter().enumerate() {
        let mut start = block.clone();
        let mut deltas = Vec::new();
        for (field, delta) in [("text", "text_delta"), ("thinking", "thinking_delta")] {
            if block["type"] == field {
                let pieces = pieces(block[field].as_str().unwrap(), length);
                deltas.extend(pieces.map(|piece| json!({"type": delta, field: piece})));
                start[field] = json!("");
            }
        }
        if let Some(signature) = block.get("signature") {
            deltas.push(json!({"type": "signature_delta", "signature": signature}));
            start["signature"] = json!("");
        }
        if let Some(citations) = block.get("citations").and_then(Value::as_array) {
            let delta = |citation| json!({"type": "citations_delta", "citation": citation});
            deltas.extend(citations.iter().map(delta));
            start["citations"] = json!([]);
        }
        let input = match (arguments, block.get("input")) {
            (Some(arguments), _) => Some(arguments.clone()),
            (None, input) => input.map(Value::to_string),
        };
        if let Some(input) = input {
            let pieces = pieces(&input, length);
            deltas.extend(
                pieces.map(|piece| json!({"type": "input_json_delta", "partial_json": piece})),
            );
            start["input"] = json!({});
        }
        say(
            json!({"type": "content_block_start", "index": index, "content_block": start})
                .to_string(),
        );
        say(json!({"type": "ping"}).to_string());
        for delta in deltas {
            say(json!({"type": "content_block_delta", "index": index, "delta": delta}).to_string());
        }
        say(json!({"type": "content_block_stop", "index": index}).to_string());
    }
    let delta = json!({"stop_reason": answer.fields["stop_reason"], "stop_sequence": null});
    let usage = json!({"output_tokens": answer.fields["usage"]["output_tokens"]});
    say(json!({"type": "message_delta", "delta": delta, "usage": usage}).to_string());
    say(json!({"type": "message_stop"}).to_string());
    stream
}

fn pieces(text: &str, length: usize) -> impl Iterator<Item = String> {
    let characters: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = characters
        .chunks(length)
        .map(|piece| piece.iter().collect())
        .collect();
    pieces.into_iter()
}

/// Reads a stream that comes in pieces of this many bytes.
fn read(stream: &[u8], length: usize) -> Result<(Vec<Delta>, Reply), cachalot_wire::Error> {
    let mut decoder = Decoder::new();
    let mut reader = messages().reader();
    let mut deltas = Vec::new();
    for bytes in stream.chunks(length) {
        for event in decoder.push(bytes)? {
            deltas.extend(reader.event(&event)?);
        }
    }
    Ok((deltas, reader.finish()?))
}

/// The pieces together are the whole.
fn check_deltas(deltas: &[Delta], reply: &Reply) {
    let (mut said, mut thought, mut calls) = (String::new(), String::new(), Vec::new());
    for delta in deltas {
        match delta {
            Delta::Text(text) => said.push_str(text),
            Delta::Reasoning(text) => thought.push_str(text),
            Delta::ToolUse { index, id, name } => {
                assert_eq!(*index, calls.len());
                calls.push((id.clone(), name.clone(), String::new()));
            }
            Delta::Arguments { index, text } => calls[*index].2.push_str(text),
        }
    }
    let thoughts = reply
        .message
        .content
        .iter()
        .filter_map(|block| match block {
            Block::Reasoning(reasoning) => Some(reasoning.text.as_str()),
            _ => None,
        });
    let uses = reply.message.tool_uses();
    let uses = uses.map(|call| (call.id.clone(), call.name.clone(), call.arguments.clone()));
    assert_eq!(said, reply.message.text());
    assert_eq!(thought, thoughts.collect::<String>());
    assert_eq!(calls, uses.collect::<Vec<_>>());
}

fn is_blank(block: &Value) -> bool {
    block["type"] == "text" && block["text"].as_str().unwrap().trim().is_empty()
}

/// A message that one of us might write.
fn own_messages() -> impl Strategy<Value = Message> {
    let image = prop_oneof![
        Just(ImageSource::Url("https://example.com/a.png".into())),
        "[a-z]{0,8}".prop_map(|base64| ImageSource::Inline {
            media_type: "image/png".into(),
            base64,
        }),
    ]
    .prop_map(|source| {
        Block::Image(Image {
            source,
            extra: Extra::new(),
        })
    });
    let plain = prop_oneof![texts().prop_map(Block::text), image];
    let result = (
        prop::collection::vec(plain.clone(), 0..3),
        any::<bool>(),
        "[a-z.:]{0,4}",
    )
        .prop_map(|(content, is_error, id)| {
            Block::ToolResult(ToolResult {
                id,
                content,
                is_error,
                extra: Extra::new(),
            })
        });
    prop::collection::vec(prop_oneof![plain, result], 0..4)
        .prop_map(|content| Message::new(Role::User, content))
}

fn conversations() -> impl Strategy<Value = Vec<Message>> {
    let message = prop_oneof![
        own_messages(),
        answers().prop_map(|answer| answer.reply().message)
    ];
    prop::collection::vec(message, 1..5)
}

fn rendered(conversation: &[Message]) -> Pieces {
    let wire = messages();
    Pieces {
        tools: vec![wire.tool(&ToolDefinition {
            name: "f".into(),
            description: String::new(),
            parameters: json!({}),
        })],
        system: vec![wire.system("Be brief.")],
        messages: conversation
            .iter()
            .flat_map(|message| wire.message(message).unwrap())
            .collect(),
    }
}

/// Turns of a conversation with blocks that the API has: an answer, and the results of its calls.
fn turns() -> impl Strategy<Value = Vec<Message>> {
    let block = prop_oneof![
        texts().prop_map(|text| json!({"type": "text", "text": text})),
        ("[a-z_]{1,9}", objects())
            .prop_map(|(name, input)| json!({"type": "tool_use", "name": name, "input": input})),
    ];
    let answer = (texts(), any::<bool>(), prop::collection::vec(block, 0..4));
    let turn = (answer, texts(), any::<bool>());
    prop::collection::vec(turn, 1..4).prop_map(|turns| {
        let mut messages = vec![Message::user("begin")];
        for (at, ((thinking, thinks, mut blocks), said, is_error)) in turns.into_iter().enumerate()
        {
            for (place, block) in blocks.iter_mut().enumerate() {
                if block["type"] == "tool_use" {
                    block["id"] = json!(format!("toolu_{at}_{place}"));
                }
            }
            if thinks {
                let thought =
                    json!({"type": "thinking", "thinking": thinking, "signature": "signed"});
                blocks.insert(0, thought);
            }
            let answer = super::reply(&super::body(Value::from(blocks)))
                .unwrap()
                .message;
            let result = |id: &str| {
                Block::ToolResult(ToolResult {
                    id: id.into(),
                    content: vec![Block::text(said.as_str())],
                    is_error,
                    extra: Extra::new(),
                })
            };
            let mut back: Vec<Block> = answer.tool_uses().map(|call| result(&call.id)).collect();
            back.push(Block::text("And?"));
            messages.extend([answer, Message::new(Role::User, back)]);
        }
        messages
    })
}

proptest! {
    #[test]
    fn answer_is_sent_back_unchanged(answer in answers()) {
        let message = answer.reply().message;
        let pieces = messages().message(&message).unwrap();
        prop_assert_eq!(&pieces, &messages().message(&message.clone()).unwrap());

        let came: Vec<Value> = answer.content().iter().map(|block| parsed(block)).collect();
        let visible: Vec<Value> = came.into_iter().filter(|block| !is_blank(block)).collect();
        prop_assert_eq!(pieces.len(), usize::from(!visible.is_empty()));
        for piece in &pieces {
            let piece = text(&piece.bytes);
            prop_assert_eq!(parsed(&piece), json!({"role": "assistant", "content": visible}));
            // Read again it is the same message, and byte for byte the same arguments.
            let again = messages().reply(piece.as_bytes()).unwrap().message;
            let mut expected = message.clone();
            expected.content.retain(|block| !matches!(block, Block::Text { text, .. } if text.trim().is_empty()));
            prop_assert_eq!(again, expected);
            for (_, arguments) in &answer.blocks {
                prop_assert!(piece.contains(arguments.as_deref().unwrap_or_default()));
            }
        }
    }

    #[test]
    fn answer_round_trips_through_storage(answer in answers()) {
        let message = answer.reply().message;
        let stored = serde_json::to_string(&message).unwrap();
        let again: Message = serde_json::from_str(&stored).unwrap();
        prop_assert_eq!(messages().message(&again).unwrap(), messages().message(&message).unwrap());
    }

    #[test]
    fn streamed_answer_equals_the_whole_answer(answer in answers(), characters in 1_usize..6, bytes in 1_usize..100) {
        let (deltas, reply) = read(stream(&answer, characters).as_bytes(), bytes).unwrap();
        check_deltas(&deltas, &reply);
        prop_assert_eq!(reply, answer.reply());
    }

    #[test]
    fn damaged_stream_does_not_panic(
        answer in answers(),
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_usize..30), 1..4),
    ) {
        let mut stream = stream(&answer, 4).into_bytes();
        for (place, byte, removed) in places {
            let at = place.index(stream.len());
            let end = (at + removed).min(stream.len());
            stream.splice(at..end, [byte]);
        }
        if let Ok((_, reply)) = read(&stream, 64) {
            for piece in messages().message(&reply.message).unwrap() {
                parsed(&text(&piece.bytes));
            }
        }
        if let Ok(reply) = messages().reply(&stream) {
            let _ = messages().message(&reply.message);
        }
    }

    #[test]
    fn request_is_a_prefix_of_the_next_request(conversation in conversations(), next in own_messages()) {
        let wire = messages();
        let before = rendered(&conversation);
        let longer = [conversation.as_slice(), &[next]].concat();
        let after = rendered(&longer);
        prop_assert_eq!(&after.messages[..before.messages.len()], &before.messages[..]);
        let open = |pieces: &Pieces| {
            let body = text(&pieces.body(wire, &Bytes::new()));
            body.strip_suffix(']').map(str::to_owned).unwrap_or(body)
        };
        prop_assert!(open(&after).starts_with(&open(&before)));
    }

    #[test]
    fn every_own_conversation_is_a_valid_request(turns in turns()) {
        let parameters = Parameters {
            model: "claude-sonnet-4-5".into(),
            max_output_tokens: Some(1_000),
            ..Parameters::default()
        };
        let body = rendered(&turns).body(messages(), &messages().tail(&parameters, false));
        let checked = check_request(Format::Messages, false, &body);
        prop_assert_eq!(checked, Ok(()), "{}", text(&body));
    }

    #[test]
    fn markers_only_add_their_field(conversation in conversations(), hour in any::<bool>()) {
        let wire = messages();
        let time = if hour { MarkerTime::OneHour } else { MarkerTime::FiveMinutes };
        let marker = text(&wire.marker(time).unwrap());
        let expected = parsed(&format!("{{\"a\":1{marker}}}"))["cache_control"].clone();
        let pieces = rendered(&conversation);
        let mark = |piece: &Rendered| {
            let mut bytes = text(&piece.bytes);
            if let Some(at) = piece.mark_at {
                bytes.insert_str(usize::try_from(at).unwrap(), &marker);
            }
            Rendered { bytes: bytes.into(), mark_at: piece.mark_at }
        };
        let marked = Pieces {
            tools: pieces.tools.iter().map(mark).collect(),
            system: pieces.system.iter().map(mark).collect(),
            messages: pieces.messages.iter().map(mark).collect(),
        };
        let tail = Bytes::from_static(b",\"model\":\"m\"}");
        let plain = parsed(&text(&pieces.body(wire, &tail)));
        let mut stripped = parsed(&text(&marked.body(wire, &tail)));
        for (name, all) in [("tools", &pieces.tools), ("system", &pieces.system), ("messages", &pieces.messages)] {
            for (index, piece) in all.iter().enumerate() {
                let value = &mut stripped[name][index];
                let block = match value.get_mut("content").and_then(Value::as_array_mut) {
                    Some(content) => content.last_mut().unwrap(),
                    None => value,
                };
                let found = block.as_object_mut().unwrap().shift_remove("cache_control");
                prop_assert_eq!(found, piece.mark_at.map(|_| expected.clone()));
            }
        }
        prop_assert_eq!(stripped, plain);
    }
}
