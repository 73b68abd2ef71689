//! Inputs besides the arguments that change the key or the answer.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::{Fixture, Setup, is_hit, text};
use crate::test_actions::TestAction;

fn call(further: Value) -> Value {
    let mut with = json!({"action": "test.act", "args": {"x": 1}});
    with.as_object_mut()
        .unwrap()
        .extend(further.as_object().unwrap().clone());
    with
}

#[tokio::test]
async fn the_version_of_an_action_is_keyed() {
    let old = Fixture::with(TestAction::new().version(1));
    for with in [call(json!({})), call(json!({"key": "k"}))] {
        old.wrap(with.clone()).await;
        let new = Setup::in_home_of(&old)
            .with(TestAction::new().version(2))
            .start();
        assert!(!is_hit(&new.wrap(with.clone()).await), "{with}");
        assert!(is_hit(&new.wrap(with.clone()).await));
        assert!(is_hit(&old.wrap(with).await), "each has its own entry");
    }
}

#[tokio::test]
async fn version_in_the_file_invalidates_earlier_entries() {
    let fixture = Fixture::with(TestAction::new());
    for with in [
        json!({}),
        json!({"version": 1}),
        json!({"version": "1"}),
        json!({"version": 2}),
    ] {
        assert!(!is_hit(&fixture.wrap(call(with.clone())).await), "{with}");
        assert!(is_hit(&fixture.wrap(call(with)).await));
    }
    assert!(
        is_hit(&fixture.wrap(call(json!({"version": null}))).await),
        "null is none"
    );
}

#[tokio::test]
async fn implicit_inputs_are_keyed() {
    let test_action =
        TestAction::new().implies(|_, runtime| Ok(runtime.settings["base_url"].clone()));
    let one = Setup::default()
        .settings(json!({"base_url": "a"}))
        .with(test_action.clone())
        .start();
    one.wrap(call(json!({}))).await;
    one.wrap(call(json!({"key": "k"}))).await;
    let two = Setup::in_home_of(&one)
        .settings(json!({"base_url": "b"}))
        .with(test_action.clone())
        .start();
    assert!(!is_hit(&two.wrap(call(json!({}))).await));
    assert!(
        !is_hit(&two.wrap(call(json!({"key": "k"}))).await),
        "custom keys too"
    );
    assert!(is_hit(&one.wrap(call(json!({}))).await));
}

#[tokio::test]
async fn action_whose_inputs_are_unknown_runs_uncached() {
    let test_action = TestAction::new().implies(|_, _| {
        Err(cachalot_workflow::Failure::new(
            "boom",
            "the base URL is not set",
        ))
    });
    let fixture = Fixture::with(test_action.clone());
    for _ in 0..2 {
        let response = fixture.wrap(call(json!({}))).await;
        assert_eq!(response["_cache_stored"], false);
        assert_eq!(
            text(&response, "_cache_reason"),
            "no key: the base URL is not set"
        );
    }
    assert_eq!(test_action.runs(), 2);
}

fn shell(command: &[&str], environment: Value) -> Value {
    json!({"action": "shell.run", "args": {"command": command, "environment": environment}})
}

#[cfg(unix)]
#[tokio::test]
async fn the_working_directory_of_a_program_is_keyed() {
    let one = Fixture::with(TestAction::new());
    let elsewhere = tempfile::tempdir().unwrap();
    let two = Setup::in_home_of(&one).directory(elsewhere.path()).start();
    let here = one.wrap(shell(&["pwd"], json!([]))).await;
    let there = two.wrap(shell(&["pwd"], json!([]))).await;
    assert!(!is_hit(&there));
    assert_ne!(here["result"]["stdout"], there["result"]["stdout"]);
    assert!(is_hit(&one.wrap(shell(&["pwd"], json!([]))).await));
}

#[cfg(unix)]
#[tokio::test]
async fn exactly_the_passed_variables_are_keyed() {
    let one = Setup::default()
        .variable("GREETING", "hello")
        .variable("OTHER", "1")
        .start();
    let print = shell(&["sh", "-c", "echo $GREETING"], json!(["GREETING"]));
    assert_eq!(one.wrap(print.clone()).await["result"]["stdout"], "hello\n");
    let same = Setup::in_home_of(&one)
        .variable("GREETING", "hello")
        .variable("OTHER", "2");
    assert!(is_hit(&same.start().wrap(print.clone()).await));
    let other = Setup::in_home_of(&one)
        .variable("GREETING", "goodbye")
        .start();
    let answer = other.wrap(print).await;
    assert!(!is_hit(&answer));
    assert_eq!(answer["result"]["stdout"], "goodbye\n");
}

#[tokio::test]
async fn depends_on_file_change_invalidates_the_entry() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    let file = fixture.file("rules.txt", "one");
    let with = call(json!({"depends_on": [file]}));
    fixture.wrap(with.clone()).await;
    assert!(is_hit(&fixture.wrap(with.clone()).await));
    fixture.file("rules.txt", "two");
    let changed = fixture.wrap(with.clone()).await;
    assert!(!is_hit(&changed));
    let reason = text(&changed, "_cache_reason");
    assert!(
        reason.starts_with("changed since: ") && reason.contains("rules.txt"),
        "{reason}"
    );
    assert!(is_hit(&fixture.wrap(with.clone()).await));
    std::fs::remove_file(&file).unwrap();
    assert!(!is_hit(&fixture.wrap(with.clone()).await), "it is gone");
    assert!(
        is_hit(&fixture.wrap(with.clone()).await),
        "and it is still gone"
    );
    fixture.file("rules.txt", "two");
    assert!(!is_hit(&fixture.wrap(with).await), "it is back");
    assert_eq!(test_action.runs(), 4);
}

#[tokio::test]
async fn depends_on_file_touch_is_a_hit() {
    let fixture = Fixture::with(TestAction::new());
    let file = fixture.file("rules.txt", "one");
    let with = call(json!({"depends_on": file}));
    fixture.wrap(with.clone()).await;
    let times = std::fs::FileTimes::new()
        .set_modified(std::time::SystemTime::now() + Duration::from_secs(60));
    std::fs::File::options()
        .append(true)
        .open(&file)
        .unwrap()
        .set_times(times)
        .unwrap();
    assert!(is_hit(&fixture.wrap(with.clone()).await));
    fixture.file("rules.txt", "one");
    assert!(
        is_hit(&fixture.wrap(with).await),
        "written again with the same content"
    );
}

#[tokio::test]
async fn depends_on_directory_is_compared_by_listing() {
    let fixture = Fixture::with(TestAction::new());
    fixture.file("rules/a", "1");
    let with = call(json!({"depends_on": ["rules"]}));
    fixture.wrap(with.clone()).await;
    assert!(is_hit(&fixture.wrap(with.clone()).await));
    fixture.file("rules/b", "2");
    assert!(!is_hit(&fixture.wrap(with.clone()).await), "one more");
    std::fs::remove_file(fixture.path("rules/a")).unwrap();
    assert!(!is_hit(&fixture.wrap(with.clone()).await), "one less");
    assert!(is_hit(&fixture.wrap(with).await));
}

#[tokio::test]
async fn a_result_is_not_stored_if_its_inputs_change_during_the_run() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "before").unwrap();
    let path = file.path().to_owned();
    let test_action = TestAction::new().answers(move |run, _| {
        if run == 1 {
            std::fs::write(&path, "after!").unwrap();
        }
        Ok(json!(run))
    });
    let fixture = Fixture::with(test_action);
    let with = call(json!({"depends_on": [file.path()]}));
    let torn = fixture.wrap(with.clone()).await;
    assert_eq!(torn["_cache_stored"], false);
    assert!(
        text(&torn, "_cache_reason").starts_with("changed since: "),
        "{torn}"
    );
    assert_eq!(fixture.wrap(with).await["_cache_stored"], true);
}

#[tokio::test]
async fn depends_on_is_part_of_the_key() {
    let fixture = Fixture::with(TestAction::new());
    let (a, b) = (fixture.file("a", "1"), fixture.file("b", "1"));
    for depends_on in [json!([]), json!([a]), json!([b]), json!([a, b])] {
        let with = call(json!({"depends_on": depends_on}));
        assert!(!is_hit(&fixture.wrap(with).await), "{depends_on}");
    }
    let remote = call(json!({"depends_on": ["https://example.org/x"]}));
    let response = fixture.wrap(remote).await;
    assert!(
        text(&response, "_cache_reason").contains("local paths"),
        "{response}"
    );
}

fn nested(inner: Value) -> Value {
    json!({"action": "cache.wrap", "args": inner, "key_strategy": "args"})
}

#[tokio::test]
async fn outer_wrap_hits_without_its_inner_wrap() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    let with = nested(call(json!({"key": "inner"})));
    let miss = fixture.wrap(with.clone()).await;
    assert_eq!(text(&miss["result"], "_cache_key"), "cache:tester:inner");
    assert_eq!(fixture.entries().await.len(), 2);
    let hit = fixture.wrap(with).await;
    assert!(is_hit(&hit));
    assert_eq!(hit["result"], miss["result"]);
    assert!(is_hit(&fixture.wrap(call(json!({"key": "inner"}))).await));
    assert_eq!(test_action.runs(), 1);
}

#[tokio::test]
async fn an_outer_wrap_keys_the_inputs_of_its_inner_wrap() {
    let test_action =
        TestAction::new().implies(|_, runtime| Ok(runtime.settings["base_url"].clone()));
    let one = Setup::default()
        .settings(json!({"base_url": "a"}))
        .with(test_action.clone())
        .start();
    one.wrap(nested(call(json!({})))).await;
    assert!(is_hit(&one.wrap(nested(call(json!({})))).await));
    let two = Setup::in_home_of(&one)
        .settings(json!({"base_url": "b"}))
        .with(test_action.clone())
        .start();
    assert!(
        !is_hit(&two.wrap(nested(call(json!({})))).await),
        "another base URL"
    );
    let newer = Setup::in_home_of(&one).settings(json!({"base_url": "a"}));
    let newer = newer.with(test_action.clone().version(2)).start();
    assert!(
        !is_hit(&newer.wrap(nested(call(json!({})))).await),
        "another version"
    );
}

#[tokio::test]
async fn file_change_of_an_inner_wrap_keeps_the_outer_entry() {
    let fixture = Fixture::with(TestAction::new());
    let file = fixture.file("f", "one");
    for inner in [
        json!({"action": "test.act", "args": {"file": file}, "key_strategy": "file_content"}),
        json!({"action": "test.act", "args": {"x": 1}, "depends_on": [file]}),
        nested(json!({"action": "test.act", "args": {"x": 2}, "depends_on": [file]})),
    ] {
        fixture.file("f", "one");
        let one = fixture.wrap(nested(inner.clone())).await;
        fixture.file("f", "another");
        let other = fixture.wrap(nested(inner)).await;
        let run = |response: &Value| response.pointer("/result/result").unwrap().clone();
        assert_ne!(run(&one), run(&other));
    }
}

#[tokio::test]
async fn nested_call_is_paid_once_for_followers_and_later_callers() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    let disabled_inside = nested(call(json!({"cache_enabled": false})));
    fixture.wrap(disabled_inside.clone()).await;
    assert!(
        is_hit(&fixture.wrap(disabled_inside).await),
        "the outer one is cached"
    );
    assert_eq!(test_action.runs(), 1);
}
