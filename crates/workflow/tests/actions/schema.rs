//! `schema.merge`.

use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn later_schemas_are_merged_over_earlier_ones() {
    let world = World::new();
    std::fs::write(
        world.path("base.json"),
        r#"{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}"#,
    )
    .unwrap();
    std::fs::write(
        world.path("more.yaml"),
        "properties:\n  a: {maxLength: 3}\n  b: {type: number}\n",
    )
    .unwrap();
    let merged = world
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
    let world = World::new();
    std::fs::write(world.path("broken.json"), "{\"a\": ]").unwrap();
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
        let failure = world.fails("schema.merge", arguments).await;
        assert_eq!(failure.kind, kind, "{failure}");
    }
}

#[test]
fn it_depends_on_the_files_that_it_merges() {
    let world = World::new();
    let schemas = json!([{"path": "a.json"}, {"inline": {"path": "b"}}, {"path": "/x/c.yaml"}]);
    let looks = world.file_dependencies("schema.merge", json!({"schemas": schemas}));
    assert_eq!(looks, [world.path("a.json"), "/x/c.yaml".into()]);
}
