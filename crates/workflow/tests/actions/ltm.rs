//! `ltm.*` on a memory.

use cachalot_store::{Label, PutResult, Record, space};
use serde_json::{Value, json};

use crate::fixture::Fixture;

async fn keys(fixture: &Fixture, arguments: Value) -> Vec<String> {
    let found = fixture.ok("ltm.search", arguments).await;
    let results = found["results"].as_array().unwrap();
    assert_eq!(
        (&found["success"], &found["count"]),
        (&json!(true), &json!(results.len()))
    );
    let mut keys: Vec<String> = results
        .iter()
        .map(|result| result["key"].as_str().unwrap().to_owned())
        .collect();
    keys.sort();
    keys
}

async fn stored(fixture: &Fixture, key: &str, value: Value, metadata: Value) {
    fixture
        .ok(
            "ltm.store",
            json!({"key": key, "value": value, "metadata": metadata}),
        )
        .await;
}

#[tokio::test]
async fn values_are_stored_retrieved_replaced_and_deleted() {
    let fixture = Fixture::new();
    let value = json!({"n": 9_007_199_254_740_993_u64, "list": [null, 1.0]});
    let answer = fixture
        .ok(
            "ltm.store",
            json!({"key": "k", "value": value, "metadata": {"a": 1, "deep": {"b": []}}}),
        )
        .await;
    assert_eq!(
        answer,
        json!({"success": true, "stored": true, "key": "k", "created": true})
    );
    let answer = fixture.ok("ltm.retrieve", json!({"key": "k"})).await;
    assert_eq!(
        answer,
        json!({"success": true, "value": value, "found": true, "metadata": {"a": 1, "deep": {"b": []}}})
    );
    let answer = fixture
        .ok("actions.ltm_store", json!({"key": "k", "value": null}))
        .await;
    assert_eq!(answer["created"], false);
    let answer = fixture
        .ok("ltm.retrieve", json!({"key": "k", "default": 5}))
        .await;
    assert_eq!(
        answer,
        json!({"success": true, "value": null, "found": true, "metadata": null})
    );
    assert_eq!(
        fixture.ok("ltm.delete", json!({"key": "k"})).await,
        json!({"success": true, "deleted": true, "key": "k"})
    );
    assert_eq!(
        fixture.ok("ltm.delete", json!({"key": "k"})).await["deleted"],
        false
    );
    let answer = fixture
        .ok("ltm.retrieve", json!({"key": "k", "default": [5]}))
        .await;
    assert_eq!(
        answer,
        json!({"success": true, "value": [5], "found": false, "metadata": null})
    );
    assert_eq!(
        fixture.ok("ltm.retrieve", json!({"key": "k"})).await["value"],
        Value::Null
    );
    assert_eq!(
        fixture
            .ok("ltm.store", json!({"key": "k", "value": 1}))
            .await["created"],
        true
    );
}

#[tokio::test]
async fn keys_are_non_empty_text() {
    let fixture = Fixture::new();
    assert_eq!(
        fixture
            .ok("ltm.store", json!({"key": 5, "value": "v"}))
            .await["key"],
        "5"
    );
    assert_eq!(
        fixture.ok("ltm.retrieve", json!({"key": "5"})).await["value"],
        "v"
    );
    for action in ["ltm.store", "ltm.retrieve", "ltm.delete"] {
        let mut arguments = json!({"key": ""});
        if action == "ltm.store" {
            arguments["value"] = json!(1);
        }
        assert_eq!(
            fixture.fails(action, arguments).await.kind,
            "validation_error",
            "{action}"
        );
    }
    assert_eq!(
        fixture.fails("ltm.store", json!({"key": "k"})).await.kind,
        "validation_error"
    );
}

#[tokio::test]
async fn deleting_a_key_keeps_keys_with_that_prefix() {
    let fixture = Fixture::new();
    stored(&fixture, "ab", json!(1), json!({})).await;
    stored(&fixture, "abc", json!(2), json!({})).await;
    assert_eq!(
        fixture.ok("ltm.delete", json!({"key": "a"})).await["deleted"],
        false
    );
    assert_eq!(
        fixture.ok("ltm.delete", json!({"key": "ab"})).await["deleted"],
        true
    );
    assert_eq!(keys(&fixture, json!({})).await, ["abc"]);
}

#[tokio::test]
async fn metadata_filter_is_exact_and_applied_before_the_limit() {
    let fixture = Fixture::new();
    for (key, value) in [
        ("int", json!(1)),
        ("float", json!(1.0)),
        ("text", json!("1")),
        ("true", json!(true)),
        ("null", json!(null)),
    ] {
        stored(&fixture, key, json!(0), json!({"v": value, "all": "yes"})).await;
        let found = keys(&fixture, json!({"metadata_filter": {"v": value}})).await;
        assert_eq!(found, [key]);
    }
    for newer in 0..30 {
        stored(
            &fixture,
            &format!("newer{newer}"),
            json!(0),
            json!({"all": "yes"}),
        )
        .await;
    }
    assert_eq!(
        keys(&fixture, json!({"metadata_filter": {"v": 1}, "limit": 1})).await,
        ["int"]
    );
    assert_eq!(
        keys(&fixture, json!({"metadata_filter": {"v": 1, "all": "yes"}})).await,
        ["int"]
    );
    assert_eq!(
        keys(&fixture, json!({"metadata_filter": {"v": 1, "all": "no"}})).await,
        Vec::<String>::new()
    );
    assert_eq!(
        keys(&fixture, json!({"metadata_filter": {"all": "yes"}}))
            .await
            .len(),
        10
    );
    assert_eq!(
        keys(
            &fixture,
            json!({"metadata_filter": {"all": "yes"}, "limit": 35})
        )
        .await
        .len(),
        35
    );
}

#[tokio::test]
async fn replacing_a_value_replaces_its_search_labels() {
    let fixture = Fixture::new();
    stored(&fixture, "k", json!("apple"), json!({"v": 1})).await;
    stored(&fixture, "k", json!("pear"), json!({"v": 2})).await;
    assert_eq!(
        keys(&fixture, json!({"metadata_filter": {"v": 1}})).await,
        Vec::<String>::new()
    );
    assert_eq!(
        keys(&fixture, json!({"query": "apple"})).await,
        Vec::<String>::new()
    );
    assert_eq!(
        keys(
            &fixture,
            json!({"query": "pear", "metadata_filter": {"v": 2}})
        )
        .await,
        ["k"]
    );
}

#[tokio::test]
async fn search_matches_values_keys_and_metadata() {
    let fixture = Fixture::new();
    stored(
        &fixture,
        "greeting",
        json!({"text": "hello brave new world"}),
        json!({"lang": "english"}),
    )
    .await;
    stored(&fixture, "farewell", json!("goodbye world"), json!({})).await;
    assert_eq!(
        keys(&fixture, json!({"query": "hello world"})).await,
        ["greeting"]
    );
    assert_eq!(
        keys(&fixture, json!({"query": "world"})).await,
        ["farewell", "greeting"]
    );
    assert_eq!(
        keys(&fixture, json!({"query": "wor*"})).await,
        ["farewell", "greeting"]
    );
    assert_eq!(
        keys(&fixture, json!({"query": "farewell"})).await,
        ["farewell"]
    );
    assert_eq!(
        keys(&fixture, json!({"query": "english"})).await,
        ["greeting"]
    );
    assert_eq!(
        keys(
            &fixture,
            json!({"query": "world", "metadata_filter": {"lang": "english"}})
        )
        .await,
        ["greeting"]
    );
    assert_eq!(
        keys(&fixture, json!({"query": "world", "limit": 1}))
            .await
            .len(),
        1
    );
    assert_eq!(
        keys(&fixture, json!({"query": "\"'NEAR( OR"})).await,
        Vec::<String>::new()
    );
    let scored = fixture.ok("ltm.search", json!({"query": "hello"})).await;
    assert!(
        scored["results"][0]["score"].is_number()
            && scored["results"][0]["metadata"]["lang"] == "english"
    );
}

#[tokio::test]
async fn filters_with_lists_or_mappings_are_refused() {
    let fixture = Fixture::new();
    let failure = fixture
        .fails("ltm.search", json!({"metadata_filter": {"a": [1]}}))
        .await;
    assert!(
        failure.kind == "validation_error" && failure.message.contains("a list in `a`"),
        "{failure}"
    );
    for limit in [json!(0), json!(-1), json!(10_001), json!("many")] {
        assert_eq!(
            fixture
                .fails("ltm.search", json!({"limit": limit}))
                .await
                .kind,
            "validation_error"
        );
    }
}

#[tokio::test]
async fn secret_is_refused_in_every_encoding() {
    let fixture = Fixture::new();
    fixture.runtime.secret_set.learn("hunter\"2/of the run");
    for arguments in [
        json!({"key": "k", "value": {"deep": ["x hunter\"2/of the run y"]}}),
        json!({"key": "k", "value": 1, "metadata": {"token": "hunter\"2/of the run"}}),
        json!({"key": "k hunter\"2/of the run", "value": 1}),
        json!({"key": "k", "value": {"hunter\"2/of the run": 1}}),
        json!({"key": "k", "value": "u?t=hunter%222%2Fof%20the%20run"}),
    ] {
        let failure = fixture.fails("ltm.store", arguments).await;
        assert_eq!(failure.kind, "secret_refused");
        assert!(!failure.message.contains("hunter"), "{failure}");
    }
    assert_eq!(keys(&fixture, json!({})).await, Vec::<String>::new());
}

#[tokio::test]
async fn ltm_actions_see_the_user_space_only() {
    let fixture = Fixture::new();
    let store = fixture.runtime.store.as_ref().unwrap();
    let record = Record {
        key: "entry".to_owned(),
        value: r#"{"value": "hello", "metadata": {"v": 1}}"#.into(),
        labels: vec![Label::new("meta.v", "1"), Label::new("key", "entry")],
        expires: None,
        revision: 0,
        updated: 0,
    };
    assert!(matches!(
        store
            .put(space::CACHE, record, None, &[])
            .settle()
            .await
            .unwrap(),
        PutResult::Stored { .. }
    ));
    assert_eq!(keys(&fixture, json!({})).await, Vec::<String>::new());
    assert_eq!(
        keys(&fixture, json!({"metadata_filter": {"v": 1}})).await,
        Vec::<String>::new()
    );
    assert_eq!(
        fixture.ok("ltm.retrieve", json!({"key": "entry"})).await["found"],
        false
    );
    assert_eq!(
        fixture.ok("ltm.delete", json!({"key": "entry"})).await["deleted"],
        false
    );
}

#[tokio::test]
async fn an_unreadable_record_is_reported_and_does_not_hide_the_others() {
    let fixture = Fixture::new();
    stored(&fixture, "ours", json!(1), json!({})).await;
    let store = fixture.runtime.store.as_ref().unwrap();
    let foreign = Record {
        key: "foreign".to_owned(),
        value: "{".into(),
        labels: Vec::new(),
        expires: None,
        revision: 0,
        updated: 0,
    };
    store
        .put(space::USER, foreign, None, &[])
        .settle()
        .await
        .unwrap();
    assert_eq!(keys(&fixture, json!({})).await, ["ours"]);
    assert!(fixture.events.warnings()[0].contains("`foreign`"));
    assert_eq!(
        fixture
            .fails("ltm.retrieve", json!({"key": "foreign"}))
            .await
            .kind,
        "serialization_error"
    );
}

#[tokio::test]
async fn without_a_store_every_action_fails() {
    let mut fixture = Fixture::new();
    fixture.runtime.store = None;
    for (action, arguments) in [
        ("ltm.store", json!({"key": "k", "value": 1})),
        ("ltm.retrieve", json!({"key": "k"})),
        ("ltm.delete", json!({"key": "k"})),
        ("ltm.search", json!({})),
    ] {
        let failure = fixture.fails(action, arguments).await;
        assert_eq!(failure.kind, "configuration_error", "{action}");
        assert!(failure.message.contains("CACHALOT_DB"), "{failure}");
    }
}

#[tokio::test]
async fn ltm_changes_raise_the_epoch() {
    let fixture = Fixture::new();
    let store = std::sync::Arc::clone(fixture.runtime.store.as_ref().unwrap());
    let epoch = async || {
        store
            .get(space::CACHE, "", &["epoch:ltm"])
            .settle()
            .await
            .unwrap()
            .counters[0]
    };
    let before = epoch().await;
    fixture.ok("ltm.retrieve", json!({"key": "k"})).await;
    fixture.ok("ltm.search", json!({})).await;
    assert_eq!(epoch().await, before);
    stored(&fixture, "k", json!(1), json!({})).await;
    let stored = epoch().await;
    assert!(stored > before);
    fixture.ok("ltm.delete", json!({"key": "k"})).await;
    assert!(epoch().await > stored);
    assert!(fixture.events.warnings().is_empty());
}
