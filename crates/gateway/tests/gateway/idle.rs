//! Conversations that are continued after a pause: the guard before an expired prefix, and prefixes that are kept alive.

use std::time::Duration;

use cachalot_cache::LedgerRow;
use cachalot_core::Digest;
use serde_json::{Value, json};

use crate::fake_upstream::{FakeUpstream, Step, answer, media};
use crate::support::{Answer, Setup, read, settings, until};

const MESSAGES: &str = "/v1/messages";
/// Tokens of the prefix that the fake upstream has in its cache: $0.375 to write at $3.75, $0.03 to read at $0.30.
const CACHED: u64 = 100_000;

/// A request of a conversation, from turn 1, with a marker at its end.
fn request(turn: usize) -> Value {
    let mut messages = Vec::new();
    for earlier in 1..turn {
        messages.push(json!({"role": "user", "content": format!("question {earlier}")}));
        messages.push(json!({"role": "assistant", "content": format!("answer {earlier}")}));
    }
    messages.push(json!({"role": "user", "content": [{
        "type": "text", "text": format!("question {turn}"), "cache_control": {"type": "ephemeral"},
    }]}));
    json!({
        "model": "claude-sonnet-4-5", "max_tokens": 100, "stream": false,
        "system": "Answer briefly. ".repeat(2_000), "messages": messages,
    })
}

/// An upstream that reads the whole prefix from its cache, or answers with this status.
async fn upstream(status: &'static str) -> FakeUpstream {
    FakeUpstream::start(move |received| {
        let body = json!({
            "id": format!("msg_{}", received.number), "type": "message", "role": "assistant",
            "model": "claude-sonnet-4-5", "stop_reason": "end_turn", "stop_sequence": null,
            "content": [{"type": "text", "text": "answer"}],
            "usage": {
                "input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": CACHED,
                "cache_creation_input_tokens": 0,
            },
        });
        let is_renewal = received.json()["max_tokens"] == 0;
        let status = if is_renewal { status } else { "200 OK" };
        answer(status, media(false), &body.to_string())
    })
    .await
}

async fn setup(upstream: &FakeUpstream, prefix: &str) -> Setup {
    let url = format!("http://{}", upstream.address);
    Setup::configured(&format!(
        "upstreams: {{anthropic: {{url: '{url}'}}}}\nprefix: {prefix}"
    ))
    .await
}

async fn ask(setup: &Setup, turn: usize) -> Answer {
    read(setup.post(MESSAGES, &request(turn))).await
}

fn minutes(setup: &Setup, minutes: f64) {
    setup.clock.advance(Duration::from_secs_f64(minutes * 60.0));
}

async fn metric(setup: &Setup, name: &str) -> u64 {
    let text = setup.metrics().await;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().trim().parse().unwrap()
}

/// Waits until the thread has analyzed all answers: the ledger has a row for each pause.
async fn pauses(setup: &Setup, count: usize) -> Vec<LedgerRow> {
    let ledger = setup.cache.ledger();
    until(async || {
        ledger.flush().await;
        ledger.payments_with("pause_ms", 100).unwrap().len() >= count
    })
    .await;
    ledger.payments_with("pause_ms", 100).unwrap()
}

/// Returns the rows of renewals in the ledger.
fn renewals(setup: &Setup) -> Vec<LedgerRow> {
    let rows = setup.cache.ledger().recent(100).unwrap();
    let is_renewal = |row: &LedgerRow| {
        let input = row.input.as_ref();
        input.is_some_and(|input| input["keep_alive"] == "renewal")
    };
    rows.into_iter().filter(is_renewal).collect()
}

/// Asks turns of one conversation with pauses of eight minutes, so that the ledger knows three of them.
async fn ask_with_pauses(setup: &Setup) {
    ask_all_with_pauses(setup, request).await;
}

async fn ask_all_with_pauses(setup: &Setup, request: impl Fn(usize) -> Value) {
    for turn in 1..=4 {
        let answered = read(setup.post(MESSAGES, &request(turn))).await;
        assert_eq!(answered.status, 200, "{}", answered.body);
        pauses(setup, turn - 1).await;
        if turn < 4 {
            minutes(setup, 8.0);
        }
    }
}

#[tokio::test]
async fn a_request_that_writes_an_expired_prefix_again_is_refused_once() {
    let upstream = upstream("200 OK").await;
    let setup = setup(&upstream, "{guard: {above: $0.30}}").await;
    assert_eq!(ask(&setup, 1).await.status, 200);
    minutes(&setup, 4.0);
    assert_eq!(ask(&setup, 2).await.status, 200);
    minutes(&setup, 47.0);
    let refused = ask(&setup, 3).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    let error = &refused.json()["error"];
    assert_eq!(error["type"], "cold_prefix");
    let message = error["message"].as_str().unwrap();
    for part in [
        "idle for 47 min",
        "5 min",
        "100,000 tokens",
        "$0.35",
        "Send it again within 10 minutes",
        "compact",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    // Clients do not repeat it by themselves.
    assert_eq!(refused.headers["x-should-retry"], "false");
    // A client that repeats it at once, without its user, gets the same answer.
    assert_eq!(ask(&setup, 3).await.status, 400);
    assert_eq!(upstream.count(), 2);
    assert_eq!(metric(&setup, "cachalot_prefix_refusals_total").await, 2);
    // The next request of the conversation is passed on, also with another message.
    minutes(&setup, 5.0);
    let mut other = request(3);
    other["messages"][4]["content"][0]["text"] = json!("another question");
    assert_eq!(read(setup.post(MESSAGES, &other)).await.status, 200);
    assert_eq!(upstream.count(), 3);
}

#[tokio::test]
async fn a_cheap_or_unknown_conversation_is_not_refused() {
    let upstream = upstream("200 OK").await;
    let setup = setup(&upstream, "{guard: {above: 0.35}}").await;
    assert_eq!(ask(&setup, 1).await.status, 200);
    minutes(&setup, 47.0);
    assert_eq!(ask(&setup, 2).await.status, 200);
    // Another client of which no conversation is known.
    let other = setup.post(MESSAGES, &request(3)).header("x-api-key", "two");
    assert_eq!(read(other).await.status, 200);
    assert_eq!(metric(&setup, "cachalot_prefix_refusals_total").await, 0);
}

#[tokio::test]
async fn a_prefix_is_renewed_while_that_pays() {
    let upstream = upstream("200 OK").await;
    let setup = setup(
        &upstream,
        "{keep_alive: {until: 30m, max: $0.20}, guard: {above: $0}}",
    )
    .await;
    // Refused once after each pause: nothing is known yet.
    for turn in 1..=4 {
        let mut answered = ask(&setup, turn).await;
        if answered.status == 400 {
            minutes(&setup, 0.1);
            answered = ask(&setup, turn).await;
        }
        assert_eq!(answered.status, 200);
        pauses(&setup, turn - 1).await;
        if turn < 4 {
            minutes(&setup, 12.0);
        }
    }
    let asked = upstream.count();
    minutes(&setup, 4.6);
    until(async || metric(&setup, "cachalot_prefix_renewals_total").await == 1).await;
    let renewal = &upstream.received()[asked];
    assert_eq!(renewal.header("x-api-key"), Some("one"));
    let mut expected = request(4);
    expected.as_object_mut().unwrap().remove("stream");
    expected["max_tokens"] = json!(0);
    assert_eq!(renewal.json(), expected);
    minutes(&setup, 4.6);
    until(async || metric(&setup, "cachalot_prefix_renewals_total").await == 2).await;
    // The prefix is not cold, after a pause of 12 minutes.
    minutes(&setup, 2.8);
    assert_eq!(ask(&setup, 5).await.status, 200);
    let known = pauses(&setup, 4).await;
    let last = known.last().unwrap();
    let input = last.input.as_ref().unwrap();
    assert_eq!(
        (&input["resumed"], &input["renewals"]),
        (&json!(true), &json!(2))
    );
    let minutes_of_pause = input["pause_ms"].as_i64().unwrap() / 60_000;
    assert_eq!(minutes_of_pause, 12);
    // $3.75 - $0.30 for each million tokens.
    assert_eq!(last.saved.cost.dollars(), 0.345);
    let renewals = renewals(&setup);
    // 100,000 tokens read at $0.30, 10 of input at $3, one of output at $15.
    let cost = 0.03 + 0.00003 + 0.000015;
    for row in &renewals {
        assert_eq!(row.kind, "request");
        assert!((row.paid.cost.dollars() - cost).abs() < 1e-9, "{row:?}");
        assert!(row.scope.starts_with("user:"), "{row:?}");
    }
    assert_eq!(renewals.len(), 2);
    // Beyond all known pauses, nothing is sent.
    minutes(&setup, 13.0);
    let count = upstream.count();
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(upstream.count(), count);
}

#[tokio::test]
async fn pauses_are_known_to_the_next_process_and_the_maximum_counts() {
    let upstream = upstream("200 OK").await;
    let setup = setup(&upstream, "{keep_alive: {until: 30m, max: $0.05}}").await;
    ask_with_pauses(&setup).await;
    let setup = setup.restarted(None, false).await;
    assert_eq!(ask(&setup, 5).await.status, 200);
    // The answer is analyzed in this time, without a renewal: the conversation is not idle for long enough.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(upstream.count(), 5);
    minutes(&setup, 4.6);
    until(async || metric(&setup, "cachalot_prefix_renewals_total").await == 1).await;
    // A second one would cost more than $0.05 in all.
    minutes(&setup, 4.6);
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(upstream.count(), 6);
}

#[tokio::test]
async fn a_model_that_refuses_a_renewal_is_asked_for_none_again() {
    let upstream = upstream("400 Bad Request").await;
    let setup = setup(&upstream, "{keep_alive: {until: 30m, max: $1}}").await;
    ask_with_pauses(&setup).await;
    let asked = upstream.count();
    minutes(&setup, 4.6);
    until(async || upstream.count() == asked + 1).await;
    minutes(&setup, 2.0);
    assert_eq!(ask(&setup, 5).await.status, 200);
    pauses(&setup, 4).await;
    minutes(&setup, 4.6);
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(upstream.count(), asked + 2);
    assert_eq!(metric(&setup, "cachalot_prefix_renewals_total").await, 0);
}

#[tokio::test]
async fn a_fault_ends_the_renewals_of_one_pause_only() {
    let upstream = upstream("503 Service Unavailable").await;
    let setup = setup(&upstream, "{keep_alive: {until: 30m, max: $1}}").await;
    ask_with_pauses(&setup).await;
    let asked = upstream.count();
    minutes(&setup, 4.6);
    until(async || upstream.count() == asked + 1).await;
    minutes(&setup, 3.4);
    assert_eq!(ask(&setup, 5).await.status, 200);
    pauses(&setup, 4).await;
    minutes(&setup, 4.6);
    until(async || upstream.count() == asked + 3).await;
    assert_eq!(metric(&setup, "cachalot_prefix_renewals_total").await, 0);
}

#[tokio::test]
async fn a_request_with_a_tool_of_the_provider_is_not_renewed() {
    let upstream = upstream("200 OK").await;
    let setup = setup(&upstream, "{keep_alive: {until: 30m, max: $1}}").await;
    ask_with_pauses(&setup).await;
    // The pauses are those of the client. Another conversation has the tool.
    let mut searching = request(1);
    searching["system"] = json!("Answer in French. ".repeat(2_000));
    searching["tools"] = json!([{"type": "web_search_20250305", "name": "web_search"}]);
    assert_eq!(read(setup.post(MESSAGES, &searching)).await.status, 200);
    let asked = upstream.count();
    minutes(&setup, 4.6);
    until(async || upstream.count() > asked).await;
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let renewed = &upstream.received()[asked..];
    assert_eq!(renewed.len(), 1);
    assert!(renewed[0].json().get("tools").is_none());
}

#[tokio::test]
async fn other_settings_end_all_renewals() {
    let upstream = upstream("200 OK").await;
    let setup = setup(&upstream, "{keep_alive: {until: 30m, max: $1}}").await;
    ask_with_pauses(&setup).await;
    let asked = upstream.count();
    // The same ones: a credential in the environment or in a file may have changed.
    let url = format!("http://{}", upstream.address);
    let file = format!(
        "upstreams: {{anthropic: {{url: '{url}'}}}}\nprefix: {{keep_alive: {{until: 30m, max: $1}}}}"
    );
    setup.gateway.reload(settings(&file, &url));
    minutes(&setup, 4.6);
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(upstream.count(), asked);
}

#[tokio::test]
async fn a_request_that_is_being_answered_keeps_its_conversation_warm() {
    let (sender, gate) = tokio::sync::watch::channel(false);
    let upstream = FakeUpstream::start(move |received| {
        let usage = json!({
            "input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": CACHED,
            "cache_creation_input_tokens": 0,
        });
        let body = json!({
            "id": "msg", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "stop_reason": "end_turn", "stop_sequence": null,
            "content": [{"type": "text", "text": "answer"}], "usage": usage,
        });
        let mut steps = answer("200 OK", media(false), &body.to_string());
        if received.number == 1 {
            // The head and the beginning of the answer, and the rest when the test says so.
            let Some(Step::Send(bytes)) = steps.pop() else {
                return Vec::new();
            };
            let (begin, end) = bytes.split_at(bytes.len() - 10);
            steps.push(Step::Send(begin.to_vec()));
            steps.push(Step::Until(gate.clone()));
            steps.push(Step::Send(end.to_vec()));
        }
        steps
    })
    .await;
    let setup = setup(&upstream, "{guard: {above: $0}}").await;
    assert_eq!(ask(&setup, 1).await.status, 200);
    minutes(&setup, 4.0);
    // A client that leaves before the end of the answer.
    let left = setup
        .post(MESSAGES, &request(2))
        .header("x-cachalot-mode", "off");
    let left = left.send().await.unwrap();
    assert_eq!(left.status(), 200);
    drop(left);
    minutes(&setup, 4.0);
    assert_eq!(ask(&setup, 3).await.status, 200);
    drop(sender);
}

#[tokio::test]
async fn a_renewal_counts_against_the_budget_of_its_key() {
    let upstream = upstream("200 OK").await;
    let digest = Digest::sha256(b"cachalot-one").to_hex();
    let setup = Setup::configured(&format!(
        "upstreams: {{anthropic: {{url: 'http://{}', credential: {{env: SECRET}}}}}}
keys: {{one: {{digest: {digest}, budget: {{day: 1.20}}}}}}
admin: {{listen: '127.0.0.1:0', token: {{env: SECRET}}}}
prefix: {{keep_alive: {{until: 30m, max: $1}}}}",
        upstream.address
    ))
    .await;
    let ask = async |turn: usize| {
        let url = format!("{}{MESSAGES}", setup.gateway.url());
        let request = setup.client.post(url).body(request(turn).to_string());
        let request = request
            .header("content-type", "application/json")
            .header("anthropic-version", "2023-06-01")
            .header("x-api-key", "cachalot-one");
        let answered = read(request).await;
        assert_eq!(answered.status, 200, "{}", answered.body);
    };
    for turn in 1..=4 {
        ask(turn).await;
        pauses(&setup, turn - 1).await;
        if turn < 4 {
            minutes(&setup, 8.0);
        }
    }
    let used = async || {
        let address = setup.gateway.admin_address().unwrap();
        let url = format!("http://{address}/admin/keys");
        let document = read(setup.client.get(url).bearer_auth("operator-secret"))
            .await
            .json();
        document["keys"][0]["budget"]["day"]["used"]
            .as_f64()
            .unwrap()
    };
    let before = used().await;
    minutes(&setup, 4.6);
    let ledger = setup.cache.ledger();
    until(async || {
        ledger.flush().await;
        renewals(&setup).len() == 1
    })
    .await;
    let cost = used().await - before;
    assert!((cost - 0.030_045).abs() < 1e-9, "{cost}");
    // The credential of the operator is sent, and not the key of the gateway.
    let renewal = upstream.received().pop().unwrap();
    assert!(
        renewal
            .header("x-api-key")
            .is_some_and(|key| key != "cachalot-one")
    );
}
