//! Messages, tools, system texts and what stands behind them.

use cachalot_wire::{
    Block, ErrorKind, Format, Image, ImageSource, MarkerTime, Message, OutputFormat, Parameters,
    Pieces, RESPONSES, Reasoning, RequestedReasoning, Role, ToolChoice, ToolDefinition, ToolUse,
};
use serde_json::{Value, json};

use crate::chat::support::*;

fn thought(format: Format, verbatim: Value) -> Block {
    Block::Reasoning(Reasoning {
        text: String::new(),
        format,
        verbatim,
    })
}

fn tail(parameters: &Parameters, stream: bool) -> Value {
    let tail = RESPONSES.tail(parameters, stream);
    assert_eq!(tail, RESPONSES.tail(parameters, stream));
    assert!(tail.starts_with(b",") && tail.ends_with(b"}"));
    strict(&[b"{\"input\":[]", &tail[..]].concat())
}

#[test]
fn body_of_a_rich_conversation_is_valid() {
    let tool = ToolDefinition {
        name: "read_file".into(),
        description: "Reads a file.".into(),
        parameters: json!({"type": "object"}),
    };
    let reasoning = json!({
        "id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA==",
    });
    let messages = [
        user(vec![Block::text("What is in these?"), picture()]),
        assistant(vec![
            thought(Format::Responses, reasoning.clone()),
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
        tools: vec![RESPONSES.tool(&tool)],
        system: vec![RESPONSES.system("You are brief.")],
        messages: Vec::new(),
    };
    for message in &messages {
        pieces.messages.extend(RESPONSES.message(message).unwrap());
    }
    let parameters = Parameters {
        model: "gpt-5".into(),
        ..Parameters::default()
    };
    let image = json!({
        "type": "input_image",
        "image_url": "data:image/png;base64,iVBORw0KGgo=",
        "detail": "auto",
    });
    assert_eq!(
        body(&*RESPONSES, &pieces, &RESPONSES.tail(&parameters, false)),
        json!({
            "tools": [{
                "type": "function",
                "name": "read_file",
                "description": "Reads a file.",
                "parameters": {"type": "object"},
                "strict": false,
            }],
            "input": [
                {"type": "message", "role": "developer",
                 "content": [{"type": "input_text", "text": "You are brief."}]},
                {"type": "message", "role": "user",
                 "content": [{"type": "input_text", "text": "What is in these?"}, image]},
                reasoning,
                {"type": "message", "role": "assistant",
                 "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
                {"type": "function_call", "call_id": "call_1", "name": "read_file",
                 "arguments": "{\"path\": \"a\"}"},
                {"type": "function_call", "call_id": "call_2", "name": "read_file",
                 "arguments": "{\"path\":\"b\" "},
                {"type": "function_call_output", "call_id": "call_1",
                 "output": [{"type": "input_text", "text": "An A."}, image]},
                {"type": "function_call_output", "call_id": "call_2",
                 "output": "Error: no such file"},
                {"type": "message", "role": "user",
                 "content": [{"type": "input_text", "text": "Be quick."}]},
                {"type": "message", "role": "assistant", "content": [
                    {"type": "output_text", "text": "An A, and nothing.", "annotations": []},
                ]},
            ],
            "model": "gpt-5",
            "store": false,
            "include": ["reasoning.encrypted_content"],
        })
    );
}

#[test]
fn system_piece_has_stable_bytes() {
    assert_eq!(
        RESPONSES.system("s").bytes,
        "{\"type\":\"message\",\"role\":\"developer\",\
         \"content\":[{\"type\":\"input_text\",\"text\":\"s\"}]}"
    );
    assert_eq!(RESPONSES.marker(MarkerTime::OneHour), None);
}

#[test]
fn text_only_results_are_strings() {
    let output = |content, is_error| {
        pieces(&*RESPONSES, &user(vec![result("c", content, is_error)]))[0]["output"].clone()
    };
    assert_eq!(output(vec![], false), "");
    assert_eq!(
        output(vec![Block::text("a"), Block::text("b")], false),
        "a\n\nb"
    );
    assert_eq!(
        output(vec![], true),
        "Error: the tool failed and said nothing"
    );
    let failed = output(vec![picture(), Block::text("half of it")], true);
    assert_eq!(failed[1]["text"], "Error: half of it");
    let failed = output(vec![picture()], true);
    assert_eq!(failed[0]["type"], "input_text");
    assert_eq!(failed[1]["type"], "input_image");
    let file = json!({"type": "input_file", "file_id": "file_1"});
    let other = Block::Other {
        format: Format::Responses,
        verbatim: file.clone(),
    };
    assert_eq!(output(vec![other], false), json!([file]));
}

#[test]
fn image_detail_is_sent() {
    let image = Block::Image(Image {
        source: ImageSource::Url("https://example.org/a.png".into()),
        extra: extra(json!({"detail": "low"})),
    });
    assert_eq!(
        pieces(&*RESPONSES, &user(vec![image]))[0]["content"],
        json!([{"type": "input_image", "image_url": "https://example.org/a.png", "detail": "low"}])
    );
}

#[test]
fn blocks_of_other_formats_are_not_sent() {
    let foreign = vec![
        thought(Format::Chat, json!({"reasoning_content": "x"})),
        Block::Other {
            format: Format::Messages,
            verbatim: json!({"type": "server_tool_use"}),
        },
    ];
    assert_eq!(
        RESPONSES.message(&assistant(foreign.clone())).unwrap(),
        vec![]
    );
    let mut content = foreign;
    content.push(Block::ToolUse(ToolUse {
        id: "call_1".into(),
        name: "t".into(),
        arguments: String::new(),
        extra: extra(json!({"@wire": "chat", "extra_content": {"google": {}}})),
    }));
    assert_eq!(
        pieces(&*RESPONSES, &assistant(content)),
        [json!({"type": "function_call", "call_id": "call_1", "name": "t", "arguments": "{}"})]
    );
}

#[test]
fn texts_without_an_item_are_parts_of_one_message() {
    let content = vec![
        Block::text("a"),
        Block::text("b"),
        call("c", "t", "{}"),
        Block::text("d"),
    ];
    let pieces = pieces(&*RESPONSES, &assistant(content));
    assert_eq!(pieces.len(), 3);
    assert_eq!(pieces[0]["content"].as_array().unwrap().len(), 2);
    assert_eq!(pieces[2]["content"][0]["text"], "d");
}

#[test]
fn content_that_is_invalid_for_its_role_is_refused() {
    let refused = [
        user(vec![call("c", "t", "{}")]),
        user(vec![thought(Format::Chat, json!({}))]),
        user(vec![result("c", vec![call("d", "t", "{}")], false)]),
        assistant(vec![result("c", vec![], false)]),
        assistant(vec![picture()]),
    ];
    for message in refused {
        let error = RESPONSES.message(&message).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Rejected, "{message:?}");
    }
    let empty = Message::new(Role::User, vec![]);
    assert_eq!(RESPONSES.message(&empty).unwrap(), vec![]);
}

#[test]
fn every_parameter_is_sent_in_its_field() {
    let parameters = Parameters {
        model: "gpt-5.1".into(),
        max_output_tokens: Some(100),
        temperature: Some(0.2),
        top_p: Some(0.9),
        stop: vec!["END".into()],
        tool_choice: Some(ToolChoice::Tool("t".into())),
        parallel_tool_calls: Some(false),
        reasoning: Some(RequestedReasoning::Effort("high".into())),
        output: Some(OutputFormat {
            name: "shape".into(),
            schema: json!({"type": "object"}),
            strict: true,
        }),
        cache_key: Some("session-1".into()),
        extra: extra(json!({
            "text": {"verbosity": "low"},
            "reasoning": {"summary": "auto"},
            "input": "no",
            "tools": [],
            "stream": true,
            "metadata": {"a": "b"},
        })),
    };
    let expected = json!({
        "input": [],
        "model": "gpt-5.1",
        "store": false,
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 100,
        "temperature": 0.2,
        "top_p": 0.9,
        "stop": ["END"],
        "tool_choice": {"type": "function", "name": "t"},
        "parallel_tool_calls": false,
        "reasoning": {"effort": "high", "summary": "auto"},
        "text": {
            "format": {
                "type": "json_schema", "name": "shape",
                "schema": {"type": "object"}, "strict": true,
            },
            "verbosity": "low",
        },
        "prompt_cache_key": "session-1",
        "metadata": {"a": "b"},
    });
    assert_eq!(tail(&parameters, false), expected);
    let mut streamed = expected;
    streamed["stream"] = json!(true);
    assert_eq!(tail(&parameters, true), streamed);
}

#[test]
fn encrypted_reasoning_is_requested_from_reasoning_models_only() {
    let include = |model: &str, fields: Value| {
        let parameters = Parameters {
            model: model.into(),
            extra: extra(fields),
            ..Parameters::default()
        };
        let tail = tail(&parameters, false);
        assert!(tail.get("previous_response_id").is_none());
        tail.get("include").is_some()
    };
    for model in [
        "gpt-5",
        "o3",
        "gpt-5.1-codex",
        "my-deployment",
        "gpt-oss-120b",
    ] {
        assert!(include(model, json!({})), "{model}");
    }
    for model in [
        "gpt-4o",
        "gpt-4.1-mini",
        "openai/gpt-4o",
        "gpt-3.5-turbo",
        "chatgpt-4o-latest",
    ] {
        assert!(!include(model, json!({})), "{model}");
    }
    assert!(!include("gpt-5", json!({"include": null})));
}
