//! Bodies that the official schemas refuse and the checks by hand would let pass.

use cachalot_simulator::Script;
use serde_json::{Value, json};

use crate::{CHAT, MESSAGES, RESPONSES, ask, client, post, smallest, start, with};

async fn refused(path: &str, requests: &[(Value, &str)]) {
    let running = start(Script::built_in()).await;
    for (fields, expected) in requests {
        let got = post(
            &running,
            path,
            &with(smallest(path, "Hello"), fields.clone()),
        )
        .await;
        let error = got.json()["error"].clone();
        assert_eq!(
            (got.status, error["message"].as_str()),
            (400, Some(*expected)),
            "{fields}"
        );
        assert_eq!(error["type"], "invalid_request_error");
    }
    assert_eq!(running.violations().len(), requests.len());
}

#[tokio::test]
async fn chat_bodies_are_validated_against_the_official_schema() {
    let user = |part: Value| json!({"messages": [{"role": "user", "content": [part]}]});
    refused(
        CHAT,
        &[
            (
                json!({"messages": [{"role": "user", "content": "x", "id": "1"}]}),
                "Unknown parameter: 'messages[0].id'.",
            ),
            (
                user(json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}})),
                "Unknown parameter: 'messages[0].content[0].cache_control'.",
            ),
            (
                user(json!({"type": "image_url", "image_url": {"url": "data:,", "size": 1}})),
                "Unknown parameter: 'messages[0].content[0].image_url.size'.",
            ),
            (
                user(json!({"type": "image_url", "image_url": {}})),
                "Missing required parameter: 'messages[0].content[0].image_url.url'.",
            ),
            (
                json!({"tools": [{"type": "function", "function": {"name": "a", "schema": {}}}]}),
                "Unknown parameter: 'tools[0].function.schema'.",
            ),
            (
                json!({"temperature": "warm"}),
                "Invalid type for 'temperature': expected a number, but got a string instead.",
            ),
            (
                json!({"temperature": 3}),
                "Invalid 'temperature': 3 is greater than the maximum of 2",
            ),
            (
                json!({"verbosity": "loud"}),
                "Invalid value: 'loud'. Supported values are: 'low', 'medium', and 'high'.",
            ),
            (
                json!({"metadata": {"user": 1}}),
                "Invalid type for 'metadata.user': expected a string, but got a number instead.",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn fields_of_compatible_servers_are_accepted_for_their_models() {
    let body = json!({"model": "deepseek-chat", "messages": [
        {"role": "system", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]},
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "y", "reasoning_content": "Hm.", "reasoning_details": []},
        {"role": "user", "content": "z"}]});
    let running = start(Script::built_in()).await;
    ask(&running, CHAT, &body).await;
    let got = post(&running, CHAT, &with(body, json!({"model": "gpt-4o"}))).await;
    assert_eq!(got.status, 400, "{}", got.text);
}

#[tokio::test]
async fn responses_bodies_are_validated_against_the_official_schema() {
    let input = |item: Value| json!({"input": [item]});
    refused(RESPONSES, &[
        (input(json!({"role": "user", "content": "x", "name": "y"})), "Unknown parameter: 'input[0].name'."),
        (input(json!({"role": "user", "content": [{"type": "input_text", "text": "x", "note": 1}]})), "Unknown parameter: 'input[0].content[0].note'."),
        (json!({"tools": [{"type": "function", "name": "a", "parameters": {}, "schema": {}}]}), "Unknown parameter: 'tools[0].schema'."),
        (json!({"reasoning": {"budget": 1}, "model": "gpt-5"}), "Unknown parameter: 'reasoning.budget'."),
        (json!({"text": {"format": {"type": "text"}, "tone": 1}}), "Unknown parameter: 'text.tone'."),
        (json!({"store": "no"}), "Invalid type for 'store': expected a boolean, but got a string instead."),
    ])
    .await;
    let running = start(Script::built_in()).await;
    let tool = json!([{"type": "function", "name": "look", "async": true}]);
    ask(
        &running,
        RESPONSES,
        &with(
            smallest(RESPONSES, "x"),
            json!({"tools": tool, "image": {}}),
        ),
    )
    .await;
}

#[tokio::test]
async fn messages_bodies_are_validated_against_the_official_schema() {
    let image = |source: Value| json!({"messages": [{"role": "user", "content": [{"type": "image", "source": source}]}]});
    refused(MESSAGES, &[
        (image(json!({"type": "base64", "media_type": "image/bmp", "data": ""})), "messages.0.content.0.source.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"),
        (image(json!({"type": "url", "url": "https://example.com", "size": 1})), "messages.0.content.0.source.size: Extra inputs are not permitted"),
        (json!({"metadata": {"user": "x"}}), "metadata.user: Extra inputs are not permitted"),
        (json!({"thinking": {"type": "disabled", "budget_tokens": 2_000}}), "thinking.budget_tokens: Extra inputs are not permitted"),
        (json!({"stream": "yes"}), "stream: Input should be a valid boolean"),
        (json!({"temperature": 1.5}), "temperature: 1.5 is greater than the maximum of 1"),
        (json!({"context_management": {"edits": []}}), "context_management: Extra inputs are not permitted"),
    ])
    .await;
}

/// Fields of betas are taken with the header that names betas.
#[tokio::test]
async fn beta_bodies_are_validated_against_the_official_schema() {
    let running = start(Script::built_in()).await;
    let send = async |fields: Value| {
        let request = client()
            .post(format!("{}{MESSAGES}", running.url()))
            .header("anthropic-version", "2023-06-01")
            .header("anthropic-beta", "context-management-2025-06-27")
            .json(&with(smallest(MESSAGES, "x"), fields));
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let (status, text) = send(json!({"context_management": {"edits": []}})).await;
    assert_eq!(status, 200, "{text}");
    let (status, text) = send(json!({"context_management": {"edit": []}})).await;
    assert_eq!(status, 400, "{text}");
    assert!(
        text.contains("context_management.edit: Extra inputs are not permitted"),
        "{text}"
    );
}

#[tokio::test]
async fn count_tokens_body_is_validated_and_needs_no_limit() {
    let running = start(Script::built_in()).await;
    let path = "/v1/messages/count_tokens";
    let body = json!({"model": "claude-opus-4-8", "messages": [{"role": "user", "content": "x"}]});
    let counted = ask(&running, path, &body).await;
    assert!(counted["input_tokens"].as_u64().unwrap() > 0);
    let got = post(
        &running,
        path,
        &with(body, json!({"metadata": {"user": "x"}})),
    )
    .await;
    assert_eq!(got.status, 400, "{}", got.text);
}
