//! `csv.parse`.

use serde_json::json;

use crate::fixture::Fixture;

#[tokio::test]
async fn rows_with_a_header_are_mappings() {
    let fixture = Fixture::new();
    let text = "\u{feff}name,note\nada,\"a, \"\"quoted\"\"\nnote\"\nbob,\n";
    assert_eq!(
        fixture.ok("csv.parse", json!({"text": text})).await,
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
    let fixture = Fixture::new();
    let parsed = fixture
        .ok(
            "csv.parse",
            json!({"text": "1;2\n3;4", "delimiter": ";", "header": "false"}),
        )
        .await;
    assert_eq!(
        parsed,
        json!({"data": [["1", "2"], ["3", "4"]], "headers": [], "row_count": 2, "success": true})
    );
    let parsed = fixture
        .ok(
            "csv.parse",
            json!({"text": "a\tb\n1\t2", "delimiter": "\t"}),
        )
        .await;
    assert_eq!(parsed["data"], json!([{"a": "1", "b": "2"}]));
    assert_eq!(
        fixture.ok("csv.parse", json!({"text": ""})).await["row_count"],
        0
    );
}

#[tokio::test]
async fn has_header_is_an_alias_of_header() {
    let fixture = Fixture::new();
    let lists = json!({"text": "1,2", "has_header": "false"});
    assert_eq!(
        fixture.ok("csv.parse", lists).await["data"],
        json!([["1", "2"]])
    );
    let both = json!({"text": "1,2", "has_header": true, "header": false});
    let failure = fixture.fails("csv.parse", both).await;
    assert!(
        failure
            .message
            .contains("`header` and `has_header` are one parameter"),
        "{failure}"
    );
}

#[tokio::test]
async fn file_argument_is_read() {
    let fixture = Fixture::new();
    fixture.file("t.csv", "a\n1\n");
    assert_eq!(
        fixture
            .ok("actions.csv_parse", json!({"path": "t.csv"}))
            .await["data"],
        json!([{"a": "1"}])
    );
    assert_eq!(
        fixture
            .fails("csv.parse", json!({"path": "absent.csv"}))
            .await
            .kind,
        "not_found"
    );
    fixture.file("latin.csv", b"a\n\xe9\n");
    assert!(
        fixture
            .fails("csv.parse", json!({"path": "latin.csv"}))
            .await
            .message
            .contains("UTF-8")
    );
    assert!(
        !fixture
            .implicit("csv.parse", json!({"path": "t.csv"}))
            .is_null()
    );
    assert!(
        fixture
            .implicit("csv.parse", json!({"text": "t.csv"}))
            .is_null()
    );
}

#[tokio::test]
async fn ambiguous_input_is_an_error() {
    let fixture = Fixture::new();
    let message = async |arguments| {
        let failure = fixture.fails("csv.parse", arguments).await;
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
