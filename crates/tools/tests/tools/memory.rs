//! `memory`.

use std::sync::Arc;

use cachalot_core::{DigestKey, EffectTarget, Effects, ManualClock, SecretSet};
use cachalot_store::in_process::InProcessStore;
use cachalot_store::{Label, Record, Store, space};
use cachalot_tools::builtin::{MEMORY_RESOURCE, MemoryTool};
use serde_json::{Value, json};

use crate::tool_fixture::{ToolFixture, object};

struct MemoryFixture {
    tool_fixture: ToolFixture,
    memory: Arc<dyn Store>,
}

impl MemoryFixture {
    fn new() -> Self {
        let mut tool_fixture = ToolFixture::with(vec![Arc::new(MemoryTool::new())]);
        let clock = Arc::new(ManualClock::at(1_000));
        let memory: Arc<dyn Store> = Arc::new(InProcessStore::new(clock.clone()));
        let secret_set = SecretSet::with_key(DigestKey::new([3; 32]));
        secret_set.learn("swordfish");
        tool_fixture.context.store = Some(Arc::clone(&memory));
        tool_fixture.context.clock = clock;
        tool_fixture.context.secret_set = Arc::new(secret_set);
        Self {
            tool_fixture,
            memory,
        }
    }

    async fn done(&self, arguments: Value) -> Value {
        serde_json::from_str(&self.tool_fixture.done("memory", arguments).await).unwrap()
    }

    async fn fails(&self, arguments: Value) -> String {
        self.tool_fixture.fails("memory", arguments).await
    }

    async fn found(&self, arguments: Value) -> Vec<String> {
        let mut arguments = object(arguments);
        arguments.insert("action".to_owned(), "search".into());
        let found = self.done(Value::Object(arguments)).await;
        let records = found["records"].as_array().unwrap();
        assert_eq!(found["count"], records.len());
        records
            .iter()
            .map(|record| record["key"].as_str().unwrap().to_owned())
            .collect()
    }

    async fn put(&self, space: &str, record: Record) {
        self.memory
            .put(space, record, None, &[])
            .settle()
            .await
            .unwrap();
    }
}

fn record(key: &str, value: &str, expires: Option<i64>) -> Record {
    Record {
        key: key.to_owned(),
        value: value.to_owned().into(),
        labels: vec![Label::new("key", key)],
        expires,
        revision: 0,
        updated: 0,
    }
}

#[tokio::test]
async fn stored_memory_is_found_and_forgotten() {
    let memory = MemoryFixture::new();
    let stored = memory
        .done(json!({ "action": "store", "key": "editor", "value": "prefers vim", "metadata": { "kind": "preference", "level": 1 } }))
        .await;
    assert_eq!(
        stored,
        json!({ "stored": true, "key": "editor", "replaced": false })
    );
    memory
        .done(json!({ "action": "store", "key": "editor-theme", "value": { "dark": true } }))
        .await;
    assert_eq!(memory.found(json!({ "query": "vim" })).await, ["editor"]);
    assert_eq!(
        memory.found(json!({})).await,
        ["editor-theme", "editor"],
        "the newest first"
    );
    assert_eq!(memory.found(json!({ "limit": 1 })).await, ["editor-theme"]);
    assert_eq!(
        memory
            .found(json!({ "metadata": { "kind": "preference" } }))
            .await,
        ["editor"]
    );
    assert_eq!(
        memory.found(json!({ "metadata": { "level": 1 } })).await,
        ["editor"]
    );
    assert!(
        memory
            .found(json!({ "metadata": { "level": "1" } }))
            .await
            .is_empty()
    );
    let again = memory
        .done(json!({ "action": "store", "key": "editor", "value": "prefers emacs" }))
        .await;
    assert_eq!(again["replaced"], true);
    assert!(memory.found(json!({ "query": "vim" })).await.is_empty());
    let forgotten = memory
        .done(json!({ "action": "forget", "key": "editor" }))
        .await;
    assert_eq!(forgotten, json!({ "forgotten": true, "key": "editor" }));
    assert_eq!(
        memory.found(json!({})).await,
        ["editor-theme"],
        "and nothing that begins alike"
    );
    let forgotten = memory
        .done(json!({ "action": "forget", "key": "editor" }))
        .await;
    assert_eq!(forgotten["forgotten"], false);
}

#[tokio::test]
async fn records_equal_those_of_ltm_store() {
    let memory = MemoryFixture::new();
    memory
        .done(
            json!({ "action": "store", "key": "k", "value": [1, "a"], "metadata": { "b": true } }),
        )
        .await;
    let found = memory
        .memory
        .get(space::USER, "k", &[])
        .settle()
        .await
        .unwrap();
    let kept = found.record.unwrap();
    assert_eq!(
        &kept.value[..],
        br#"{"value":[1,"a"],"metadata":{"b":true}}"#
    );
    assert_eq!(
        kept.labels,
        [Label::new("key", "k"), Label::new("meta.b", "true")]
    );
    // And what `ltm.store` writes is found here.
    memory
        .put(
            space::USER,
            record(
                "theirs",
                r#"{"value":"from a workflow","metadata":null}"#,
                None,
            ),
        )
        .await;
    let found = memory
        .done(json!({ "action": "search", "query": "workflow" }))
        .await;
    assert_eq!(
        found["records"],
        json!([{ "key": "theirs", "value": "from a workflow" }])
    );
}

#[tokio::test]
async fn memory_tool_never_finds_cache_entries() {
    let memory = MemoryFixture::new();
    memory
        .put(
            space::CACHE,
            record("entry", r#"{"value":"cached","metadata":null}"#, None),
        )
        .await;
    assert!(memory.found(json!({})).await.is_empty());
    assert!(memory.found(json!({ "query": "cached" })).await.is_empty());
    assert_eq!(
        memory
            .done(json!({ "action": "forget", "key": "entry" }))
            .await["forgotten"],
        false
    );
    let there = memory
        .memory
        .get(space::CACHE, "entry", &[])
        .settle()
        .await
        .unwrap();
    assert!(there.record.is_some());
}

#[tokio::test]
async fn expired_and_unreadable_records_are_not_listed() {
    let memory = MemoryFixture::new();
    memory
        .put(
            space::USER,
            record("old", r#"{"value":1,"metadata":null}"#, Some(1_000)),
        )
        .await;
    memory
        .put(
            space::USER,
            record("fresh", r#"{"value":1,"metadata":null}"#, Some(1_001)),
        )
        .await;
    memory
        .put(space::USER, record("strange", "no JSON", None))
        .await;
    let found = memory.done(json!({ "action": "search" })).await;
    assert_eq!(
        found,
        json!({ "count": 1, "records": [{ "key": "fresh", "value": 1 }], "unreadable": 1 })
    );
}

#[tokio::test]
async fn a_secret_is_not_stored() {
    let memory = MemoryFixture::new();
    for arguments in [
        json!({ "action": "store", "key": "k", "value": "it is swordfish" }),
        json!({ "action": "store", "key": "swordfish", "value": 1 }),
        json!({ "action": "store", "key": "k", "value": 1, "metadata": { "a": "swordfish" } }),
    ] {
        let refused = memory.fails(arguments).await;
        assert!(
            refused.contains("holds a secret") && !refused.contains("swordfish"),
            "{refused}"
        );
    }
    assert!(memory.found(json!({})).await.is_empty());
}

#[tokio::test]
async fn missing_arguments_are_reported() {
    let memory = MemoryFixture::new();
    for (arguments, why) in [
        (
            json!({ "action": "store", "value": 1 }),
            "`store` needs `key`",
        ),
        (
            json!({ "action": "store", "key": "", "value": 1 }),
            "`store` needs `key`",
        ),
        (
            json!({ "action": "store", "key": "k" }),
            "`store` needs `value`",
        ),
        (json!({ "action": "forget" }), "`forget` needs `key`"),
        (
            json!({ "action": "search", "metadata": { "a": [] } }),
            "only text, numbers",
        ),
    ] {
        let shown = memory.fails(arguments).await;
        assert!(shown.contains(why), "{shown}");
    }
    let mut without = ToolFixture::with(vec![Arc::new(MemoryTool::new())]);
    without.context.store = None;
    let shown = without.fails("memory", json!({ "action": "search" })).await;
    assert!(shown.contains("no long-term memory"), "{shown}");
}

#[test]
fn search_is_read_only_and_the_other_actions_write() {
    let memory = MemoryFixture::new();
    let tool = memory.tool_fixture.registry.tool("memory").unwrap();
    assert!(!tool.metadata().read_only);
    let effects = |action: &str| {
        let arguments = object(json!({ "action": action, "key": "k" }));
        tool.effects(&arguments, &memory.tool_fixture.context)
    };
    let resource = || vec![EffectTarget::Named(MEMORY_RESOURCE.to_owned())];
    assert_eq!(effects("search"), Effects::reading(resource()));
    assert_eq!(effects("store"), Effects::writing(resource()));
    assert_eq!(effects("forget"), Effects::writing(resource()));
}
