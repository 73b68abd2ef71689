//! Requests.

use cachalot_model::{
    Block, Format, Image, ImageSource, Message, OutputFormat, Parameters, Reasoning, Request,
    RequestedReasoning, Role, ToolChoice, ToolDefinition, ToolResult, ToolUse,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{body, body_with, model};

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: "Looks.".to_owned(),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    }
}

fn call(id: &str, name: &str, arguments: &str) -> Block {
    Block::ToolUse(ToolUse {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        extra: serde_json::Map::new(),
    })
}

fn result(id: &str, text: &str, is_error: bool) -> Block {
    Block::ToolResult(ToolResult {
        id: id.to_owned(),
        content: vec![Block::text(text)],
        is_error,
        extra: serde_json::Map::new(),
    })
}

#[test]
fn tools_system_and_messages_have_their_fields() {
    let request = Request {
        tools: vec![tool("look"), tool("listen")],
        system: Some("Be brief.".to_owned()),
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
                vec![result("a", "a whale", false), result("b", "no ears", true)],
            ),
        ],
        parameters: Parameters {
            model: "gemini-2.5-flash".to_owned(),
            ..Parameters::default()
        },
    };
    let parameters = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    assert_eq!(
        body(&request),
        json!({
            "tools": [{"functionDeclarations": [
                {"name": "look", "description": "Looks.", "parametersJsonSchema": parameters},
                {"name": "listen", "description": "Looks.", "parametersJsonSchema": parameters},
            ]}],
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [
                {"role": "user", "parts": [{"text": "Look."}]},
                {"role": "model", "parts": [
                    {"text": "I look."},
                    {"functionCall": {"id": "a", "name": "look", "args": {"path": "x", "n": 1.5}}},
                    {"functionCall": {"id": "b", "name": "listen", "args": {}}},
                ]},
                {"role": "user", "parts": [
                    {"functionResponse": {"id": "a", "name": "look", "response": {"output": "a whale"}}},
                    {"functionResponse": {"id": "b", "name": "listen", "response": {"error": "no ears"}}},
                ]},
            ],
        })
    );
    let bytes = request.body(super::wire(), false).unwrap();
    let text = std::str::from_utf8(&bytes).unwrap();
    assert!(
        text.contains(r#"{"path": "x",  "n": 1.50}"#),
        "as the model wrote it: {text}"
    );
}

#[test]
fn images_follow_texts_and_tool_results() {
    let image = |source| {
        Block::Image(Image {
            source,
            extra: serde_json::Map::new(),
        })
    };
    let png = || ImageSource::Inline {
        media_type: "image/png".to_owned(),
        base64: "aGk=".to_owned(),
    };
    let request = Request {
        messages: vec![
            Message::new(
                Role::User,
                vec![
                    image(png()),
                    image(ImageSource::Url("data:image/png;base64,aGk=".to_owned())),
                    image(ImageSource::Url("https://whales.example/a.png".to_owned())),
                ],
            ),
            Message::new(
                Role::Assistant,
                vec![call("a", "look", "{}"), call("b", "look", "{}")],
            ),
            Message::new(
                Role::User,
                vec![
                    Block::ToolResult(ToolResult {
                        id: "a".to_owned(),
                        content: vec![image(png())],
                        is_error: false,
                        extra: serde_json::Map::new(),
                    }),
                    result("b", "nothing", false),
                ],
            ),
        ],
        ..Request::default()
    };
    let body = body(&request);
    let inline = json!({"inlineData": {"mimeType": "image/png", "data": "aGk="}});
    assert_eq!(
        body["contents"][0]["parts"],
        json!([inline, inline, {"fileData": {"fileUri": "https://whales.example/a.png"}}])
    );
    let parts = body["contents"][2]["parts"].as_array().unwrap();
    assert_eq!((parts.len(), &parts[2]), (3, &inline));
}

#[test]
fn generation_config_is_sent_and_extra_fields_win() {
    let parameters = Parameters {
        model: "gemini-3-pro-preview".to_owned(),
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
        extra: serde_json::from_value(json!({
            "generationConfig": {"seed": 7, "temperature": null, "thinkingConfig": {"includeThoughts": false}},
            "cachedContent": "cachedContents/x",
            "contents": [],
            "stream": true,
        }))
        .unwrap(),
    };
    let request = Request {
        tools: vec![tool("look")],
        messages: vec![Message::user("x")],
        parameters,
        ..Request::default()
    };
    let body = body(&request);
    assert_eq!(
        body["generationConfig"],
        json!({
            "maxOutputTokens": 100, "topP": 0.9, "stopSequences": ["END"],
            "responseMimeType": "application/json", "responseJsonSchema": {"type": "object"},
            "thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": false}, "seed": 7,
        })
    );
    assert_eq!(
        body["toolConfig"],
        json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}})
    );
    assert_eq!(body["cachedContent"], "cachedContents/x");
    assert_eq!(body["contents"].as_array().unwrap().len(), 1);
    assert!(body.get("stream").is_none() && body.get("model").is_none());
}

#[test]
fn thinking_is_a_budget_up_to_2_5_and_a_level_from_3() {
    let thinking = |model: &str, wish: RequestedReasoning| {
        let request = Request {
            messages: vec![Message::user("x")],
            parameters: Parameters {
                model: model.to_owned(),
                reasoning: Some(wish),
                ..Parameters::default()
            },
            ..Request::default()
        };
        body(&request)["generationConfig"]["thinkingConfig"].clone()
    };
    let effort = |effort: &str| RequestedReasoning::Effort(effort.to_owned());
    for (model, wish, expected) in [
        (
            "gemini-2.5-pro",
            effort("low"),
            json!({"thinkingBudget": 1_024, "includeThoughts": true}),
        ),
        (
            "gemini-2.5-pro",
            effort("high"),
            json!({"thinkingBudget": 24_576, "includeThoughts": true}),
        ),
        (
            "gemini-2.5-flash",
            effort("none"),
            json!({"thinkingBudget": 0}),
        ),
        (
            "gemini-2.5-flash",
            RequestedReasoning::Budget(0),
            json!({"thinkingBudget": 0}),
        ),
        (
            "gemini-3-pro",
            RequestedReasoning::Budget(9),
            json!({"thinkingBudget": 9, "includeThoughts": true}),
        ),
        (
            "gemini-3-pro",
            effort("high"),
            json!({"thinkingLevel": "HIGH", "includeThoughts": true}),
        ),
        (
            "models/gemini-3-pro",
            effort("none"),
            json!({"thinkingLevel": "MINIMAL"}),
        ),
    ] {
        assert_eq!(thinking(model, wish), expected, "{model}");
    }
}

#[test]
fn call_without_signature_gets_the_skip_signature() {
    let request = Request {
        messages: vec![
            Message::user("x"),
            Message::new(
                Role::Assistant,
                vec![call("a", "look", "{}"), call("b", "look", "{}")],
            ),
            Message::new(
                Role::User,
                vec![result("a", "1", false), result("b", "2", false)],
            ),
        ],
        ..Request::default()
    };
    let signatures = |name: &str| -> Vec<Value> {
        let body = body_with(model(name).wire(), &request);
        let parts = body["contents"][1]["parts"].as_array().unwrap();
        parts
            .iter()
            .map(|part| part["thoughtSignature"].clone())
            .collect()
    };
    assert_eq!(
        signatures("gemini-3-pro-preview"),
        [json!("skip_thought_signature_validator"), Value::Null]
    );
    assert_eq!(signatures("gemini-2.5-flash"), [Value::Null, Value::Null]);
}

#[test]
fn blocks_of_other_formats_are_not_sent() {
    let request = Request {
        messages: vec![
            Message::user("x"),
            Message::new(
                Role::Assistant,
                vec![
                    Block::Reasoning(Reasoning {
                        text: "hm".to_owned(),
                        format: Format::Messages,
                        verbatim: json!({"type": "thinking", "thinking": "hm", "signature": "s"}),
                    }),
                    Block::Other {
                        format: Format::Responses,
                        verbatim: json!({"type": "web_search_call"}),
                    },
                    Block::text("y"),
                ],
            ),
            Message::new(Role::Assistant, vec![Block::text("")]),
        ],
        ..Request::default()
    };
    assert_eq!(
        body(&request)["contents"],
        json!([
            {"role": "user", "parts": [{"text": "x"}]},
            {"role": "model", "parts": [{"text": "y"}]},
        ])
    );
}

fn block() -> impl Strategy<Value = Block> {
    prop_oneof![
        ".{0,12}".prop_map(Block::text),
        ("[a-z]{1,8}", "[a-z_]{1,8}", ".{0,12}")
            .prop_map(|(id, name, arguments)| call(&id, &name, &arguments)),
        ("[a-z]{1,8}", ".{0,12}", any::<bool>())
            .prop_map(|(id, text, failed)| result(&id, &text, failed)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn requests_are_valid_for_the_official_client(
        turns in proptest::collection::vec((any::<bool>(), proptest::collection::vec(block(), 0..5)), 0..6),
        text in ".{0,20}",
    ) {
        let messages = turns.into_iter().map(|(user, blocks)| {
            Message::new(if user { Role::User } else { Role::Assistant }, blocks)
        });
        let request = Request {
            tools: vec![tool("look")],
            system: Some(text.clone()),
            messages: std::iter::once(Message::user(format!("x{text}"))).chain(messages).collect(),
            ..Request::default()
        };
        body(&request);
        body_with(model("gemini-3-pro-preview").wire(), &request);
    }
}
