//! Actions that write mappings out tell apart what differs in order only.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::fakes::Server;
use crate::fixture::Fixture;

/// One value and the same with every mapping turned around.
fn turned(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(turned).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().rev();
            Value::Object(
                fields
                    .map(|(name, field)| (name.clone(), turned(field)))
                    .collect(),
            )
        }
        scalar => scalar.clone(),
    }
}

#[tokio::test]
async fn key_order_of_stringified_data_is_keyed() {
    let fixture = Fixture::new();
    let data = json!({"b": 1, "a": [{"d": 2, "c": 3}]});
    let with = |data: Value, more: Value| {
        let mut args = json!({ "data": data });
        args.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({"action": "json.stringify", "args": args})
    };
    for data in [
        data.clone(),
        turned(&data),
        json!({"b": 1, "a": [{"c": 3, "d": 2}]}),
    ] {
        let (hit, result) = fixture.wrapped(with(data.clone(), json!({}))).await;
        assert!(!hit, "{data}");
        assert_eq!(result["text"], data.to_string());
        assert!(fixture.wrapped(with(data, json!({}))).await.0);
    }
    // Sorted, the order does not matter.
    let sorted = json!({"sort_keys": true});
    assert!(!fixture.wrapped(with(data.clone(), sorted.clone())).await.0);
    assert!(fixture.wrapped(with(turned(&data), sorted)).await.0);
}

#[test]
fn sorted_data_has_no_key_order() {
    let fixture = Fixture::new();
    for data in [
        json!({"a": {"x": 1, "y": 2}, "b": []}),
        json!([1, {"z": 0}]),
        json!(null),
    ] {
        assert!(
            fixture
                .implicit("json.stringify", json!({"data": data}))
                .is_null()
        );
    }
    let implicit = fixture.implicit("json.stringify", json!({"data": [0, {"b": 1, "a": 2}]}));
    assert_eq!(implicit, json!({"order": {"data": [[1, [["b", "a"]]]]}}));
}

#[tokio::test]
async fn field_order_of_request_bodies_is_keyed() {
    let echo =
        axum::routing::any(
            |uri: axum::http::Uri, body: String| async move { format!("{uri} {body}") },
        );
    let server = Server::start(axum::Router::new().route("/", echo));
    let fixture = Fixture::new();
    let url = server.base_url();
    for (action, argument) in [
        ("http.get", "params"),
        ("http.post", "json"),
        ("http.post", "form"),
        ("http.post", "params"),
        ("http.post", "headers"),
    ] {
        let call =
            |fields: Value| json!({"action": action, "args": {"url": url, argument: fields}});
        let (one, other) = (json!({"y": "1", "x": "2"}), json!({"x": "2", "y": "1"}));
        let (_, first) = fixture.wrapped(call(one.clone())).await;
        let (hit, second) = fixture.wrapped(call(other.clone())).await;
        assert!(!hit, "{action} {argument}");
        if argument != "headers" {
            assert_ne!(first, second, "{action} {argument}");
        }
        assert!(fixture.wrapped(call(one)).await.0 && fixture.wrapped(call(other)).await.0);
    }
}

#[test]
fn field_order_of_schemas_and_defaults_is_keyed() {
    let fixture = Fixture::new();
    for (action, rest, argument) in [
        ("llamaextract.extract", json!({"file": "f"}), "schema"),
        ("ltm.retrieve", json!({"key": "k"}), "default"),
    ] {
        let implicit = |fields: Value| {
            let mut arguments = rest.clone();
            arguments[argument] = fields;
            fixture.implicit(action, arguments)
        };
        let (one, other) = (json!({"b": 1, "a": 2}), json!({"a": 2, "b": 1}));
        assert_ne!(implicit(one), implicit(other), "{action}");
    }
}

fn trees() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(json!(1)), Just(json!("a")), Just(json!(null))];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::vec(("[abc]", inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    /// With the sorted value that is in the key, the order says how it is written.
    #[test]
    fn the_key_order_distinguishes_values_that_differ_only_in_order(value in trees()) {
        let fixture = Fixture::new();
        let implicit = |value: &Value| fixture.implicit("json.stringify", json!({"data": value}));
        let other = turned(&value);
        let (text, turned_text) = (value.to_string(), other.to_string());
        prop_assert_eq!(implicit(&value) == implicit(&other), text == turned_text);
    }
}
