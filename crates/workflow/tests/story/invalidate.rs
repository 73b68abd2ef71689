//! `cache.invalidate`: what goes, and what stays.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::{Fixture, Setup, is_hit};
use crate::test_actions::TestAction;

async fn keep(fixture: &Fixture, key: &str) {
    let with = json!({"action": "test.act", "args": {}, "key": key, "cleanup_probability": 0});
    assert!(!is_hit(&fixture.wrap(with).await), "{key}");
}

/// The handles of what is cached, sorted.
async fn handles(fixture: &Fixture) -> Vec<String> {
    let mut handles: Vec<String> = Vec::new();
    for entry in fixture.entries().await {
        let handle = entry.labels.iter().find(|label| label.name == "handle");
        handles.push(handle.unwrap().value.clone());
    }
    handles.sort();
    handles
}

fn sorted(erased: &Value) -> Vec<String> {
    let keys = erased["deleted_keys"].as_array().unwrap();
    let mut keys: Vec<String> = keys
        .iter()
        .map(|key| key.as_str().unwrap().to_owned())
        .collect();
    keys.sort();
    keys
}

#[tokio::test]
async fn invalidate_by_key_erases_one_entry() {
    let fixture = Fixture::with(TestAction::new());
    for key in ["k", "k2", "k:x", "K"] {
        keep(&fixture, key).await;
    }
    assert_eq!(
        fixture.invalidate(json!({"key": "k"})).await,
        json!({
            "success": true,
            "deleted_count": 1,
            "deleted_keys": ["cache:tester:k"],
            "dry_run": false,
        })
    );
    assert_eq!(
        handles(&fixture).await,
        ["cache:tester:K", "cache:tester:k2", "cache:tester:k:x"]
    );
    let again = fixture.invalidate(json!({"key": "k"})).await;
    assert_eq!(
        (&again["success"], &again["deleted_count"]),
        (&json!(true), &json!(0))
    );
}

#[tokio::test]
async fn invalidated_action_runs_again_in_every_engine() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    let other = Setup::in_home_of(&fixture)
        .with(test_action.clone())
        .start();
    let with = json!({"action": "test.act", "args": {}, "key": "k"});
    fixture.wrap(with.clone()).await;
    // Both have it in their front now.
    assert!(is_hit(&fixture.wrap(with.clone()).await));
    assert!(is_hit(&other.wrap(with.clone()).await));
    other.invalidate(json!({"key": "k"})).await;
    assert!(!is_hit(&fixture.wrap(with.clone()).await));
    assert!(
        is_hit(&other.wrap(with).await),
        "what the first has stored since"
    );
    assert_eq!(test_action.runs(), 2);
}

#[tokio::test]
async fn pattern_matches_complete_handles() {
    let one = Setup::default()
        .agent("agent1")
        .with(TestAction::new())
        .with(TestAction::named("llm.fake"))
        .start();
    let two = Setup::in_home_of(&one)
        .agent("agent2")
        .with(TestAction::new())
        .with(TestAction::named("llm.fake"))
        .start();
    let fill = async || {
        for fixture in [&one, &two] {
            fixture.invalidate(json!({"pattern": "cache:*"})).await;
        }
        for fixture in [&one, &two] {
            fixture.wrapped("llm.fake", json!({"x": 1})).await;
            keep(fixture, "extract:1").await;
        }
        assert_eq!(handles(&one).await.len(), 4);
    };
    for (pattern, erased) in [
        ("cache:agent1:*", 2),
        ("cache:*", 4),
        ("*", 4),
        ("**", 4),
        ("cache:*:llm.fake:*", 2),
        ("cache:agent2:extract:1", 1),
        ("cache:agent2:extract:", 0),
        ("*extract*", 2),
        ("cache:*:extract:1", 2),
        ("cache:agent1", 0),
        ("CACHE:*", 0),
    ] {
        fill().await;
        let answer = one.invalidate(json!({"pattern": pattern})).await;
        assert_eq!(answer["deleted_count"], erased, "{pattern}: {answer}");
        assert_eq!(handles(&one).await.len(), 4 - erased);
    }
}

#[tokio::test]
async fn pattern_without_agent_matches_the_own_agent() {
    let fixture = Setup::default()
        .agent("docs")
        .with(TestAction::new())
        .start();
    let other = Setup::in_home_of(&fixture)
        .agent("other")
        .with(TestAction::new())
        .start();
    for key in ["extract:a", "extract:b", "translate:a"] {
        keep(&fixture, key).await;
        keep(&other, key).await;
    }
    let erased = fixture
        .invalidate(json!({"pattern": "cache:extract:*"}))
        .await;
    assert_eq!(
        sorted(&erased),
        ["cache:docs:extract:a", "cache:docs:extract:b"]
    );
    let erased = fixture.invalidate(json!({"pattern": "translate:*"})).await;
    assert_eq!(sorted(&erased), ["cache:docs:translate:a"]);
    assert_eq!(handles(&fixture).await.len(), 3, "the other agent's stay");
}

#[tokio::test]
async fn star_is_the_only_wildcard_of_a_pattern() {
    let fixture = Fixture::with(TestAction::new());
    for key in [
        "a?c",
        "abc",
        "a[b]c",
        "a\\*c",
        "line\nbreak",
        "line\nbreak\n",
        "a*c",
    ] {
        keep(&fixture, key).await;
    }
    for (pattern, expected) in [
        ("a?c", vec!["cache:tester:a?c"]),
        ("a[b]c", vec!["cache:tester:a[b]c"]),
        ("a\\*c", vec!["cache:tester:a\\*c"]),
        ("line\nbreak", vec!["cache:tester:line\nbreak"]),
        ("line*break\n", vec!["cache:tester:line\nbreak\n"]),
        ("a*c", vec!["cache:tester:a*c", "cache:tester:abc"]),
    ] {
        let erased = fixture.invalidate(json!({"pattern": pattern})).await;
        assert_eq!(sorted(&erased), expected, "{pattern:?}");
    }
    assert!(handles(&fixture).await.is_empty());
}

#[tokio::test]
async fn literal_star_in_a_key_is_erased_by_key() {
    let fixture = Fixture::with(TestAction::new());
    for key in ["a*c", "abc"] {
        keep(&fixture, key).await;
    }
    assert_eq!(
        sorted(&fixture.invalidate(json!({"key": "a*c"})).await),
        ["cache:tester:a*c"]
    );
    assert_eq!(handles(&fixture).await, ["cache:tester:abc"]);
}

#[tokio::test]
async fn metadata_filter_matches_entries_of_all_agents() {
    let extract = || TestAction::named("llamaextract.fake");
    let one = Setup::default()
        .agent("one")
        .with(extract())
        .with(TestAction::new())
        .start();
    let two = Setup::in_home_of(&one)
        .agent("two")
        .with(extract())
        .with(TestAction::new())
        .start();
    for fixture in [&one, &two] {
        fixture.wrapped("llamaextract.fake", json!({"x": 1})).await;
        keep(fixture, "k").await;
    }
    let manager = Setup::in_home_of(&one)
        .agent("cache_management_agent")
        .start();
    let filter = json!({"metadata_filter": {"_cache_action": "llamaextract.fake"}});
    let erased = manager.invalidate(filter).await;
    assert_eq!(erased["deleted_count"], 2, "{erased}");
    assert_eq!(handles(&one).await, ["cache:one:k", "cache:two:k"]);
    let by_key =
        json!({"metadata_filter": {"_cache_key": "cache:two:k", "_cache_type": "action_result"}});
    assert_eq!(sorted(&manager.invalidate(by_key).await), ["cache:two:k"]);
    let all = json!({"metadata_filter": {"_cache_type": "action_result"}});
    assert_eq!(manager.invalidate(all).await["deleted_count"], 1);
}

#[tokio::test]
async fn metadata_filter_accepts_both_names_of_an_action() {
    let fixture = Fixture::with(TestAction::new());
    fixture.wrapped("json.parse", json!({"text": "1"})).await;
    let filter = json!({"metadata_filter": {"_cache_action": "actions.json_parse"}});
    assert_eq!(fixture.invalidate(filter).await["deleted_count"], 1);
}

#[tokio::test]
async fn pattern_and_filter_must_both_match() {
    let fixture = Fixture::with(TestAction::new());
    let tagged = |key: &str, tag: &str| json!({"action": "test.act", "args": {}, "key": key, "tags": [tag, "all"]});
    for (key, tag) in [("a:1", "red"), ("a:2", "blue"), ("b:1", "red")] {
        fixture.wrap(tagged(key, tag)).await;
    }
    let both = json!({
        "pattern": "a:*", "tags": ["red"], "metadata_filter": {"_cache_action": "test.act"},
    });
    assert_eq!(
        sorted(&fixture.invalidate(both).await),
        ["cache:tester:a:1"]
    );
    // A key is on top of what the rest matches.
    let and_key = json!({"key": "b:1", "pattern": "a:*", "tags": ["all"]});
    assert_eq!(
        sorted(&fixture.invalidate(and_key).await),
        ["cache:tester:a:2", "cache:tester:b:1"]
    );
}

#[tokio::test]
async fn tags_match_entries_of_all_agents_and_all_are_required() {
    let one = Fixture::with(TestAction::new());
    let two = Setup::in_home_of(&one)
        .agent("two")
        .with(TestAction::new())
        .start();
    let tagged = |key: &str, tags: Value| json!({"action": "test.act", "args": {}, "key": key, "tags": tags});
    one.wrap(tagged("a", json!(["x", "y"]))).await;
    one.wrap(tagged("b", json!("x"))).await;
    two.wrap(tagged("c", json!(["y", "x"]))).await;
    two.wrap(tagged("d", json!([]))).await;
    let both = two.invalidate(json!({"tags": ["x", "y"]})).await;
    assert_eq!(sorted(&both), ["cache:tester:a", "cache:two:c"]);
    assert_eq!(
        sorted(&two.invalidate(json!({"tags": "x"})).await),
        ["cache:tester:b"]
    );
    assert_eq!(
        two.invalidate(json!({"tags": "none"})).await["deleted_count"],
        0
    );
    assert_eq!(handles(&one).await, ["cache:two:d"]);
}

#[tokio::test]
async fn a_dry_run_only_reports() {
    let fixture = Fixture::with(TestAction::new());
    for key in ["a:1", "a:2", "b"] {
        keep(&fixture, key).await;
    }
    let with = json!({"key": "a:1", "pattern": "a:*", "dry_run": "true"});
    let reported = fixture.invalidate(with).await;
    assert_eq!(
        (&reported["dry_run"], &reported["deleted_count"]),
        (&json!(true), &json!(0))
    );
    assert_eq!(
        sorted(&reported),
        ["cache:tester:a:1", "cache:tester:a:2"],
        "each once"
    );
    assert_eq!(handles(&fixture).await.len(), 3);
}

#[tokio::test]
async fn invalid_or_missing_criteria_are_refused() {
    let fixture = Fixture::with(TestAction::new());
    keep(&fixture, "k").await;
    for (with, named) in [
        (
            json!({}),
            "one of `key`, `pattern`, `metadata_filter`, `tags`",
        ),
        (json!({"metadata_filter": {}}), "one of"),
        (json!({"tags": []}), "one of"),
        (json!({"key": null, "pattern": null}), "one of"),
        (json!({"dry_run": true}), "one of"),
        (json!({"key": ""}), "empty"),
        (json!({"pattern": ""}), "empty"),
        (
            json!({"metadata_filter": {"_cache_acton": "x"}}),
            "did you mean `_cache_action`",
        ),
        (
            json!({"metadata_filter": {"_cache_action": 5}}),
            "must be text",
        ),
        (
            json!({"metadata_filter": {"_cache_type": "other"}}),
            "`other`",
        ),
        (json!({"metadata_filter": ["x"]}), "metadata_filter"),
        (json!({"patern": "*"}), "did you mean `pattern`"),
    ] {
        let failure = fixture.fails("cache.invalidate", with.clone()).await;
        assert_eq!(failure.kind, "validation_error", "{with}");
        assert!(failure.message.contains(named), "{with}: {failure}");
    }
    assert_eq!(handles(&fixture).await.len(), 1);
}

#[tokio::test]
async fn filter_argument_is_not_modified() {
    let fixture = Fixture::with(TestAction::new());
    keep(&fixture, "k").await;
    let with = json!({"metadata_filter": {"_cache_action": "test.act"}, "pattern": "*"});
    let before = with.clone();
    fixture.invalidate(with.clone()).await;
    assert_eq!(with, before);
    assert_eq!(with.to_string(), before.to_string());
}

#[tokio::test]
async fn invalidate_has_no_limit_of_entries() {
    let fixture = Fixture::with(TestAction::new());
    for number in 0..1_500 {
        keep(&fixture, &format!("many:{number}")).await;
    }
    keep(&fixture, "one").await;
    for number in 0..1_100 {
        let key = format!("note {number}");
        fixture
            .ok("ltm.store", json!({"key": key, "value": number}))
            .await;
    }
    fixture.after(Duration::from_secs(1));
    // More than a thousand newer rows of others do not hide it.
    assert_eq!(
        sorted(&fixture.invalidate(json!({"pattern": "*:one"})).await),
        ["cache:tester:one"]
    );
    let reported = fixture
        .invalidate(json!({"pattern": "many:*", "dry_run": true}))
        .await;
    assert_eq!(reported["deleted_keys"].as_array().unwrap().len(), 1_500);
    let erased = fixture.invalidate(json!({"pattern": "many:*"})).await;
    assert_eq!(erased["deleted_count"], 1_500);
    assert_eq!(erased["deleted_keys"].as_array().unwrap().len(), 1_500);
    assert!(handles(&fixture).await.is_empty());
    assert_eq!(
        fixture.records("user").await.len(),
        1_100,
        "user memory is untouched"
    );
}

#[tokio::test]
async fn invalidate_erases_cache_entries_only() {
    let fixture = Fixture::with(TestAction::new());
    keep(&fixture, "k").await;
    let precious =
        json!({"key": "precious", "value": 1, "metadata": {"_cache_action": "test.act"}});
    fixture.ok("ltm.store", precious).await;
    fixture
        .ok("ltm.store", json!({"key": "plain", "value": 1}))
        .await;
    fixture
        .invalidate(json!({"metadata_filter": {"_cache_action": "test.act"}}))
        .await;
    fixture
        .invalidate(json!({"pattern": "*", "key": "precious"}))
        .await;
    assert_eq!(fixture.records("user").await.len(), 2);
    assert!(handles(&fixture).await.is_empty());
}

#[tokio::test]
async fn ltm_search_never_finds_cache_entries() {
    let test_action = TestAction::new().gives(json!({"text": "the whale is white"}));
    let fixture = Fixture::with(test_action);
    fixture
        .ok(
            "ltm.store",
            json!({"key": "note", "value": "a white whale", "metadata": {"kind": "note"}}),
        )
        .await;
    keep(&fixture, "whale").await;
    for query in [
        json!({"query": "whale"}),
        json!({}),
        json!({"metadata_filter": {"kind": "note"}}),
        json!({"query": "white", "limit": 100}),
    ] {
        let found = fixture.ok("ltm.search", query.clone()).await;
        assert_eq!(found["count"], 1, "{query}: {found}");
        assert_eq!(found["results"][0]["key"], "note");
    }
    let found = fixture.ok("ltm.search", json!({"query": "test.act"})).await;
    assert_eq!(found["count"], 0);
    assert_eq!(
        fixture
            .ok("ltm.retrieve", json!({"key": "cache:tester:whale"}))
            .await["found"],
        false
    );
    assert_eq!(
        fixture
            .ok("ltm.delete", json!({"key": "cache:tester:whale"}))
            .await["deleted"],
        false
    );
    assert_eq!(handles(&fixture).await.len(), 1);
}
