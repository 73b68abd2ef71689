//! `json.parse`, `json.transform` and `json.stringify`.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixture::Fixture;

#[tokio::test]
async fn parse_keeps_every_digit() {
    let fixture = Fixture::new();
    let text = r#"{"b": [1, 2.5, 9007199254740993, 123456789012345678901234], "a": null}"#;
    let parsed = fixture.ok("json.parse", json!({"text": text})).await;
    assert_eq!(
        parsed,
        json!({
            "data": {"b": [1, 2.5, 9_007_199_254_740_993_u64, "123456789012345678901234"], "a": null},
            "success": true,
        })
    );
    assert_eq!(
        fixture.ok("actions.json_parse", json!({"text": 7})).await["data"],
        7
    );
}

#[tokio::test]
async fn invalid_json_is_reported_with_its_position() {
    let fixture = Fixture::new();
    let failure = fixture
        .fails("json.parse", json!({"text": "{\n  \"a\": ]"}))
        .await;
    assert_eq!(failure.kind, "parse_error");
    assert!(failure.message.contains("line 2 column 8"), "{failure}");
    assert_eq!(
        fixture.fails("json.parse", json!({"text": ""})).await.kind,
        "parse_error"
    );
    assert_eq!(
        fixture.fails("json.parse", json!({})).await.kind,
        "validation_error"
    );
}

#[tokio::test]
async fn non_strict_parse_relaxes_syntax_or_returns_the_default() {
    let fixture = Fixture::new();
    let text = "{\"a\": [1, 2,], // two\n}";
    for (more, data) in [
        (json!({"strict": false}), json!({"a": [1, 2]})),
        (
            json!({"strict": false, "default": null}),
            json!({"a": [1, 2]}),
        ),
        (json!({"strict": "false", "default": []}), json!([])),
    ] {
        let mut arguments = json!({ "text": text });
        let fields = arguments.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        let parsed = fixture.ok("json.parse", arguments).await;
        assert_eq!(parsed, json!({"data": data, "success": true}), "{more}");
    }
    for arguments in [
        json!({"text": text, "default": 1}),
        json!({"text": text, "default": 1, "strict": true}),
        json!({"text": "[1 2]", "strict": false}),
    ] {
        let failure = fixture.fails("json.parse", arguments.clone()).await;
        assert_eq!(failure.kind, "parse_error", "{arguments}");
    }
    let right = json!({"text": "7", "strict": false, "default": 1});
    assert_eq!(fixture.ok("json.parse", right).await["data"], 7);
}

#[tokio::test]
async fn expressions_select_and_compute() {
    let fixture = Fixture::new();
    let data = json!({"items": [{"n": "a", "v": 9_007_199_254_740_993_u64}, {"n": "b", "v": 2.5}]});
    let arguments = |expression: &str| json!({"data": data, "expression": expression});
    assert_eq!(
        fixture.ok("json.transform", arguments("items[].v")).await,
        json!({"result": [9_007_199_254_740_993_u64, 2.5], "expression": "items[].v", "success": true})
    );
    assert_eq!(
        fixture
            .ok("json.transform", arguments("items[?v > `3`].n | [0]"))
            .await["result"],
        "a"
    );
    assert_eq!(
        fixture
            .ok("json.transform", json!({"data": null, "expression": "a.b"}))
            .await["result"],
        Value::Null
    );
}

#[tokio::test]
async fn errors_of_expressions_and_of_data_have_different_kinds() {
    let fixture = Fixture::new();
    let failure = fixture
        .fails("json.transform", json!({"data": {}, "expression": "a..b"}))
        .await;
    assert_eq!(failure.kind, "validation_error", "{failure}");
    let failure = fixture
        .fails(
            "json.transform",
            json!({"data": {"a": "x"}, "expression": "abs(a)"}),
        )
        .await;
    assert_eq!(failure.kind, "transform_error", "{failure}");
    assert_eq!(
        fixture
            .fails("json.transform", json!({"expression": "a"}))
            .await
            .kind,
        "validation_error"
    );
}

#[tokio::test]
async fn stringify_formats_data() {
    let fixture = Fixture::new();
    let data = json!({"b": {"d": 1, "c": [1.0, null]}, "a": "<ä>"});
    let text = async |extra: Value| {
        let mut arguments = json!({"data": data});
        arguments
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        let result = fixture.ok("json.stringify", arguments).await;
        assert_eq!(result["success"], true);
        result["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        text(json!({})).await,
        r#"{"b":{"d":1,"c":[1.0,null]},"a":"<ä>"}"#
    );
    assert_eq!(
        text(json!({"sort_keys": true})).await,
        r#"{"a":"<ä>","b":{"c":[1.0,null],"d":1}}"#
    );
    assert!(
        text(json!({"indent": 3}))
            .await
            .starts_with("{\n   \"b\": {\n      \"d\": 1")
    );
    assert_eq!(
        fixture.ok("json.stringify", json!({"data": null})).await["text"],
        "null"
    );
    assert_eq!(
        fixture
            .fails("json.stringify", json!({"data": 1, "indent": 17}))
            .await
            .kind,
        "validation_error"
    );
}

fn trees() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("finite", |float| float.is_finite())
            .prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((".*", inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn stringify_and_parse_round_trip(data in trees(), indent in 0..4, sort in any::<bool>()) {
        let fixture = Fixture::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let text = fixture.ok("json.stringify", json!({"data": data, "indent": indent, "sort_keys": sort})).await["text"].clone();
            assert_eq!(fixture.ok("json.parse", json!({"text": text})).await["data"], data);
            let same = fixture.ok("json.transform", json!({"data": data, "expression": "@"})).await;
            assert_eq!(same["result"], data);
        });
    }
}
