//! Prefixes: breaks of conversations of any client, and what the gateway adds to requests.

use std::time::Duration;

use cachalot_cache::LedgerRow;
use cachalot_core::Digest;
use serde_json::{Value, json};

use crate::support::{Answer, Setup, read, until};

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";

/// An instruction that is long enough for a provider's cache.
fn instruction(clock: &str) -> String {
    format!("It is {clock}. {}", "Answer briefly. ".repeat(1_200))
}

/// The messages of a turn, from 1.
fn said(turn: usize) -> Vec<Value> {
    let mut messages = Vec::new();
    for earlier in 1..turn {
        messages.push(json!({"role": "user", "content": format!("question {earlier}")}));
        messages.push(json!({"role": "assistant", "content": format!("answer {earlier}")}));
    }
    messages.push(json!({"role": "user", "content": format!("question {turn}")}));
    messages
}

/// A request of Chat Completions, whose answer is not stored.
fn chat(clock: &str, turn: usize) -> Value {
    let mut messages = vec![json!({"role": "system", "content": instruction(clock)})];
    messages.extend(said(turn));
    json!({"model": "gpt-4o-mini", "messages": messages})
}

/// A request of Messages, with markers or without.
fn messages(clock: &str, turn: usize, is_marked: bool) -> Value {
    let mut body = json!({
        "model": "claude-3-5-haiku-20241022",
        "max_tokens": 100,
        "system": [{"type": "text", "text": instruction(clock)}],
        "messages": said(turn),
    });
    if is_marked {
        body["system"][0]["cache_control"] = json!({"type": "ephemeral"});
    }
    body
}

/// Sends a request of the client with this credential.
async fn ask(setup: &Setup, client: &str, path: &str, body: &Value) -> Answer {
    let request = setup
        .client
        .post(format!("{}{path}", setup.gateway.url()))
        .body(body.to_string())
        .header("content-type", "application/json");
    let request = match path {
        MESSAGES => request
            .header("x-api-key", client)
            .header("anthropic-version", "2023-06-01"),
        _ => request.bearer_auth(client),
    };
    let answer = read(request).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer
}

/// The lines of the statistics about the analysis of prefixes.
async fn statistics(setup: &Setup) -> Vec<String> {
    let text = setup.metrics().await;
    let lines = text
        .lines()
        .filter(|line| line.starts_with("cachalot_prefix_"))
        .filter(|line| !line.contains("refusals") && !line.contains("renewals"));
    lines.map(str::to_owned).collect()
}

/// Waits for a break in the statistics.
async fn wait_for_break(setup: &Setup) -> Vec<String> {
    let is_break = |line: &String| line.contains("prefix_breaks_total{");
    until(async || statistics(setup).await.iter().any(is_break)).await;
    statistics(setup).await
}

/// Stops the gateway, which analyzes the last requests first; returns the breaks in the ledger.
async fn breaks(setup: Setup) -> Vec<LedgerRow> {
    assert!(setup.gateway.stop().await);
    let ledger = setup.cache.ledger();
    ledger.flush().await;
    ledger.broken_prefixes(0, 0).unwrap().0
}

#[tokio::test]
async fn conversations_without_a_break_report_none() {
    let setup = Setup::new().await;
    for turn in 1..=3 {
        ask(&setup, "one", CHAT, &chat("10:41", turn)).await;
        ask(&setup, "one", MESSAGES, &messages("10:41", turn, true)).await;
        let mut streamed = chat("10:42", turn);
        streamed["stream"] = json!(true);
        streamed["stream_options"] = json!({"include_usage": true});
        ask(&setup, "one", CHAT, &streamed).await;
        let mut responses = json!({"model": "gpt-4o-mini", "store": false});
        responses["instructions"] = json!(instruction("10:43"));
        responses["input"] = said(turn).into();
        ask(&setup, "one", "/v1/responses", &responses).await;
    }
    let lines = statistics(&setup).await;
    assert_eq!(lines, ["cachalot_prefix_skipped_total 0"]);
    assert_eq!(breaks(setup).await, []);
}

#[tokio::test]
async fn a_changed_instruction_is_a_break_in_statistics_and_ledger() {
    for (path, model, upstream) in [
        (CHAT, "gpt-4o-mini", "openai"),
        (MESSAGES, "claude-3-5-haiku-20241022", "anthropic"),
    ] {
        let setup = Setup::new().await;
        let request = |clock, turn| match path {
            CHAT => chat(clock, turn),
            _ => messages(clock, turn, true),
        };
        for turn in 1..=2 {
            ask(&setup, "one", path, &request("10:41", turn)).await;
        }
        ask(&setup, "one", path, &request("10:42", 3)).await;
        let lines = wait_for_break(&setup).await;
        let labels =
            format!(r#"{{upstream="{upstream}",model="{model}",key="",reason="system_changed"}}"#);
        assert!(
            lines.contains(&format!("cachalot_prefix_breaks_total{labels} 1")),
            "{lines:?}"
        );
        let lost = format!("cachalot_prefix_lost_tokens_total{labels} ");
        let lost = lines.iter().find_map(|line| line.strip_prefix(&lost));
        let lost = lost.unwrap();
        assert!(lost.parse::<u64>().unwrap() > 2_000, "{lines:?}");
        // The next request continues the changed one.
        ask(&setup, "one", path, &request("10:42", 4)).await;
        let ledger = setup.cache.ledger().clone();
        ledger.flush().await;
        let rows = ledger.broken_prefixes(0, 0).unwrap().0;
        let [row] = rows.as_slice() else {
            panic!("{rows:?}")
        };
        assert_eq!(
            (row.kind.as_str(), &row.name),
            ("prefix", &format!("{upstream}/{model}"))
        );
        assert!(row.scope.starts_with("user:"), "{row:?}");
        assert!(row.paid.is_free(), "{row:?}");
        let known = row.input.as_ref().unwrap();
        assert_eq!(known["prefix"], "system_changed");
        assert_eq!(known["cause"], "timestamp");
        assert_eq!(known["upstream"], upstream);
        assert_eq!(known["lost_tokens"].to_string(), lost);
        // The request has a row of its own, and `why` finds both.
        let request = known["request"].as_str().unwrap();
        let request = ledger.explain(Some(request)).unwrap().unwrap();
        assert_eq!(request.call.kind, "request");
        let conversation = row.handle.as_deref().unwrap();
        let explained = ledger.explain(Some(conversation)).unwrap().unwrap();
        assert_eq!(explained.call.id, row.id);
        assert_eq!(breaks(setup).await.len(), 1);
    }
}

#[tokio::test]
async fn clients_are_not_compared() {
    let setup = Setup::new().await;
    for turn in 1..=2 {
        ask(&setup, "one", CHAT, &chat("10:41", turn)).await;
    }
    // Of the same client, this would be a break.
    for turn in 3..=4 {
        ask(&setup, "two", CHAT, &chat("10:42", turn)).await;
    }
    ask(&setup, "one", CHAT, &chat("10:41", 3)).await;
    assert_eq!(breaks(setup).await, []);
    // The same for keys of the gateway, also in a scope that they share.
    let digests = ["one", "two"].map(|name| {
        let digest = Digest::sha256(format!("cachalot-{name}").as_bytes());
        format!("{name}: {{digest: {}, scopes: [ci]}}", digest.to_hex())
    });
    let setup = Setup::configured(&format!(
        "upstreams: {{openai: {{url: '{{url}}', credential: {{env: SECRET}}}}}}\nkeys: {{{}}}",
        digests.join(", ")
    ))
    .await;
    for (client, clock, turn) in [
        ("one", "10:41", 1),
        ("two", "10:42", 2),
        ("one", "10:43", 2),
    ] {
        let request = setup
            .client
            .post(format!("{}{CHAT}", setup.gateway.url()))
            .bearer_auth(format!("cachalot-{client}"))
            .header("content-type", "application/json")
            .header("x-cachalot-scope", "ci")
            .body(chat(clock, turn).to_string());
        assert_eq!(read(request).await.status, 200);
    }
    let rows = breaks(setup).await;
    let scopes: Vec<&str> = rows.iter().map(|row| row.scope.as_str()).collect();
    assert_eq!(scopes, ["user:key:one"], "{rows:?}");
}

#[tokio::test]
async fn a_session_is_named_by_a_header() {
    let setup = Setup::new().await;
    for (turn, clock) in [(1, "10:41"), (2, "10:41"), (3, "10:42")] {
        let request = setup
            .post(MESSAGES, &messages(clock, turn, true))
            .header("x-claude-code-session-id", "session-1");
        assert_eq!(read(request).await.status, 200);
    }
    let rows = breaks(setup).await;
    let [row] = rows.as_slice() else {
        panic!("{rows:?}")
    };
    assert_eq!(row.handle.as_deref(), Some("session-1"));
    assert_eq!(row.input.as_ref().unwrap()["cause"], "timestamp");
}

#[tokio::test]
async fn hits_and_switched_off_requests_are_not_watched() {
    let file = "upstreams: {openai: {url: '{url}'}}\nprefix: {watch: false}";
    let setup = Setup::configured(file).await;
    for (clock, turn) in [("10:41", 1), ("10:42", 2)] {
        ask(&setup, "one", CHAT, &chat(clock, turn)).await;
    }
    assert_eq!(breaks(setup).await, []);
    // A hit reads nothing from the provider's cache.
    let setup = Setup::new().await;
    let repeatable = |clock, turn| {
        let mut body = chat(clock, turn);
        body["temperature"] = json!(0);
        body
    };
    setup.ask(CHAT, &repeatable("10:41", 1)).await;
    setup.ask(CHAT, &repeatable("10:42", 2)).await;
    wait_for_break(&setup).await;
    let hit = setup.ask(CHAT, &repeatable("10:41", 1)).await;
    assert_eq!(hit.source(), "hit");
    assert_eq!(breaks(setup).await.len(), 1);
}

#[tokio::test]
async fn long_bodies_are_passed_on_and_left_out() {
    let setup = Setup::new().await;
    let mut body = chat("10:41", 1);
    body["metadata"] = json!({"x": "y".repeat(9 << 20)});
    let answer = read(setup.post(CHAT, &body)).await;
    assert_ne!(answer.status, 413);
    assert_eq!(
        statistics(&setup).await,
        ["cachalot_prefix_skipped_total 1"]
    );
}

#[tokio::test]
async fn a_response_shows_the_break_of_the_previous_request() {
    let file = "upstreams: {openai: {url: '{url}'}}\nprefix: {header: true}";
    let setup = Setup::configured_with_latency(file, Duration::from_millis(300)).await;
    let header = |answer: &Answer| {
        let value = answer.headers.get("x-cachalot-prefix");
        value.map(|value| value.to_str().unwrap().to_owned())
    };
    for (clock, turn) in [("10:41", 1), ("10:42", 2)] {
        let answer = ask(&setup, "one", CHAT, &chat(clock, turn)).await;
        assert_eq!(header(&answer), None);
    }
    wait_for_break(&setup).await;
    let other = ask(&setup, "two", CHAT, &chat("10:42", 3)).await;
    assert_eq!(header(&other), None);
    let next = ask(&setup, "one", CHAT, &chat("10:42", 3)).await;
    let shown = header(&next).unwrap();
    let expected = "previous; reason=system_changed; cause=timestamp; lost_tokens=";
    assert!(shown.starts_with(expected), "{shown}");
}

#[tokio::test]
async fn breakpoints_are_added_where_a_client_sets_none() {
    let file = "upstreams: {anthropic: {url: '{url}'}}\nprefix: {inject_breakpoints: true}";
    let setup = Setup::configured(file).await;
    let usage = |answer: &Answer, name: &str| answer.json()["usage"][name].as_u64().unwrap();
    let first = ask(&setup, "one", MESSAGES, &messages("10:41", 1, false)).await;
    assert!(usage(&first, "cache_creation_input_tokens") > 2_000);
    let second = ask(&setup, "one", MESSAGES, &messages("10:41", 2, false)).await;
    assert!(usage(&second, "cache_read_input_tokens") > 2_000);
    let received = setup.simulator.received();
    let marker = json!({"type": "ephemeral"});
    let body = received[1].json();
    assert_eq!(body["system"][0]["cache_control"], marker);
    assert_eq!(
        body["messages"][2]["content"],
        json!([{"type": "text", "text": "question 2", "cache_control": marker}])
    );
    assert_eq!(body["messages"][0]["content"], "question 1");
    // The markers of a client stay the only ones, and the key is that of the client's body.
    let marked = messages("10:41", 3, true);
    ask(&setup, "one", MESSAGES, &marked).await;
    assert_eq!(setup.simulator.received()[2].body, marked.to_string());
    let mut repeatable = messages("10:41", 4, false);
    repeatable["temperature"] = json!(0);
    let through = setup.ask(MESSAGES, &repeatable).await;
    let plain = Setup::new().await;
    let unchanged = plain.ask(MESSAGES, &repeatable).await;
    assert_eq!(through.source(), "miss");
    assert_eq!(
        plain.simulator.received()[0].body,
        repeatable.to_string(),
        "off by default"
    );
    assert_eq!(unchanged.source(), "miss");
    assert_eq!(setup.ask(MESSAGES, &repeatable).await.source(), "hit");
}

#[tokio::test]
async fn a_prompt_cache_key_is_added_for_each_client_and_conversation() {
    let file = "upstreams: {openai: {url: '{url}'}}\nprefix: {prompt_cache_key: true}";
    let setup = Setup::configured(file).await;
    for (client, turn) in [("one", 1), ("one", 2), ("two", 1)] {
        ask(&setup, client, CHAT, &chat("10:41", turn)).await;
    }
    let mut named = chat("10:41", 3);
    named["prompt_cache_key"] = json!("mine");
    ask(&setup, "one", CHAT, &named).await;
    let received = setup.simulator.received();
    let key = |at: usize| received[at].json()["prompt_cache_key"].clone();
    assert_eq!(key(0), key(1));
    assert_ne!(key(0), key(2));
    let text = key(0);
    let text = text.as_str().unwrap();
    assert!(text.starts_with("cachalot-") && text.len() <= 64, "{text}");
    assert_eq!(received[3].body, named.to_string());
    // Nothing else differs.
    let mut sent = received[1].json();
    sent.as_object_mut().unwrap().remove("prompt_cache_key");
    assert_eq!(sent, chat("10:41", 2));
}

#[tokio::test]
async fn breaks_of_a_sub_agent_are_told_apart() {
    let setup = Setup::new().await;
    for (clock, turn, agent) in [
        ("10:41", 1, None),
        ("10:51", 1, Some("a81f")),
        ("10:41", 2, None),
        ("10:51", 2, Some("a81f")),
        ("10:52", 3, Some("a81f")),
        ("10:41", 3, None),
    ] {
        let request = setup.post(MESSAGES, &messages(clock, turn, true));
        let request = request.header("x-claude-code-session-id", "session-1");
        let request = match agent {
            Some(agent) => request.header("x-claude-code-agent-id", agent),
            None => request,
        };
        assert_eq!(read(request).await.status, 200);
    }
    let rows = breaks(setup).await;
    let [row] = rows.as_slice() else {
        panic!("{rows:?}")
    };
    assert_eq!(row.handle.as_deref(), Some("session-1"));
    assert_eq!(row.input.as_ref().unwrap()["sub_agent"], "a81f");
}
