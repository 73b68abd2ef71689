//! Accounting without a server says what the server says.

use cachalot_core::Digest;
use cachalot_simulator::accounting::Rules;
use cachalot_simulator::{Accountant, Format, InputTokens, Script};
use serde_json::{Value, json};

use super::{START, client, timed};

const LONG: usize = 9_000;

fn anthropic(turns: usize, ttl: &str) -> Value {
    let mut messages = Vec::new();
    for turn in 0..turns {
        messages.push(json!({"role": "user", "content": [{"type": "text", "text": format!("question {turn}")}]}));
        messages
            .push(json!({"role": "assistant", "content": [{"type": "text", "text": "answer"}]}));
    }
    messages.push(json!({"role": "user", "content": [
        {"type": "text", "text": "last", "cache_control": {"type": "ephemeral"}}
    ]}));
    json!({
        "model": "claude-sonnet-4-5", "max_tokens": 100, "messages": messages,
        "system": [{"type": "text", "text": "s".repeat(LONG), "cache_control": {"type": "ephemeral", "ttl": ttl}}],
    })
}

#[tokio::test]
async fn accountant_charges_equal_the_reported_usage() {
    let (running, clock) = timed(Script::answers(["a", "a", "a", "a"])).await;
    let mut accountant = Accountant::new(Rules::published());
    let namespace = Digest::sha256(&[]);
    let url = format!("{}/v1/messages", running.url());
    // The third comes when what five minutes keep is gone, and what an hour keeps is not.
    for (turns, ttl, later) in [
        (0, "1h", 0),
        (1, "1h", 60_000),
        (2, "1h", 600_000),
        (0, "5m", 0),
    ] {
        clock.advance(std::time::Duration::from_millis(later));
        let body = anthropic(turns, ttl).to_string();
        let at = cachalot_core::Clock::now(&*clock);
        let accounted = accountant
            .account(Format::Messages, body.as_bytes(), at, namespace)
            .unwrap();
        let response = client()
            .post(&url)
            .header("x-api-key", "k")
            .header("anthropic-version", "2023-06-01")
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await
            .unwrap();
        let usage = response.json::<Value>().await.unwrap()["usage"].clone();
        let tokens = |path: &str| {
            usage
                .pointer(path)
                .and_then(Value::as_u64)
                .unwrap_or_default()
        };
        let reported = InputTokens {
            uncached: tokens("/input_tokens"),
            read: tokens("/cache_read_input_tokens"),
            written: tokens("/cache_creation/ephemeral_5m_input_tokens"),
            written_1h: tokens("/cache_creation/ephemeral_1h_input_tokens"),
            written_12h: 0,
        };
        assert_eq!(accounted, reported, "turns {turns}, {ttl}");
        assert!(accounted.read + accounted.written + accounted.written_1h > 1_024);
    }
    assert!(running.violations().is_empty());
}

#[test]
fn accountant_does_not_charge_refused_requests() {
    let mut accountant = Accountant::new(Rules::published());
    let namespace = Digest::sha256(&[]);
    let refused = accountant
        .account(Format::Chat, b"{\"model\":", START, namespace)
        .unwrap_err();
    assert!(refused.0.contains("not JSON"), "{refused}");
    let body = json!({"model": "gpt-4o", "messages": "none"}).to_string();
    assert!(
        accountant
            .account(Format::Chat, body.as_bytes(), START, namespace)
            .is_err()
    );
}
