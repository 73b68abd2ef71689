//! Request bodies.

use cachalot_core::Canonical;
use cachalot_wire::{
    Block, ErrorKind, Extra, Format, Image, ImageSource, MarkerTime, Message, Parameters, Pieces,
    Reasoning, Rendered, Role, ToolDefinition, ToolResult, ToolUse,
};
use serde_json::{Value, json};

use super::{fields, messages, parsed, piece, text};

fn call(arguments: &str) -> ToolUse {
    ToolUse {
        id: "toolu_1".into(),
        name: "read_file".into(),
        arguments: arguments.into(),
        extra: Extra::new(),
    }
}

fn result(content: Vec<Block>, is_error: bool) -> Block {
    Block::ToolResult(ToolResult {
        id: "toolu_1".into(),
        content,
        is_error,
        extra: Extra::new(),
    })
}

fn tool(parameters: Value) -> ToolDefinition {
    ToolDefinition {
        name: "read_file".into(),
        description: "Reads a \"file\".".into(),
        parameters,
    }
}

/// The piece with a marker where it may stand.
fn marked(piece: &Rendered) -> String {
    let at = usize::try_from(piece.mark_at.unwrap()).unwrap();
    let mut bytes = text(&piece.bytes);
    bytes.insert_str(
        at,
        &text(&messages().marker(MarkerTime::FiveMinutes).unwrap()),
    );
    bytes
}

#[test]
fn tool_fields_have_the_documented_order() {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    assert_eq!(
        text(&messages().tool(&tool(schema)).bytes),
        r#"{"name":"read_file","description":"Reads a \"file\".","input_schema":{"type":"object","properties":{"path":{"type":"string"}}}}"#
    );
}

#[test]
fn tool_schema_gets_type_object() {
    for (schema, expected) in [
        (json!(null), json!({"type": "object"})),
        (json!({}), json!({"type": "object"})),
        (
            json!({"properties": {}}),
            json!({"type": "object", "properties": {}}),
        ),
    ] {
        let rendered = text(&messages().tool(&tool(schema)).bytes);
        assert_eq!(parsed(&rendered)["input_schema"], expected);
    }
    let silent = ToolDefinition {
        description: String::new(),
        ..tool(json!({}))
    };
    let rendered = text(&messages().tool(&silent).bytes);
    assert_eq!(parsed(&rendered).get("description"), None);
}

#[test]
fn body_contains_tools_system_messages_and_tail() {
    let wire = messages();
    let pieces = Pieces {
        tools: vec![wire.tool(&tool(json!({"type": "object"})))],
        system: vec![wire.system("Be brief.")],
        messages: wire.message(&Message::user("Hi")).unwrap(),
    };
    let tail = wire.tail(
        &Parameters {
            model: "claude-sonnet-4-5".into(),
            max_output_tokens: Some(100),
            ..Parameters::default()
        },
        true,
    );
    assert_eq!(
        text(&pieces.body(wire, &tail)),
        concat!(
            r#"{"tools":[{"name":"read_file","description":"Reads a \"file\".","input_schema":{"type":"object"}}],"#,
            r#""system":[{"type":"text","text":"Be brief."}],"#,
            r#""messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}],"#,
            r#""model":"claude-sonnet-4-5","max_tokens":100,"stream":true}"#
        )
    );
}

#[test]
fn blocks_match_the_documentation() {
    let image = |source| {
        Block::Image(Image {
            source,
            extra: Extra::new(),
        })
    };
    let message = Message::new(
        Role::User,
        vec![
            result(vec![Block::text("42")], false),
            Block::text("What is this?"),
            image(ImageSource::Url("https://example.com/a.png".into())),
            image(ImageSource::Inline {
                media_type: "image/png".into(),
                base64: "aGk=".into(),
            }),
            image(ImageSource::Url("data:image/gif;base64,aGk=".into())),
        ],
    );
    assert_eq!(
        piece(&message),
        concat!(
            r#"{"role":"user","content":["#,
            r#"{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"42"}]},"#,
            r#"{"type":"text","text":"What is this?"},"#,
            r#"{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}},"#,
            r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}},"#,
            r#"{"type":"image","source":{"type":"base64","media_type":"image/gif","data":"aGk="}}]}"#
        )
    );
}

#[test]
fn arguments_keep_the_text_of_the_model() {
    for arguments in [
        r#"{"path": "a.txt",  "n":1.50, "big":12345678901234567890123, "e":"\u00e9"}"#,
        "{\n  \"path\": \"a\"\n}",
        r#"{"a":1,"a":2}"#,
        "{}",
    ] {
        let rendered = piece(&Message::new(
            Role::Assistant,
            vec![Block::ToolUse(call(arguments))],
        ));
        assert_eq!(
            rendered,
            format!(
                r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"toolu_1","name":"read_file","input":{arguments}}}]}}"#
            )
        );
    }
}

#[test]
fn invalid_arguments_are_wrapped_in_an_object() {
    let input = |arguments: &str| {
        let message = Message::new(Role::Assistant, vec![Block::ToolUse(call(arguments))]);
        parsed(&piece(&message))["content"][0]["input"].clone()
    };
    for empty in ["", "  \n", "null"] {
        assert_eq!(input(empty), json!({}));
    }
    for invalid in [
        r#"{"path": "a"#,
        "[1]",
        "\"text\"",
        r#"{"a":"\ud800"}"#,
        "{\"a\":\"\n\"}",
        r#"{"a":1},"cache_control":{}"#,
        "{}}",
    ] {
        assert_eq!(input(invalid), json!({"invalid_arguments": invalid}));
    }
}

#[test]
fn invalid_tool_names_are_replaced_in_call_and_result() {
    let foreign = |id: &str| {
        let call = ToolUse {
            id: id.into(),
            ..call("{}")
        };
        let result = ToolResult {
            id: id.into(),
            content: vec![Block::text("x")],
            is_error: false,
            extra: Extra::new(),
        };
        let call = Message::new(Role::Assistant, vec![Block::ToolUse(call)]);
        let result = Message::new(Role::User, vec![Block::ToolResult(result)]);
        let sent = parsed(&piece(&call))["content"][0]["id"].clone();
        assert_eq!(sent, parsed(&piece(&result))["content"][0]["tool_use_id"]);
        sent
    };
    assert_eq!(foreign("toolu_01-A"), "toolu_01-A");
    assert_eq!(foreign("functions.read:0"), "functions_2eread_3a0");
    assert_eq!(foreign(""), "_");
}

#[test]
fn is_error_is_sent_only_for_failures() {
    let sent = |content: Vec<Block>, is_error| {
        let message = Message::new(Role::User, vec![result(content, is_error)]);
        parsed(&piece(&message))["content"][0].clone()
    };
    assert_eq!(
        sent(vec![Block::text("no such file")], true),
        json!({"type": "tool_result", "tool_use_id": "toolu_1",
               "content": [{"type": "text", "text": "no such file"}], "is_error": true})
    );
    assert_eq!(
        sent(vec![Block::text("")], false),
        json!({"type": "tool_result", "tool_use_id": "toolu_1"})
    );
    // The API refuses an error without content.
    let silent = sent(vec![], true);
    assert_eq!(silent["is_error"], true);
    assert!(!silent["content"][0]["text"].as_str().unwrap().is_empty());
}

#[test]
fn call_within_a_result_is_refused() {
    let nested = result(vec![result(vec![], false)], false);
    let error = messages()
        .message(&Message::new(Role::User, vec![nested]))
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Rejected);
    assert!(error.message.contains("toolu_1"), "{error}");
}

#[test]
fn reasoning_and_unknown_blocks_are_sent_to_their_format_only() {
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"});
    let unknown = json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}});
    let blocks = |format| {
        vec![
            Block::Reasoning(Reasoning {
                text: "hm".into(),
                format,
                verbatim: thinking.clone(),
            }),
            Block::Other {
                format,
                verbatim: unknown.clone(),
            },
        ]
    };
    let own = Message::new(Role::Assistant, blocks(Format::Messages));
    assert_eq!(parsed(&piece(&own))["content"], json!([thinking, unknown]));
    for format in [Format::Chat, Format::Responses] {
        let foreign = Message::new(Role::Assistant, blocks(format));
        assert!(messages().message(&foreign).unwrap().is_empty());
        let mut mixed = foreign;
        mixed.content.push(Block::text("So"));
        assert_eq!(
            parsed(&piece(&mixed))["content"],
            json!([{"type": "text", "text": "So"}])
        );
    }
}

#[test]
fn blank_text_is_not_sent() {
    for blank in ["", " ", "\n\t "] {
        let message = Message::user(blank);
        assert!(messages().message(&message).unwrap().is_empty());
        let message = Message::new(
            Role::User,
            vec![Block::text(blank), Block::text("a"), Block::text(blank)],
        );
        assert_eq!(
            piece(&message),
            r#"{"role":"user","content":[{"type":"text","text":"a"}]}"#
        );
        assert_eq!(messages().system(blank).mark_at, None);
    }
}

#[test]
fn marker_is_the_last_field_of_the_last_block() {
    let wire = messages();
    let mark = r#","cache_control":{"type":"ephemeral"}"#;
    assert_eq!(
        marked(&wire.system("Be brief.")),
        format!(r#"{{"type":"text","text":"Be brief."{mark}}}"#)
    );
    assert_eq!(
        marked(&wire.tool(&tool(json!({"type": "object"})))),
        format!(
            r#"{{"name":"read_file","description":"Reads a \"file\".","input_schema":{{"type":"object"}}{mark}}}"#
        )
    );
    let message = Message {
        extra: fields(json!({"further": {"a": 1}})),
        ..Message::new(Role::User, vec![Block::text("a"), Block::text("b}]")])
    };
    assert_eq!(
        marked(&wire.message(&message).unwrap()[0]),
        format!(
            r#"{{"role":"user","content":[{{"type":"text","text":"a"}},{{"type":"text","text":"b}}]"{mark}}}],"further":{{"a":1}}}}"#
        )
    );
    assert_eq!(
        text(&wire.marker(MarkerTime::OneHour).unwrap()),
        r#","cache_control":{"type":"ephemeral","ttl":"1h"}"#
    );
}

#[test]
fn marker_is_set_before_a_trailing_blank_text() {
    let wire = messages();
    let message = Message::new(Role::Assistant, vec![Block::text("a"), Block::text("\n")]);
    let sent = parsed(&marked(&wire.message(&message).unwrap()[0]));
    assert_eq!(
        sent["content"][0]["cache_control"],
        json!({"type": "ephemeral"})
    );
}

#[test]
fn blocks_without_marker_support_get_none() {
    let mark_at = |verbatim: Value| {
        let block = match verbatim["type"].as_str() {
            Some("thinking" | "redacted_thinking") => Block::Reasoning(Reasoning {
                text: String::new(),
                format: Format::Messages,
                verbatim,
            }),
            _ => Block::Other {
                format: Format::Messages,
                verbatim,
            },
        };
        let message = Message::new(Role::Assistant, vec![Block::text("a"), block]);
        messages().message(&message).unwrap()[0].mark_at
    };
    assert_eq!(
        mark_at(json!({"type": "thinking", "thinking": "", "signature": ""})),
        None
    );
    assert_eq!(
        mark_at(json!({"type": "redacted_thinking", "data": ""})),
        None
    );
    assert_eq!(mark_at(json!({"type": "not_known_yet", "a": 1})), None);
    assert!(mark_at(json!({"type": "web_search_tool_result", "content": []})).is_some());
    assert!(mark_at(json!({"type": "document", "source": {}})).is_some());
}

#[test]
fn extra_fields_are_sent_back_once_and_never_as_markers() {
    let extra = json!({"type": "x", "text": "y", "id": "z", "input": 1, "content": 2,
        "cache_control": {"type": "ephemeral"}, "further": [1]});
    let message = Message::new(
        Role::Assistant,
        vec![
            Block::Text {
                text: "a".into(),
                extra: fields(json!({"citations": [], "text": "b", "cache_control": {}})),
            },
            Block::Other {
                format: Format::Messages,
                verbatim: json!({"type": "document", "source": {}, "cache_control": {}}),
            },
            Block::ToolUse(ToolUse {
                extra: fields(extra),
                ..call("{}")
            }),
        ],
    );
    let sent = piece(&message);
    Canonical::json(sent.as_bytes()).expect("no key twice");
    assert_eq!(
        parsed(&sent)["content"],
        json!([
            {"type": "text", "text": "a", "citations": []},
            {"type": "document", "source": {}},
            {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {},
             "text": "y", "content": 2, "further": [1]},
        ])
    );
}

#[test]
fn fields_of_another_format_are_not_sent() {
    let read = |format, body: Value| {
        let reply = cachalot_wire::for_format(format).reply(body.to_string().as_bytes());
        reply.unwrap().message
    };
    let message = read(
        Format::Responses,
        json!({"id": "resp_1", "object": "response", "status": "completed", "model": "gpt-5",
            "output": [
                {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                 "content": [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}]},
                {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f",
                 "arguments": "{}", "status": "completed"}]}),
    );
    assert_eq!(
        parsed(&piece(&message)),
        json!({"role": "assistant", "content": [
            {"type": "text", "text": "Hi"},
            {"type": "tool_use", "id": "call_1", "name": "f", "input": {}}]})
    );
}
