//! Equality of keys, and handles.

use cachalot_workflow::actions::cache::agent_segment;
use serde_json::{Value, json};

use crate::fixture::{Fixture, Setup, is_hit, text};
use crate::test_actions::TestAction;

async fn handle(fixture: &Fixture, with: Value) -> String {
    text(&fixture.wrap(with).await, "_cache_key").to_owned()
}

fn with_args(args: Value) -> Value {
    json!({"action": "test.act", "args": args})
}

fn with_key(key: Value) -> Value {
    json!({"action": "test.act", "args": {}, "key": key})
}

#[tokio::test]
async fn handle_has_four_parts() {
    let fixture = Fixture::with(TestAction::new());
    let handle = handle(&fixture, with_args(json!({"x": 1}))).await;
    let parts: Vec<&str> = handle.split(':').collect();
    let [cache, agent, action, digest] = parts.as_slice() else {
        panic!("{handle}")
    };
    assert_eq!((*cache, *agent, *action), ("cache", "tester", "test.act"));
    assert_eq!(digest.len(), 64);
    assert!(
        digest
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
    );
}

#[tokio::test]
async fn argument_order_does_not_change_the_key() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    fixture
        .wrap(with_args(json!({"x": {"a": 1, "b": [2]}, "y": 2})))
        .await;
    let other_order = fixture
        .wrap(with_args(json!({"y": 2, "x": {"b": [2], "a": 1}})))
        .await;
    assert!(is_hit(&other_order));
    assert_eq!(test_action.runs(), 1);
}

#[tokio::test]
async fn different_arguments_have_different_keys() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    // Values that are easily taken for each other.
    let values = [
        json!(1),
        json!(1.0),
        json!(true),
        json!("1"),
        json!(null),
        json!("null"),
        json!([]),
        json!({}),
        json!([[]]),
        json!(""),
        json!(0.0),
        json!(-0.0),
        json!(9_007_199_254_740_993_u64),
        json!(9_007_199_254_740_992_u64),
        json!(u64::MAX),
        json!("a\u{301}"),
        json!("\u{e1}"),
        json!("a "),
    ];
    let mut handles = Vec::new();
    for value in &values {
        let response = fixture.wrap(with_args(json!({"value": value}))).await;
        assert!(!is_hit(&response), "{value}");
        handles.push(text(&response, "_cache_key").to_owned());
    }
    handles.sort();
    handles.dedup();
    assert_eq!(
        (handles.len(), test_action.runs()),
        (values.len(), values.len())
    );
    for value in &values {
        assert!(
            is_hit(&fixture.wrap(with_args(json!({"value": value}))).await),
            "{value}"
        );
    }
}

#[tokio::test]
async fn arguments_reach_the_action_unchanged_with_every_strategy() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    let file = fixture.file("f", "content");
    let args = json!({"file": file, "x": {"z": 1, "a": [1.5, null]}, "y": u64::MAX});
    for strategy in [
        json!({}),
        json!({"key": "k"}),
        json!({"key_strategy": "sha256", "key_source": "x"}),
        json!({"key_strategy": "file_content"}),
        json!({"cache_enabled": false}),
        json!({"skip_cache": true}),
    ] {
        let mut with = json!({"action": "test.act", "args": args});
        with.as_object_mut()
            .unwrap()
            .extend(strategy.as_object().unwrap().clone());
        fixture.wrap(with).await;
    }
    let seen = test_action.seen();
    assert_eq!(seen.len(), 6);
    for given in seen {
        assert_eq!(Value::Object(given.clone()), args);
        assert_eq!(
            given["x"].to_string(),
            args["x"].to_string(),
            "the order of keys too"
        );
    }
}

#[tokio::test]
async fn key_prefix_is_added_once() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    for key in ["k", "cache:k", "cache:tester:k"] {
        assert_eq!(
            handle(&fixture, with_key(json!(key))).await,
            "cache:tester:k",
            "{key}"
        );
    }
    assert_eq!(test_action.runs(), 1);
    assert_eq!(
        handle(&fixture, with_key(json!("cache:a:b"))).await,
        "cache:tester:a:b"
    );
    assert_eq!(
        handle(&fixture, with_key(json!("cache:other:k"))).await,
        "cache:tester:other:k"
    );
}

#[tokio::test]
async fn custom_key_overrides_the_strategy() {
    let fixture = Fixture::with(TestAction::new());
    for strategy in ["args", "custom", "sha256", "file_content"] {
        let with = json!({"action": "test.act", "args": {}, "key": "k", "key_strategy": strategy});
        assert_eq!(handle(&fixture, with).await, "cache:tester:k");
    }
}

#[tokio::test]
async fn number_from_a_template_is_a_text_key() {
    let fixture = Fixture::with(TestAction::new());
    for (key, expected) in [
        (json!(5), "cache:tester:5"),
        (json!(1.5), "cache:tester:1.5"),
        (json!(true), "cache:tester:true"),
    ] {
        assert_eq!(handle(&fixture, with_key(key)).await, expected);
    }
    assert!(is_hit(&fixture.wrap(with_key(json!("5"))).await));
}

#[tokio::test]
async fn empty_key_is_ignored() {
    let fixture = Fixture::with(TestAction::new());
    for key in [json!(""), json!(null), json!(" \n")] {
        let handle = handle(&fixture, with_key(key)).await;
        assert!(handle.starts_with("cache:tester:test.act:"), "{handle}");
    }
    let custom = json!({"action": "test.act", "args": {}, "key": "", "key_strategy": "custom"});
    assert_eq!(
        fixture.fails("cache.wrap", custom).await.kind,
        "validation_error"
    );
}

#[tokio::test]
async fn key_works_in_wrap_get_and_invalidate() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    for key in [
        "rt",
        "with space",
        "a:b:c",
        "star*",
        "*",
        "q?[x]{y}",
        "line\nbreak",
        "back\\slash",
        "100%",
        "%2A",
        "Größe-日本",
        "cache:x",
        "cache:tester:y",
        "cache:cache:z",
        "tester:w",
    ] {
        let wrapped = fixture.wrap(with_key(json!(key))).await;
        assert!(!is_hit(&wrapped), "{key:?}");
        let handle = text(&wrapped, "_cache_key");
        for given in [key, handle] {
            let got = fixture.get(given).await;
            assert_eq!(got["found"], true, "{given:?}");
            assert_eq!(got["metadata"]["_cache_key"], handle);
            assert_eq!(got["value"], wrapped["result"]);
        }
        let runs = test_action.runs();
        assert!(
            is_hit(&fixture.wrap(with_key(json!(handle))).await),
            "{key:?}"
        );
        assert_eq!(test_action.runs(), runs);
        let erased = fixture.invalidate(json!({"key": key})).await;
        assert_eq!(erased["deleted_keys"], json!([handle]), "{key:?}");
        assert_eq!(fixture.get(key).await["found"], false);
        assert!(
            !is_hit(&fixture.wrap(with_key(json!(key))).await),
            "{key:?}"
        );
        fixture.invalidate(json!({"key": handle})).await;
        assert!(fixture.entries().await.is_empty());
    }
}

#[tokio::test]
async fn unprefixed_key_is_shared_and_works_in_get_and_invalidate() {
    let one = Fixture::with(TestAction::new());
    let two = Setup::in_home_of(&one)
        .agent("second")
        .with(TestAction::new())
        .start();
    let with = json!({"action": "test.act", "args": {}, "key": "shared", "key_prefix": false});
    assert_eq!(handle(&one, with.clone()).await, "cache:shared");
    assert!(is_hit(&two.wrap(with).await));
    let key = json!({"key": "cache:shared", "key_prefix": "False"});
    assert_eq!(two.ok("cache.get", key.clone()).await["found"], true);
    assert_eq!(
        two.ok("cache.get", json!({"key": "shared"})).await["found"],
        false
    );
    assert_eq!(
        two.invalidate(key).await["deleted_keys"],
        json!(["cache:shared"])
    );
    let args = json!({"action": "test.act", "args": {}, "key_prefix": false});
    let handle = handle(&one, args).await;
    assert_eq!(handle.split(':').count(), 3, "{handle}");
    assert!(handle.starts_with("cache:test.act:"));
}

#[tokio::test]
async fn agents_share_only_with_key_prefix_false() {
    let one = Fixture::with(TestAction::new());
    let two = Setup::in_home_of(&one)
        .agent("second")
        .with(TestAction::new())
        .start();
    for with in [with_key(json!("k")), with_args(json!({"x": 1}))] {
        assert!(!is_hit(&one.wrap(with.clone()).await));
        assert!(!is_hit(&two.wrap(with.clone()).await));
        assert!(is_hit(&two.wrap(with).await));
    }
    // An agent cannot name itself into another's entries.
    let key = with_key(json!("cache:tester:k"));
    assert_eq!(handle(&two, key).await, "cache:second:tester:k");
    assert_eq!(
        two.get("cache:tester:k").await["metadata"]["_cache_key"],
        "cache:second:tester:k"
    );
}

#[tokio::test]
async fn agent_name_is_escaped_in_handles_and_patterns() {
    let odd = Setup::default()
        .agent("a:b*c d%")
        .with(TestAction::new())
        .start();
    let a = Setup::in_home_of(&odd)
        .agent("a")
        .with(TestAction::new())
        .start();
    let handle = handle(&odd, with_key(json!("k"))).await;
    assert_eq!(handle, "cache:a%3Ab%2Ac%20d%25:k");
    assert!(!is_hit(&a.wrap(with_key(json!("b*c d%:k"))).await));
    a.invalidate(json!({"pattern": "cache:a:*"})).await;
    assert_eq!(odd.get("k").await["found"], true);
    assert_eq!(
        odd.invalidate(json!({"key": handle})).await["deleted_count"],
        1
    );
}

#[test]
fn agent_segment_is_the_setting_the_name_or_the_file() {
    let file = std::path::Path::new("/agents/extract.yaml");
    assert_eq!(agent_segment(Some("set"), Some("named"), file), "set");
    for empty in [None, Some(""), Some("  ")] {
        assert_eq!(agent_segment(empty, Some("named"), file), "named");
    }
    let unnamed = agent_segment(None, None, file);
    assert!(unnamed.starts_with("extract-"), "{unnamed}");
    let elsewhere = agent_segment(None, None, std::path::Path::new("/other/extract.yaml"));
    assert_ne!(unnamed, elsewhere, "unnamed agents do not share");
}

#[tokio::test]
async fn both_names_of_a_wrapped_action_have_one_key() {
    let fixture = Fixture::with(TestAction::new());
    let args = json!({"text": "[1]"});
    fixture.wrapped("json.parse", args.clone()).await;
    let other = fixture.wrapped("actions.json_parse", args).await;
    assert!(is_hit(&other));
    assert!(text(&other, "_cache_key").contains(":json.parse:"));
}

#[tokio::test]
async fn sha256_strategy_keys_the_other_arguments_too() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    let with = |x: &str, y: &str| {
        json!({
            "action": "test.act", "args": {"x": x, "y": y},
            "key_strategy": "sha256", "key_source": "x",
        })
    };
    assert!(!is_hit(&fixture.wrap(with("content", "one")).await));
    assert!(
        !is_hit(&fixture.wrap(with("content", "two")).await),
        "another extractor"
    );
    assert!(!is_hit(&fixture.wrap(with("other", "one")).await));
    assert!(is_hit(&fixture.wrap(with("content", "one")).await));
    assert_eq!(test_action.runs(), 3);
}

#[tokio::test]
async fn invalid_arguments_from_templates_are_refused_at_run_time() {
    let fixture = Fixture::with(TestAction::new());
    for (with, named) in [
        (json!({"key_strategy": "custom"}), "needs `key`"),
        (json!({"key_strategy": "sha256"}), "needs `key_source`"),
        (
            json!({"key_strategy": "sha256", "key_source": "gone"}),
            "`gone`",
        ),
        (
            json!({"key_strategy": "file_content", "key_source": "gone"}),
            "`gone`",
        ),
        (json!({"key_strategy": "file_content"}), "`file`"),
        (json!({"key_strategy": "arg"}), "did you mean `args`"),
        (json!({"ttl_second": 5}), "did you mean `ttl_seconds`"),
        (json!({"scope": "world"}), "scope"),
        (json!({"on_error": "retrun"}), "did you mean `return`"),
        (json!({"skip_cache": "maybe"}), "`skip_cache`"),
        (json!({"cleanup_probability": 1.5}), "cleanup_probability"),
        (json!({"cleanup_limit": -1}), "cleanup_limit"),
        (json!({"tags": 5}), "`tags`"),
        (json!({"args": null}), "`args`"),
        (json!({"args": [1]}), "`args`"),
        (json!({"args": {"z": 1}}), "unknown parameter `z`"),
    ] {
        let mut call = json!({"action": "test.act", "args": {}});
        call.as_object_mut()
            .unwrap()
            .extend(with.as_object().unwrap().clone());
        let failure = fixture.fails("cache.wrap", call).await;
        assert_eq!(failure.kind, "validation_error", "{with}");
        assert!(failure.message.contains(named), "{with}: {failure}");
    }
}

#[tokio::test]
async fn flags_from_templates_are_cast_to_booleans() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    let with = |name: &str, flag: &str| {
        let mut with = with_key(json!("k"));
        with[name] = json!(flag);
        with
    };
    fixture.wrap(with_key(json!("k"))).await;
    for false_text in ["false", "False", " FALSE "] {
        assert!(
            is_hit(&fixture.wrap(with("skip_cache", false_text)).await),
            "{false_text}"
        );
    }
    assert!(!is_hit(&fixture.wrap(with("skip_cache", "true")).await));
    assert!(is_hit(&fixture.wrap(with("cache_enabled", "True")).await));
    let disabled = fixture.wrap(with("cache_enabled", "False")).await;
    assert_eq!(disabled["_cache_key"], Value::Null);
    assert_eq!(test_action.runs(), 3);
}

/// The handle and the record key of a call of version 3 of `test.test_action` by `tester`.
struct FixedKey {
    with: Value,
    handle: &'static str,
    key: &'static str,
}

#[tokio::test]
async fn calls_have_the_keys_that_they_always_had() {
    // A change of any of these would lose the entries that users have.
    let calls = [
        FixedKey {
            with: json!({"args": {"y": [1, 1.0, "1", null, true], "x": {"b": {}, "a": []}, "note": "unkeyed"}}),
            handle: "cache:tester:test.act:73fbdd57f9ee4c874afd80442111ae3de73d0d30f80a713bcad0a46bec5741a6",
            key: "3694e98433ab212f1dc50aa907b1030cf573f8fb5c0e6de19835b178f904ec04",
        },
        FixedKey {
            with: json!({"args": {}, "scope": "global", "version": {"prompt": 2}}),
            handle: "cache:test.act:ee8e55c6f5d2a705aae6b7a7638a842e7f352becaa9f906f702c4d723c868a06",
            key: "fed1b6aff87fabe0933649ee22a4311634aa8a6e36922ca7df4280de4d5fd3ba",
        },
        FixedKey {
            with: json!({"args": {"x": "a", "value": "v"}, "key_strategy": "sha256", "key_source": "value"}),
            handle: "cache:tester:test.act:30de32538bf148ab300c3e75424c1512072d2161794d36e3cfc562d7a3ba4181",
            key: "5640512c7c94d741f32039401b3c0829b8095118aa0a1f084e8b0a28fab8363c",
        },
        FixedKey {
            with: json!({"args": {"file": "content.txt", "x": 1, "note": 2}, "key_strategy": "file_content"}),
            handle: "cache:tester:test.act:10a4fdc72d6803757316fa8e81b1e0c9f6b271be85aa138bc9c613f4272a29b6",
            key: "197922d677fce8465d796a5ef1decf4b19d31446b0e1e66a7af1f3d06e842676",
        },
        FixedKey {
            with: json!({"args": {"x": "not in the key"}, "key": "my:key", "depends_on": ["/absent/file"]}),
            handle: "cache:tester:my:key",
            key: "34a95edc3122809e974ad0783ede8b0b401faa2db317bfbcbce836ddcb9f77e0",
        },
        FixedKey {
            with: json!({"args": {"x": "with hunter2 in it"}, "scope": "run"}),
            handle: "cache:tester:test.act:1b125d0dd9ea6e4c4ef6c94b5d7664573bed5bb3e580a4456d3c7731574296e2",
            key: "4cdc0bc9bee144d70a900c65109a1675a750af358db332841bf717ee249898b5",
        },
    ];
    for FixedKey {
        mut with,
        handle,
        key,
    } in calls
    {
        let fixture = Fixture::with(TestAction::new());
        fixture.file("content.txt", "content");
        std::fs::write(fixture.home().join("memory.db.digest-key"), [7; 32]).unwrap();
        let test_action = TestAction::new()
            .version(3)
            .gives(json!(1))
            .implies(|_, _| Ok(json!({"base": "url"})));
        let fixture = fixture
            .end()
            .await
            .secrets(&["hunter2"])
            .with(test_action)
            .start();
        with["action"] = json!("test.act");
        let response = fixture.wrap(with.clone()).await;
        let entries = fixture.entries().await;
        let keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(
            (text(&response, "_cache_key"), keys.as_slice()),
            (handle, [key].as_slice()),
            "{with}"
        );
    }
}
