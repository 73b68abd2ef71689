//! Requests.

use cachalot_model::wire::{MarkerTime, Pieces};
use cachalot_model::{
    Block, Format, Image, ImageSource, MarkerRules, MarkerStyle, Message, OutputFormat, Parameters,
    Reasoning, Request, RequestedReasoning, Role, ToolChoice, ToolDefinition, ToolResult, ToolUse,
};
use serde_json::{Map, Value, json};

use super::{SONNET, body, body_with, model, named, wire};

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
        extra: Map::new(),
    })
}

fn result(id: &str, content: Vec<Block>, is_error: bool) -> Block {
    Block::ToolResult(ToolResult {
        id: id.to_owned(),
        content,
        is_error,
        extra: Map::new(),
    })
}

fn image(source: ImageSource) -> Block {
    Block::Image(Image {
        source,
        extra: Map::new(),
    })
}

fn parameters() -> Parameters {
    Parameters {
        model: SONNET.to_owned(),
        ..Parameters::default()
    }
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
                vec![
                    result("a", vec![Block::text("a whale")], false),
                    result("b", vec![Block::text("no ears")], true),
                ],
            ),
        ],
        parameters: parameters(),
    };
    let spec = |name: &str| {
        json!({"toolSpec": {"name": name, "description": "Looks.", "inputSchema": {"json": {
            "type": "object", "properties": {"path": {"type": "string"}}}}}})
    };
    assert_eq!(
        body(&request),
        json!({
            "toolConfig": {"tools": [spec("look"), spec("listen")]},
            "system": [{"text": "Be brief."}],
            "messages": [
                {"role": "user", "content": [{"text": "Look."}]},
                {"role": "assistant", "content": [
                    {"text": "I look."},
                    {"toolUse": {"toolUseId": "a", "name": "look", "input": {"path": "x", "n": 1.5}}},
                    {"toolUse": {"toolUseId": "b", "name": "listen", "input": {}}},
                ]},
                {"role": "user", "content": [
                    {"toolResult": {"toolUseId": "a", "content": [{"text": "a whale"}], "status": "success"}},
                    {"toolResult": {"toolUseId": "b", "content": [{"text": "no ears"}], "status": "error"}},
                ]},
            ],
        })
    );
    let bytes = request.body(wire(), false).unwrap();
    let text = std::str::from_utf8(&bytes).unwrap();
    assert!(
        text.contains(r#"{"path": "x",  "n": 1.50}"#),
        "as the model wrote it: {text}"
    );
}

#[test]
fn images_and_own_blocks_are_sent_and_foreign_blocks_are_not() {
    let png = || ImageSource::Inline {
        media_type: "image/png".to_owned(),
        base64: "aGk=".to_owned(),
    };
    let document =
        json!({"document": {"name": "notes", "format": "txt", "source": {"text": "whales"}}});
    let other = |format| Block::Other {
        format,
        verbatim: document.clone(),
    };
    let reasoning = |format, verbatim| {
        Block::Reasoning(Reasoning {
            text: "Hm.".to_owned(),
            format,
            verbatim,
        })
    };
    let signed =
        json!({"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}});
    let request = Request {
        tools: vec![tool("look")],
        messages: vec![
            Message::new(
                Role::User,
                vec![
                    image(png()),
                    image(ImageSource::Url("data:image/jpg;base64,aGk=".to_owned())),
                    image(ImageSource::Url("s3://whales/a.WEBP".to_owned())),
                    other(Format::Converse),
                    other(Format::Gemini),
                    Block::text("What is it?"),
                ],
            ),
            Message::new(
                Role::Assistant,
                vec![
                    reasoning(Format::Converse, signed.clone()),
                    reasoning(Format::Messages, json!({"type": "thinking"})),
                    call("a", "look", "{}"),
                    call("b", "look", "no object"),
                ],
            ),
            Message::new(
                Role::User,
                vec![
                    result("a", vec![image(png()), Block::text(" ")], false),
                    result("b", vec![], true),
                ],
            ),
        ],
        parameters: parameters(),
        ..Request::default()
    };
    let body = body(&request);
    let picture = |format: &str| json!({"image": {"format": format, "source": {"bytes": "aGk="}}});
    assert_eq!(
        body["messages"][0]["content"],
        json!([
            picture("png"),
            picture("jpeg"),
            {"image": {"format": "webp", "source": {"s3Location": {"uri": "s3://whales/a.WEBP"}}}},
            document,
            {"text": "What is it?"},
        ])
    );
    let said = &body["messages"][1]["content"];
    assert_eq!((said.as_array().unwrap().len(), &said[0]), (3, &signed));
    assert_eq!(
        said[2]["toolUse"]["input"],
        json!({"invalid_arguments": "no object"})
    );
    let results = &body["messages"][2]["content"];
    assert_eq!(results[0]["toolResult"]["content"], json!([picture("png")]));
    assert_eq!(
        results[1]["toolResult"]["content"][0]["text"],
        "The tool failed and said nothing."
    );
    let message = Message::new(
        Role::User,
        vec![image(ImageSource::Url(
            "https://whales.example/a.png".to_owned(),
        ))],
    );
    assert!(wire().message(&message).is_err());
}

/// Ids and names of other providers are made to fit, calls and results alike.
#[test]
fn tool_names_and_call_ids_are_made_valid() {
    let long = "call_".repeat(20);
    let request = Request {
        tools: vec![tool("mcp.look")],
        messages: vec![
            Message::user("Look."),
            Message::new(
                Role::Assistant,
                vec![
                    call(&long, "mcp.look", "{}"),
                    call("a:b.c", "mcp.look", "{}"),
                ],
            ),
            Message::new(
                Role::User,
                vec![
                    result(&long, vec![Block::text("x")], false),
                    result("a:b.c", vec![Block::text("x")], false),
                ],
            ),
        ],
        parameters: parameters(),
        ..Request::default()
    };
    let body = body(&request);
    let call = &body["messages"][1]["content"][0]["toolUse"];
    assert_eq!(
        call["name"],
        body["toolConfig"]["tools"][0]["toolSpec"]["name"]
    );
    let id = call["toolUseId"].as_str().unwrap();
    assert_eq!(id.len(), 64);
    assert_eq!(
        body["messages"][2]["content"][0]["toolResult"]["toolUseId"],
        id
    );
    assert_eq!(
        body["messages"][1]["content"][1]["toolUse"]["toolUseId"],
        "a:b.c"
    );
}

/// User and model take turns, whatever stands in the conversation.
#[test]
fn consecutive_messages_of_one_role_are_separated_by_the_other_role() {
    let silent = Message::new(
        Role::Assistant,
        vec![Block::Reasoning(Reasoning {
            text: String::new(),
            format: Format::Chat,
            verbatim: json!({}),
        })],
    );
    let request = Request {
        messages: vec![
            Message::assistant("Welcome."),
            Message::user("a"),
            silent,
            Message::user("b"),
            Message::assistant("c"),
            Message::assistant("d"),
            Message::user("  "),
            Message::user("e"),
        ],
        parameters: parameters(),
        ..Request::default()
    };
    let body = body(&request);
    let said: Vec<(&str, &str)> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| {
            let text = message["content"][0]["text"].as_str().unwrap();
            (message["role"].as_str().unwrap(), text)
        })
        .collect();
    assert_eq!(
        said,
        [
            ("user", "(Continue.)"),
            ("assistant", "Welcome."),
            ("user", "a"),
            ("assistant", "(No answer.)"),
            ("user", "b"),
            ("assistant", "c"),
            ("user", "(Continue.)"),
            ("assistant", "d"),
            ("user", "e"),
        ]
    );
}

#[test]
fn parameters_have_their_fields_and_extra_ones_win() {
    let extra = json!({
        "inferenceConfig": {"topP": null, "maxTokens": 200},
        "additionalModelRequestFields": {"top_k": 5},
        "serviceTier": {"type": "flex"},
        "messages": [],
        "toolConfig": {},
    });
    let request = Request {
        tools: vec![tool("look")],
        messages: vec![Message::user("Look.")],
        parameters: Parameters {
            max_output_tokens: Some(100),
            temperature: Some(0.5),
            top_p: Some(0.9),
            stop: vec!["END".to_owned()],
            tool_choice: Some(ToolChoice::Tool("look".to_owned())),
            output: Some(OutputFormat {
                name: "trip".to_owned(),
                schema: json!({"type": "object", "additionalProperties": false}),
                strict: true,
            }),
            extra: extra.as_object().unwrap().clone(),
            ..parameters()
        },
        ..Request::default()
    };
    let body = body(&request);
    assert_eq!(
        body["inferenceConfig"],
        json!({"maxTokens": 200, "temperature": 0.5, "stopSequences": ["END"]})
    );
    assert_eq!(body["additionalModelRequestFields"], json!({"top_k": 5}));
    assert_eq!(body["serviceTier"], json!({"type": "flex"}));
    assert_eq!(
        body["toolConfig"]["toolChoice"],
        json!({"tool": {"name": "look"}})
    );
    assert_eq!(
        body["outputConfig"]["textFormat"]["structure"]["jsonSchema"],
        json!({"schema": r#"{"type":"object","additionalProperties":false}"#, "name": "trip"})
    );
    assert_eq!(body["messages"].as_array().unwrap().len(), 1);
    let any = Request {
        parameters: Parameters {
            tool_choice: Some(ToolChoice::Any),
            ..parameters()
        },
        ..request
    };
    assert_eq!(
        super::body(&any)["toolConfig"]["toolChoice"],
        json!({"any": {}})
    );
}

/// Thinking, effort and sampling go by what the catalog says of Anthropic's own model.
#[test]
fn thinking_matches_the_model() {
    let budget = |tokens| Some(RequestedReasoning::Budget(tokens));
    let effort = |name: &str| Some(RequestedReasoning::Effort(name.to_owned()));
    let enabled = json!({"type": "enabled", "budget_tokens": 2_000});
    let adaptive = json!({"type": "adaptive", "display": "summarized"});
    let cases = [
        (SONNET, budget(2_000), Some(enabled), None),
        (SONNET, budget(0), Some(json!({"type": "disabled"})), None),
        (
            "anthropic.claude-opus-4-8",
            effort("low"),
            Some(adaptive.clone()),
            Some("low"),
        ),
        (
            "anthropic.claude-opus-4-8",
            budget(2_000),
            Some(adaptive),
            Some("low"),
        ),
        ("openai.gpt-oss-120b-1:0", effort("low"), None, Some("low")),
        (SONNET, None, None, None),
    ];
    for (name, reasoning, thinking, effort) in cases {
        let model = model(name);
        let request = Request {
            messages: vec![Message::user("Think.")],
            parameters: Parameters {
                reasoning,
                temperature: (name != SONNET).then_some(0.5),
                ..model.parameters().clone()
            },
            ..Request::default()
        };
        let body = body_with(model.wire(), &request);
        let fields = body.get("additionalModelRequestFields");
        assert_eq!(
            fields.and_then(|fields| fields.get("thinking")),
            thinking.as_ref(),
            "{name}"
        );
        let said = body
            .get("outputConfig")
            .and_then(|config| config.get("effort"));
        assert_eq!(said, effort.map(Value::from).as_ref(), "{name}");
        let is_opus = name.contains("opus");
        assert_eq!(
            body["inferenceConfig"].get("temperature").is_some(),
            !is_opus && name != SONNET
        );
    }
}

#[test]
fn markers_follow_the_marked_piece() {
    let wire = wire();
    let pieces = Pieces {
        tools: vec![wire.tool(&tool("look"))],
        system: vec![wire.system("Be brief.")],
        messages: wire.message(&Message::user("Look.")).unwrap(),
    };
    let marked = |mut pieces: Pieces, time| {
        let marker = wire.marker(time).unwrap();
        for piece in [&mut pieces.tools, &mut pieces.system, &mut pieces.messages] {
            let piece = &mut piece[0];
            let (before, behind) = piece.bytes.split_at(piece.mark_at.unwrap() as usize);
            piece.bytes = [before, &marker, behind].concat().into();
        }
        let body = pieces.body(wire, &wire.tail(&parameters(), false));
        serde_json::from_slice::<Value>(&body).unwrap()
    };
    for (time, point) in [
        (MarkerTime::FiveMinutes, json!({"type": "default"})),
        (MarkerTime::OneHour, json!({"type": "default", "ttl": "1h"})),
    ] {
        let body = marked(pieces.clone(), time);
        let point = json!({"cachePoint": point});
        for place in [
            &body["toolConfig"]["tools"],
            &body["system"],
            &body["messages"][0]["content"],
        ] {
            assert_eq!((place.as_array().unwrap().len(), &place[1]), (2, &point));
        }
        let checked = cachalot_simulator::check_request(
            cachalot_simulator::Format::Converse,
            false,
            named(&body, SONNET).as_bytes(),
        );
        checked.unwrap();
    }
    // Not behind reasoning, nor where there is nothing.
    let thought = Message::new(
        Role::Assistant,
        vec![Block::Reasoning(Reasoning {
            text: "Hm.".to_owned(),
            format: Format::Converse,
            verbatim: json!({"reasoningContent": {"reasoningText": {"text": "Hm."}}}),
        })],
    );
    assert_eq!(wire.message(&thought).unwrap()[0].mark_at, None);
    assert_eq!(wire.system(" ").mark_at, None);
}

#[test]
fn models_with_prompt_caching_get_markers() {
    let marker_rules = |model| MarkerRules::find("bedrock", model, Format::Converse);
    for (model, style, one_hour) in [
        (SONNET, MarkerStyle::CachePoint, true),
        ("anthropic.claude-opus-4-8", MarkerStyle::CachePoint, true),
        (
            "eu.anthropic.claude-sonnet-4-20250514-v1:0",
            MarkerStyle::CachePoint,
            false,
        ),
        (
            "anthropic.claude-opus-4-1-20250805-v1:0",
            MarkerStyle::CachePoint,
            false,
        ),
        (
            "anthropic.claude-3-7-sonnet-20250219-v1:0",
            MarkerStyle::CachePoint,
            false,
        ),
        (
            "anthropic.claude-3-5-haiku-20241022-v1:0",
            MarkerStyle::CachePoint,
            false,
        ),
        (
            "anthropic.claude-3-5-sonnet-20240620-v1:0",
            MarkerStyle::None,
            false,
        ),
        ("amazon.nova-pro-v1:0", MarkerStyle::None, false),
        ("meta.llama3-70b-instruct-v1:0", MarkerStyle::None, false),
    ] {
        let marker_rules = marker_rules(model);
        assert_eq!(
            (marker_rules.style, marker_rules.one_hour),
            (style, one_hour),
            "{model}"
        );
    }
}
