//! Members of requests: those that clients of today send, and those that no version knows.
//!
//! `tests/data/codex-request.json` is the shape of the first request of Codex 0.171.0, `claude-request.json` that of
//! Claude Code 2.1.332: recorded on loopback, with each text replaced by its length.

use cachalot_core::Digest;
use cachalot_gateway::Limits;
use serde_json::{Value, json};

use crate::fake_upstream::{FakeUpstream, answer, media};
use crate::formats::Api;
use crate::support::{Answer, Setup, chat, read, settings};

const CODEX: &str = include_str!("../data/codex-request.json");
const CLAUDE: &str = include_str!("../data/claude-request.json");
const COMPACTED: &str = r#"{"id": "resp_1", "object": "response.compaction", "created_at": 1,
    "output": [{"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}],
    "usage": {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100}}"#;

/// An upstream with an answer for each API, and for the endpoints beside `/v1/responses`.
async fn upstream() -> FakeUpstream {
    FakeUpstream::start(|request| {
        let line = &request.line;
        let is_streamed = request.json()["stream"] == true;
        let document = match line {
            line if line.ends_with("/compact") => COMPACTED.to_owned(),
            line if line.ends_with("/input_tokens") => {
                r#"{"object": "response.input_tokens", "input_tokens": 11}"#.to_owned()
            }
            line if line.contains("/messages") => Api::Messages.answer("ok", is_streamed),
            line if line.contains("/responses") => Api::Responses.answer("ok", is_streamed),
            _ => Api::Chat.answer("ok", is_streamed),
        };
        answer("200 OK", media(is_streamed), &document)
    })
    .await
}

/// A configuration with the key `cachalot-one`, which has these further members.
fn file(upstream: &FakeUpstream, key: &str, further: &str) -> String {
    format!(
        "upstreams:
  openai: {{url: 'http://{0}', credential: {{env: SECRET}}, account: {{service_tier: default}}}}
  anthropic: {{url: 'http://{0}', credential: {{env: SECRET}}}}
  own: {{url: 'http://{0}'}}
keys:
  one: {{digest: {1}, {key}}}
{further}",
        upstream.address,
        Digest::sha256(b"cachalot-one").to_hex(),
    )
}

/// Sends a request with the key of the gateway.
async fn ask(setup: &Setup, path: &str, body: &str, header: Option<(&str, &str)>) -> Answer {
    let url = format!("{}{path}", setup.gateway.url());
    let request = setup.client.post(url).bearer_auth("cachalot-one");
    let request = request.header("content-type", "application/json");
    let request = match header {
        Some((name, value)) => request.header(name, value),
        None => request,
    };
    setup
        .settled(read(request.body(body.to_owned())).await)
        .await
}

/// The request of another run: its IDs and times differ.
fn of_another_run(body: &str) -> String {
    body.replace(
        "00000000-0000-7000-8000-0000",
        "11111111-1111-7111-8111-1111",
    )
    .replace("1795863064436", "1795863099999")
}

#[tokio::test]
async fn requests_of_coding_agents_are_stored_and_found_in_the_next_run() {
    let upstream = upstream().await;
    let setup = Setup::in_front_of(upstream.address, Limits::default()).await;
    for (agent, path, body) in [
        ("codex", "/v1/responses", CODEX),
        ("claude-code", "/v1/messages?beta=true", CLAUDE),
    ] {
        let before = upstream.count();
        for (run, body, expected) in [
            ("1", body.to_owned(), "miss"),
            ("2", of_another_run(body), "hit"),
            ("3", body.replace("say ok", "say no"), "miss"),
        ] {
            let body: Value = serde_json::from_str(&body).unwrap();
            let path = format!("/p/{agent}/r/{run}{path}");
            let answer = setup.ask(&path, &body).await;
            assert_eq!(
                (answer.status, answer.source()),
                (200, expected),
                "{path}: {}",
                answer.cache_status()
            );
        }
        assert_eq!(upstream.count() - before, 2, "{agent}");
    }
}

#[tokio::test]
async fn requests_of_coding_agents_are_accepted_with_keys_and_budgets() {
    let upstream = upstream().await;
    let limits = "budget: {day: 1000}, models: ['gpt-*', 'claude-*']";
    let setup = Setup::configured(&file(&upstream, limits, "")).await;
    let lite = Some(("x-openai-internal-codex-responses-lite", "1"));
    let answer = ask(&setup, "/v1/responses", CODEX, lite).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let version = Some(("anthropic-version", "2023-06-01"));
    let answer = ask(&setup, "/v1/messages?beta=true", CLAUDE, version).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let received = upstream.received();
    assert_eq!(received.len(), 2);
    let header = received[0].header("x-openai-internal-codex-responses-lite");
    assert_eq!(header, Some("1"));
    let sent: Value = serde_json::from_str(CODEX).unwrap();
    assert_eq!(received[0].json(), sent, "the body is sent as it came");
}

#[tokio::test]
async fn counts_are_stored_and_compactions_are_not() {
    let upstream = upstream().await;
    let setup = Setup::configured(&file(&upstream, "budget: {day: 1000}", "")).await;
    let body = json!({"model": "gpt-5.5", "input": [{"role": "user", "content": "hello"}]});
    for expected in ["miss", "hit"] {
        let counted = ask(
            &setup,
            "/v1/responses/input_tokens",
            &body.to_string(),
            None,
        )
        .await;
        assert_eq!((counted.status, counted.source()), (200, expected));
        assert_eq!(counted.json()["input_tokens"], 11);
    }
    for _ in 0..2 {
        let compacted = ask(&setup, "/v1/responses/compact", &body.to_string(), None).await;
        assert_eq!(
            (compacted.status, compacted.source()),
            (200, "bypass"),
            "{}",
            compacted.body
        );
        let status = compacted.cache_status();
        assert!(status.contains("a compaction is encrypted"), "{status}");
    }
    assert_eq!(upstream.count(), 3);
    // Objects of others.
    for path in ["/v1/responses/input_tokens", "/v1/responses/compact"] {
        for (member, value) in [
            ("previous_response_id", json!("resp_1")),
            ("input", json!([{"type": "item_reference", "id": "msg_1"}])),
            (
                "prompt_cache_options",
                json!({"comparison_response_id": "resp_1"}),
            ),
        ] {
            let mut body = body.clone();
            body[member] = value;
            let refused = ask(&setup, path, &body.to_string(), None).await;
            assert_eq!(refused.status, 403, "{path} {member}: {}", refused.body);
            assert_eq!(refused.json()["error"]["code"], "object_not_allowed");
        }
    }
    assert_eq!(upstream.count(), 3, "nothing was sent");
}

#[tokio::test]
async fn only_the_operator_makes_unknown_parameters_storable() {
    let upstream = upstream().await;
    let accepting = "unknown: {key: [search_depth]}\n";
    let setup = Setup::configured(&file(&upstream, "", accepting)).await;
    let source = async |members: &[(&str, Value)]| {
        let mut body = chat("hello");
        for (name, value) in members {
            body[*name] = value.clone();
        }
        let answer = ask(&setup, "/v1/chat/completions", &body.to_string(), None).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        (answer.source(), answer.cache_status().to_owned())
    };
    let depth = |depth: u64| ("search_depth", json!(depth));
    assert_eq!(source(&[depth(1)]).await.0, "miss");
    assert_eq!(source(&[depth(1)]).await.0, "hit");
    assert_eq!(source(&[depth(2)]).await.0, "miss", "it is in the key");
    assert_eq!(source(&[]).await.0, "miss");
    for members in [
        vec![("other", json!(1))],
        vec![depth(1), ("other", json!(1))],
        vec![("prompt_cache_options", json!({"search_depth": 1}))],
        vec![(
            "messages",
            json!([{"role": "user", "content": [{"type": "search_depth"}]}]),
        )],
        vec![("tools", json!([{"type": "search_depth"}]))],
    ] {
        let (found, status) = source(&members).await;
        assert_eq!(found, "bypass", "{members:?}");
        assert!(
            status.contains("is not known to this version"),
            "{members:?}: {status}"
        );
    }
    // The judgment of a body that is known is made again with other settings.
    assert_eq!(source(&[depth(1)]).await.0, "hit");
    setup.gateway.reload(settings(&file(&upstream, "", ""), ""));
    let (found, status) = source(&[depth(1)]).await;
    assert_eq!(found, "bypass");
    assert!(
        status.contains("`search_depth` is not known to this version"),
        "{status}"
    );
    // With a budget, it may cost more than its tokens.
    let limited = file(&upstream, "budget: {day: 1000}", accepting);
    setup.gateway.reload(settings(&limited, ""));
    let mut body = chat("hello");
    body["search_depth"] = json!(1);
    let refused = ask(&setup, "/v1/chat/completions", &body.to_string(), None).await;
    assert_eq!(refused.status, 403, "{}", refused.body);
    assert_eq!(refused.json()["error"]["code"], "unknown_cost");
}

#[tokio::test]
async fn a_client_of_responses_without_a_websocket_is_asked_to_post() {
    let upstream = upstream().await;
    let setup = Setup::configured(&file(&upstream, "", "")).await;
    let connect = async |path: &str, credential: &str| {
        let request = setup.client.get(format!("{}{path}", setup.gateway.url()));
        let request = request.header("connection", "upgrade");
        let request = request.header("upgrade", "websocket");
        read(request.bearer_auth(credential)).await
    };
    for path in [
        "/v1/responses",
        "/p/codex/v1/responses",
        "/u/openai/v1/responses",
    ] {
        let refused = connect(path, "cachalot-one").await;
        assert_eq!(refused.status, 426, "{path}: {}", refused.body);
        assert_eq!(refused.json()["error"]["code"], "websocket_not_offered");
        assert!(refused.headers.contains_key("upgrade"));
    }
    // Codex sends its requests by POST at once.
    let of_codex = async |expected: u16| {
        let request = setup
            .client
            .get(format!("{}/u/own/v1/responses", setup.gateway.url()));
        let request = request
            .header("connection", "upgrade")
            .header("upgrade", "websocket");
        let answer = read(
            request
                .bearer_auth("sk-own")
                .header("originator", "codex_exec"),
        )
        .await;
        assert_eq!(answer.status, expected, "{}", answer.body);
    };
    of_codex(426).await;
    assert_eq!(upstream.count(), 0);
    // There is no other form of these requests.
    assert_eq!(connect("/v1/realtime", "cachalot-one").await.status, 403);
    assert_eq!(upstream.count(), 0);
    // Without a key, the upstream decides.
    assert_eq!(connect("/u/own/v1/responses", "sk-own").await.status, 200);
    assert_eq!(upstream.count(), 1);
    setup
        .gateway
        .reload(settings(&file(&upstream, "", "websockets: true\n"), ""));
    of_codex(200).await;
    assert_eq!(upstream.count(), 2);
    setup
        .gateway
        .reload(settings(&file(&upstream, "", "websockets: false\n"), ""));
    for path in ["/u/own/v1/responses", "/u/own/v1/realtime"] {
        assert_eq!(connect(path, "sk-own").await.status, 426, "{path}");
    }
    assert_eq!(upstream.count(), 2);
}
