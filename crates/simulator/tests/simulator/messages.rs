//! Anthropic Messages: shapes of answers and events.

use cachalot_simulator::{Script, ScriptedReply, ScriptedStop, ScriptedUsage};
use serde_json::{Value, json};

use crate::{MESSAGES, ask, client, post, smallest, start, with};

fn thinking() -> Value {
    json!({"thinking": {"type": "enabled", "budget_tokens": 1_024}, "max_tokens": 2_000})
}

fn tools() -> Value {
    let tool =
        |name: &str| json!({"name": name, "description": name, "input_schema": {"type": "object"}});
    json!([tool("look"), tool("dive")])
}

#[tokio::test]
async fn message_has_the_published_schema() {
    let running = start(Script::answers(["Good morning."])).await;
    let got = post(&running, MESSAGES, &smallest(MESSAGES, "Hello")).await;
    assert_eq!(got.status, 200);
    assert_eq!(got.header("content-type"), "application/json");
    assert!(got.header("request-id").starts_with("req_"));
    let answer = got.json();
    assert!(answer["id"].as_str().unwrap().starts_with("msg_"));
    let mut rest = answer.clone();
    rest.as_object_mut().unwrap().remove("id");
    assert_eq!(
        rest,
        json!({
            "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": [{"type": "text", "text": "Good morning."}],
            "stop_reason": "end_turn", "stop_sequence": null,
            "usage": {
                "input_tokens": 2, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
                "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
                "output_tokens": 4, "service_tier": "standard",
            },
        })
    );
    assert!(running.violations().is_empty());
}

#[tokio::test]
async fn events_have_the_published_order_and_join_to_the_message() {
    let reply = ScriptedReply::text("I look at it, and I dive for it as deep as I can.")
        .with_reasoning("What would a whale do now?")
        .and_call("look", json!({"at": "the sea"}))
        .and_call("dive", json!({"metres": 2_000}));
    let running = start(Script::replies(vec![reply])).await;
    let request = with(
        with(smallest(MESSAGES, "Dive"), thinking()),
        json!({"tools": tools()}),
    );
    let whole = ask(&running, MESSAGES, &request).await;
    let streamed = with(request, json!({"stream": true}));
    let got = post(&running, MESSAGES, &streamed).await;
    let names: Vec<String> = got.events().into_iter().map(|(name, _)| name).collect();
    let data = got.data();
    for (name, data) in names.iter().zip(&data) {
        assert_eq!(data["type"], json!(name));
    }
    assert_eq!(
        &names[..3],
        ["message_start", "content_block_start", "ping"]
    );
    assert_eq!(&names[names.len() - 2..], ["message_delta", "message_stop"]);
    assert_eq!(data[0]["message"]["content"], json!([]));
    assert_eq!(
        data[0]["message"]["usage"]["input_tokens"],
        whole["usage"]["input_tokens"]
    );

    let blocks = assembled(&data);
    assert_eq!(Value::from(blocks), without_ids(&whole["content"]));
    let last = &data[data.len() - 2];
    assert_eq!(
        last["delta"],
        json!({"stop_reason": "tool_use", "stop_sequence": null})
    );
    assert_eq!(
        last["usage"]["output_tokens"],
        whole["usage"]["output_tokens"]
    );
    assert_eq!(
        whole["usage"]["output_tokens_details"]["thinking_tokens"],
        7
    );
    let texts = data
        .iter()
        .filter(|data| data["delta"]["type"] == "text_delta")
        .count();
    assert!(texts > 2, "the text comes in pieces");
}

/// The ids of tool calls follow from the request, and the streamed one is another request.
fn without_ids(content: &Value) -> Value {
    let mut content = content.clone();
    for block in content.as_array_mut().unwrap() {
        block.as_object_mut().unwrap().remove("id");
    }
    content
}

/// Puts the blocks of a stream together as a client does.
fn assembled(data: &[Value]) -> Vec<Value> {
    let mut blocks: Vec<Value> = Vec::new();
    let mut arguments = String::new();
    for data in data {
        let delta = &data["delta"];
        let text = |key: &str| delta[key].as_str().unwrap_or_default().to_owned();
        match data["type"].as_str().unwrap() {
            "content_block_start" => {
                assert_eq!(data["index"], json!(blocks.len()));
                let mut block = data["content_block"].clone();
                block.as_object_mut().unwrap().remove("id");
                blocks.push(block);
                arguments.clear();
            }
            "content_block_delta" => {
                let block = blocks.last_mut().unwrap();
                let key = match delta["type"].as_str().unwrap() {
                    "thinking_delta" => "thinking",
                    "signature_delta" => "signature",
                    "text_delta" => "text",
                    _ => {
                        arguments += &text("partial_json");
                        continue;
                    }
                };
                block[key] = json!(block[key].as_str().unwrap().to_owned() + &text(key));
            }
            "content_block_stop" if !arguments.is_empty() => {
                let input: Value = serde_json::from_str(&arguments).unwrap();
                blocks.last_mut().unwrap()["input"] = input;
            }
            _ => {}
        }
    }
    blocks
}

#[tokio::test]
async fn thinking_and_calls_can_be_sent_back_unchanged() {
    let call = ScriptedReply::call("look", json!({"at": "the sea"})).with_reasoning("Let me look.");
    let running = start(Script::replies(vec![
        call,
        ScriptedReply::text("It is blue."),
    ]))
    .await;
    let request = with(
        with(smallest(MESSAGES, "Which color?"), thinking()),
        json!({"tools": tools()}),
    );
    let first = ask(&running, MESSAGES, &request).await;
    assert_eq!(first["stop_reason"], "tool_use");
    assert_eq!(first["content"][0]["thinking"], "Let me look.");
    let id = first["content"][1]["id"].as_str().unwrap();
    assert!(id.starts_with("toolu_"));

    let messages = json!([
        {"role": "user", "content": "Which color?"},
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "blue"}]},
    ]);
    let mut second = with(request, json!({"messages": messages}));
    let answer = ask(&running, MESSAGES, &second).await;
    assert_eq!(
        answer["content"],
        json!([{"type": "text", "text": "It is blue."}])
    );

    second["messages"][1]["content"][0]["thinking"] = json!("Let me think.");
    let got = post(&running, MESSAGES, &second).await;
    assert_eq!(got.status, 400);
    let message = "messages.1.content.0: Invalid `signature` in `thinking` block";
    assert_eq!(got.json()["error"]["message"], message);
    assert_eq!(
        running.violations(),
        [format!("POST /v1/messages: {message}")]
    );
}

#[tokio::test]
async fn thinking_is_sent_only_if_enabled_and_can_be_omitted() {
    let reply = ScriptedReply::text("Yes.").with_reasoning("Hm.");
    let running = start(Script::replies(vec![reply])).await;
    let plain = ask(&running, MESSAGES, &smallest(MESSAGES, "?")).await;
    assert_eq!(plain["content"], json!([{"type": "text", "text": "Yes."}]));
    let adaptive =
        json!({"model": "claude-opus-4-8", "thinking": {"type": "adaptive", "display": "omitted"}});
    let hidden = ask(&running, MESSAGES, &with(smallest(MESSAGES, "?"), adaptive)).await;
    assert_eq!(hidden["content"][0]["thinking"], "");
    let messages = json!([
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": hidden["content"]},
        {"role": "user", "content": "And?"},
    ]);
    ask(
        &running,
        MESSAGES,
        &with(smallest(MESSAGES, "?"), json!({"messages": messages})),
    )
    .await;
}

#[tokio::test]
async fn limits_and_stop_sequences_end_the_answer() {
    let running = start(Script::answers(["one two three four five six"])).await;
    let ends = |fields: Value| {
        let request = with(smallest(MESSAGES, "Count"), fields);
        let running = &running;
        async move {
            let answer = ask(running, MESSAGES, &request).await;
            let text = answer["content"][0]["text"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let reason = answer["stop_reason"].as_str().unwrap().to_owned();
            (text, reason, answer["stop_sequence"].clone())
        }
    };
    let length = ("one two ".to_owned(), "max_tokens".to_owned(), Value::Null);
    assert_eq!(ends(json!({"max_tokens": 2})).await, length);
    let stopped = (
        "one two ".to_owned(),
        "stop_sequence".to_owned(),
        json!("three"),
    );
    assert_eq!(
        ends(json!({"stop_sequences": ["four", "three"]})).await,
        stopped
    );
    let warm = (String::new(), "max_tokens".to_owned(), Value::Null);
    assert_eq!(ends(json!({"max_tokens": 0})).await, warm);
}

#[tokio::test]
async fn usage_and_stop_can_be_scripted() {
    let usage = ScriptedUsage {
        input: Some(10_000),
        cache_read: Some(9_000),
        cache_write_1h: Some(600),
        output: Some(77),
        ..ScriptedUsage::default()
    };
    let reply = ScriptedReply::text("No.")
        .with_usage(usage)
        .with_stop(ScriptedStop::Refusal);
    let running = start(Script::replies(vec![reply])).await;
    let answer = ask(&running, MESSAGES, &smallest(MESSAGES, "?")).await;
    assert_eq!(answer["stop_reason"], "refusal");
    let usage = &answer["usage"];
    assert_eq!(usage["input_tokens"], 400);
    assert_eq!(usage["cache_read_input_tokens"], 9_000);
    assert_eq!(usage["cache_creation_input_tokens"], 600);
    assert_eq!(usage["cache_creation"]["ephemeral_1h_input_tokens"], 600);
    assert_eq!(usage["output_tokens"], 77);
}

#[tokio::test]
async fn count_tokens_counts_without_an_answer() {
    let running = start(Script::built_in()).await;
    let mut request = smallest(MESSAGES, &"w".repeat(400));
    request.as_object_mut().unwrap().remove("max_tokens");
    let counted = ask(&running, "/v1/messages/count_tokens", &request).await;
    assert_eq!(counted, json!({"input_tokens": 100}));
    request["messages"] = json!([]);
    let got = post(&running, "/v1/messages/count_tokens", &request).await;
    assert_eq!(got.status, 400);
    assert_eq!(running.violations().len(), 1);
}

#[tokio::test]
async fn model_list_has_the_format_of_the_client() {
    let running = start(Script::built_in().with_models(["claude-x", "gpt-*"])).await;
    let list = |version: bool| {
        let mut request = client().get(format!("{}/v1/models", running.url()));
        if version {
            request = request.header("anthropic-version", "2023-06-01");
        }
        async move { request.send().await.unwrap().json::<Value>().await.unwrap() }
    };
    let anthropic = list(true).await;
    assert_eq!(anthropic["data"][0]["type"], "model");
    assert_eq!(anthropic["first_id"], "claude-x");
    let openai = list(false).await;
    assert_eq!(openai["object"], "list");
    assert_eq!(openai["data"][0]["id"], "claude-x");
    assert_eq!(openai["data"].as_array().unwrap().len(), 1);

    let got = post(&running, MESSAGES, &smallest(MESSAGES, "?")).await;
    assert_eq!(
        (got.status, &got.json()["error"]["type"]),
        (404, &json!("not_found_error"))
    );
}

/// Sends a request with the beta of threads.
async fn threaded(
    running: &cachalot_simulator::RunningSimulator,
    key: &str,
    body: &Value,
) -> (u16, Value) {
    let request = client()
        .post(format!("{}{MESSAGES}", running.url()))
        .header("x-api-key", key)
        .header("anthropic-version", "2023-06-01")
        .header(
            "anthropic-beta",
            "other-2026-01-01, message-threads-2026-08-12",
        )
        .body(body.to_string());
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let body = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    (status, body)
}

fn turn(previous: &Value, messages: Value) -> Value {
    json!({
        "model": "claude-sonnet-4-5", "max_tokens": 1_000, "messages": messages,
        "thread": {"type": "continue", "previous_message_id": previous},
    })
}

#[tokio::test]
async fn thread_keeps_the_conversation_between_turns() {
    let script = Script::parse(
        "script.yaml",
        "
rules:
  - user: Where
    tools: [look]
    steps:
      - tool_calls: [{name: look, arguments: {}}]
      - text: 'Found: {{last_result}}.'
",
    );
    let (running, clock) = crate::timed(script.unwrap()).await;
    let marked =
        json!([{"type": "text", "text": "Where is it?", "cache_control": {"type": "ephemeral"}}]);
    let first = json!({
        "model": "claude-sonnet-4-5", "max_tokens": 1_000, "system": "You dive.", "tools": tools(),
        "messages": [{"role": "user", "content": marked}],
        "thread": {"type": "create"},
    });
    let (status, first) = threaded(&running, "sk-test", &first).await;
    assert_eq!(status, 200, "{first}");
    let call = &first["content"][0];
    let result = json!([{"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": call["id"], "content": "a fin"},
    ]}]);
    let second = turn(&first["id"], result.clone());
    for (field, value) in [("tools", tools()), ("system", json!("You fly."))] {
        let (status, error) = threaded(
            &running,
            "sk-test",
            &with(second.clone(), json!({field: value})),
        )
        .await;
        assert_eq!(
            (status, &error["error"]["type"]),
            (400, &json!("invalid_request_error"))
        );
    }
    let (status, answer) = threaded(&running, "sk-test", &second).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(crate::said(MESSAGES, &answer), "Found: a fin.");
    assert!(answer["usage"]["input_tokens"].as_u64() > first["usage"]["input_tokens"].as_u64());

    let code = |error: &Value| error["error"]["details"]["error_code"].clone();
    let (status, error) = threaded(&running, "sk-test", &second).await;
    assert_eq!(
        (status, code(&error)),
        (400, json!("thread_already_continued"))
    );
    let question = json!([{"role": "user", "content": "Where now?"}]);
    let (status, error) =
        threaded(&running, "sk-other", &turn(&answer["id"], question.clone())).await;
    assert_eq!((status, code(&error)), (404, json!("thread_not_found")));
    assert_eq!(error["error"]["type"], "not_found_error");

    // Five minutes after the last request it is gone.
    clock.advance(std::time::Duration::from_secs(299));
    let (status, third) = threaded(&running, "sk-test", &turn(&answer["id"], question)).await;
    assert_eq!(status, 200, "{third}");
    clock.advance(std::time::Duration::from_secs(300));
    let (status, error) = threaded(&running, "sk-test", &turn(&third["id"], result)).await;
    assert_eq!((status, code(&error)), (404, json!("thread_not_found")));
}

#[tokio::test]
async fn thread_accepts_one_request_at_a_time() {
    let slow = ScriptedReply::text("Late.").with_fault(cachalot_simulator::Fault::slow(
        std::time::Duration::from_millis(1_500),
        std::time::Duration::ZERO,
    ));
    let failed = ScriptedReply::error(529);
    let replies = vec![ScriptedReply::text("Yes."), failed, slow];
    let running = start(Script::replies(replies)).await;
    let created = with(
        smallest(MESSAGES, "Hello"),
        json!({"thread": {"type": "create"}}),
    );
    // Without the beta there is no such field.
    let refused = post(&running, MESSAGES, &created).await;
    assert_eq!(refused.status, 400);
    assert!(
        refused
            .text
            .contains("thread: Extra inputs are not permitted")
    );
    let (_, created) = threaded(&running, "sk-test", &created).await;
    let next = turn(&created["id"], json!([{"role": "user", "content": "And?"}]));
    // A request that failed has continued nothing.
    assert_eq!(threaded(&running, "sk-test", &next).await.0, 529);
    let later = async {
        tokio::time::sleep(std::time::Duration::from_millis(150)).await;
        threaded(&running, "sk-test", &next).await
    };
    let ((first, _), (second, error)) = tokio::join!(threaded(&running, "sk-test", &next), later);
    assert_eq!((first, second), (200, 400));
    assert_eq!(
        error["error"]["details"]["error_code"],
        "thread_continue_in_flight"
    );
    for (thread, expected) in [
        (
            json!("create"),
            "thread: Input should be a valid dictionary",
        ),
        (
            json!({"type": "fork"}),
            "expected tags: 'continue', 'create'",
        ),
        (
            json!({"type": "continue"}),
            "thread.continue.previous_message_id: Field required",
        ),
    ] {
        let request = with(smallest(MESSAGES, "Hello"), json!({"thread": thread}));
        let (status, error) = threaded(&running, "sk-test", &request).await;
        let message = error["error"]["message"].as_str().unwrap().to_owned();
        assert!(status == 400 && message.contains(expected), "{message}");
    }
}
