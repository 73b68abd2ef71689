//! Anthropic's models behind a gateway that speaks OpenAI's format.

use cachalot_simulator::Script;
use serde_json::{Value, json};

use crate::{CHAT, ask, client, post, start, timed};

/// A chat with one of Anthropic's models behind a gateway, with or without markers.
fn through_a_gateway(turns: usize, is_marked: bool, ttl: &str) -> Value {
    let part = |text: String| {
        if is_marked {
            json!([{"type": "text", "text": text, "cache_control": {"type": "ephemeral", "ttl": ttl}}])
        } else {
            json!([{"type": "text", "text": text}])
        }
    };
    let mut messages = vec![json!({"role": "system", "content": part("s".repeat(9_000))})];
    for turn in 0..turns {
        messages.push(json!({"role": "user", "content": format!("question {turn}")}));
        messages.push(json!({"role": "assistant", "content": "answer"}));
    }
    messages.push(json!({"role": "user", "content": "last"}));
    json!({"model": "anthropic/claude-sonnet-4.5", "messages": messages})
}

#[tokio::test]
async fn gateway_to_anthropic_caches_at_markers_only() {
    let (running, clock) = timed(Script::answers(vec!["a"; 8])).await;
    let url = format!("{}/v1/chat/completions", running.url());
    let mut seen = Vec::new();
    for (turns, is_marked, ttl, later) in [
        (0, false, "5m", 0),
        (1, false, "5m", 0),
        (0, true, "5m", 0),
        (1, true, "5m", 60),
        (2, true, "5m", 400),
        (0, true, "1h", 0),
    ] {
        clock.advance(std::time::Duration::from_secs(later));
        let body = through_a_gateway(turns, is_marked, ttl);
        let response = client()
            .post(&url)
            .bearer_auth("k")
            .json(&body)
            .send()
            .await
            .unwrap();
        let usage = response.json::<Value>().await.unwrap()["usage"].clone();
        let detail =
            |name: &str| usage["prompt_tokens_details"][name].as_u64().unwrap_or(0) > 1_024;
        seen.push((detail("cached_tokens"), detail("cache_write_tokens")));
    }
    let (nothing, written, read) = ((false, false), (false, true), (true, false));
    assert_eq!(seen, [nothing, nothing, written, read, written, read]);
    assert!(
        running.violations().is_empty(),
        "{:?}",
        running.violations()
    );
}

/// A gateway passes on what Anthropic takes and refuses: four markers, an hour before five minutes.
#[tokio::test]
async fn gateway_to_anthropic_accepts_the_markers_of_anthropic() {
    let running = start(Script::built_in()).await;
    let part = |ttl: &str| {
        let marker = json!({"type": "ephemeral", "ttl": ttl});
        json!({"type": "text", "text": "x", "cache_control": marker})
    };
    let request = |system: &[&str], user: &[&str], tool: Option<&str>| {
        let parts = |ttls: &[&str]| ttls.iter().map(|ttl| part(ttl)).collect::<Vec<Value>>();
        let mut request = json!({"model": "anthropic/claude-opus-4.8", "messages": [
            {"role": "system", "content": parts(system)}, {"role": "user", "content": parts(user)}]});
        if let Some(ttl) = tool {
            request["tools"] = json!([{"type": "function", "function": {"name": "look"},
                "cache_control": {"type": "ephemeral", "ttl": ttl}}]);
        }
        request
    };
    ask(&running, CHAT, &request(&["1h", "1h"], &["5m"], Some("1h"))).await;
    for (request, expected) in [
        (
            request(&["5m", "5m"], &["5m", "5m"], Some("5m")),
            "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        ),
        (
            request(&["5m"], &["1h"], None),
            "messages.1.content.0.cache_control.ttl: a ttl='1h' cache_control block must not come after",
        ),
        (
            request(&["1h"], &["5m"], Some("5m")),
            "messages.0.content.0.cache_control.ttl: a ttl='1h' cache_control block must not come after",
        ),
        (
            request(&["10m"], &["5m"], None),
            "messages.0.content.0.cache_control.ephemeral.ttl: Input should be '5m' or '1h'",
        ),
    ] {
        let got = post(&running, CHAT, &request).await;
        assert_eq!(got.status, 400, "{}", got.text);
        let error = got.json()["error"].clone();
        assert!(
            error["message"].as_str().unwrap().starts_with(expected),
            "{error}"
        );
    }
    assert_eq!(running.violations().len(), 4);
}
