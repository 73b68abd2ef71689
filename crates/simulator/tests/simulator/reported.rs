//! Usage beside tokens: tiers, geography, speed, searches, long cache writes and compactions.

use std::time::Duration;

use cachalot_core::Digest;
use cachalot_simulator::{Accountant, Format, Script, accounting::Rules};
use serde_json::{Value, json};

use crate::{CHAT, MESSAGES, RESPONSES, ask, post, smallest, start, timed, with};

const NOVA: &str = "/model/amazon.nova-pro-v1%3A0/converse";
const GEMINI: &str = "/v1beta/models/gemini-3.8-flash:generateContent";

fn script(usage: &str) -> Script {
    let text = format!("otherwise: {{text: Found., usage: {{{usage}}}}}");
    Script::parse("script.yaml", &text).unwrap()
}

#[tokio::test]
async fn answer_reports_the_tier_of_the_request() {
    let running = start(Script::built_in()).await;
    for (asked, answered) in [
        ("auto", "default"),
        ("default", "default"),
        ("flex", "flex"),
        ("fast", "priority"),
        ("priority", "priority"),
        ("ultrafast", "ultrafast"),
    ] {
        let request = with(smallest(RESPONSES, "x"), json!({"service_tier": asked}));
        let answer = ask(&running, RESPONSES, &request).await;
        assert_eq!(answer["service_tier"], answered, "{asked}");
    }
    let request = with(smallest(CHAT, "x"), json!({"service_tier": "flex"}));
    assert_eq!(ask(&running, CHAT, &request).await["service_tier"], "flex");
    let fields = json!({"inference_geo": "us", "speed": "fast"});
    let answer = ask(&running, MESSAGES, &with(smallest(MESSAGES, "x"), fields)).await;
    let usage = &answer["usage"];
    assert_eq!(
        [
            &usage["inference_geo"],
            &usage["speed"],
            &usage["service_tier"]
        ],
        ["us", "fast", "standard"]
    );
    let request =
        json!({"contents": [{"role": "user", "parts": [{"text": "x"}]}], "serviceTier": "flex"});
    let answer = ask(&running, GEMINI, &request).await;
    assert_eq!(answer["usageMetadata"]["serviceTier"], "flex");
    let request = json!({"messages": [{"role": "user", "content": [{"text": "x"}]}], "serviceTier": {"type": "flex"}});
    let answer = ask(&running, NOVA, &request).await;
    assert_eq!(answer["serviceTier"], json!({"type": "flex"}));
}

#[tokio::test]
async fn scripted_usage_is_reported_by_openai() {
    let running = start(script(
        "input: 10000, cache_read: 1000, cache_write: 2000, cache_write_12h: 3000, output: 77, \
         web_searches: 2, service_tier: priority",
    ))
    .await;
    let request = json!({"model": "gpt-5.6", "input": "x", "service_tier": "flex"});
    let answer = ask(&running, RESPONSES, &request).await;
    assert_eq!(answer["service_tier"], "priority");
    assert_eq!(
        answer["tool_usage"]["web_search"],
        json!({"num_requests": 2})
    );
    assert_eq!(
        answer["usage"],
        json!({
            "input_tokens": 10_000,
            "input_tokens_details": {
                "cached_tokens": 1_000, "cache_write_tokens": 5_000,
                "cache_write_tokens_details": {"ttl_30m_tokens": 2_000, "ttl_12h_tokens": 3_000},
            },
            "output_tokens": 77, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 10_077,
        })
    );
    let chat = with(smallest(CHAT, "x"), json!({"service_tier": "flex"}));
    let chat = ask(&running, CHAT, &chat).await;
    assert_eq!(chat["service_tier"], "priority");
    assert_eq!(
        chat["usage"]["prompt_tokens_details"]["cache_write_tokens"],
        5_000
    );
    // Nothing is reported that was not used.
    let running = start(Script::built_in()).await;
    let answer = ask(&running, RESPONSES, &smallest(RESPONSES, "x")).await;
    assert_eq!(answer.get("tool_usage"), None);
}

#[tokio::test]
async fn scripted_usage_is_reported_by_anthropic() {
    let running = start(script(
        "input: 1000, cache_read: 200, cache_write: 300, output: 77, web_searches: 2, \
         service_tier: priority, inference_geo: us, speed: fast, \
         compaction: {input: 150000, cache_read: 10, cache_write: 20, output: 3000}",
    ))
    .await;
    let counts = |input: u64, read: u64, written: u64, output: u64| {
        json!({
            "input_tokens": input, "cache_read_input_tokens": read, "cache_creation_input_tokens": written,
            "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
            "output_tokens": output,
        })
    };
    let work = json!({
        "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 0},
        "iterations": [
            with(counts(150_000, 10, 20, 3_000), json!({"type": "compaction"})),
            with(counts(500, 200, 300, 77), json!({"type": "message", "model": "claude-sonnet-4-5"})),
        ],
    });
    let terms = json!({"service_tier": "priority", "inference_geo": "us", "speed": "fast"});
    let request = smallest(MESSAGES, "x");
    let answer = ask(&running, MESSAGES, &request).await;
    let expected = with(with(counts(500, 200, 300, 77), terms.clone()), work.clone());
    assert_eq!(answer["usage"], expected);

    let events = post(&running, MESSAGES, &with(request, json!({"stream": true})))
        .await
        .data();
    let begun = &events[0]["message"]["usage"];
    assert_eq!(*begun, with(counts(500, 200, 300, 1), terms));
    let delta = events
        .iter()
        .find(|data| data["type"] == "message_delta")
        .unwrap();
    let mut ended = with(counts(500, 200, 300, 77), work);
    ended.as_object_mut().unwrap().remove("cache_creation");
    assert_eq!(delta["usage"], ended);
}

#[tokio::test]
async fn scripted_searches_and_tier_are_reported_by_gemini_and_bedrock() {
    let running = start(script("web_searches: 2, service_tier: priority")).await;
    let request = json!({"contents": [{"role": "user", "parts": [{"text": "x"}]}]});
    let answer = ask(&running, GEMINI, &request).await;
    let queries = &answer["candidates"][0]["groundingMetadata"]["webSearchQueries"];
    assert_eq!(queries.as_array().unwrap().len(), 2);
    assert_eq!(answer["usageMetadata"]["serviceTier"], "priority");
    let request = json!({"messages": [{"role": "user", "content": [{"text": "x"}]}]});
    let answer = ask(&running, NOVA, &request).await;
    assert_eq!(answer["serviceTier"], json!({"type": "priority"}));
}

#[test]
fn scripted_terms_are_checked() {
    for (usage, problem) in [
        (
            "service_tier: fastest",
            "`service_tier` cannot be `fastest`",
        ),
        ("inference_geo: moon", "`inference_geo` cannot be `moon`"),
        ("speed: slow", "`speed` cannot be `slow`"),
        ("compaction: {inputs: 1}", "inputs"),
    ] {
        let text = format!("otherwise: {{text: x, usage: {{{usage}}}}}");
        let problems = Script::parse("script.yaml", &text).unwrap_err();
        assert!(problems[0].to_string().contains(problem), "{}", problems[0]);
    }
}

/// A message of two parts, of 2,000 and 1,000 tokens. The first has a breakpoint.
fn marked(name: &str, breakpoint: Value) -> Value {
    let text = |length: usize| format!("{name}{}", ".".repeat(length - name.len()));
    let first =
        json!({"type": "input_text", "text": text(8_000), "prompt_cache_breakpoint": breakpoint});
    let second = json!({"type": "input_text", "text": text(4_000)});
    json!({"model": "gpt-5.6", "input": [{"role": "user", "content": [first, second]}]})
}

/// Cached tokens, and those written for half an hour and for twelve.
fn writes(answer: &Value) -> [u64; 3] {
    let details = &answer["usage"]["input_tokens_details"];
    let written = &details["cache_write_tokens_details"];
    let counts = [
        &details["cached_tokens"],
        &written["ttl_30m_tokens"],
        &written["ttl_12h_tokens"],
    ];
    assert_eq!(
        details["cache_write_tokens"].as_u64(),
        Some(counts[1].as_u64().unwrap() + counts[2].as_u64().unwrap())
    );
    counts.map(|count| count.as_u64().unwrap())
}

#[tokio::test]
async fn long_cache_writes_are_those_of_the_request_or_before_a_breakpoint() {
    let (running, clock) = timed(Script::built_in()).await;
    let half_hour = marked("a", json!({"mode": "explicit"}));
    assert_eq!(
        writes(&ask(&running, RESPONSES, &half_hour).await),
        [0, 3_000, 0]
    );
    let of_part = marked("b", json!({"mode": "explicit", "ttl": "12h"}));
    assert_eq!(
        writes(&ask(&running, RESPONSES, &of_part).await),
        [0, 1_000, 2_000]
    );
    let of_request = json!({"prompt_cache_options": {"ttl": "12h"}});
    let of_request = with(marked("c", json!({"mode": "explicit"})), of_request);
    assert_eq!(
        writes(&ask(&running, RESPONSES, &of_request).await),
        [0, 0, 3_000]
    );
    clock.advance(Duration::from_secs(11 * 60 * 60));
    assert_eq!(
        writes(&ask(&running, RESPONSES, &half_hour).await),
        [0, 3_000, 0]
    );
    assert_eq!(
        writes(&ask(&running, RESPONSES, &of_part).await),
        [3_000, 0, 0]
    );
    assert_eq!(
        writes(&ask(&running, RESPONSES, &of_request).await),
        [3_000, 0, 0]
    );
    assert!(running.violations().is_empty());
}

#[test]
fn accountant_separates_long_cache_writes() {
    let mut accountant = Accountant::new(Rules::published());
    let namespace = Digest::sha256(b"x");
    let body = marked("b", json!({"mode": "explicit", "ttl": "12h"})).to_string();
    let tokens = accountant.account(Format::Responses, body.as_bytes(), crate::START, namespace);
    let tokens = tokens.unwrap();
    assert_eq!(
        (tokens.written, tokens.written_12h, tokens.total()),
        (1_000, 2_000, 3_000)
    );
}
