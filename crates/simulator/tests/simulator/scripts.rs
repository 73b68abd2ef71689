//! Scripts in YAML.

use std::time::{Duration, Instant};

use cachalot_simulator::Script;
use serde_json::{Value, json};

use crate::{CHAT, MESSAGES, RESPONSES, ask, post, said, smallest, start, with};

const WEATHER: &str = r"
reasoning_models: [deepseek-*]
rules:
  - model: claude-*
    user: '(?i)weather in (?<city>\w+)'
    tools: [get_weather]
    steps:
      - text: Let me look.
        reasoning: The city is {{city}}.
        tool_calls:
          - {name: get_weather, arguments: {city: '{{1}}', days: 3, nested: ['{{0}}']}}
      - text: 'It is {{last_result}} in {{city}}, says {{model}} in step {{step}}.'
        usage: {input: 1000, cache_read: 900}
  - user: ^ping$
    steps:
      - text: pong
        fault: {status: 503, times: 1}
otherwise: {text: 'You said: {{user}}'}
";

fn weather_tool() -> Value {
    json!({"tools": [{"name": "get_weather", "input_schema": {"type": "object"}}]})
}

#[tokio::test]
async fn rules_and_steps_are_selected_by_the_request() {
    let running = start(Script::parse("weather.yaml", WEATHER).unwrap()).await;
    let context = json!([{"role": "user", "content": [
        {"type": "text", "text": "Today is Monday."},
        {"type": "text", "text": "How is the Weather in Bergen today?"},
    ]}]);
    let asked = with(
        with(smallest(MESSAGES, ""), json!({"messages": context})),
        weather_tool(),
    );
    // Stateless: the same request gets the same answer, as often as it is sent.
    for _ in 0..2 {
        let first = ask(&running, MESSAGES, &asked).await;
        let call = &first["content"][1];
        assert_eq!(call["name"], "get_weather");
        let arguments = json!({"city": "Bergen", "days": 3, "nested": ["Weather in Bergen"]});
        assert_eq!(call["input"], arguments);
        let mut messages = context.as_array().unwrap().clone();
        messages.push(json!({"role": "assistant", "content": first["content"]}));
        messages.push(json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call["id"], "content": "rain"},
        ]}));
        let second = with(asked.clone(), json!({"messages": messages}));
        let answer = ask(&running, MESSAGES, &second).await;
        assert_eq!(
            said(MESSAGES, &answer),
            "It is rain in Bergen, says claude-sonnet-4-5 in step 1."
        );
        assert_eq!(answer["usage"]["cache_read_input_tokens"], 900);
        assert_eq!(answer["usage"]["input_tokens"], 100);
        // Beyond the last step.
        messages.push(json!({"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "get_weather", "input": {}}]}));
        messages.push(
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x"}]}),
        );
        let third = ask(
            &running,
            MESSAGES,
            &with(asked.clone(), json!({"messages": messages})),
        )
        .await;
        assert!(said(MESSAGES, &third).contains("no further step"));
    }
    // Without the tool, and for another model, the rule does not fit.
    let answer = ask(&running, MESSAGES, &smallest(MESSAGES, "weather in Rome")).await;
    assert_eq!(said(MESSAGES, &answer), "You said: weather in Rome");
    let answer = ask(&running, CHAT, &smallest(CHAT, "weather in Rome")).await;
    assert_eq!(said(CHAT, &answer), "You said: weather in Rome");
    let ping = smallest(RESPONSES, "ping");
    assert_eq!(post(&running, RESPONSES, &ping).await.status, 503);
    assert_eq!(
        said(RESPONSES, &ask(&running, RESPONSES, &ping).await),
        "pong"
    );
}

#[tokio::test]
async fn unmatched_request_uses_the_built_in_scenario() {
    let script = "rules: [{user: hello, steps: [{text: Hi., reasoning: Hm.}]}]";
    let running = start(Script::parse("s.yaml", script).unwrap()).await;
    let answer = ask(&running, CHAT, &smallest(CHAT, "hello")).await;
    assert_eq!(said(CHAT, &answer), "Hi.");
    assert_eq!(answer["choices"][0]["message"]["reasoning_content"], "Hm.");
    let answer = ask(&running, CHAT, &smallest(CHAT, "Translate to French: sea")).await;
    assert_eq!(said(CHAT, &answer), "[simulated French] sea");
    assert!(
        answer["choices"][0]["message"]
            .get("reasoning_content")
            .is_none()
    );
}

#[tokio::test]
async fn pace_key_and_models_are_read_from_the_script() {
    let script = "key: sk-a\nmodels: [gpt-*]\npace: {first_byte: 50ms, per_event: 0.01}\n";
    let running = start(Script::parse("s.yaml", script).unwrap()).await;
    assert_eq!(post(&running, CHAT, &smallest(CHAT, "x")).await.status, 401);
    let streamed = with(smallest(CHAT, "x"), json!({"stream": true}));
    let begun = Instant::now();
    let got = crate::post_as("sk-a", &running, CHAT, &streamed).await;
    assert!(got.events().len() > 3 && begun.elapsed() >= Duration::from_millis(80));
    let other = with(streamed, json!({"model": "llama"}));
    let got = crate::post_as("sk-a", &running, CHAT, &other).await;
    assert_eq!(
        (got.status, &got.json()["error"]["code"]),
        (404, &json!("model_not_found"))
    );
}

#[tokio::test]
async fn too_long_prompt_is_refused_as_by_the_provider() {
    let expected = [
        (MESSAGES, Value::Null, " tokens > 500 maximum"),
        (
            CHAT,
            json!("context_length_exceeded"),
            "maximum context length is 500 tokens",
        ),
        (
            RESPONSES,
            json!("context_length_exceeded"),
            "exceeds the context window",
        ),
    ];
    let script = Script::parse("s.yaml", "context: 500").unwrap();
    let running = start(script).await;
    for (path, code, words) in expected {
        let got = post(&running, path, &smallest(path, &"word ".repeat(500))).await;
        let error = got.json()["error"].clone();
        let message = error["message"].as_str().unwrap();
        assert_eq!((got.status, &error["code"]), (400, &code), "{message}");
        assert!(message.contains(words), "{message}");
        let fine = post(&running, path, &smallest(path, &"word ".repeat(300))).await;
        assert_eq!(fine.status, 200);
    }
    // It is no fault of the client's form.
    assert_eq!(running.violations(), [] as [String; 0]);
}

#[tokio::test]
async fn overloaded_route_misses_the_cache() {
    let running = start(Script::parse("s.yaml", "requests_per_minute: 2").unwrap()).await;
    let request = smallest(CHAT, &"word ".repeat(2_000));
    let mut cached = Vec::new();
    for _ in 0..4 {
        let answer = ask(&running, CHAT, &request).await;
        let details = &answer["usage"]["prompt_tokens_details"];
        cached.push(details["cached_tokens"].as_u64().unwrap());
    }
    assert_eq!(cached, [0, 2_432, 0, 2_432]);
}

#[test]
fn faults_have_short_and_long_forms() {
    let faults = [
        "500",
        "malformed",
        "{status: 429, retry_after: 1}",
        "{status: 529, times: 3}",
        "{slow: {first_byte: 2s, per_event: 50ms}}",
        "{cut: {after_events: 3}, times: 1}",
        "{malformed: true, times: 2}",
        "{error_event: {after_events: 1}}",
    ];
    for fault in faults {
        let script = format!("rules: [{{steps: [{{text: x, fault: {fault}}}]}}]");
        Script::parse("s.yaml", &script).expect(fault);
    }
}

#[test]
fn problems_are_reported_with_their_place() {
    let wrong = [
        ("rule: []", "unknown-key", 1),
        ("rules:\n  - user: '('\n    steps: []", "invalid-regex", 2),
        ("rules:\n  - user: x", "missing-key", 2),
        ("rules:\n  - steps:\n      - txt: x", "unknown-key", 3),
        (
            "rules:\n  - steps:\n      - text: '{{1}}'",
            "unknown-placeholder",
            3,
        ),
        (
            "rules:\n  - user: (a)\n    steps:\n      - tool_calls: [{name: x, arguments: {a: ['{{2}}']}}]",
            "unknown-placeholder",
            4,
        ),
        (
            "rules:\n  - steps:\n      - tool_calls: [{arguments: {}}]",
            "missing-key",
            3,
        ),
        (
            "rules:\n  - steps:\n      - fault: {times: 2}",
            "which-fault",
            3,
        ),
        ("rules:\n  - steps:\n      - fault: 200", "out-of-range", 3),
        ("rules:\n  - steps:\n      - fault: often", "wrong-type", 3),
        (
            "rules:\n  - steps:\n      - fault: {slow: {first_byte: 2 parsecs}}",
            "bad-value",
            3,
        ),
        ("rules:\n  - steps:\n      - stop: halt", "unknown-word", 3),
        ("unknown_parameters: maybe", "unknown-word", 1),
        ("pace: {first_byte: -1}", "out-of-range", 1),
        (
            "otherwise: {text: '{{lastresult}}'}",
            "unknown-placeholder",
            1,
        ),
        ("requests_per_minute: 0", "out-of-range", 1),
        ("context: 0", "out-of-range", 1),
        ("a: [", "yaml-syntax", 1),
    ];
    for (text, code, line) in wrong {
        let problems = Script::parse("s.yaml", text).unwrap_err();
        let first = &problems[0];
        assert_eq!(first.code, code, "{text}: {first}");
        let place = first.place.as_ref().expect(text);
        assert_eq!((&*place.file, place.line), ("s.yaml", line), "{text}");
        assert!(
            first.help.is_some() || code == "yaml-syntax" || code == "out-of-range",
            "{first}"
        );
    }
}
