//! Requests that the providers refuse: each with the provider's status and shape, and noted.

use cachalot_simulator::Script;
use serde_json::{Value, json};

use crate::{CHAT, MESSAGES, RESPONSES, client, post, smallest, start, with};

/// Sends each request, and expects 400 with a message that contains the text.
async fn refused(path: &str, requests: Vec<(Value, &str)>) {
    let running = start(Script::built_in()).await;
    for (at, (fields, expected)) in requests.iter().enumerate() {
        let request = with(smallest(path, "Hello"), fields.clone());
        let got = post(&running, path, &request).await;
        let error = got.json()["error"].clone();
        let message = error["message"].as_str().unwrap_or_default().to_owned();
        assert_eq!(got.status, 400, "{fields}: {}", got.text);
        assert!(message.contains(expected), "{fields}: {message}");
        assert_eq!(error["type"], "invalid_request_error");
        let violations = running.violations();
        assert_eq!(violations.len(), at + 1);
        assert!(violations[at].contains(&message));
    }
    let fine = post(&running, path, &smallest(path, "Hello")).await;
    assert_eq!(fine.status, 200);
    assert!(
        running
            .received()
            .iter()
            .all(|received| received.status != 0)
    );
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn marked(text: &str, ttl: &str) -> Value {
    json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral", "ttl": ttl}})
}

fn user(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": content.into()})
}

fn assistant(content: impl Into<Value>) -> Value {
    json!({"role": "assistant", "content": content.into()})
}

fn called(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "look", "input": {}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "seen"})
}

fn messages(messages: &[Value]) -> Value {
    let look = json!({"name": "look", "input_schema": {"type": "object"}});
    json!({"messages": messages, "tools": [look]})
}

#[tokio::test]
async fn invalid_messages_conversations_are_refused() {
    let many: Vec<Value> = (0..5).map(|at| marked(&format!("{at}"), "5m")).collect();
    let four = many[..4].to_vec();
    let thinking =
        |signature: &str| json!({"type": "thinking", "thinking": "Hm.", "signature": signature});
    refused(MESSAGES, vec![
        (json!({"messages": []}), "at least one message is required"),
        (messages(&[json!({"role": "tool", "content": "x"})]), "messages.0.role: Input should be 'user' or 'assistant'"),
        (messages(&[json!({"role": "system", "content": "x"}), user("x")]), "Unexpected role \"system\""),
        (messages(&[assistant("x"), user("x")]), "first message must use the \"user\" role"),
        (messages(&[user("")]), "messages.0: all messages must have non-empty content"),
        (messages(&[user(vec![text("")])]), "text content blocks must be non-empty"),
        (messages(&[user(vec![text(" \n")])]), "must contain non-whitespace text"),
        (messages(&[user("x"), assistant("The answer is ")]), "cannot end with trailing whitespace"),
        (messages(&[user("x"), assistant(vec![called("a")])]), "`tool_use` ids were found without `tool_result` blocks immediately after: a"),
        (messages(&[user("x"), assistant(vec![called("a"), called("b")]), user(vec![result("a")])]), "immediately after: b"),
        (messages(&[user("x"), assistant(vec![called("a")]), user(vec![text("so"), result("a")])]), "immediately after: a"),
        (messages(&[user("x"), assistant(vec![called("a")]), user("so"), user(vec![result("a")])]), "immediately after: a"),
        (messages(&[user("x"), assistant("y"), user(vec![result("a")])]), "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: a"),
        (messages(&[user(vec![result("a")])]), "unexpected `tool_use_id`"),
        (messages(&[user("x"), assistant(vec![called("a")]), user(vec![result("a"), result("a")])]), "each tool_use must have a single result"),
        (messages(&[user("x"), assistant(vec![called("a"), called("a")]), user(vec![result("a")])]), "`tool_use` ids must be unique"),
        (messages(&[user(vec![called("a")])]), "`tool_use` blocks can only be in `assistant` messages"),
        (messages(&[user("x"), assistant(vec![called("a b")]), user(vec![result("a b")])]), "String should match pattern"),
        (json!({"messages": [user("x"), assistant(vec![called("a")]), user(vec![result("a")])]}), "must define tools"),
        (messages(&[user("x"), assistant(vec![json!({"type": "tool_use", "id": "a", "name": "look", "input": "{}"})]), user(vec![result("a")])]), "input: Input should be a valid dictionary"),
        (messages(&[user("x"), assistant(vec![thinking("forged"), text("y")]), user("z")]), "messages.1.content.0: Invalid `signature` in `thinking` block"),
        (messages(&[user(vec![json!({"type": "video"})])]), "Input tag 'video'"),
        (messages(&[user(vec![json!({"type": "text", "text": "x", "note": 1})])]), "messages.0.content.0.text.note: Extra inputs are not permitted"),
        (messages(&[user(many)]), "A maximum of 4 blocks with cache_control may be provided. Found 5."),
        (with(messages(&[user([four, vec![text("x")]].concat())]), json!({"cache_control": {"type": "ephemeral"}})), "Found 5"),
        (with(messages(&[user(vec![marked("x", "1h")])]), json!({"cache_control": {"type": "ephemeral"}})), "different ttl"),
        (messages(&[user(vec![marked("x", "5m"), marked("y", "1h")])]), "messages.0.content.1.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m'"),
        (with(messages(&[user(vec![marked("y", "1h")])]), json!({"system": [marked("x", "5m")]})), "must not come after"),
        (messages(&[user(vec![marked("x", "10m")])]), "ttl: Input should be '5m' or '1h'"),
        (messages(&[user(vec![marked("", "5m")])]), "cache_control cannot be set for empty text blocks"),
        (json!({"system": [marked("", "5m")]}), "cache_control cannot be set for empty text blocks"),
        (messages(&[user("x"), assistant(vec![with(thinking("x"), json!({"cache_control": {"type": "ephemeral"}})), text("y")]), user("z")]), "thinking.cache_control: Extra inputs are not permitted"),
        (messages(&[user("x"), assistant(vec![called("a")]), user(vec![json!({"type": "tool_result", "tool_use_id": "a", "content": [marked("x", "5m")]})])]), "mark the `tool_result`"),
    ])
    .await;
}

#[tokio::test]
async fn invalid_messages_parameters_are_refused() {
    let tool = |name: &str| json!({"name": name, "input_schema": {"type": "object"}});
    let thinking = json!({"type": "enabled", "budget_tokens": 1_024});
    refused(MESSAGES, vec![
        (json!({"max_tokens": null}), "max_tokens: Input should be a valid integer"),
        (json!({"temperatur": 1}), "temperatur: Extra inputs are not permitted"),
        (json!({"tools": [tool("a"), tool("a")]}), "Tool names must be unique"),
        (json!({"tools": [tool("a b")]}), "tools.0.custom.name: String should match pattern"),
        (json!({"tools": [tool(&"x".repeat(65))]}), "String should match pattern"),
        (json!({"tools": [{"name": "a"}]}), "input_schema: Field required"),
        (json!({"tools": [{"name": "a", "input_schema": {"type": "string"}}]}), "input_schema.type: Input should be 'object'"),
        (json!({"tool_choice": {"type": "auto"}}), "only be specified while providing tools"),
        (json!({"tools": [tool("a")], "tool_choice": {"type": "tool", "name": "b"}}), "Tool 'b' not found"),
        (json!({"tools": [tool("a")], "tool_choice": {"type": "any"}, "thinking": thinking, "max_tokens": 2_000}), "Thinking may not be enabled when tool_choice forces tool use"),
        (json!({"thinking": thinking, "max_tokens": 1_024}), "`max_tokens` must be greater than `thinking.budget_tokens`"),
        (json!({"thinking": {"type": "enabled", "budget_tokens": 10}}), "greater than or equal to 1024"),
        (json!({"thinking": thinking, "max_tokens": 2_000, "temperature": 0.5}), "may only be set to 1 when thinking is enabled"),
        (with(messages(&[user("x"), assistant(vec![called("a")]), user(vec![result("a")])]), json!({"thinking": thinking, "max_tokens": 2_000})), "Expected `thinking` or `redacted_thinking`, but found `tool_use`"),
        (json!({"output_config": {"format": {"type": "json_schema", "schema": {"type": "object", "properties": {}}}}}), "'additionalProperties' must be explicitly set to false"),
        (json!({"max_tokens": 0, "stream": true}), "max_tokens: 0 cannot be combined with `stream`"),
        (json!({"stop_sequences": [" "]}), "non-whitespace"),
        (json!({"system": 1}), "system: Input should be a valid string or array"),
    ])
    .await;
    let running = start(Script::built_in()).await;
    let mut request = smallest(MESSAGES, "Hello");
    request.as_object_mut().unwrap().remove("max_tokens");
    let got = post(&running, MESSAGES, &request).await;
    let body = got.json();
    assert_eq!(body["error"]["message"], "max_tokens: Field required");
    assert_eq!(body["type"], "error");
    assert_eq!(
        body["request_id"].as_str().unwrap(),
        got.header("request-id")
    );
    let bare = client()
        .post(format!("{}{MESSAGES}", running.url()))
        .body(smallest(MESSAGES, "Hello").to_string());
    let response = bare.send().await.unwrap();
    assert_eq!(response.status(), 400);
    assert!(
        response
            .text()
            .await
            .unwrap()
            .contains("anthropic-version: header is required")
    );
}

#[tokio::test]
async fn system_messages_are_accepted_by_model_and_position() {
    let running = start(Script::built_in()).await;
    let system = json!({"role": "system", "content": "Be brief."});
    let ask = |model: &str, messages: Value| {
        let request = with(
            smallest(MESSAGES, ""),
            json!({"model": model, "messages": messages}),
        );
        let running = &running;
        async move { post(running, MESSAGES, &request).await.status }
    };
    let fine = json!([user("x"), system, assistant("y"), user("z"), system]);
    assert_eq!(ask("claude-opus-4-8", fine.clone()).await, 200);
    assert_eq!(ask("claude-sonnet-5", fine).await, 400);
    assert_eq!(
        ask("claude-opus-4-8", json!([system, user("x")])).await,
        400
    );
    assert_eq!(
        ask("claude-opus-4-8", json!([user("x"), system, user("y")])).await,
        400
    );
    assert_eq!(
        ask(
            "claude-opus-4-8",
            json!([user("x"), assistant("y"), system])
        )
        .await,
        400
    );
}

fn chat(messages: &[Value]) -> Value {
    json!({"messages": messages})
}

#[tokio::test]
async fn invalid_chat_requests_are_refused() {
    let calls = |ids: &[&str]| {
        let call = |id: &&str| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}});
        json!({"role": "assistant", "content": null, "tool_calls": ids.iter().map(call).collect::<Vec<_>>()})
    };
    let tool = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "seen"});
    let function = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}});
    let format = |schema: Value| json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema": schema}}});
    refused(CHAT, vec![
        (json!({"messages": []}), "Invalid 'messages': empty array"),
        (chat(&[json!({"role": "robot", "content": "x"})]), "Invalid value: 'robot'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'."),
        (chat(&[user(Value::Null)]), "expected a string, got null"),
        (chat(&[user("x"), tool("a")]), "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'"),
        (chat(&[user("x"), calls(&["a", "b"]), tool("a")]), "The following tool_call_ids did not have response messages: b"),
        (chat(&[user("x"), calls(&["a"]), user("y"), tool("a")]), "did not have response messages: a"),
        (chat(&[user("x"), calls(&["a"]), tool("a"), tool("a")]), "Duplicate tool message"),
        (chat(&[user("x"), calls(&["a"]), json!({"role": "tool", "content": "seen"})]), "Missing required parameter: 'messages[2].tool_call_id'"),
        (chat(&[user("x"), json!({"role": "assistant", "content": "y", "tool_calls": []})]), "Invalid 'messages[1].tool_calls': empty array"),
        (chat(&[user("x"), json!({"role": "assistant", "content": null})]), "expected a string, got null"),
        (chat(&[user("x"), json!({"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "look", "arguments": {}}}]}), tool("a")]), "Invalid type for 'messages[1].tool_calls[0].function.arguments': expected a string, but got an object instead."),
        (chat(&[user(vec![json!({"type": "input_text", "text": "x"})])]), "Invalid value: 'input_text'"),
        (json!({"tools": []}), "Invalid 'tools': empty array"),
        (json!({"tools": [function("a b")]}), "Invalid 'tools[0].function.name': string does not match pattern"),
        (json!({"tools": [function(&"x".repeat(65))]}), "maximum length 64"),
        (json!({"tools": [function("a"), function("a")]}), "'a' is used more than once"),
        (json!({"tools": [{"type": "function", "function": {"name": "a", "strict": true, "parameters": {"type": "object", "properties": {}}}}]}), "'additionalProperties' is required to be supplied and to be false"),
        (json!({"tool_choice": "auto"}), "'tool_choice' is only allowed when 'tools' are specified"),
        (json!({"parallel_tool_calls": true}), "'parallel_tool_calls' is only allowed when 'tools' are specified"),
        (json!({"tools": [function("a")], "tool_choice": {"type": "function", "function": {"name": "b"}}}), "Tool choice 'b' not found"),
        (json!({"stream_options": {"include_usage": true}}), "only allowed when 'stream' is enabled"),
        (json!({"prompt_cache_key": "x".repeat(65)}), "Invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64, but got a string with length 65 instead."),
        (json!({"prompt_cache_retention": "1h"}), "Supported values are: 'in_memory' and '24h'"),
        (json!({"prompt_cache_options": {"mode": "explicit"}}), "only supported with gpt-5.6 and later"),
        (json!({"model": "gpt-5-mini", "max_tokens": 10}), "Use 'max_completion_tokens' instead"),
        (json!({"temprature": 1}), "Unknown parameter: 'temprature'."),
        (json!({"model": ""}), "you must provide a model parameter"),
        (json!({"response_format": {"type": "json_object"}}), "must contain the word 'json'"),
        (format(json!({"type": "object", "properties": {}})), "'additionalProperties' is required"),
        (format(json!({"type": "object", "additionalProperties": false, "properties": {"a": {}}})), "Missing 'a'"),
    ])
    .await;
}

#[tokio::test]
async fn invalid_responses_requests_are_refused() {
    let call = json!({"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "a", "output": "seen"});
    let function =
        |name: &str| json!({"type": "function", "name": name, "parameters": {"type": "object"}});
    let input = |items: &[Value]| json!({"input": items});
    refused(
        RESPONSES,
        vec![
            (json!({"input": []}), "Invalid 'input': empty array"),
            (json!({"input": null}), "one of 'input'"),
            (
                input(&[user("x"), output.clone()]),
                "No tool call found for function call output with call_id a.",
            ),
            (
                input(&[user("x"), call.clone()]),
                "No tool output found for function call a.",
            ),
            (
                input(&[user("x"), call.clone(), output.clone(), output.clone()]),
                "Duplicate output",
            ),
            (
                input(&[
                    user("x"),
                    with(call.clone(), json!({"id": "call_1"})),
                    output.clone(),
                ]),
                "Expected an ID that begins with 'fc'",
            ),
            (
                input(&[
                    user("x"),
                    with(call.clone(), json!({"arguments": {}})),
                    output.clone(),
                ]),
                "expected a string, but got an object",
            ),
            (
                input(&[
                    user("x"),
                    with(call, json!({"call_id": "y".repeat(65)})),
                    output,
                ]),
                "maximum length 64",
            ),
            (
                input(&[assistant(vec![json!({"type": "input_text", "text": "x"})])]),
                "Supported values are: 'output_text' and 'refusal'",
            ),
            (
                input(&[json!({"role": "tool", "content": "x"})]),
                "Supported values are: 'assistant', 'system', 'developer', and 'user'",
            ),
            (
                input(&[json!({"type": "reasoning", "id": "rs_1"})]),
                "Missing required parameter: 'input[0].summary'",
            ),
            (
                input(&[json!({"type": "thought"})]),
                "Invalid value: 'thought'",
            ),
            (
                json!({"tools": [function("a"), function("a")]}),
                "'a' is used more than once",
            ),
            (
                json!({"tools": [{"type": "function", "function": {"name": "a"}}]}),
                "Missing required parameter: 'tools[0].name'",
            ),
            (json!({"max_output_tokens": 1}), "Expected a value >= 16"),
            (
                json!({"max_tokens": 100}),
                "Unknown parameter: 'max_tokens'.",
            ),
            (
                json!({"prompt_cache_key": "x".repeat(65)}),
                "maximum length 64",
            ),
            (
                json!({"previous_response_id": "resp_1"}),
                "Previous response with id 'resp_1' not found.",
            ),
            (
                json!({"include": ["reasoning"]}),
                "Invalid value: 'reasoning'",
            ),
            (
                json!({"text": {"format": {"type": "json_schema", "name": "x"}}}),
                "Missing required parameter: 'text.format.schema'",
            ),
            (json!({"messages": []}), "Unknown parameter: 'messages'."),
        ],
    )
    .await;
}

#[tokio::test]
async fn an_unknown_parameter_can_be_accepted() {
    let running = start(Script::built_in().accepting_unknown_parameters()).await;
    for path in [CHAT, RESPONSES, MESSAGES] {
        let request = with(
            smallest(path, "Hello"),
            json!({"provider": {"order": ["x"]}}),
        );
        assert_eq!(post(&running, path, &request).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn invalid_json_and_unknown_paths_are_refused() {
    let running = start(Script::built_in()).await;
    let send = |method: reqwest::Method, path: &str| {
        let request = client().request(method, format!("{}{path}", running.url()));
        async move {
            let response = request.body("{").send().await.unwrap();
            (response.status().as_u16(), response.text().await.unwrap())
        }
    };
    let (status, text) = send(reqwest::Method::POST, CHAT).await;
    assert_eq!(status, 400);
    assert!(text.contains("not valid JSON"), "{text}");
    let (status, text) = send(reqwest::Method::POST, "/chat/completions").await;
    assert_eq!(status, 404);
    assert!(
        text.contains("Did you mean /v1/chat/completions?"),
        "{text}"
    );
    let (status, text) = send(reqwest::Method::POST, "/v1/v1/messages").await;
    assert_eq!(status, 404);
    assert!(text.contains("Did you mean /v1/messages?"), "{text}");
    let (status, _) = send(reqwest::Method::GET, CHAT).await;
    assert_eq!(status, 405);
    let (status, text) = send(reqwest::Method::GET, "/").await;
    assert_eq!(status, 200);
    assert!(text.contains("simulator"));
}

#[tokio::test]
async fn key_is_required_only_if_the_script_sets_it() {
    let running = start(Script::built_in().with_required_key("sk-right")).await;
    for (path, kind) in [
        (CHAT, "invalid_request_error"),
        (RESPONSES, "invalid_request_error"),
        (MESSAGES, "authentication_error"),
    ] {
        let request = smallest(path, "Hello");
        assert_eq!(
            crate::post_as("sk-right", &running, path, &request)
                .await
                .status,
            200
        );
        let got = crate::post_as("sk-wrong", &running, path, &request).await;
        assert_eq!(got.status, 401);
        assert_eq!(got.json()["error"]["type"], kind);
        assert!(!got.text.contains("sk-wrong"));
    }
    assert!(running.violations().is_empty());
    let shown = format!("{:?}", running.received());
    assert!(!shown.contains("sk-right") && !shown.contains("sk-wrong"));
    assert_eq!(
        running.received()[0].header("Authorization"),
        Some("Bearer sk-right")
    );
}
