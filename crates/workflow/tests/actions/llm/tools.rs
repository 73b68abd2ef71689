//! Tools that a model may ask for; nothing is run.

use cachalot_simulator::ScriptedReply;
use serde_json::{Value, json};

use super::{EACH, MODELS, asking};
use crate::fakes::Provider;

fn weather() -> Value {
    json!({
        "name": "weather", "description": "The weather.",
        "parameters": { "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"], "additionalProperties": false },
    })
}

#[tokio::test]
async fn tool_calls_of_the_model_are_in_the_result() {
    for (model, _) in EACH {
        let reply = ScriptedReply::call("weather", json!({ "city": "Bergen" }))
            .and_call("weather", json!({ "city": "Bremen" }));
        let provider = Provider::replies([reply]);
        let fixture = asking(&provider, MODELS);
        let tools = json!([{ "type": "function", "function": weather() }]);
        let arguments = json!({ "model": model, "prompt": "Weather?", "tools": tools });
        let answer = fixture.ok("llm.call", arguments).await;
        assert_eq!(
            (&answer["content"], &answer["stop_reason"]),
            (&json!(""), &json!("tool_use")),
            "{model}"
        );
        let calls = answer["tool_calls"].as_array().unwrap();
        assert_eq!(calls.len(), 2, "{answer}");
        for (call, city) in calls.iter().zip(["Bergen", "Bremen"]) {
            assert_eq!(
                (&call["name"], &call["arguments"]),
                (&json!("weather"), &json!({ "city": city }))
            );
            assert!(call["id"].as_str().is_some_and(|id| !id.is_empty()));
        }
    }
}

#[tokio::test]
async fn tool_without_envelope_is_accepted_and_can_be_required() {
    for (model, _) in EACH {
        let provider = Provider::built_in();
        let fixture = asking(&provider, MODELS);
        for choice in [
            json!("required"),
            json!("any"),
            json!("weather"),
            json!({ "type": "function", "function": { "name": "weather" } }),
            json!({ "type": "tool", "name": "weather" }),
        ] {
            let arguments = json!({
                "model": model, "prompt": "Weather?", "tools": [weather()], "tool_choice": choice,
            });
            let answer = fixture.ok("llm.call", arguments).await;
            assert_eq!(
                answer["tool_calls"][0]["name"], "weather",
                "{model} {choice}"
            );
        }
        for choice in ["auto", "none"] {
            let arguments = json!({
                "model": model, "prompt": "Weather?", "tools": [weather()], "tool_choice": choice,
            });
            let answer = fixture.ok("llm.call", arguments).await;
            assert!(answer.get("tool_calls").is_none(), "{model} {choice}");
        }
    }
}

#[tokio::test]
async fn invalid_json_arguments_are_returned_as_text() {
    let provider = Provider::replies([ScriptedReply::call("weather", json!("{\"city\": "))]);
    let fixture = asking(&provider, MODELS);
    let arguments = json!({ "model": "chat", "prompt": "Weather?", "tools": [weather()] });
    let answer = fixture.ok("llm.call", arguments).await;
    assert_eq!(answer["tool_calls"][0]["arguments"], "{\"city\": ");
}
