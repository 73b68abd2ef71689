//! The providers' diagnosis of cache misses: `diagnostics` (Anthropic), `comparison_response_id` (OpenAI).

use cachalot_simulator::{RunningSimulator, Script};
use serde_json::{Value, json};

use crate::{MESSAGES, RESPONSES, ask, post, smallest, start, with};

fn long(name: &str) -> String {
    format!("{name} {}", "x".repeat(5_999 - name.len()))
}

/// A request of about 4,500 tokens, after the answer with this id.
fn message(previous: Value) -> Value {
    json!({
        "model": "claude-opus-4-8",
        "max_tokens": 100,
        "diagnostics": {"previous_message_id": previous},
        "cache_control": {"type": "ephemeral"},
        "tools": [{"name": "look", "description": long("tool"), "input_schema": {"type": "object"}}],
        "system": long("system"),
        "messages": [{"role": "user", "content": long("question")}],
    })
}

async fn diagnosis(running: &RunningSimulator, request: Value) -> Value {
    let answer = ask(running, MESSAGES, &request).await;
    answer["diagnostics"].clone()
}

#[tokio::test]
async fn anthropic_names_the_first_difference() {
    let running = start(Script::built_in()).await;
    let first = ask(&running, MESSAGES, &message(Value::Null)).await;
    assert_eq!(first.get("diagnostics"), Some(&Value::Null));
    let again = message(first["id"].clone());
    assert_eq!(diagnosis(&running, again.clone()).await, Value::Null);

    let mut described = again.clone();
    described["tools"][0]["description"] = json!("Looks.");
    let edited = json!([{"role": "user", "content": "Another question."}]);
    let image = json!({"type": "base64", "media_type": "image/png", "data": "AAAA"});
    let more = json!([
        {"role": "user", "content": long("question")},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": [{"type": "image", "source": image}]},
    ]);
    let reason = |kind: &str| json!({"type": kind});
    for (fields, expected, maximum) in [
        (
            json!({"model": "claude-opus-5"}),
            reason("model_changed"),
            5_000,
        ),
        (
            json!({"tools": described["tools"]}),
            reason("tools_changed"),
            5_000,
        ),
        (
            json!({"tools": described["tools"], "messages": edited}),
            reason("tools_changed"),
            5_000,
        ),
        (
            json!({"system": "Be brief."}),
            reason("system_changed"),
            3_100,
        ),
        (
            json!({"messages": edited}),
            reason("messages_changed"),
            1_600,
        ),
        (
            json!({"thinking": {"type": "adaptive"}}),
            reason("unavailable"),
            0,
        ),
        (
            json!({"tool_choice": {"type": "none"}}),
            reason("unavailable"),
            0,
        ),
        (json!({"messages": more}), Value::Null, 0),
        (
            json!({"diagnostics": {"previous_message_id": "msg_other"}}),
            reason("previous_message_not_found"),
            0,
        ),
    ] {
        let mut found = diagnosis(&running, with(again.clone(), fields.clone())).await;
        let mut found = found.get_mut("cache_miss_reason").map(Value::take);
        let fields_of_reason = found.as_mut().and_then(Value::as_object_mut);
        let missed = fields_of_reason.and_then(|all| all.shift_remove("cache_missed_input_tokens"));
        assert_eq!(found.unwrap_or_default(), expected, "{fields}");
        let missed = missed.map_or(0, |missed| missed.as_u64().unwrap());
        assert!(
            missed <= maximum && missed * 10 >= maximum * 9,
            "{fields}: {missed}"
        );
    }
}

#[tokio::test]
async fn anthropic_compares_only_requests_with_diagnostics_of_one_key() {
    let running = start(Script::built_in()).await;
    let not_found = json!({"cache_miss_reason": {"type": "previous_message_not_found"}});
    let mut plain = message(Value::Null);
    plain.as_object_mut().unwrap().shift_remove("diagnostics");
    let first = ask(&running, MESSAGES, &plain).await;
    assert_eq!(first.get("diagnostics"), None);
    assert_eq!(
        diagnosis(&running, message(first["id"].clone())).await,
        not_found
    );

    let second = ask(&running, MESSAGES, &message(Value::Null)).await;
    let request = message(second["id"].clone());
    let other = crate::post_as("sk-other", &running, MESSAGES, &request).await;
    assert_eq!(other.json()["diagnostics"], not_found);
}

#[tokio::test]
async fn anthropic_streams_the_diagnosis_in_message_start() {
    let running = start(Script::built_in()).await;
    let request = with(message(json!("msg_other")), json!({"stream": true}));
    let events = post(&running, MESSAGES, &request).await.data();
    let reason = &events[0]["message"]["diagnostics"]["cache_miss_reason"]["type"];
    assert_eq!(reason, "previous_message_not_found");
}

/// A request of about 4,500 tokens, compared with a response.
fn response(comparison: Option<&str>) -> Value {
    let mut request = json!({
        "model": "gpt-5.6-terra",
        "instructions": long("system"),
        "input": [{"role": "user", "content": long("question")}],
        "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
        "prompt_cache_key": "k",
    });
    if let Some(id) = comparison {
        request["prompt_cache_options"] = json!({"comparison_response_id": id});
    }
    request
}

#[tokio::test]
async fn openai_names_the_first_difference() {
    let running = start(Script::built_in()).await;
    let first = ask(&running, RESPONSES, &response(None)).await;
    assert_eq!(first.get("prompt_cache_diagnostics"), None);
    let again = response(first["id"].as_str());
    let find = "prompt_cache_diagnostics";
    let hit = ask(&running, RESPONSES, &again).await;
    assert_eq!(hit[find], json!({"type": "cache_hit"}));
    assert_eq!(
        hit["prompt_cache_options"]["comparison_response_id"],
        first["id"]
    );

    let tool =
        |name: &str| json!([{"type": "function", "name": name, "parameters": {"type": "object"}}]);
    let format = json!({"format": {"type": "json_object"}});
    for (fields, reason) in [
        (json!({"model": "gpt-5.6-sol"}), "model_changed"),
        (json!({"prompt_cache_key": "l"}), "prompt_cache_key_changed"),
        (json!({"service_tier": "flex"}), "service_tier_changed"),
        (json!({"tools": tool("get_date")}), "tools_changed"),
        (json!({"text": format}), "text_format_changed"),
        (
            json!({"reasoning": {"effort": "low"}}),
            "reasoning_effort_changed",
        ),
        (json!({"text": {"verbosity": "low"}}), "verbosity_changed"),
        (json!({"instructions": long("other")}), "input_changed"),
    ] {
        let answer = ask(&running, RESPONSES, &with(again.clone(), fields)).await;
        assert_eq!(answer[find]["type"], "cache_miss", "{reason}");
        assert_eq!(answer[find]["reason"], reason);
        let [missed, reusable] = ["cache_missed_tokens", "comparison_reusable_tokens"]
            .map(|key| answer[find][key].as_u64().unwrap());
        assert!(
            0 < missed && missed <= reusable && reusable < 5_000,
            "{reason}: {missed}"
        );
    }
    // A default that is spelled out is no change, nor is more input.
    let mut more = with(again.clone(), json!({"service_tier": "auto"}));
    more["input"]
        .as_array_mut()
        .unwrap()
        .push(json!({"role": "user", "content": "And?"}));
    assert_eq!(
        ask(&running, RESPONSES, &more).await[find],
        json!({"type": "cache_hit"})
    );

    let unknown = ask(&running, RESPONSES, &response(Some("resp_other"))).await;
    assert_eq!(
        unknown[find],
        json!({"type": "comparison_response_not_found"})
    );
    let short = smallest(RESPONSES, "x");
    let short = with(short, json!({"model": "gpt-5.6"}));
    let first = ask(&running, RESPONSES, &short).await;
    let options = json!({"prompt_cache_options": {"comparison_response_id": first["id"]}});
    let again = ask(&running, RESPONSES, &with(short, options)).await;
    assert_eq!(again[find], json!({"type": "unavailable"}));
}

#[tokio::test]
async fn explicit_default_effort_is_no_difference() {
    let running = start(Script::built_in()).await;
    for (model, default, other) in [
        ("claude-opus-5-5", "medium", "high"),
        ("claude-opus-4-8", "high", "medium"),
    ] {
        let of_model = |request: Value| with(request, json!({"model": model}));
        let first = ask(&running, MESSAGES, &of_model(message(Value::Null))).await;
        let again = of_model(message(first["id"].clone()));
        let effort = |effort: &str| json!({"output_config": {"effort": effort}});
        let same = diagnosis(&running, with(again.clone(), effort(default))).await;
        assert_eq!(same, Value::Null, "{model}");
        let changed = diagnosis(&running, with(again, effort(other))).await;
        assert_eq!(
            changed["cache_miss_reason"]["type"], "unavailable",
            "{model}"
        );
    }
}
