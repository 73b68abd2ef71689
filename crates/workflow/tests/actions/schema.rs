//! `schema.merge`.

use serde_json::json;

use crate::fixture::Fixture;

#[tokio::test]
async fn later_schemas_are_merged_over_earlier_ones() {
    let fixture = Fixture::new();
    std::fs::write(
        fixture.path("base.json"),
        r#"{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}"#,
    )
    .unwrap();
    std::fs::write(
        fixture.path("more.yaml"),
        "properties:\n  a: {maxLength: 3}\n  b: {type: number}\n",
    )
    .unwrap();
    let merged = fixture
        .ok(
            "schema.merge",
            json!({
                "schemas": [
                    {"path": "base.json"},
                    {"path": "more.yaml"},
                    {"inline": {"required": ["b"], "title": null}},
                ],
                "validate": false,
                "output_key": "schema",
            }),
        )
        .await;
    assert_eq!(
        merged,
        json!({
            "success": true,
            "schema": {
                "type": "object",
                "properties": {"a": {"type": "string", "maxLength": 3}, "b": {"type": "number"}},
                "required": ["b"],
                "title": null,
            },
        })
    );
}

#[tokio::test]
async fn an_invalid_schema_is_a_failure() {
    let fixture = Fixture::new();
    std::fs::write(fixture.path("broken.json"), "{\"a\": ]").unwrap();
    for (schemas, kind) in [
        (json!([]), "validation_error"),
        (
            json!([{"uses": "owner/repository@main#schema.json"}]),
            "validation_error",
        ),
        (
            json!([{"path": "https://example.com/schema.json"}]),
            "validation_error",
        ),
        (json!([{"path": "missing.json"}]), "not_found"),
        (json!([{"path": "broken.json"}]), "parse_error"),
        (json!([{"inline": {"type": "strnig"}}]), "validation_error"),
    ] {
        let arguments = json!({"schemas": schemas, "validate": true});
        let failure = fixture.fails("schema.merge", arguments).await;
        assert_eq!(failure.kind, kind, "{failure}");
    }
}

#[test]
fn merge_depends_on_the_merged_files() {
    let fixture = Fixture::new();
    let schemas = json!([{"path": "a.json"}, {"inline": {"path": "b"}}, {"path": "/x/c.yaml"}]);
    let looks = fixture.file_dependencies("schema.merge", json!({"schemas": schemas}));
    assert_eq!(looks, [fixture.path("a.json"), "/x/c.yaml".into()]);
}
