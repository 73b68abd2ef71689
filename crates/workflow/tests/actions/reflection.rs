//! `reflection.evaluate`, and the loops outside of a run.

use serde_json::{Value, json};

use crate::fixture::Fixture;

async fn judged(data: Value, schema: Value) -> Value {
    let arguments = json!({ "data": data, "schema": schema });
    Fixture::new().ok("reflection.evaluate", arguments).await
}

#[tokio::test]
async fn evaluate_validates_with_a_schema() {
    let schema = json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": { "type": "string", "minLength": 2 },
            "sizes": { "type": "array", "items": { "type": "integer" } },
            "a/b": { "type": "boolean" },
        },
    });
    assert_eq!(
        judged(json!({ "name": "Physeter" }), schema.clone()).await,
        json!({ "valid": true, "score": 1.0, "errors": [], "success": true })
    );
    let judgement = judged(json!({ "sizes": [1, "two"], "a/b": [] }), schema.clone()).await;
    assert_eq!(
        (&judgement["valid"], &judgement["score"]),
        (&json!(false), &json!(0.0))
    );
    let mut places: Vec<(String, Value)> = judgement["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| {
            (
                error["path"].as_str().unwrap().to_owned(),
                error["schema_path"].clone(),
            )
        })
        .collect();
    places.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(
        places,
        [
            (String::new(), json!(["required"])),
            ("a/b".to_owned(), json!(["properties", "a/b", "type"])),
            (
                "sizes.1".to_owned(),
                json!(["properties", "sizes", "items", "type"])
            ),
        ]
    );
    let judgement = judged(json!({ "name": "x" }), schema).await;
    assert_eq!(judgement["errors"][0]["path"], "name");
}

#[tokio::test]
async fn texts_are_coerced_to_the_schema_type() {
    for (data, kind, valid) in [
        (json!("5"), "integer", true),
        (json!("5.5"), "integer", false),
        (json!("5.5"), "number", true),
        (json!("nan"), "number", false),
        (json!("Yes"), "boolean", true),
        (json!(5), "string", true),
        (json!(true), "string", true),
        (Value::Null, "string", false),
        (json!([]), "string", false),
        (json!("x"), "array", false),
    ] {
        let judgement = judged(data.clone(), json!({ "type": kind })).await;
        assert_eq!(judgement["valid"], valid, "{data} as {kind}");
    }
    let items = json!({ "type": "array", "items": { "type": "integer" } });
    assert_eq!(judged(json!(["1", 2]), items).await["valid"], true);
}

#[tokio::test]
async fn an_invalid_schema_is_reported() {
    let judgement = judged(json!(1), json!({ "type": "whale" })).await;
    let message = judgement["errors"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("Invalid schema"), "{message}");
    let failure = Fixture::new()
        .fails(
            "reflection.evaluate",
            json!({ "data": 1, "schema": {}, "evaluator_type": "llm" }),
        )
        .await;
    assert_eq!(failure.kind, "validation_error");
}

/// The run loop carries the loops out; nothing else can.
#[tokio::test]
async fn loop_actions_require_a_run() {
    for (action, arguments) in [
        (
            "reflection.loop",
            json!({ "generator": {}, "evaluator": {} }),
        ),
        (
            "retry.loop",
            json!({ "validate": "reflection.evaluate", "correct": "x" }),
        ),
    ] {
        let failure = Fixture::new().fails(action, arguments).await;
        assert_eq!(failure.kind, "unsupported");
    }
}
