//! Conversations for property tests.

use cachalot_model::{
    Block, Extra, Format, Image, ImageSource, Message, Reasoning, Role, ToolDefinition, ToolResult,
    ToolUse,
};
use proptest::prelude::*;
use serde_json::json;

pub fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: format!("What {name} does: \"all\" of it."),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    }
}

pub fn call(id: &str) -> Block {
    Block::ToolUse(ToolUse {
        id: id.to_owned(),
        name: "grep".to_owned(),
        arguments: "{\"path\": \"a b\",  \"n\":1.50}".to_owned(),
        extra: Extra::new(),
    })
}

pub fn result(id: &str, text: &str) -> Block {
    Block::ToolResult(ToolResult {
        id: id.to_owned(),
        content: vec![Block::text(text)],
        is_error: text.is_empty(),
        extra: Extra::new(),
    })
}

pub fn reasoning(format: Format, text: &str) -> Block {
    let verbatim = match format {
        Format::Messages => json!({"type": "thinking", "thinking": text, "signature": "c2ln"}),
        Format::Responses => json!({"type": "reasoning", "id": "rs_1", "summary": [],
            "encrypted_content": text}),
        Format::Chat => json!({"reasoning_content": text}),
        Format::Gemini => json!({"text": text, "thought": true}),
        Format::Interactions => json!({"type": "thought", "signature": text}),
        Format::Converse => {
            json!({"reasoningContent": {"reasoningText": {"text": text, "signature": "c2ln"}}})
        }
    };
    Block::Reasoning(Reasoning {
        text: text.to_owned(),
        format,
        verbatim,
    })
}

/// Text as it comes: quotes, controls, other scripts, what looks like a marker, nothing at all.
pub fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => any::<String>(),
        2 => "[ -~\n\t]{0,60}",
        1 => Just("\",\"cache_control\":{\"type\":\"ephemeral\"}}],\"mark\":5".to_owned()),
        1 => Just(String::new()),
        1 => Just("\u{1F433} \u{0} \u{2028} ünïcödé".to_owned()),
    ]
}

fn image() -> Block {
    Block::Image(Image {
        source: ImageSource::Inline {
            media_type: "image/png".to_owned(),
            base64: "iVBORw0KGgo=".to_owned(),
        },
        extra: Extra::new(),
    })
}

fn user() -> impl Strategy<Value = Message> {
    let block = prop_oneof![
        6 => text().prop_map(Block::text),
        1 => Just(image()),
    ];
    proptest::collection::vec(block, 0..4).prop_map(|blocks| Message::new(Role::User, blocks))
}

fn format() -> impl Strategy<Value = Format> {
    prop_oneof![
        Just(Format::Chat),
        Just(Format::Responses),
        Just(Format::Messages),
        Just(Format::Converse),
        Just(Format::Interactions)
    ]
}

fn answer() -> impl Strategy<Value = Message> {
    let block = prop_oneof![
        5 => text().prop_map(Block::text),
        2 => "[a-z]{1,4}".prop_map(|id| call(&id)),
        2 => (format(), text()).prop_map(|(format, text)| reasoning(format, &text)),
    ];
    proptest::collection::vec(block, 0..5).prop_map(|blocks| Message::new(Role::Assistant, blocks))
}

fn results() -> impl Strategy<Value = Message> {
    let block = ("[a-z]{1,4}", text()).prop_map(|(id, text)| result(&id, &text));
    proptest::collection::vec(block, 1..4).prop_map(|blocks| Message::new(Role::User, blocks))
}

/// An arbitrary message.
pub fn message() -> impl Strategy<Value = Message> {
    prop_oneof![user(), answer(), results()]
}

/// Several of them.
pub fn messages(maximum: usize) -> impl Strategy<Value = Vec<Message>> {
    proptest::collection::vec(message(), 0..maximum)
}
