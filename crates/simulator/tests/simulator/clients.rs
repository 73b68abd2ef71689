//! Requests of real clients and of the newest official SDKs: all are accepted, and their new parts have an
//! effect.

use cachalot_simulator::{RunningSimulator, Script};
use serde_json::{Value, json};

use crate::{CHAT, MESSAGES, RESPONSES, TestResponse, ask, post, said, smallest, start, with};

const CODEX: &str = include_str!("../data/codex-request.json");
const CLAUDE_CODE: &str = include_str!("../data/claude-request.json");

/// Posts with the header of a beta, which selects the schema of beta requests.
async fn beta(running: &RunningSimulator, body: &Value) -> TestResponse {
    let request = crate::shared_client()
        .post(format!("{}{MESSAGES}?beta=true", running.url()))
        .header("x-api-key", "sk-test")
        .header("anthropic-version", "2023-06-01")
        .header("anthropic-beta", "inline-tools-2026-09-15")
        .body(body.to_string());
    TestResponse::of(request).await
}

fn user(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": content.into()})
}

fn responses(fields: Value) -> Value {
    with(json!({"model": "gpt-6.1-sol", "input": "Hello"}), fields)
}

#[tokio::test]
async fn first_requests_of_codex_and_claude_code_are_answered() {
    let running = start(Script::answers(["ok"])).await;
    let codex: Value = serde_json::from_str(CODEX).unwrap();
    let got = post(&running, RESPONSES, &codex).await;
    assert_eq!(got.status, 200, "{}", got.text);
    assert_eq!(got.events().last().unwrap().0, "response.completed");
    let claude: Value = serde_json::from_str(CLAUDE_CODE).unwrap();
    let got = beta(&running, &claude).await;
    assert_eq!(got.status, 200, "{}", got.text);
    assert_eq!(got.events().last().unwrap().0, "message_stop");
    assert!(running.violations().is_empty());
}

/// Codex tries a WebSocket first: with this status, it sends the request by HTTP without further tries.
#[tokio::test]
async fn websocket_is_refused_with_a_status_that_clients_follow() {
    let running = start(Script::built_in()).await;
    let request = crate::shared_client()
        .get(format!("{}{RESPONSES}", running.url()))
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    let got = TestResponse::of(request).await;
    assert_eq!(got.status, 426, "{}", got.text);
}

#[tokio::test]
async fn parameters_of_newest_anthropic_sdk_are_accepted() {
    let running = start(Script::built_in()).await;
    for fields in [
        json!({"fallbacks": "default"}),
        json!({"fallbacks": [{"model": "claude-opus-4-8"}], "billing_policy": {"type": "billing_policy", "bill_to": "self"}}),
        json!({"fallback_credit_token": {"token": "t", "mode": "best_effort"}}),
        json!({"context_management": {"edits": [{"type": "compact_20260112"}]}}),
        json!({"mcp_servers": [{"type": "url", "name": "x", "url": "https://x.example"}]}),
        json!({"thinking": {"type": "adaptive", "display": "omitted"}, "inference_geo": "global"}),
        json!({"diagnostics": {"previous_message_id": null}, "safeguards": {}}),
        json!({"cache_control": {"type": "ephemeral", "ttl": "1h"}, "max_tokens": 0}),
    ] {
        let request =
            json!({"model": "claude-opus-4-8", "max_tokens": 100, "messages": [user("x")]});
        let got = beta(&running, &with(request, fields.clone())).await;
        assert_eq!(got.status, 200, "{fields}: {}", got.text);
    }
}

#[tokio::test]
async fn items_and_parameters_of_newest_openai_sdk_are_accepted() {
    let function =
        json!({"type": "function", "name": "f", "strict": false, "parameters": {"type": "object"}});
    let namespace =
        json!({"type": "namespace", "name": "n", "description": "d", "tools": [function]});
    let items = |items: Value| json!({"input": items});
    let running = start(Script::built_in()).await;
    for fields in [
        json!({"prompt_cache_options": {"mode": "explicit", "ttl": "12h", "comparison_response_id": null}}),
        json!({"client_metadata": {"session_id": "1"}, "access_programs": {"cyber": "standard"}}),
        json!({"service_tier": "ultrafast", "moderation": {"model": "omni-moderation-latest"}}),
        json!({"reasoning": {"effort": "low", "context": "all_turns", "mode": "standard"}}),
        json!({"context_management": [{"type": "compaction", "compact_threshold": 50_000}]}),
        json!({"tool_choice": "auto"}),
        json!({"tools": [namespace, {"type": "tool_search"}, {"type": "programmatic_tool_calling"}]}),
        json!({"tools": [{"type": "function", "name": "f", "async": true, "defer_loading": true,
                          "output_schema": {"type": "object"}, "allowed_callers": ["programmatic"]}]}),
        items(json!([user("x"), {"type": "configuration_update", "reasoning": {"effort": "low"}}])),
        items(
            json!([user("x"), {"type": "additional_tools", "role": "developer", "tools": [{"type": "web_search"}]}]),
        ),
        items(json!([
            user("x"),
            {"type": "tool_search_call", "arguments": {}, "call_id": "c", "execution": "client"},
            {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": [namespace]},
        ])),
        items(json!([
            user("x"),
            {"type": "program", "id": "p", "call_id": "c", "code": "1", "fingerprint": "f"},
            {"type": "program_output", "id": "o", "call_id": "c", "result": "1", "status": "completed"},
        ])),
        items(json!([{"type": "compaction", "encrypted_content": "simulated"}, user("x")])),
        items(
            json!([{"type": "message", "role": "user", "id": "msg_1", "content": [
            {"type": "input_text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}},
        ], "internal_chat_message_metadata_passthrough": {"turn_id": "t", "create_time": 1}}]),
        ),
    ] {
        let got = post(&running, RESPONSES, &responses(fields.clone())).await;
        assert_eq!(got.status, 200, "{fields}: {}", got.text);
    }
    for (path, fields) in [
        (RESPONSES, json!({"prompt_cache_options": {"ttl": "1h"}})),
        (RESPONSES, json!({"tool_choice": "required"})),
        (
            RESPONSES,
            items(json!([user("x"), {"type": "program", "id": "p"}])),
        ),
        // Only Responses has twelve hours for a whole request.
        (
            CHAT,
            json!({"model": "gpt-5.6", "prompt_cache_options": {"ttl": "12h"}}),
        ),
    ] {
        let got = post(
            &running,
            path,
            &with(
                with(smallest(path, "x"), json!({"model": "gpt-6.1-sol"})),
                fields.clone(),
            ),
        )
        .await;
        assert_eq!(got.status, 400, "{fields}: {}", got.text);
    }
}

#[tokio::test]
async fn tools_of_items_are_called_with_their_namespace() {
    let script = Script::parse(
        "script.yaml",
        "
rules:
  - user: go
    tools: [wait]
    steps:
      - tool_calls: [{name: wait, arguments: {cell_id: '1'}}]
      - text: 'Waited: {{last_result}}.'
",
    );
    let running = start(script.unwrap()).await;
    let wait = json!({"type": "function", "name": "wait", "parameters": {"type": "object"}});
    let added = |tools: Value| json!({"type": "additional_tools", "id": "at_1", "role": "developer", "tools": tools});
    let named =
        json!([{"type": "namespace", "name": "functions", "description": "", "tools": [wait]}]);
    let mut input = vec![added(named), user("go")];
    let request = |input: &[Value]| responses(json!({"input": input, "tool_choice": "required"}));
    let answer = ask(&running, RESPONSES, &request(&input)).await;
    let call = &answer["output"][0];
    assert_eq!(
        (&call["name"], &call["namespace"]),
        (&json!("wait"), &json!("functions"))
    );
    input.push(call.clone());
    input.push(
        json!({"type": "function_call_output", "call_id": call["call_id"], "output": "done"}),
    );
    let answer = ask(&running, RESPONSES, &request(&input)).await;
    assert_eq!(said(RESPONSES, &answer), "Waited: done.");
    // Outside of a namespace, a call has none.
    let plain = [added(json!([wait])), user("go")];
    let answer = ask(&running, RESPONSES, &request(&plain)).await;
    assert_eq!(answer["output"][0].get("namespace"), None);
    assert!(running.violations().is_empty());
}

#[tokio::test]
async fn ids_of_items_are_not_part_of_the_prompt() {
    let running = start(Script::built_in()).await;
    let request = |id: &str| {
        let item = json!({
            "type": "message", "role": "user", "id": id, "content": "w".repeat(8_000),
            "internal_chat_message_metadata_passthrough": {"turn_id": id},
        });
        let tools = json!({"type": "additional_tools", "id": id, "role": "developer", "tools": []});
        json!({"model": "gpt-5.6", "client_metadata": {"turn_id": id}, "input": [tools, item]})
    };
    let first = ask(&running, RESPONSES, &request("msg_1")).await;
    assert_eq!(first["usage"]["input_tokens_details"]["cached_tokens"], 0);
    let second = ask(&running, RESPONSES, &request("msg_2")).await;
    let usage = &second["usage"];
    assert_eq!(
        usage["input_tokens_details"]["cached_tokens"],
        usage["input_tokens"]
    );
}

#[tokio::test]
async fn system_messages_change_tools() {
    let script = Script::parse(
        "script.yaml",
        "
rules:
  - user: Where
    tools: [look]
    steps:
      - tool_calls: [{name: look, arguments: {}}]
      - text: 'Found: {{last_result}}.'
otherwise: {text: I cannot look.}
",
    );
    let running = start(script.unwrap()).await;
    let look = json!({"name": "look", "input_schema": {"type": "object"}});
    let request = |fields: Value| {
        with(
            json!({"model": "claude-opus-4-8", "max_tokens": 100}),
            fields,
        )
    };
    let system = |block: Value| json!({"role": "system", "content": [block]});
    let addition = system(json!({"type": "tool_addition",
        "tool": {"type": "tool_definition", "definition": look}}));
    let removal = system(json!({"type": "tool_removal",
        "tool": {"type": "tool_reference", "name": "look"}}));

    let mut messages = vec![user("Where?"), addition.clone()];
    let answer = beta(&running, &request(json!({"messages": messages}))).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let answer = answer.json();
    assert_eq!(answer["content"][0]["name"], "look");
    messages.push(json!({"role": "assistant", "content": answer["content"]}));
    messages.push(user(json!([{"type": "tool_result", "content": "a fin",
        "tool_use_id": answer["content"][0]["id"]}])));
    let answer = beta(&running, &request(json!({"messages": messages}))).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(said(MESSAGES, &answer.json()), "Found: a fin.");

    let removed = json!({"messages": [user("Where?"), removal], "tools": [look]});
    let answer = beta(&running, &request(removed)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(said(MESSAGES, &answer.json()), "I cannot look.");
    assert!(running.violations().is_empty());

    let of_user = user(addition["content"].clone());
    let refused = beta(&running, &request(json!({"messages": [of_user]}))).await;
    assert_eq!(refused.status, 400);
    let message = "`tool_addition` blocks can only be in `system` messages";
    assert!(refused.text.contains(message), "{}", refused.text);
}

#[tokio::test]
async fn system_messages_set_effort_and_keep_the_prefix() {
    let running = start(Script::built_in()).await;
    let marked = json!([{"type": "text", "text": "w".repeat(8_000), "cache_control": {"type": "ephemeral"}}]);
    let request = |system: Option<Value>| {
        let mut messages = vec![user(marked.clone())];
        messages.extend(system);
        json!({"model": "claude-opus-4-8", "max_tokens": 100, "messages": messages})
    };
    let mut expected = 0;
    for system in [
        None,
        Some(json!({"role": "system", "output_config": {"effort": "low"}})),
        Some(json!({"role": "system", "content": "Be brief.", "output_config": {"effort": "max"}})),
        Some(json!({"role": "system", "content": "Be brief.", "clear_at": "next_user_message"})),
    ] {
        let got = beta(&running, &request(system.clone())).await;
        assert_eq!(got.status, 200, "{system:?}: {}", got.text);
        assert_eq!(
            got.json()["usage"]["cache_read_input_tokens"],
            expected,
            "{system:?}"
        );
        expected = 2_000;
    }
    for system in [
        json!({"role": "system"}),
        json!({"role": "system", "content": "x", "clear_at": "tomorrow"}),
        json!({"role": "user", "content": "x", "clear_at": "never"}),
    ] {
        let got = beta(&running, &request(Some(system.clone()))).await;
        assert_eq!(got.status, 400, "{system}");
    }
}

#[tokio::test]
async fn conversation_may_begin_with_its_compaction() {
    let running = start(Script::answers(["We spoke of whales."])).await;
    let request = |messages: Value| json!({"model": "claude-opus-4-8", "max_tokens": 100, "messages": messages});
    let compacting = with(
        request(json!([user("Tell me of whales.")])),
        json!({"compaction": {"type": "summarize"}}),
    );
    let answer = beta(&running, &compacting).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let answer = answer.json();
    let block = &answer["content"][0];
    assert_eq!(answer["stop_reason"], "compaction");
    assert_eq!(
        (&block["type"], &block["content"]),
        (&json!("compaction"), &json!("We spoke of whales."))
    );
    let streamed = beta(&running, &with(compacting, json!({"stream": true})))
        .await
        .data();
    let delta = streamed
        .iter()
        .find(|data| data["type"] == "content_block_delta")
        .unwrap();
    assert_eq!(
        delta["delta"],
        json!({"type": "compaction_delta", "content": "We spoke of whales."})
    );

    let said = json!({"role": "assistant", "content": answer["content"]});
    let continued = beta(&running, &request(json!([said, user("And?")]))).await;
    assert_eq!(continued.status, 200, "{}", continued.text);
    let other = json!({"role": "assistant", "content": "Of whales."});
    let refused = beta(&running, &request(json!([other, user("And?")]))).await;
    assert_eq!(refused.status, 400);
}

/// What version 2026-10-21 refuses, and 2023-06-01 does not.
#[tokio::test]
async fn newest_anthropic_version_refuses_sampling_and_citations_of_the_user() {
    let running = start(Script::built_in().with_required_key("sk-right")).await;
    let send = async |version: &'static str, fields: Value| {
        let request = crate::shared_client()
            .post(format!("{}{MESSAGES}", running.url()))
            .header("anthropic-version", version)
            .bearer_auth("sk-right")
            .body(with(smallest(MESSAGES, "x"), fields).to_string());
        let got = TestResponse::of(request).await;
        (got.status, got.text)
    };
    let (status, text) = send("2026-10-21", json!({})).await;
    assert_eq!(status, 200, "{text}");
    let cited = json!([{"type": "text", "text": "x", "citations": []}]);
    for (fields, place) in [
        (json!({"temperature": 1}), "temperature"),
        (json!({"top_p": 0.9}), "top_p"),
        (json!({"top_k": 5}), "top_k"),
        (
            json!({"messages": [user(cited)]}),
            "messages.0.content.0.text.citations",
        ),
    ] {
        let (status, text) = send("2023-06-01", fields.clone()).await;
        assert_eq!(status, 200, "{fields}: {text}");
        let (status, text) = send("2026-10-21", fields.clone()).await;
        assert_eq!(status, 400, "{fields}");
        let expected = format!("{place}: not supported in anthropic-version 2026-10-21");
        assert!(text.contains(&expected), "{text}");
    }
    let document = json!([{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}]);
    let messages = json!([user("x"), {"role": "assistant", "content": document}, user("y")]);
    let (status, text) = send("2026-10-21", json!({"messages": messages})).await;
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("messages.1.content.0.document"), "{text}");

    // On a cloud platform, the version is in the body.
    let invoke = "/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke";
    let body = |version: &str| {
        let mut body = smallest(MESSAGES, "x");
        body.as_object_mut().unwrap().remove("model");
        with(
            body,
            json!({"anthropic_version": version, "temperature": 1}),
        )
    };
    let got = crate::post_as("sk-right", &running, invoke, &body("bedrock-2023-05-31")).await;
    assert_eq!(got.status, 200, "{}", got.text);
    let got = crate::post_as("sk-right", &running, invoke, &body("2026-10-21")).await;
    assert_eq!(got.status, 400, "{}", got.text);
}
