//! Requests.

use cachalot_wire::{
    Block, Format, Image, ImageSource, Message, OutputFormat, Parameters, Reasoning, Request,
    RequestedReasoning, Role, ToolChoice, ToolDefinition,
};
use serde_json::{Map, Value, json};

use super::{body, wire};
use crate::chat::support::{call, extra, picture, result};

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: "Looks.".to_owned(),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    }
}

fn parameters() -> Parameters {
    Parameters {
        model: "gemini-3.8-flash".to_owned(),
        ..Parameters::default()
    }
}

#[test]
fn tools_system_and_messages_have_their_fields() {
    let request = Request {
        tools: vec![tool("look"), tool("listen")],
        system: Some("Be \"brief\".".to_owned()),
        messages: vec![
            Message::user("Look."),
            Message::new(
                Role::Assistant,
                vec![
                    Block::text("I look."),
                    call("a", "look", r#"{"path": "x",  "n": 1.50}"#),
                    call("b", "listen", ""),
                ],
            ),
            Message::new(
                Role::User,
                vec![
                    Block::text("Go on."),
                    result("a", vec![Block::text("a whale")], false),
                    result("b", vec![Block::text("no ears")], true),
                ],
            ),
        ],
        parameters: parameters(),
    };
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    assert_eq!(
        body(&request),
        json!({
            "tools": [
                {"type": "function", "name": "look", "description": "Looks.", "parameters": schema},
                {"type": "function", "name": "listen", "description": "Looks.", "parameters": schema},
            ],
            "system_instruction": "Be \"brief\".",
            "input": [
                {"type": "user_input", "content": [{"type": "text", "text": "Look."}]},
                {"type": "model_output", "content": [{"type": "text", "text": "I look."}]},
                {"type": "function_call", "id": "a", "name": "look", "arguments": {"path": "x", "n": 1.5}},
                {"type": "function_call", "id": "b", "name": "listen", "arguments": {}},
                {"type": "function_result", "call_id": "a", "name": "look", "result": "a whale"},
                {"type": "function_result", "call_id": "b", "name": "listen", "result": "no ears", "is_error": true},
                {"type": "user_input", "content": [{"type": "text", "text": "Go on."}]},
            ],
            "model": "gemini-3.8-flash",
            "store": false,
            "stream": true,
        })
    );
    let bytes = request.body(wire(), false).unwrap();
    let text = std::str::from_utf8(&bytes).unwrap();
    assert!(
        text.contains(r#"{"path": "x",  "n": 1.50}"#),
        "as the model wrote it: {text}"
    );
    assert!(!text.contains("stream"), "{text}");
}

#[test]
fn images_are_contents_of_inputs_and_results() {
    let from = |source| {
        Block::Image(Image {
            source,
            extra: extra(json!({"detail": "low"})),
        })
    };
    let request = Request {
        messages: vec![
            Message::new(
                Role::User,
                vec![
                    picture(),
                    from(ImageSource::Url("data:image/png;base64,aGk=".to_owned())),
                    from(ImageSource::Url("https://whales.example/a.png".to_owned())),
                ],
            ),
            Message::new(Role::Assistant, vec![call("a", "look", "{}")]),
            Message::new(
                Role::User,
                vec![result("a", vec![Block::text("one"), picture()], true)],
            ),
        ],
        parameters: parameters(),
        ..Request::default()
    };
    let body = body(&request);
    let shown = json!({"type": "image", "mime_type": "image/png", "data": "iVBORw0KGgo="});
    assert_eq!(
        body["input"][0]["content"],
        json!([
            shown,
            {"type": "image", "mime_type": "image/png", "data": "aGk="},
            {"type": "image", "uri": "https://whales.example/a.png"},
        ])
    );
    assert_eq!(
        body["input"][2],
        json!({"type": "function_result", "call_id": "a", "name": "look",
            "result": [{"type": "text", "text": "one"}, shown], "is_error": true})
    );
}

#[test]
fn settings_are_sent_and_extra_fields_win() {
    let parameters = Parameters {
        max_output_tokens: Some(100),
        temperature: Some(0.5),
        top_p: Some(0.9),
        stop: vec!["END".to_owned()],
        tool_choice: Some(ToolChoice::Tool("look".to_owned())),
        parallel_tool_calls: Some(false),
        reasoning: Some(RequestedReasoning::Effort("low".to_owned())),
        output: Some(OutputFormat {
            name: "answer".to_owned(),
            schema: json!({"type": "object"}),
            strict: true,
        }),
        cache_key: Some("k".to_owned()),
        extra: extra(json!({
            "generation_config": {"seed": 7, "temperature": null, "thinking_summaries": "none"},
            "service_tier": "flex",
            "input": [],
            "system_instruction": "other",
            "stream": false,
        })),
        ..parameters()
    };
    let request = Request {
        tools: vec![tool("look")],
        messages: vec![Message::user("x")],
        parameters,
        ..Request::default()
    };
    let body = body(&request);
    assert_eq!(
        body["generation_config"],
        json!({
            "max_output_tokens": 100, "top_p": 0.9, "stop_sequences": ["END"],
            "tool_choice": {"allowed_tools": {"mode": "any", "tools": ["look"]}},
            "thinking_level": "low", "thinking_summaries": "none", "seed": 7,
        })
    );
    let format =
        json!({"type": "text", "mime_type": "application/json", "schema": {"type": "object"}});
    assert_eq!(body["response_format"], format);
    assert_eq!(body["service_tier"], "flex");
    assert_eq!(body["input"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&body["stream"], &body["store"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(body.get("system_instruction"), None);
}

#[test]
fn choices_and_json_mode_have_their_words() {
    let of = |tool_choice, output| {
        let request = Request {
            tools: vec![tool("look")],
            messages: vec![Message::user("x")],
            parameters: Parameters {
                tool_choice,
                output,
                ..parameters()
            },
            ..Request::default()
        };
        body(&request)
    };
    for (choice, word) in [
        (ToolChoice::Auto, "auto"),
        (ToolChoice::None, "none"),
        (ToolChoice::Any, "any"),
    ] {
        let body = of(Some(choice), None);
        assert_eq!(body["generation_config"], json!({"tool_choice": word}));
        assert_eq!(body.get("response_format"), None);
    }
    assert_eq!(
        of(None, Some(OutputFormat::json_object()))["response_format"],
        json!({"type": "text", "mime_type": "application/json"})
    );
}

/// The API has levels, no budgets, and thinking is never off.
#[test]
fn thinking_is_a_level() {
    let effort = |effort: &str| RequestedReasoning::Effort(effort.to_owned());
    for (wish, level) in [
        (effort("low"), "low"),
        (effort("xhigh"), "xhigh"),
        (effort("none"), "minimal"),
        (RequestedReasoning::Budget(0), "minimal"),
        (RequestedReasoning::Budget(2_048), "low"),
        (RequestedReasoning::Budget(9_000), "medium"),
        (RequestedReasoning::Budget(20_000), "high"),
    ] {
        let request = Request {
            messages: vec![Message::user("x")],
            parameters: Parameters {
                reasoning: Some(wish),
                ..parameters()
            },
            ..Request::default()
        };
        assert_eq!(
            body(&request)["generation_config"],
            json!({"thinking_level": level, "thinking_summaries": "auto"})
        );
    }
}

#[test]
fn blocks_of_other_formats_are_not_sent() {
    let marked = |format: &str, fields: Value| {
        let mut fields = extra(fields);
        fields.insert("@wire".to_owned(), format.into());
        fields
    };
    let request = Request {
        messages: vec![
            Message::user("x"),
            Message::new(
                Role::Assistant,
                vec![
                    Block::Reasoning(Reasoning {
                        text: "hm".to_owned(),
                        format: Format::Gemini,
                        verbatim: json!({"text": "hm", "thought": true}),
                    }),
                    Block::Other {
                        format: Format::Responses,
                        verbatim: json!({"type": "web_search_call"}),
                    },
                    Block::Text {
                        text: "y".to_owned(),
                        extra: marked("gemini", json!({"thoughtSignature": "c2ln"})),
                    },
                    Block::text(""),
                ],
            ),
            Message::new(Role::Assistant, vec![Block::text("")]),
        ],
        parameters: parameters(),
        ..Request::default()
    };
    assert_eq!(
        body(&request)["input"],
        json!([
            {"type": "user_input", "content": [{"type": "text", "text": "x"}]},
            {"type": "model_output", "content": [{"type": "text", "text": "y"}]},
        ])
    );
}

#[test]
fn misplaced_blocks_are_refused() {
    for (role, block) in [
        (Role::User, call("a", "look", "{}")),
        (
            Role::User,
            Block::Reasoning(Reasoning {
                text: String::new(),
                format: Format::Interactions,
                verbatim: json!({"type": "thought"}),
            }),
        ),
        (Role::Assistant, result("a", vec![Block::text("x")], false)),
        (
            Role::User,
            result("a", vec![call("b", "look", "{}")], false),
        ),
    ] {
        let message = Message {
            role,
            content: vec![block],
            extra: Map::new(),
        };
        wire().message(&message).unwrap_err();
    }
}

#[test]
fn failed_function_without_output_says_so() {
    let message = Message::new(Role::User, vec![result("a", Vec::new(), true)]);
    let pieces = wire().message(&message).unwrap();
    let step: Value = serde_json::from_slice(&pieces[0].bytes).unwrap();
    assert_eq!(
        step,
        json!({"type": "function_result", "call_id": "a",
            "result": "The tool failed and said nothing.", "is_error": true})
    );
}
