//! Properties of every conversation.

use std::sync::Arc;

use cachalot_model::wire::{MarkerTime, Pieces, Rendered};
use cachalot_model::{
    Block, Format, Message, Parameters, Reasoning, Role, ToolDefinition, ToolResult, ToolUse,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{SONNET, named, wire};

/// Texts with what could be taken for JSON, for a marker, or for nothing.
fn texts() -> impl Strategy<Value = String> {
    let parts = [
        "a",
        " ",
        "\n",
        "\"",
        "\\",
        "}",
        "]}",
        "é",
        "🐋",
        "\u{2028}",
        "\u{0}",
        r#",{"cachePoint":{"type":"default"}}"#,
    ];
    prop::collection::vec(prop::sample::select(parts.to_vec()), 0..6)
        .prop_map(|parts| parts.concat())
}

/// One step of a conversation: messages whose calls have results.
fn steps() -> impl Strategy<Value = Vec<Message>> {
    let said = (any::<bool>(), texts(), texts()).prop_map(|(is_user, one, two)| {
        let role = if is_user { Role::User } else { Role::Assistant };
        vec![Message::new(role, vec![Block::text(one), Block::text(two)])]
    });
    let thought = (texts(), texts()).prop_map(|(thought, text)| {
        let reasoning =
            json!({"reasoningContent": {"reasoningText": {"text": thought, "signature": "c2ln"}}});
        let reasoning = Block::Reasoning(Reasoning {
            text: thought,
            format: Format::Converse,
            verbatim: reasoning,
        });
        vec![Message::new(
            Role::Assistant,
            vec![reasoning, Block::text(text)],
        )]
    });
    let called = (
        prop::collection::vec((texts(), texts(), any::<bool>()), 1..4),
        "[a-z.:/]{1,9}",
    )
        .prop_map(|(calls, id)| {
            let id = |at: usize| format!("{id}{at}");
            let uses = calls.iter().enumerate().map(|(at, (argument, ..))| {
                Block::ToolUse(ToolUse {
                    id: id(at),
                    name: "look".to_owned(),
                    arguments: json!({"path": argument}).to_string(),
                    extra: Map::new(),
                })
            });
            let results = calls.iter().enumerate().map(|(at, (_, text, is_error))| {
                Block::ToolResult(ToolResult {
                    id: id(at),
                    content: vec![Block::text(text.clone())],
                    is_error: *is_error,
                    extra: Map::new(),
                })
            });
            vec![
                Message::new(Role::Assistant, uses.collect()),
                Message::new(Role::User, results.collect()),
            ]
        });
    prop_oneof![3 => said, 1 => thought, 2 => called]
}

fn conversations() -> impl Strategy<Value = Vec<Vec<Message>>> {
    prop::collection::vec(steps(), 0..8)
}

/// The pieces of messages that come one step after the other.
fn rendered(steps: &[Vec<Message>]) -> Vec<Rendered> {
    let mut before: Vec<Arc<Message>> = Vec::new();
    let mut pieces = Vec::new();
    for step in steps {
        let mut step = step.clone();
        let format = cachalot_model::wire::for_format(Format::Converse);
        format.prepare(&before, &mut step);
        for message in step {
            pieces.extend(wire().message(&message).unwrap());
            before.push(Arc::new(message));
        }
    }
    pieces
}

fn body(messages: Vec<Rendered>) -> Vec<u8> {
    let tool = ToolDefinition {
        name: "look".to_owned(),
        description: String::new(),
        parameters: Value::Null,
    };
    let pieces = Pieces {
        tools: vec![wire().tool(&tool)],
        system: vec![wire().system("Be brief.")],
        messages,
    };
    pieces
        .body(wire(), &wire().tail(&Parameters::default(), true))
        .to_vec()
}

/// The conversation as it would be sent: it ends with the user.
fn ended(mut steps: Vec<Vec<Message>>) -> Vec<Vec<Message>> {
    steps.push(vec![Message::user("And now?")]);
    steps
}

proptest! {
    /// Whatever was said, Bedrock takes it.
    #[test]
    fn every_conversation_is_a_valid_request(steps in conversations()) {
        let body = body(rendered(&ended(steps)));
        let value: Value = serde_json::from_slice(&body).unwrap();
        let checked = cachalot_simulator::check_request(
            cachalot_simulator::Format::Converse,
            false,
            named(&value, SONNET).as_bytes(),
        );
        // Ids are unique in what providers send, not here.
        let taken = checked.as_ref().err().is_none_or(|refused| refused.0.contains("unique"));
        prop_assert!(taken, "{:?}\n{value:#}", checked);
    }

    /// The prefix law: what was sent is never rendered again, however the messages came.
    #[test]
    fn request_is_a_prefix_of_the_next_request(steps in conversations(), later in conversations()) {
        let first = rendered(&steps);
        let next = rendered(&[steps.clone(), later].concat());
        prop_assert_eq!(&next[..first.len()], &first[..]);
        let at_once: Vec<Message> = steps.concat();
        prop_assert_eq!(rendered(&[at_once]), first);
    }

    /// A marker adds a block and changes nothing else.
    #[test]
    fn markers_can_be_removed(steps in conversations(), hour in any::<bool>()) {
        let time = if hour { MarkerTime::OneHour } else { MarkerTime::FiveMinutes };
        let marker = wire().marker(time).unwrap();
        let plain = rendered(&ended(steps));
        let marked = plain.iter().map(|piece| match piece.mark_at {
            Some(at) => {
                let (before, behind) = piece.bytes.split_at(at as usize);
                let bytes = [before, &marker, behind].concat();
                Rendered { bytes: bytes.into(), mark_at: None }
            }
            None => piece.clone(),
        });
        let mut with: Value = serde_json::from_slice(&body(marked.collect())).unwrap();
        let without: Value = serde_json::from_slice(&body(plain)).unwrap();
        for message in with["messages"].as_array_mut().unwrap() {
            let blocks = message["content"].as_array_mut().unwrap();
            let last = blocks.pop_if(|block| block.get("cachePoint").is_some());
            prop_assert!(blocks.iter().all(|block| block.get("cachePoint").is_none()));
            prop_assert!(last.is_some() || blocks.last().unwrap().get("text").is_none());
        }
        prop_assert_eq!(with, without);
    }
}
