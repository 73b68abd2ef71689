//! Messages, tools and system texts as pieces.

use cachalot_wire::{
    Block, CHAT, ErrorKind, Format, Image, ImageSource, MarkerTime, Message, Parameters, Pieces,
    Reasoning, ToolDefinition, ToolUse,
};
use serde_json::json;

use super::support::*;

fn thought(format: Format, verbatim: serde_json::Value) -> Block {
    Block::Reasoning(Reasoning {
        text: "hm".into(),
        format,
        verbatim,
    })
}

#[test]
fn body_of_a_rich_conversation_is_valid() {
    let tool = ToolDefinition {
        name: "read_file".into(),
        description: "Reads a file.".into(),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    };
    let messages = [
        user(vec![Block::text("What is in these?"), picture()]),
        assistant(vec![
            thought(Format::Chat, json!({"reasoning_content": "hm"})),
            Block::text("I look."),
            call("call_1", "read_file", "{\"path\": \"a\"}"),
            call("call_2", "read_file", "{\"path\":\"b\" "),
        ]),
        user(vec![
            Block::text("Be quick."),
            result("call_1", vec![Block::text("An A."), picture()], false),
            result("call_2", vec![Block::text("no such file")], true),
        ]),
        Message::assistant("An A, and nothing."),
    ];
    let mut pieces = Pieces {
        tools: vec![CHAT.tool(&tool)],
        system: vec![CHAT.system("You are brief.")],
        messages: Vec::new(),
    };
    for message in &messages {
        pieces.messages.extend(CHAT.message(message).unwrap());
    }
    let parameters = Parameters {
        model: "deepseek-reasoner".into(),
        ..Parameters::default()
    };
    let image = json!({
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="},
    });
    assert_eq!(
        body(&*CHAT, &pieces, &CHAT.tail(&parameters, false)),
        json!({
            "tools": [{
                "type": "function",
                "function": {
                    "name": "read_file",
                    "description": "Reads a file.",
                    "parameters": {
                        "type": "object",
                        "properties": {"path": {"type": "string"}},
                    },
                },
            }],
            "messages": [
                {"role": "system", "content": "You are brief."},
                {"role": "user", "content": [{"type": "text", "text": "What is in these?"}, image]},
                {
                    "role": "assistant",
                    "content": "I look.",
                    "reasoning_content": "hm",
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {"name": "read_file", "arguments": "{\"path\": \"a\"}"},
                        },
                        {
                            "id": "call_2",
                            "type": "function",
                            "function": {"name": "read_file", "arguments": "{\"path\":\"b\" "},
                        },
                    ],
                },
                {
                    "role": "tool",
                    "tool_call_id": "call_1",
                    "content": "An A.\n\n[attachment 1: in the next message of the user]",
                },
                {"role": "tool", "tool_call_id": "call_2", "content": "Error: no such file"},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "[attachment 1, of the result of call_1]"},
                        image,
                        {"type": "text", "text": "Be quick."},
                    ],
                },
                {"role": "assistant", "content": "An A, and nothing."},
            ],
            "model": "deepseek-reasoner",
        })
    );
}

#[test]
fn pieces_have_stable_bytes() {
    let rendered = CHAT.message(&Message::user("Grüß \"dich\"\n")).unwrap();
    assert_eq!(
        rendered[0].bytes,
        "{\"role\":\"user\",\"content\":\"Grüß \\\"dich\\\"\\n\"}"
    );
    assert_eq!(
        CHAT.system("s").bytes,
        "{\"role\":\"system\",\"content\":\"s\"}"
    );
    assert_eq!(CHAT.marker(MarkerTime::FiveMinutes), None);
}

#[test]
fn text_only_content_is_a_string_and_mixed_content_parts() {
    let content = |blocks| pieces(&*CHAT, &user(blocks))[0]["content"].clone();
    assert_eq!(content(vec![Block::text("a")]), json!("a"));
    assert_eq!(content(vec![Block::text("")]), json!(""));
    assert_eq!(
        content(vec![Block::text("a"), Block::text(""), Block::text("b")]),
        json!("a\n\nb")
    );
    let marked = Block::Text {
        text: "a".into(),
        extra: extra(json!({"cache_control": {"type": "ephemeral"}})),
    };
    assert_eq!(
        content(vec![marked]),
        json!([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}])
    );
    let sound = json!({"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}});
    let other = Block::Other {
        format: Format::Chat,
        verbatim: sound.clone(),
    };
    assert_eq!(content(vec![other]), json!([sound]));
}

#[test]
fn image_detail_is_sent_within_the_url_object() {
    let image = Block::Image(Image {
        source: ImageSource::Url("https://example.org/a.png".into()),
        extra: extra(json!({"detail": "low", "note": 1})),
    });
    assert_eq!(
        pieces(&*CHAT, &user(vec![image]))[0]["content"],
        json!([{
            "type": "image_url",
            "image_url": {"url": "https://example.org/a.png", "detail": "low"},
            "note": 1,
        }])
    );
}

#[test]
fn failed_result_starts_with_error_once() {
    let content = |text: &str, is_error| {
        let message = user(vec![result("c", vec![Block::text(text)], is_error)]);
        pieces(&*CHAT, &message)[0]["content"].clone()
    };
    assert_eq!(content("done", false), "done");
    assert_eq!(content("it broke", true), "Error: it broke");
    assert_eq!(content("Error: it broke", true), "Error: it broke");
    assert_eq!(content("", true), "Error: the tool failed and said nothing");
    assert_eq!(content("", false), "");
}

#[test]
fn content_is_null_only_beside_calls() {
    let piece = |blocks| pieces(&*CHAT, &assistant(blocks))[0].clone();
    let with_call = piece(vec![call("c", "t", "")]);
    assert_eq!(with_call["content"], json!(null));
    assert_eq!(
        with_call["tool_calls"][0]["function"]["arguments"], "{}",
        "servers that parse the arguments of earlier calls fail on empty text"
    );
    let thinking = thought(Format::Chat, json!({"reasoning": "hm"}));
    assert_eq!(
        piece(vec![thinking]),
        json!({"role": "assistant", "content": "", "reasoning": "hm"})
    );
    assert_eq!(
        piece(vec![Block::text("a"), Block::text("b")])["content"],
        "ab"
    );
}

#[test]
fn blocks_of_other_formats_are_not_sent() {
    let foreign = vec![
        thought(
            Format::Messages,
            json!({"type": "thinking", "signature": "s"}),
        ),
        Block::Other {
            format: Format::Responses,
            verbatim: json!({"type": "web_search_call"}),
        },
    ];
    assert_eq!(CHAT.message(&assistant(foreign.clone())).unwrap(), vec![]);
    let mut content = foreign;
    content.push(Block::Text {
        text: "a".into(),
        extra: extra(json!({"@wire": "responses", "annotations": [], "item": {"id": "msg_1"}})),
    });
    content.push(Block::ToolUse(ToolUse {
        id: "call_1".into(),
        name: "t".into(),
        arguments: "{}".into(),
        extra: extra(json!({"@wire": "responses", "id": "fc_1", "status": "completed"})),
    }));
    let mut message = assistant(content);
    message.extra = extra(json!({"@wire": "messages", "container": "c"}));
    assert_eq!(
        pieces(&*CHAT, &message),
        [json!({
            "role": "assistant",
            "content": "a",
            "tool_calls": [{
                "id": "call_1",
                "type": "function",
                "function": {"name": "t", "arguments": "{}"},
            }],
        })]
    );
}

#[test]
fn user_fields_are_added_and_never_override() {
    let mut message = Message::user("a");
    message.extra = extra(json!({"name": "Ada", "role": "system"}));
    assert_eq!(
        pieces(&*CHAT, &message),
        [json!({"role": "user", "content": "a", "name": "Ada"})]
    );
}

#[test]
fn content_that_is_invalid_for_its_role_is_refused() {
    let nested = result("c", vec![call("d", "t", "{}")], false);
    let refused = [
        user(vec![call("c", "t", "{}")]),
        user(vec![thought(Format::Chat, json!({"reasoning": "x"}))]),
        user(vec![nested]),
        assistant(vec![result("c", vec![], false)]),
        assistant(vec![picture()]),
    ];
    for message in refused {
        let error = CHAT.message(&message).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Rejected, "{message:?}");
        assert!(!error.retryable());
    }
    let empty = Message::new(cachalot_wire::Role::User, vec![]);
    assert_eq!(CHAT.message(&empty).unwrap(), vec![]);
}
