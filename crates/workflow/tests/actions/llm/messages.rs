//! Conversations as they are written, and what is wrong with some.

use serde_json::{Value, json};

use super::{EACH, MODELS, asking, user};
use crate::fakes::Provider;
use crate::fixture::Fixture;

const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[tokio::test]
async fn prompt_and_system_are_shorthands_for_messages() {
    for (model, _) in EACH {
        let provider = Provider::built_in();
        let fixture = asking(&provider, MODELS);
        let long = json!({ "model": model, "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "Hi" },
        ]});
        let short = json!({ "model": model, "system": "Be brief.", "prompt": "Hi" });
        let parts = json!({ "model": model, "messages": [
            { "role": "developer", "content": [{ "type": "text", "text": "Be " }, { "type": "text", "text": "brief." }] },
            { "role": "user", "content": [{ "type": "text", "text": "Hi" }] },
        ]});
        let mut bodies = Vec::new();
        for arguments in [long, short, parts] {
            fixture.ok("llm.call", arguments).await;
            bodies.push(provider.last());
        }
        assert_eq!(bodies[0], bodies[1], "{model}");
        assert_eq!(bodies[0], bodies[2], "{model}");
        let text = bodies[0].to_string();
        assert!(text.contains("Be brief.") && text.contains("Hi"), "{text}");
    }
}

#[tokio::test]
async fn prompt_follows_the_messages_and_system_texts_are_joined() {
    let provider = Provider::built_in();
    let fixture = asking(&provider, MODELS);
    let arguments = json!({
        "model": "chat", "system": "One.", "prompt": "And now?",
        "messages": [
            { "role": "system", "content": "Two." },
            { "role": "user", "content": "Hi", "name": "ada" },
            { "role": "assistant", "content": "Hello." },
        ],
    });
    fixture.ok("llm.call", arguments).await;
    let sent = provider.last();
    let texts: Vec<(&str, String)> = sent["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| {
            let content = match &message["content"] {
                Value::String(text) => text.clone(),
                parts => parts[0]["text"].as_str().unwrap().to_owned(),
            };
            (message["role"].as_str().unwrap(), content)
        })
        .collect();
    let role = texts[0].0;
    assert!(["system", "developer"].contains(&role), "{role}");
    assert_eq!(
        texts[1..],
        [
            ("user", "Hi".to_owned()),
            ("assistant", "Hello.".to_owned()),
            ("user", "And now?".to_owned())
        ]
    );
    assert_eq!(texts[0].1, "One.\n\nTwo.");
    assert_eq!(sent["messages"][1]["name"], "ada");
}

#[tokio::test]
async fn name_of_a_message_is_sent_in_the_chat_format_only() {
    let provider = Provider::built_in();
    let fixture = asking(&provider, MODELS);
    for model in ["messages", "responses"] {
        let messages = json!([{ "role": "user", "content": "Hi", "name": "ada" }]);
        fixture
            .ok("llm.call", json!({ "model": model, "messages": messages }))
            .await;
        assert!(!provider.last().to_string().contains("ada"), "{model}");
    }
}

#[tokio::test]
async fn images_are_sent_in_every_format() {
    for (model, _) in EACH {
        let provider = Provider::built_in();
        let fixture = asking(&provider, MODELS);
        for url in [
            "https://whales.example/fluke.png".to_owned(),
            format!("data:image/png;base64,{PICTURE}"),
        ] {
            let messages = json!([{ "role": "user", "content": [
                { "type": "text", "text": "What is this?" },
                { "type": "image_url", "image_url": { "url": url } },
            ]}]);
            fixture
                .ok("llm.call", json!({ "model": model, "messages": messages }))
                .await;
            let sent = provider.last().to_string();
            let bytes = url.split_once(',').map_or(url.as_str(), |(_, bytes)| bytes);
            assert!(sent.contains(bytes), "{model}: {sent}");
        }
    }
}

#[tokio::test]
async fn conversation_with_tools_is_valid_in_every_format() {
    let weather = json!([{ "type": "function", "function": {
        "name": "weather", "description": "The weather.",
        "parameters": { "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"], "additionalProperties": false },
    }}]);
    let call = |id: &str, arguments: Value| {
        json!({
            "id": id, "type": "function", "function": { "name": "weather", "arguments": arguments },
        })
    };
    for (model, _) in EACH {
        let provider = Provider::built_in();
        let fixture = asking(&provider, MODELS);
        let messages = json!([
            { "role": "user", "content": "Weather in Bergen and Bremen?" },
            { "role": "assistant", "content": null, "tool_calls": [
                call("call_1", json!("{\"city\":\"Bergen\"}")),
                call("call_2", json!({ "city": "Bremen" })),
            ]},
            { "role": "tool", "tool_call_id": "call_1", "content": "rain" },
            { "role": "tool", "tool_call_id": "call_2", "content": "18 degrees" },
        ]);
        let arguments = json!({ "model": model, "messages": messages, "tools": weather });
        let answer = fixture.ok("llm.call", arguments).await;
        let said = answer["content"].as_str().unwrap();
        assert!(
            said.contains("weather answered: 18 degrees"),
            "{model}: {said}"
        );
    }
}

async fn refused(fixture: &Fixture, arguments: Value) -> String {
    let failure = fixture.fails("llm.call", arguments).await;
    assert_eq!(failure.kind, "validation_error", "{failure}");
    assert!(!failure.retryable);
    failure.message
}

#[tokio::test]
async fn invalid_conversations_fail_before_the_request() {
    let provider = Provider::built_in();
    let fixture = asking(&provider, MODELS);
    let cases = [
        (
            json!([]),
            "`messages` is empty; give `messages` or a `prompt`",
        ),
        (json!(["Hi"]), "[0] is no mapping with `role` and `content`"),
        (json!([{ "content": "Hi" }]), "[0] has no `role`"),
        (
            json!([{ "role": "robot", "content": "Hi" }]),
            "[0] has the role `robot`: expected system, developer, user, assistant or tool",
        ),
        (json!([{ "role": "user" }]), "[0] has no `content`"),
        (json!([{ "role": "assistant" }]), "[0] has no `content`"),
        (
            json!([{ "role": "user", "content": "Hi", "contnet": "" }]),
            "[0] has `contnet`; known are role, content, tool_calls, tool_call_id, name",
        ),
        (
            json!([{ "role": "user", "content": [{ "type": "audio" }] }]),
            "[0] has a part that is neither",
        ),
        (
            json!([{ "role": "user", "content": "Hi" }, { "role": "system", "content": "Be brief." }]),
            "[1] is the system's, but stands behind another message: put it first",
        ),
        (
            json!([{ "role": "system", "content": { "text": "Hi" } }]),
            "[0] has a `content` that is no text",
        ),
        (
            json!([{ "role": "tool", "content": "x" }]),
            "[0] is a tool's, and has no `tool_call_id`",
        ),
        (
            json!([{ "role": "assistant", "tool_calls": {} }]),
            "[0] has `tool_calls` that are a mapping: expected a list",
        ),
        (
            json!([{ "role": "assistant", "tool_calls": [{ "id": "1" }] }]),
            "[0] has a tool call without `id`, `function.name` or `function.arguments`",
        ),
    ];
    for (messages, expected) in cases {
        let message = refused(&fixture, json!({ "model": "chat", "messages": messages })).await;
        assert!(
            message.starts_with("llm.call: parameter `messages`") && message.contains(expected),
            "{message}"
        );
    }
    let hi = |field: &str, value: Value| json!({ "model": "chat", "prompt": "Hi", field: value });
    for (arguments, expected) in [
        (
            hi("stop", json!(5)),
            "`stop` is neither text nor a list of texts",
        ),
        (
            hi("stop", json!([5])),
            "`stop` holds something that is no text",
        ),
        (
            hi("max_tokens", json!(0)),
            "`max_tokens` is 0: expected a whole number from 1",
        ),
        (
            hi("tool_choice", json!({ "type": "x" })),
            "`tool_choice` names no tool",
        ),
        (
            hi("tool_choice", json!("required")),
            "`tool_choice` demands a tool: it needs `tools`",
        ),
        (
            hi("tools", json!([{ "type": "function" }])),
            "`tools` [0] is not of the form",
        ),
        (json!({ "model": "chat" }), "`messages` is empty"),
        (
            json!({ "model": "chat", "messages": user("Hi"), "temprature": 1 }),
            "unknown parameter `temprature`: did you mean `temperature`?",
        ),
    ] {
        let message = refused(&fixture, arguments).await;
        assert!(message.contains(expected), "{message}");
    }
    assert_eq!(provider.requests(), 0);
}
