//! Answers that are JSON of a shape.

use cachalot_simulator::{ScriptedReply, ScriptedStop};
use serde_json::{Value, json};

use super::{EACH, MODELS, asking};
use crate::fakes::Provider;

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": { "name": { "type": "string" }, "depth": { "type": "integer" } },
        "required": ["name", "depth"],
        "additionalProperties": false,
    })
}

fn asking_for(model: &str, format: Value) -> Value {
    json!({ "model": model, "prompt": "How deep?", "response_format": format })
}

#[tokio::test]
async fn the_parsed_answer_is_data() {
    let text = r#"{"name": "Physeter", "depth": 2250}"#;
    let envelope = json!({ "type": "json_schema", "json_schema": { "name": "whale", "schema": schema(), "strict": true } });
    for (model, _) in EACH {
        for format in [schema(), envelope.clone()] {
            let provider = Provider::answers([text]);
            let answer = asking(&provider, MODELS)
                .ok("llm.call", asking_for(model, format))
                .await;
            assert_eq!(
                answer["data"],
                json!({ "name": "Physeter", "depth": 2250 }),
                "{model}"
            );
            assert_eq!(answer["content"], text);
            assert!(provider.last().to_string().contains("\"depth\""));
        }
    }
}

#[tokio::test]
async fn long_integers_keep_every_digit() {
    let provider = Provider::answers([r#"{"name": "n", "depth": 123456789012345678901234567890}"#]);
    let answer = asking(&provider, MODELS)
        .ok("llm.call", asking_for("chat", schema()))
        .await;
    assert_eq!(answer["data"]["depth"], "123456789012345678901234567890");
}

#[tokio::test]
async fn structured_output_is_configured_per_model() {
    let provider = Provider::built_in();
    let file = "
models:
  shaped:
    provider: openai
    model: gpt-4o-mini
    structured_output:
      name: whale
      schema: {type: object, properties: {depth: {type: integer}}, required: [depth], additionalProperties: false}
";
    let fixture = asking(&provider, file);
    let arguments = json!({ "model": "shaped", "prompt": "How deep?" });
    let answer = fixture.ok("llm.call", arguments).await;
    assert_eq!(answer["data"], json!({ "depth": 0 }));
    // As text, `response_format: {type: text}` says nothing.
    let arguments =
        json!({ "model": "gpt-4o", "prompt": "Hi", "response_format": { "type": "text" } });
    let answer = fixture.ok("llm.call", arguments).await;
    assert!(answer.get("data").is_none());
}

#[tokio::test]
async fn an_answer_that_violates_the_schema_is_a_transient_failure() {
    for (text, why) in [
        (
            "The whale dives.",
            "is not the JSON that `response_format` asks for (expected value",
        ),
        (r#"{"name": "n"}"#, "is not of the shape"),
        (
            r#"{"name": "n", "depth": "deep"}"#,
            "/depth: value is not of type \"integer\"",
        ),
        (
            r#"{"name": "n", "depth": 1, "more": 2}"#,
            "is not of the shape",
        ),
        ("", "is not the JSON"),
    ] {
        let provider = Provider::answers([text]);
        let fixture = asking(&provider, MODELS);
        let failure = fixture
            .fails("llm.call", asking_for("chat", schema()))
            .await;
        assert_eq!((failure.kind, failure.retryable), ("invalid_answer", true));
        assert!(
            failure.message.starts_with("llm.call: the answer "),
            "{failure}"
        );
        assert!(failure.message.contains(why), "{text}: {failure}");
        assert!(!failure.message.contains("deep"), "{failure}");
    }
    let cut = ScriptedReply::text(r#"{"name": "Phys"#).with_stop(ScriptedStop::Length);
    let provider = Provider::replies([cut]);
    let failure = asking(&provider, MODELS)
        .fails("llm.call", asking_for("chat", schema()))
        .await;
    assert!(
        failure
            .message
            .contains("it is cut off: raise `max_tokens`"),
        "{failure}"
    );
}

#[tokio::test]
async fn a_refusal_or_a_tool_call_has_no_data() {
    let refused = ScriptedReply::text("I will not.").with_stop(ScriptedStop::Refusal);
    let provider = Provider::replies([refused]);
    let answer = asking(&provider, MODELS)
        .ok("llm.call", asking_for("chat", schema()))
        .await;
    assert_eq!(
        (&answer["data"], &answer["stop_reason"]),
        (&Value::Null, &json!("refusal"))
    );
    let provider = Provider::replies([ScriptedReply::call("look", json!({}))]);
    let mut arguments = asking_for("chat", schema());
    arguments["tools"] = json!([{ "name": "look", "description": "Looks." , "parameters": {"type": "object", "properties": {}, "additionalProperties": false}}]);
    let answer = asking(&provider, MODELS).ok("llm.call", arguments).await;
    assert_eq!(
        (&answer["data"], &answer["stop_reason"]),
        (&Value::Null, &json!("tool_use"))
    );
}

#[tokio::test]
async fn json_mode_accepts_any_object() {
    for (model, _) in EACH {
        let asking_for = || {
            let mut arguments = asking_for(model, json!({ "type": "json_object" }));
            arguments["prompt"] = "Answer with JSON.".into();
            arguments
        };
        let provider = Provider::answers([r#"{"any": [1]}"#]);
        let answer = asking(&provider, MODELS).ok("llm.call", asking_for()).await;
        assert_eq!(answer["data"], json!({ "any": [1] }), "{model}");
        assert!(!provider.last().to_string().contains("schema"), "{model}");
        let provider = Provider::answers(["[1]"]);
        let failure = asking(&provider, MODELS)
            .fails("llm.call", asking_for())
            .await;
        assert_eq!(failure.kind, "invalid_answer", "{model}");
    }
}

#[tokio::test]
async fn an_invalid_format_fails_before_the_request() {
    let provider = Provider::built_in();
    let fixture = asking(&provider, MODELS);
    for (format, why) in [
        (
            json!({ "type": "json_schema" }),
            "has no `json_schema.schema`",
        ),
        (
            json!({ "type": "json_schema", "json_schema": { "schema": 5 } }),
            "has no `json_schema.schema`",
        ),
        (json!({ "type": "objct" }), "is no JSON Schema"),
        (
            json!({ "$ref": "https://schemas.example/whale.json" }),
            "is no JSON Schema",
        ),
    ] {
        let failure = fixture.fails("llm.call", asking_for("chat", format)).await;
        assert_eq!(failure.kind, "validation_error");
        assert!(failure.message.contains(why), "{failure}");
    }
    assert_eq!(provider.requests(), 0);
}
