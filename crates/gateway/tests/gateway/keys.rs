//! Keys of the gateway: what a client with one reaches, and what it costs the operator.

use cachalot_core::Digest;
use reqwest::header::HeaderValue;
use serde_json::{Value, json};

use crate::ask::Ask;
use crate::fake_upstream::{self, FakeUpstream, Step, answer, media};
use crate::formats::Api;
use crate::support::{Answer, Setup, chat, messages, read, settings, streamed, until};
use crate::switched_store::Behavior;

/// A configuration with the keys `cachalot-one` and `cachalot-two`, the first with these further members.
fn file(first: &str) -> String {
    let digest = |key: &str| Digest::sha256(key.as_bytes()).to_hex();
    format!(
        "upstreams:
  openai: {{url: '{{url}}', credential: {{env: SECRET}}, account: {{service_tier: default}}}}
  anthropic: {{url: '{{url}}', credential: {{env: SECRET}}}}
  gemini: {{url: '{{url}}', credential: {{env: SECRET}}}}
  own: {{url: '{{url}}'}}
keys:
  one: {{digest: {}, {first}}}
  two: {{digest: {}, scopes: [team]}}
",
        digest("cachalot-one"),
        digest("cachalot-two"),
    )
}

async fn setup(first: &str) -> Setup {
    Setup::configured(&file(first)).await
}

/// Sends a request with a key of the gateway.
async fn ask(
    setup: &Setup,
    key: &str,
    path: &str,
    body: &Value,
    header: Option<(&'static str, &'static str)>,
) -> Answer {
    let url = format!("{}{path}", setup.gateway.url());
    let request = setup
        .client
        .post(url)
        .bearer_auth(key)
        .body(body.to_string());
    let mut request = request.header("content-type", "application/json");
    if let Some((name, value)) = header {
        request = request.header(name, HeaderValue::from_static(value));
    }
    read(request).await
}

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn the_operators_credential_takes_the_place_of_the_key() {
    let setup = setup("").await;
    let answer = ask(&setup, "cachalot-one", CHAT, &chat("hello"), None).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let received = setup.simulator.received();
    let sent = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let all = &received[0];
    assert!(
        all.headers
            .contains(&sent("authorization", "Bearer operator-secret"))
    );
    assert!(!format!("{all:?}").contains("cachalot-one"), "{all:?}");
    let request = setup.client.post(format!(
        "{}/v1/messages?key=cachalot-one",
        setup.gateway.url()
    ));
    let request = request
        .header("x-api-key", "cachalot-one")
        .header("anthropic-version", "2023-06-01")
        .header("content-type", "application/json")
        .body(messages("hello").to_string());
    let answer = read(request).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let received = setup.simulator.received();
    let last = received.last().unwrap();
    assert!(last.headers.contains(&sent("x-api-key", "operator-secret")));
    assert!(!format!("{last:?}").contains("cachalot-one"));
}

#[tokio::test]
async fn only_keys_reach_an_upstream_with_a_credential() {
    let setup = setup("upstreams: [openai]").await;
    let status =
        async |key: &str, path: &str, body: Value| ask(&setup, key, path, &body, None).await.status;
    assert_eq!(status("sk-own", CHAT, chat("hello")).await, 401);
    assert_eq!(status("cachalot-unknown", CHAT, chat("hello")).await, 401);
    assert_eq!(
        status(
            "cachalot-unknown",
            "/u/own/v1/chat/completions",
            chat("hello")
        )
        .await,
        401
    );
    assert_eq!(
        status("cachalot-one", "/u/own/v1/chat/completions", chat("hello")).await,
        403
    );
    assert_eq!(
        status("cachalot-one", "/v1/messages", messages("hello")).await,
        403
    );
    assert_eq!(setup.paid(), 0, "nothing was sent");
    assert_eq!(
        status("sk-own", "/u/own/v1/chat/completions", chat("hello")).await,
        200
    );
    // A stored answer of a key is not served to others either.
    assert_eq!(status("cachalot-one", CHAT, chat("hello")).await, 200);
    assert_eq!(status("sk-own", CHAT, chat("hello")).await, 401);
    assert_eq!(
        status("sk-own", "/u/openai/v1/chat/completions", chat("hello")).await,
        401
    );
    // Nothing says which API this is, and all of them need a key.
    assert_eq!(status("token", "/v1/files", json!({})).await, 401);
}

#[tokio::test]
async fn keys_reach_neither_unpriced_endpoints_nor_objects_of_others() {
    let setup = setup("").await;
    for (path, body) in [
        (
            "/v1/responses",
            json!({"model": "gpt-4o-mini", "input": [{"type": "image_generation_call", "id": "ig_1"}]}),
        ),
        (
            "/v1/responses",
            json!({"model": "gpt-4o-mini", "input": [{"type": "reasoning", "id": "rs_1", "summary": []}]}),
        ),
        (
            "/v1/responses",
            json!({"model": "gpt-4o-mini", "input": [{"type": "mcp_approval_response", "approval_request_id": "m", "approve": true}]}),
        ),
        (
            "/v1beta/models/gemini-2.5-flash:generateContent",
            json!({"contents": [{"parts": [{"fileData": {"fileUri": "gs://b/o.pdf"}}]}]}),
        ),
        (
            "/v1beta/models/gemini-2.5-flash:generateContent",
            json!({"contents": [], "tools": [{"fileSearch": {"fileSearchStoreNames": ["x"]}}]}),
        ),
        (
            "/v1beta/tunedModels/other:generateContent",
            json!({"contents": []}),
        ),
        (
            "/v1/chat/completions?%6bey=x",
            json!({"model": "gpt-4o-mini", "messages": []}),
        ),
        ("/v1/files", json!({})),
        ("/v1/batches", json!({})),
        ("/v1/responses/resp_1/cancel", json!({})),
        (
            "/v1/responses",
            json!({"model": "gpt-4o-mini", "input": "x", "previous_response_id": "resp_1"}),
        ),
        (
            "/v1/responses",
            json!({"model": "gpt-4o-mini", "input": [{"type": "item_reference", "id": "msg_1"}]}),
        ),
        (
            "/v1/responses",
            json!({"model": "gpt-4o-mini", "input": [{"id": "msg_1"}]}),
        ),
        (
            "/v1/responses",
            json!({"model": "gpt-4o-mini", "input": "x", "prompt": {"id": "pmpt_1"}}),
        ),
        (
            "/v1/responses",
            json!({"model": "gpt-4o-mini", "input": "x", "tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]}),
        ),
        (
            "/v1/responses",
            json!({"model": "gpt-4o-mini", "input": "x", "tools": [{"type": "mcp", "server_label": "x", "tunnel_id": "t_1"}]}),
        ),
        (
            "/v1/responses",
            json!({"model": "gpt-4o-mini", "input": "x", "tools": [{"type": "mcp", "server_label": "x", "connector_id": "c_1"}]}),
        ),
        (
            CHAT,
            json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}]}),
        ),
        (
            CHAT,
            json!({"model": "gpt-4o-mini", "messages": [{"role": "assistant", "audio": {"id": "audio_1"}}]}),
        ),
    ] {
        let answer = ask(&setup, "cachalot-one", path, &body, None).await;
        assert_eq!(answer.status, 403, "{path} {body}: {}", answer.body);
    }
    let listed = setup
        .client
        .get(format!("{}/v1/responses/resp_1", setup.gateway.url()));
    assert_eq!(read(listed.bearer_auth("cachalot-one")).await.status, 403);
    let socket = setup
        .client
        .get(format!("{}/v1/realtime", setup.gateway.url()));
    let socket = socket
        .header("connection", "upgrade")
        .header("upgrade", "websocket");
    assert_eq!(read(socket.bearer_auth("cachalot-one")).await.status, 403);
    let twice = setup.client.post(format!("{}{CHAT}", setup.gateway.url()));
    let twice = twice.header("content-type", "application/json");
    let twice = twice.body(r#"{"model": "gpt-4o-mini", "model": "gpt-4o", "messages": []}"#);
    assert_eq!(read(twice.bearer_auth("cachalot-one")).await.status, 400);
    assert_eq!(setup.paid(), 0, "nothing was sent");
    // Arguments of the client's own tools are no references.
    let body = json!({"model": "claude-3-5-haiku-20241022", "max_tokens": 50, "messages": [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"file_id": "a"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "y"}]}],
        "tools": [{"name": "f", "input_schema": {"type": "object"}}]});
    let answer = ask(
        &setup,
        "cachalot-one",
        "/v1/messages",
        &body,
        Some(("anthropic-version", "2023-06-01")),
    )
    .await;
    assert_eq!(answer.status, 200, "{}", answer.body);
}

#[tokio::test]
async fn answers_are_shared_in_a_configured_scope_only() {
    let setup = setup("scopes: [team]").await;
    let team = Some(("x-cachalot-scope", "team"));
    let source = async |key: &str, scope| {
        let answer = ask(&setup, key, CHAT, &chat("hello"), scope).await;
        let answer = setup.settled(answer).await;
        (answer.status, answer.source())
    };
    assert_eq!(source("cachalot-one", None).await, (200, "miss"));
    assert_eq!(
        source("cachalot-two", None).await,
        (200, "miss"),
        "keys do not share"
    );
    assert_eq!(source("cachalot-one", team).await, (200, "miss"));
    assert_eq!(source("cachalot-two", team).await, (200, "hit"));
    let other = Some(("x-cachalot-scope", "other"));
    assert_eq!(source("cachalot-two", other).await.0, 403);
    let own = ask(
        &setup,
        "sk-own",
        "/u/own/v1/chat/completions",
        &chat("hello"),
        team,
    )
    .await;
    assert_eq!(own.status, 403);
}

#[tokio::test]
async fn models_are_limited() {
    let setup = setup("models: ['gpt-4o-*', 'text-*']").await;
    let mut body = chat("hello");
    assert_eq!(
        ask(&setup, "cachalot-one", CHAT, &body, None).await.status,
        200
    );
    body["model"] = json!("gpt-4o");
    let answer = ask(&setup, "cachalot-one", CHAT, &body, None).await;
    assert_eq!(answer.status, 403);
    assert_eq!(answer.json()["error"]["code"], "model_not_allowed");
    body["model"] = json!(["gpt-4o-mini"]);
    assert_eq!(
        ask(&setup, "cachalot-one", CHAT, &body, None).await.status,
        403
    );
}

#[tokio::test]
async fn requests_per_minute_are_limited() {
    let setup = setup("requests_per_minute: 2").await;
    for status in [200, 200, 429] {
        let answer = ask(&setup, "cachalot-one", CHAT, &chat("hello"), None).await;
        assert_eq!(answer.status, status);
        if status == 429 {
            let wait: u64 = answer.headers["retry-after"]
                .to_str()
                .unwrap()
                .parse()
                .unwrap();
            assert!((1..=30).contains(&wait), "{wait}");
            assert!(!answer.headers.contains_key("x-should-retry"));
        }
    }
    assert_eq!(
        ask(&setup, "cachalot-two", CHAT, &chat("hello"), None)
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn budgets_refuse_what_may_cost_more_than_is_left() {
    // An answer of gpt-4o-mini with 50 output tokens costs at most about 0.0014 dollars here.
    let setup = setup("budget: {day: 0.0015}").await;
    let mut body = chat("hello");
    body["max_tokens"] = json!(50);
    let answer = ask(&setup, "cachalot-one", CHAT, &body, None).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    // What was reserved is returned: further requests fit.
    for text in ["a", "b", "c", "d"] {
        body["messages"][0]["content"] = json!(text);
        let mut streamed = streamed(body.clone());
        streamed["stream_options"] = json!({"include_usage": true});
        let answer = ask(&setup, "cachalot-one", CHAT, &streamed, None).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    // A stream without its usage counts with its maximum.
    body["messages"][0]["content"] = json!("silent");
    let silent = ask(&setup, "cachalot-one", CHAT, &streamed(body.clone()), None).await;
    assert_eq!(silent.status, 200, "{}", silent.body);
    let next = ask(&setup, "cachalot-one", CHAT, &body, None).await;
    assert_eq!(next.status, 429, "{}", next.body);
    body["max_tokens"] = json!(16_000);
    let answer = ask(&setup, "cachalot-one", CHAT, &body, None).await;
    assert_eq!(answer.status, 429, "{}", answer.body);
    assert_eq!(answer.json()["error"]["code"], "budget_used_up");
    let message = answer.json()["error"]["message"].to_string();
    assert!(message.contains("may cost up to $0.0"), "{message}");
    assert!(
        message.contains("of the key's budget for this day is left"),
        "{message}"
    );
    assert_eq!(answer.headers["x-should-retry"], "false");
    let wait: u64 = answer.headers["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(wait <= 24 * 60 * 60);
    let mut unpriced = chat("hello");
    unpriced["model"] = json!("no-such-model");
    let answer = ask(&setup, "cachalot-one", CHAT, &unpriced, None).await;
    assert_eq!(
        (answer.status, &answer.json()["error"]["code"]),
        (403, &json!("unknown_cost"))
    );
    let body = json!({"model": "claude-3-5-haiku-20241022", "max_tokens": 8_000, "messages": [{"role": "user", "content": "x"}]});
    let answer = ask(
        &setup,
        "cachalot-one",
        "/v1/messages",
        &body,
        Some(("anthropic-version", "2023-06-01")),
    )
    .await;
    assert_eq!(
        answer.json()["error"]["type"],
        "rate_limit_error",
        "{}",
        answer.body
    );
    assert_eq!(
        ask(&setup, "cachalot-two", CHAT, &unpriced, None)
            .await
            .status,
        200,
        "no budget"
    );
}

#[tokio::test]
async fn a_reload_replaces_keys_and_keeps_counts() {
    let setup = setup("requests_per_minute: 2").await;
    assert_eq!(
        ask(&setup, "cachalot-one", CHAT, &chat("hello"), None)
            .await
            .status,
        200
    );
    let url = setup.simulator.url();
    setup
        .gateway
        .reload(settings(&file("requests_per_minute: 2"), &url));
    assert_eq!(
        ask(&setup, "cachalot-one", CHAT, &chat("hello"), None)
            .await
            .status,
        200
    );
    assert_eq!(
        ask(&setup, "cachalot-one", CHAT, &chat("hello"), None)
            .await
            .status,
        429
    );
    let renamed = file("").replace(
        &Digest::sha256(b"cachalot-one").to_hex(),
        &Digest::sha256(b"cachalot-three").to_hex(),
    );
    setup.gateway.reload(settings(&renamed, &url));
    assert_eq!(
        ask(&setup, "cachalot-one", CHAT, &chat("hello"), None)
            .await
            .status,
        401
    );
    assert_eq!(
        ask(&setup, "cachalot-three", CHAT, &chat("hello"), None)
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn a_client_with_changing_credentials_is_known_by_its_key() {
    let setup = setup("models: ['gpt-4o-mini']").await;
    let path = "/u/own/v1/chat/completions";
    let own = async |credential: &str, header| {
        let answer = ask(&setup, credential, path, &chat("hello"), header).await;
        let answer = setup.settled(answer).await;
        (answer.status, answer.source())
    };
    let named = Some(("x-cachalot-key", "cachalot-one"));
    assert_eq!(own("token-1", named).await, (200, "miss"));
    let credential = |value: &str| ("authorization".to_owned(), format!("Bearer {value}"));
    let headers = setup.simulator.received()[0].headers.clone();
    assert!(headers.contains(&credential("token-1")), "{headers:?}");
    assert!(
        headers.iter().all(|(_, value)| value != "cachalot-one"),
        "{headers:?}"
    );
    assert_eq!(own("token-2", named).await, (200, "hit"));
    assert_eq!(
        own("token-2", None).await,
        (200, "miss"),
        "without the key, the credential is the tenant"
    );
    assert_eq!(
        own("token-2", Some(("x-cachalot-key", "cachalot-other")))
            .await
            .0,
        401
    );
    let mut body = chat("hello");
    body["model"] = json!("gpt-4o");
    assert_eq!(ask(&setup, "token-1", path, &body, named).await.status, 403);
    // An upstream with a credential of the operator gets that one.
    assert_eq!(
        ask(&setup, "token-1", CHAT, &chat("another"), named)
            .await
            .status,
        200
    );
    let received = setup.simulator.received();
    let headers = &received.last().unwrap().headers;
    assert!(
        headers.contains(&credential("operator-secret")),
        "{headers:?}"
    );
}

#[tokio::test]
async fn a_budget_without_its_store_refuses_unless_it_is_fail_open() {
    for (choice, status) in [
        ("", 503),
        (", when_unavailable: refuse", 503),
        (", when_unavailable: allow", 200),
    ] {
        let setup = setup(&format!("budget: {{day: 5{choice}}}")).await;
        let asked = async |text: &str| ask(&setup, "cachalot-one", CHAT, &chat(text), None).await;
        assert_eq!(asked("a").await.status, 200);
        for behavior in [Behavior::Unreachable, Behavior::Hangs] {
            setup.store.now(behavior);
            let answer = asked(&format!("{behavior:?}")).await;
            assert_eq!(answer.status, status, "{choice}: {}", answer.body);
            if status == 503 {
                assert_eq!(answer.json()["error"]["code"], "budget_unavailable");
            }
            setup.store.now(Behavior::Answers);
        }
        let warnings = setup.warnings.lock().len();
        assert!((status == 200) == (warnings > 0), "{choice}: {warnings}");
    }
}

#[tokio::test]
async fn a_refused_request_never_enlarges_a_budget() {
    let setup = setup("budget: {day: 0.0015}").await;
    let mut body = chat("hello");
    body["max_tokens"] = json!(50);
    for n in [
        json!(100),
        json!(10_u64.pow(9)),
        json!(10_u64.pow(18)),
        json!(u64::MAX),
        json!(1e30),
    ] {
        body["n"] = n;
        for _ in 0..3 {
            let answer = ask(&setup, "cachalot-one", CHAT, &body, None).await;
            assert!(matches!(answer.status, 403 | 429), "{}", answer.body);
        }
    }
    assert_eq!(setup.paid(), 0);
    body.as_object_mut().unwrap().remove("n");
    assert_eq!(
        ask(&setup, "cachalot-one", CHAT, &body, None).await.status,
        200
    );
    body["max_tokens"] = json!(16_000);
    assert_eq!(
        ask(&setup, "cachalot-one", CHAT, &body, None).await.status,
        429
    );
}

#[tokio::test]
async fn a_key_with_models_may_not_use_what_may_select_others() {
    let setup = setup("models: ['gpt-4o-mini', 'claude-*']").await;
    for (member, value) in [
        ("models", json!(["gpt-4o"])),
        ("Model", json!("gpt-4o")),
        ("fallbacks", json!([{"model": "gpt-4o"}])),
        ("tools", json!([{"type": "image_generation", "model": "x"}])),
    ] {
        let mut body = chat("hello");
        body[member] = value;
        let answer = ask(&setup, "cachalot-one", CHAT, &body, None).await;
        assert_eq!(answer.status, 403, "{member}: {}", answer.body);
    }
    assert_eq!(setup.paid(), 0);
}

#[tokio::test]
async fn headers_that_select_what_a_credential_pays_for_are_the_operators() {
    let setup = setup("").await;
    let header = Some(("openai-organization", "org-mine"));
    assert_eq!(
        ask(&setup, "cachalot-one", CHAT, &chat("hello"), header)
            .await
            .status,
        200
    );
    let headers = setup.simulator.received()[0].headers.clone();
    assert!(
        headers
            .iter()
            .all(|(name, _)| name != "openai-organization"),
        "{headers:?}"
    );
    // A key beside a key would be passed on as a credential.
    let named = Some(("x-cachalot-key", "cachalot-one"));
    let own = "/u/own/v1/chat/completions";
    assert_eq!(
        ask(&setup, "cachalot-two", own, &chat("hello"), named)
            .await
            .status,
        400
    );
    let encoded = "/u/own/v1/chat/completions?%6bey=%63achalot-two";
    assert_eq!(
        ask(&setup, "sk-own", encoded, &chat("hello"), None)
            .await
            .status,
        401
    );
}

#[tokio::test]
async fn only_known_headers_are_passed_on_beside_the_operators_credential() {
    let setup = setup("").await;
    for name in [
        "x-goog-fieldmask",
        "x-http-method-override",
        "x_http_method_override",
        "x-original-url",
        "x-forwarded-host",
        "openai_organization",
        "anthropic-workspace-id",
        "x-amzn-bedrock-service-tier",
        "azureml-model-deployment",
        "x-litellm-model",
        "helicone-target-url",
        "idempotency-key",
        "range",
        "prefer",
    ] {
        let header = Some((name, "of-the-client"));
        let answer = ask(&setup, "cachalot-one", CHAT, &chat(name), header).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    for received in setup.simulator.received() {
        let of_client = received
            .headers
            .iter()
            .find(|(_, value)| value == "of-the-client");
        assert_eq!(of_client, None);
    }
    let known = Some(("x-stainless-lang", "python"));
    ask(&setup, "cachalot-one", CHAT, &chat("known"), known).await;
    let received = setup.simulator.received();
    let last = &received.last().unwrap().headers;
    assert!(last.iter().any(|(name, _)| name == "x-stainless-lang"));
}

#[tokio::test]
async fn a_repeated_body_is_judged_for_each_client() {
    let setup = Setup::configured(&format!(
        "{}  three: {{digest: {}, models: ['claude-*'], scopes: [team]}}\n",
        file("scopes: [team]"),
        Digest::sha256(b"cachalot-three").to_hex()
    ))
    .await;
    let mut body = chat("hello");
    body["temperature"] = json!(0);
    let scope = Some(("x-cachalot-scope", "team"));
    for expected in ["miss", "hit", "hit", "hit"] {
        let answer = ask(&setup, "cachalot-one", CHAT, &body, scope).await;
        assert_eq!(answer.source(), expected, "{}", answer.cache_status());
    }
    let shared = ask(&setup, "cachalot-two", CHAT, &body, scope).await;
    assert_eq!(shared.source(), "hit");
    let own = ask(&setup, "cachalot-two", CHAT, &body, None).await;
    assert_eq!(own.source(), "miss");
    let limited = ask(&setup, "cachalot-three", CHAT, &body, scope).await;
    assert_eq!(limited.status, 403, "{}", limited.body);
    assert_eq!(setup.paid(), 2);
}

#[tokio::test]
async fn a_usage_with_missing_parts_counts_with_the_maximum() {
    let message = r#"{"role": "assistant", "content": "a long answer"}"#;
    for (status, usage) in [
        (
            "200 OK",
            r#"{"prompt_tokens": 10, "completion_tokens": "50"}"#,
        ),
        ("200 OK", r#"{"prompt_tokens": 10}"#),
        (
            "200 OK",
            r#"{"prompt_tokens": -10, "completion_tokens": -50}"#,
        ),
        ("200 OK", r#"{"prompt_tokens": 0, "completion_tokens": 0}"#),
        (
            "202 Accepted",
            r#"{"prompt_tokens": 10, "completion_tokens": 1}"#,
        ),
        (
            "206 Partial Content",
            r#"{"prompt_tokens": 10, "completion_tokens": 1}"#,
        ),
    ] {
        let answer = format!(
            r#"{{"id": "a", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini", "usage": {usage},
                "choices": [{{"index": 0, "message": {message}, "finish_reason": "stop"}}]}}"#
        );
        let address = answering(status, answer).await;
        let digest = Digest::sha256(b"cachalot-one").to_hex();
        let setup = Setup::configured(&format!(
            "upstreams: {{openai: {{url: 'http://{address}', credential: {{env: SECRET}}, account: {{service_tier: default}}}}}}
keys: {{one: {{digest: {digest}, budget: {{day: 0.0015}}}}}}"
        ))
        .await;
        let mut body = chat("hello");
        body["max_tokens"] = json!(50);
        let first = ask(&setup, "cachalot-one", CHAT, &body, None).await;
        assert!((200..300).contains(&first.status), "{}", first.body);
        body["messages"][0]["content"] = json!("other");
        let next = ask(&setup, "cachalot-one", CHAT, &body, None).await;
        assert_eq!(next.status, 429, "{status} {usage}: {}", next.body);
    }
}

/// Starts an upstream that gives the same answer to all requests.
async fn answering(status: &'static str, body: String) -> std::net::SocketAddr {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut received = vec![0; 65_536];
            let _ = stream.read(&mut received).await;
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    address
}

#[tokio::test]
async fn bodies_in_other_charsets_are_refused() {
    let setup = setup("").await;
    for (kind, status) in [
        ("application/json; charset=utf-7", 415),
        ("application/json;charset=\"UTF-16\"", 415),
        ("application/json; charset=utf-8", 200),
        ("application/json; x=y; charset=\"UTF-8\"", 200),
    ] {
        let url = format!("{}{CHAT}", setup.gateway.url());
        let request = setup.client.post(url).bearer_auth("cachalot-one");
        let request = request.header("content-type", kind);
        let answer = read(request.body(chat("hello").to_string())).await;
        assert_eq!(answer.status, status, "{kind}: {}", answer.body);
    }
}

#[tokio::test]
async fn what_an_upstream_may_have_charged_for_stays_reserved() {
    use tokio::io::AsyncReadExt as _;
    // Reads a request, and closes the connection.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut received = vec![0; 65_536];
            let _ = stream.read(&mut received).await;
            counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    });
    let digest = Digest::sha256(b"cachalot-one").to_hex();
    let setup = Setup::configured(&format!(
        "upstreams: {{openai: {{url: 'http://{address}', credential: {{env: SECRET}}, retries: 3, account: {{service_tier: default}}}}}}
keys: {{one: {{digest: {digest}, budget: {{day: 0.0015}}}}}}"
    ))
    .await;
    let mut body = chat("hello");
    body["max_tokens"] = json!(50);
    let lost = ask(&setup, "cachalot-one", CHAT, &body, None).await;
    assert_eq!(lost.json()["error"]["code"], "upstream_disconnected");
    assert_eq!(
        asked.load(std::sync::atomic::Ordering::SeqCst),
        1,
        "not sent again"
    );
    assert_eq!(
        ask(&setup, "cachalot-one", CHAT, &body, None).await.status,
        429
    );
}

#[tokio::test]
async fn a_body_that_cannot_be_judged_is_refused() {
    let setup = setup("").await;
    let deep = format!("{}{}", "[".repeat(126), "]".repeat(126));
    for part in [format!(r#""x": {deep}"#), r#""x": 1e999"#.to_owned()] {
        let body = format!(
            r#"{{"model": "gpt-4o-mini", "previous_response_id": "resp_1", "input": "a", {part}}}"#
        );
        let request = setup
            .client
            .post(format!("{}/v1/responses", setup.gateway.url()));
        let request = request
            .bearer_auth("cachalot-one")
            .header("content-type", "application/json");
        let answer = read(request.body(body)).await;
        assert!(matches!(answer.status, 400 | 403), "{}", answer.body);
    }
    assert_eq!(setup.paid(), 0);
}

#[tokio::test]
async fn a_key_with_a_budget_embeds_and_pays_for_the_tier_of_the_account() {
    let embed = json!({"model": "text-embedding-3-small", "input": "hello"});
    let upstream = FakeUpstream::start(|request| {
        let body = if request.line.contains("embeddings") {
            json!({"object": "list", "model": "text-embedding-3-small",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}],
        "usage": {"prompt_tokens": 1, "total_tokens": 1}})
        } else {
            json!({"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-5.5", "service_tier": "priority",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100}})
        };
        answer("200 OK", media(false), &body.to_string())
    });
    let upstream = upstream.await;
    let url = format!("http://{}", upstream.address);
    let setup = Setup::configured(&file("budget: {day: 5}").replace("{url}", &url)).await;
    let spent = async || {
        setup.cache.ledger().flush().await;
        let rows = setup.cache.ledger().recent(1).unwrap();
        rows.first().map(|row| row.paid.cost.picodollars)
    };
    let answer = ask(&setup, "cachalot-one", "/v1/embeddings", &embed, None).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    until(async || spent().await == Some(20_000)).await;
    let mut body = chat("hello");
    body["model"] = json!("gpt-5.5");
    body["max_tokens"] = json!(100);
    let answer = ask(&setup, "cachalot-one", CHAT, &body, None).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    // 1,000 tokens at 5 dollars and 100 at 30 dollars per million, times 2.5.
    until(async || spent().await == Some(20_000_000_000)).await;
}

/// What a response shows of the operator's account does not depend on the place that it comes from.
#[tokio::test]
async fn clients_with_keys_get_no_headers_of_the_operators_account() {
    const OF_ACCOUNT: [&str; 8] = [
        "anthropic-organization-id",
        "anthropic-ratelimit-requests-remaining",
        "cf-ray",
        "openai-organization",
        "openai-processing-ms",
        "openai-project",
        "set-cookie",
        "x-ratelimit-remaining-tokens",
    ];
    let upstream = FakeUpstream::start(|received| {
        let text = String::from_utf8_lossy(&received.body).into_owned();
        let (status, is_streamed) = if text.contains("fail") {
            ("429 Too Many Requests", false)
        } else {
            ("200 OK", received.json()["stream"] == true)
        };
        let mut lines: Vec<String> = OF_ACCOUNT
            .iter()
            .map(|header| format!("{header}: a=1\r\n"))
            .collect();
        lines.push("request-id: r\r\nretry-after: 7\r\nx-should-retry: true\r\n".to_owned());
        let head = fake_upstream::head(status, fake_upstream::media(is_streamed), &lines.concat());
        let body = Api::Chat.answer("answer", is_streamed);
        vec![Step::Send(format!("{head}{body}").into_bytes())]
    })
    .await;
    let setup = Setup::configured(&format!(
        "upstreams:
  openai: {{url: 'http://{0}', credential: {{env: SECRET}}}}
  own: {{url: 'http://{0}', api: openai, weight: 0}}
keys: {{one: {{digest: {1}}}}}
",
        upstream.address,
        Digest::sha256(b"cachalot-one").to_hex()
    ))
    .await;
    let mut sampled = chat("sampled");
    sampled["temperature"] = json!(1);
    let of_account = |answer: &Answer| {
        let names = OF_ACCOUNT
            .iter()
            .filter(|header| answer.headers.contains_key(**header));
        names.copied().collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    for (body, status, source) in [
        (chat("hello"), 200, "miss"),
        (chat("hello"), 200, "hit"),
        (streamed(chat("streamed")), 200, "miss"),
        (sampled, 200, "bypass"),
        (
            json!({"model": "m", "store": true, "messages": []}),
            200,
            "bypass",
        ),
        (chat("fail"), 429, "miss"),
        (
            json!({"model": "fail", "store": true, "messages": []}),
            429,
            "bypass",
        ),
    ] {
        let answer = ask(&setup, "cachalot-one", CHAT, &body, None).await;
        assert_eq!((answer.status, answer.source()), (status, source), "{body}");
        assert_eq!(of_account(&answer), none, "{body}");
        assert_eq!(answer.headers["request-id"], "r", "{body}");
        assert_eq!(
            answer.headers.contains_key("retry-after"),
            source != "hit",
            "{body}"
        );
        let own = format!("/u/own{CHAT}");
        let own = ask(&setup, "sk-own", &own, &body, None).await;
        let expected = if own.source() == "hit" {
            &none[..]
        } else {
            &OF_ACCOUNT
        };
        assert_eq!(of_account(&own), expected, "{body} {}", own.source());
        if source == "miss" && status == 200 {
            let stored = Ask::anonymous(CHAT, &body).with("authorization", "Bearer cachalot-one");
            stored.stored(&setup).await;
        }
    }
}

#[tokio::test]
async fn a_key_names_the_answers_that_it_has_got_and_no_others() {
    let setup = setup("").await;
    let asked = json!({"model": "gpt-4o-mini", "input": [{"role": "user", "content": "hello"}]});
    let named = |id: &str| {
        let mut body = asked.clone();
        body["input"] =
            json!([{"type": "item_reference", "id": id}, {"role": "user", "content": "go on"}]);
        body
    };
    let continued = |id: &str| {
        let mut body = asked.clone();
        body["previous_response_id"] = json!(id);
        body
    };
    let ask = async |key: &str, body: &Value| ask(&setup, key, "/v1/responses", body, None).await;
    for is_streamed in [false, true] {
        let mut first = asked.clone();
        first["stream"] = json!(is_streamed);
        let first = ask("cachalot-one", &first).await;
        assert_eq!(first.status, 200, "{}", first.body);
        let (answer, item) = ids_of_answer(&first.body);
        for body in [continued(&answer), named(&item)] {
            let own = ask("cachalot-one", &body).await;
            assert_eq!(own.status, 200, "{body}: {}", own.body);
            let other = ask("cachalot-two", &body).await;
            assert_eq!(other.status, 403, "{body}: {}", other.body);
            assert_eq!(other.json()["error"]["code"], "object_not_allowed");
        }
        // A request that refers to something else, too.
        let mut both = continued(&answer);
        both["input"] =
            json!([{"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}]);
        assert_eq!(ask("cachalot-one", &both).await.status, 403);
    }
    for body in [continued("resp_unknown"), named("msg_unknown")] {
        assert_eq!(ask("cachalot-one", &body).await.status, 403, "{body}");
    }
    // Nothing is kept of such an answer.
    let mut unkept = asked.clone();
    unkept["store"] = json!(false);
    let (answer, _) = ids_of_answer(&ask("cachalot-one", &unkept).await.body);
    assert_eq!(ask("cachalot-one", &continued(&answer)).await.status, 403);
}

/// The IDs of an answer of Responses, streamed or not, and of its first item.
fn ids_of_answer(body: &str) -> (String, String) {
    let events = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let mut events = events.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    let streamed = events.find(|event| event["type"] == "response.completed");
    let answer = match streamed {
        Some(event) => event["response"].clone(),
        None => serde_json::from_str(body).unwrap(),
    };
    let id = |value: &Value| value["id"].as_str().unwrap().to_owned();
    (id(&answer), id(&answer["output"][0]))
}

/// google-genai counts tokens and makes vectors at paths of their own.
#[tokio::test]
async fn counts_and_vectors_of_gemini_work_with_a_budget() {
    let setup = setup("budget: {day: 1}").await;
    let text = |text: &str| json!({"parts": [{"text": text}], "role": "user"});
    let model = "models/gemini-embedding-001";
    let count = json!({"contents": [text("How deep does a whale dive?")]});
    let one = json!({"content": text("a whale"), "taskType": "RETRIEVAL_QUERY"});
    let several = json!({"requests": [
        {"model": model, "content": text("a whale")}, {"model": model, "content": text("a seal")},
    ]});
    let requests = [
        (
            "/v1beta/models/gemini-3.5-flash:countTokens",
            &count,
            "/totalTokens",
        ),
        (
            "/v1beta/models/gemini-embedding-001:embedContent",
            &one,
            "/embedding/values/0",
        ),
        (
            "/v1/models/gemini-embedding-001:batchEmbedContents",
            &several,
            "/embeddings/1/values/0",
        ),
    ];
    for (path, body, result) in requests {
        let first = ask(&setup, "cachalot-one", path, body, None).await;
        assert_eq!(
            (first.status, first.source()),
            (200, "miss"),
            "{}",
            first.body
        );
        assert!(first.json().pointer(result).is_some(), "{}", first.body);
        let first = setup.settled(first).await;
        let second = ask(&setup, "cachalot-one", path, body, None).await;
        assert_eq!(
            (second.source(), &second.body),
            ("hit", &first.body),
            "{path}"
        );
    }
    for (path, body) in [
        (
            requests[2].0,
            json!({"requests": [{"model": "models/other", "content": text("x")}]}),
        ),
        (requests[1].0, json!({"content": text("x"), "unknown": 1})),
    ] {
        let refused = ask(&setup, "cachalot-one", path, &body, None).await;
        assert_eq!(refused.status, 403, "{}", refused.body);
    }
}
