//! `validate.extraction`. The results are those of the reference, whose `validated_at` is left out.

use serde_json::{Value, json};

use crate::fixture::Fixture;

fn schema() -> Value {
    json!({
        "entities": { "required_fields": ["name", "type"], "optional_fields": ["born"] },
        "relationships": {
            "types": ["knows", "works_at"],
            "required_fields": ["type", "subject", "object"],
            "type_requirements": { "works_at": ["since"] },
        },
    })
}

/// Checks with the schema above; returns `valid` and the types and paths of the errors.
async fn checked(entities: Value, relationships: Value) -> (bool, Vec<String>) {
    let arguments = json!({
        "entities": entities, "relationships": relationships, "schema": schema(),
        "source_text": 5, "agent_name": null,
    });
    let result = Fixture::new().ok("validate.extraction", arguments).await;
    let errors = result["errors"].as_array().unwrap();
    let errors = errors.iter().map(|error| {
        let (kind, path) = (&error["type"], &error["path"]);
        format!("{} {}", kind.as_str().unwrap(), path.as_str().unwrap())
    });
    (result["valid"].as_bool().unwrap(), errors.collect())
}

fn missing(paths: &[&str]) -> (bool, Vec<String>) {
    let errors = paths
        .iter()
        .map(|path| format!("missing_required_field {path}"));
    (false, errors.collect())
}

#[tokio::test]
async fn entities_require_their_fields() {
    for (entities, expected) in [
        (json!([]), (true, vec![])),
        (
            json!([{ "name": "Ada", "type": 0, "more": [] }]),
            (true, vec![]),
        ),
        (
            json!([{ "name": "Ada", "type": null }, {}]),
            missing(&["entities[0].type", "entities[1].name", "entities[1].type"]),
        ),
        // Values of other kinds, as Python iterates over them.
        (json!(null), (true, vec![])),
        (json!(""), (true, vec![])),
        (json!(0), (true, vec![])),
        (
            json!("é"),
            missing(&["entities[0].name", "entities[0].type"]),
        ),
        (
            json!({ "a": { "name": 1, "type": 1 } }),
            missing(&["entities[0].name", "entities[0].type"]),
        ),
        (
            json!([["a"]]),
            missing(&["entities[0].name", "entities[0].type"]),
        ),
    ] {
        assert_eq!(
            checked(entities.clone(), json!([])).await,
            expected,
            "{entities}"
        );
    }
}

#[tokio::test]
async fn relationships_require_fields_and_a_known_type() {
    let of_type = |kind: Value| json!([{ "type": kind, "subject": "a", "object": "b" }]);
    let invalid = || {
        (
            false,
            vec!["invalid_relationship_type relationships[0].type".to_owned()],
        )
    };
    for (relationships, expected) in [
        (of_type(json!("knows")), (true, vec![])),
        (of_type(json!("friends")), invalid()),
        (of_type(json!("")), invalid()),
        (of_type(json!(5)), invalid()),
        (of_type(json!([])), invalid()),
        (
            of_type(json!("works_at")),
            (
                false,
                vec!["missing_type_specific_field relationships[0].since".to_owned()],
            ),
        ),
        (
            json!([{ "subject": "a", "object": null }]),
            (
                false,
                vec![
                    "missing_required_field relationships[0].type".to_owned(),
                    "missing_required_field relationships[0].object".to_owned(),
                    "invalid_relationship_type relationships[0].type".to_owned(),
                ],
            ),
        ),
    ] {
        let found = checked(json!([]), relationships.clone()).await;
        assert_eq!(found, expected, "{relationships}");
    }
}

#[tokio::test]
async fn errors_name_the_expected_and_the_found_value() {
    let relationship = json!({ "type": true, "subject": "a", "object": "b" });
    let result = Fixture::new()
        .ok(
            "validate.extraction",
            json!({
                "entities": [{ "name": "Ada" }],
                "relationships": [relationship],
                "schema": {
                    "entities": { "required_fields": ["type"] },
                    "relationships": { "types": ["o'clock", "say \"x\""] },
                },
            }),
        )
        .await;
    assert_eq!(
        result,
        json!({
            "valid": false,
            "errors": [
                {
                    "type": "missing_required_field", "path": "entities[0].type",
                    "entity": { "name": "Ada" }, "expected": "type", "actual": null,
                    "message": "Entity missing required field 'type'",
                },
                {
                    "type": "invalid_relationship_type", "path": "relationships[0].type",
                    "relationship": relationship,
                    "expected": ["o'clock", "say \"x\""], "actual": true,
                    "message": "Invalid relationship type 'True', expected one of [\"o'clock\", 'say \"x\"']",
                },
            ],
        })
    );
    let specific = json!({ "type": "works_at", "subject": "a", "object": "b", "since": null });
    let arguments = json!({ "relationships": [specific], "schema": schema() });
    let result = Fixture::new().ok("validate.extraction", arguments).await;
    assert_eq!(
        result["errors"][0]["message"],
        "Relationship type 'works_at' requires field 'since'"
    );
}

/// The reference fails with a `TypeError` or an `AttributeError`.
#[tokio::test]
async fn unreadable_items_are_failures() {
    for (list, value, part) in [
        (
            "entities",
            json!(5),
            "`entities` is a number: expected a list",
        ),
        (
            "entities",
            json!(true),
            "`entities` is a boolean: expected a list",
        ),
        (
            "entities",
            json!([null]),
            "`entities[0]` is null: expected a mapping",
        ),
        (
            "entities",
            json!([{ "name": 1, "type": 1 }, 1]),
            "`entities[1]` is a number",
        ),
        ("entities", json!({ "name": 1 }), "`entities[0]` is text"),
        ("entities", json!([["name"]]), "`entities[0]` is a list"),
        ("relationships", json!("ab"), "`relationships[0]` is text"),
        (
            "relationships",
            json!({ "a": 1 }),
            "`relationships[0]` is text",
        ),
        ("relationships", json!([[]]), "`relationships[0]` is a list"),
        (
            "relationships",
            json!([{ "type": ["knows"] }]),
            "`relationships[0].type` is a list: expected text",
        ),
    ] {
        let arguments = json!({ list: value, "schema": schema() });
        let failure = Fixture::new().fails("validate.extraction", arguments).await;
        assert_eq!(failure.kind, "unreadable_extraction");
        assert!(failure.message.contains(part), "{failure}");
    }
    // Without required fields, no field of an entity is read.
    let arguments = json!({ "entities": [1, null], "schema": { "entities": {} } });
    let result = Fixture::new().ok("validate.extraction", arguments).await;
    assert_eq!(result, json!({ "valid": true, "errors": [] }));
}

#[tokio::test]
async fn an_invalid_schema_is_a_failure() {
    for (arguments, part) in [
        (json!({}), "parameter `schema` is required"),
        (
            json!({ "schema": { "entites": {} } }),
            "unknown key `entites` in an extraction schema",
        ),
        (
            json!({ "schema": { "relationships": { "types": "knows" } } }),
            "must be a list",
        ),
    ] {
        let failure = Fixture::new().fails("validate.extraction", arguments).await;
        assert_eq!(failure.kind, "validation_error");
        assert!(failure.message.contains(part), "{failure}");
    }
}
