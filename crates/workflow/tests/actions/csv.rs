//! `csv.parse`.

use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn rows_become_mappings_by_the_header() {
    let world = World::new();
    let text = "\u{feff}name,note\nada,\"a, \"\"quoted\"\"\nnote\"\nbob,\n";
    assert_eq!(
        world.ok("csv.parse", json!({"text": text})).await,
        json!({
            "data": [{"name": "ada", "note": "a, \"quoted\"\nnote"}, {"name": "bob", "note": ""}],
            "headers": ["name", "note"],
            "row_count": 2,
            "success": true,
        })
    );
}

#[tokio::test]
async fn rows_without_a_header_are_lists() {
    let world = World::new();
    let parsed = world
        .ok(
            "csv.parse",
            json!({"text": "1;2\n3;4", "delimiter": ";", "header": "false"}),
        )
        .await;
    assert_eq!(
        parsed,
        json!({"data": [["1", "2"], ["3", "4"]], "headers": [], "row_count": 2, "success": true})
    );
    let parsed = world
        .ok(
            "csv.parse",
            json!({"text": "a\tb\n1\t2", "delimiter": "\t"}),
        )
        .await;
    assert_eq!(parsed["data"], json!([{"a": "1", "b": "2"}]));
    assert_eq!(
        world.ok("csv.parse", json!({"text": ""})).await["row_count"],
        0
    );
}

#[tokio::test]
async fn has_header_is_another_name_of_header() {
    let world = World::new();
    let lists = json!({"text": "1,2", "has_header": "false"});
    assert_eq!(
        world.ok("csv.parse", lists).await["data"],
        json!([["1", "2"]])
    );
    let both = json!({"text": "1,2", "has_header": true, "header": false});
    let failure = world.fails("csv.parse", both).await;
    assert!(
        failure
            .message
            .contains("`header` and `has_header` are one parameter"),
        "{failure}"
    );
}

#[tokio::test]
async fn a_file_is_read_as_well() {
    let world = World::new();
    world.file("t.csv", "a\n1\n");
    assert_eq!(
        world
            .ok("actions.csv_parse", json!({"path": "t.csv"}))
            .await["data"],
        json!([{"a": "1"}])
    );
    assert_eq!(
        world
            .fails("csv.parse", json!({"path": "absent.csv"}))
            .await
            .kind,
        "not_found"
    );
    world.file("latin.csv", b"a\n\xe9\n");
    assert!(
        world
            .fails("csv.parse", json!({"path": "latin.csv"}))
            .await
            .message
            .contains("UTF-8")
    );
    assert!(
        !world
            .implicit("csv.parse", json!({"path": "t.csv"}))
            .is_null()
    );
    assert!(
        world
            .implicit("csv.parse", json!({"text": "t.csv"}))
            .is_null()
    );
}

#[tokio::test]
async fn ambiguous_input_is_an_error() {
    let world = World::new();
    let message = async |arguments| {
        let failure = world.fails("csv.parse", arguments).await;
        assert_eq!(failure.kind, "validation_error");
        failure.message
    };
    assert!(
        message(json!({"text": "a,b,a\n1,2,3"}))
            .await
            .contains("header `a` occurs twice")
    );
    let ragged = message(json!({"text": "a,b\n1,2\n3\n"})).await;
    assert!(
        ragged.contains("line 3 has 1 fields") && ragged.contains("have 2"),
        "{ragged}"
    );
    assert!(
        message(json!({"text": "1,2\n3,4,5", "header": false}))
            .await
            .contains("line 2 has 3 fields")
    );
    assert!(message(json!({})).await.contains("either `text` or `path`"));
    assert!(
        message(json!({"text": "", "path": "p"}))
            .await
            .contains("either `text` or `path`")
    );
    for delimiter in ["", ";;", "é", "\"", "\n"] {
        assert!(
            message(json!({"text": "a", "delimiter": delimiter}))
                .await
                .contains("delimiter"),
            "{delimiter}"
        );
    }
}
