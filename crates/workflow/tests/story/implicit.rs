//! What is not in the arguments and still makes another call, or another answer.

use std::time::Duration;

use serde_json::{Value, json};

use crate::acts::Act;
use crate::world::{Setup, World, is_hit, text};

fn call(further: Value) -> Value {
    let mut with = json!({"action": "test.act", "args": {"x": 1}});
    with.as_object_mut()
        .unwrap()
        .extend(further.as_object().unwrap().clone());
    with
}

#[tokio::test]
async fn the_version_of_an_action_is_keyed() {
    let old = World::with(Act::new().version(1));
    for with in [call(json!({})), call(json!({"key": "k"}))] {
        old.wrap(with.clone()).await;
        let new = Setup::in_home_of(&old).with(Act::new().version(2)).start();
        assert!(!is_hit(&new.wrap(with.clone()).await), "{with}");
        assert!(is_hit(&new.wrap(with.clone()).await));
        assert!(is_hit(&old.wrap(with).await), "each has its own entry");
    }
}

#[tokio::test]
async fn a_version_in_the_file_starts_afresh() {
    let world = World::with(Act::new());
    for with in [
        json!({}),
        json!({"version": 1}),
        json!({"version": "1"}),
        json!({"version": 2}),
    ] {
        assert!(!is_hit(&world.wrap(call(with.clone())).await), "{with}");
        assert!(is_hit(&world.wrap(call(with)).await));
    }
    assert!(
        is_hit(&world.wrap(call(json!({"version": null}))).await),
        "null is none"
    );
}

#[tokio::test]
async fn implicit_inputs_are_keyed() {
    let act = Act::new().implies(|_, runtime| Ok(runtime.settings["base_url"].clone()));
    let one = Setup::default()
        .settings(json!({"base_url": "a"}))
        .with(act.clone())
        .start();
    one.wrap(call(json!({}))).await;
    one.wrap(call(json!({"key": "k"}))).await;
    let two = Setup::in_home_of(&one)
        .settings(json!({"base_url": "b"}))
        .with(act.clone())
        .start();
    assert!(!is_hit(&two.wrap(call(json!({}))).await));
    assert!(
        !is_hit(&two.wrap(call(json!({"key": "k"}))).await),
        "custom keys too"
    );
    assert!(is_hit(&one.wrap(call(json!({}))).await));
}

#[tokio::test]
async fn an_action_without_known_inputs_runs_uncached() {
    let act = Act::new().implies(|_, _| {
        Err(cachalot_workflow::Failure::new(
            "boom",
            "the base URL is not set",
        ))
    });
    let world = World::with(act.clone());
    for _ in 0..2 {
        let response = world.wrap(call(json!({}))).await;
        assert_eq!(response["_cache_stored"], false);
        assert_eq!(
            text(&response, "_cache_reason"),
            "no key: the base URL is not set"
        );
    }
    assert_eq!(act.runs(), 2);
}

fn shell(command: &[&str], environment: Value) -> Value {
    json!({"action": "shell.run", "args": {"command": command, "environment": environment}})
}

#[cfg(unix)]
#[tokio::test]
async fn the_working_directory_of_a_program_is_keyed() {
    let one = World::with(Act::new());
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
async fn the_variables_that_a_program_is_given_are_keyed_and_no_others() {
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
async fn a_file_that_the_answer_depends_on_makes_it_stale_when_it_changes() {
    let act = Act::new();
    let world = World::with(act.clone());
    let file = world.file("rules.txt", "one");
    let with = call(json!({"depends_on": [file]}));
    world.wrap(with.clone()).await;
    assert!(is_hit(&world.wrap(with.clone()).await));
    world.file("rules.txt", "two");
    let changed = world.wrap(with.clone()).await;
    assert!(!is_hit(&changed));
    let reason = text(&changed, "_cache_reason");
    assert!(
        reason.starts_with("changed since: ") && reason.contains("rules.txt"),
        "{reason}"
    );
    assert!(is_hit(&world.wrap(with.clone()).await));
    std::fs::remove_file(&file).unwrap();
    assert!(!is_hit(&world.wrap(with.clone()).await), "it is gone");
    assert!(
        is_hit(&world.wrap(with.clone()).await),
        "and it is still gone"
    );
    world.file("rules.txt", "two");
    assert!(!is_hit(&world.wrap(with).await), "it is back");
    assert_eq!(act.runs(), 4);
}

#[tokio::test]
async fn a_file_that_is_only_touched_makes_nothing_stale() {
    let world = World::with(Act::new());
    let file = world.file("rules.txt", "one");
    let with = call(json!({"depends_on": file}));
    world.wrap(with.clone()).await;
    let times = std::fs::FileTimes::new()
        .set_modified(std::time::SystemTime::now() + Duration::from_secs(60));
    std::fs::File::options()
        .append(true)
        .open(&file)
        .unwrap()
        .set_times(times)
        .unwrap();
    assert!(is_hit(&world.wrap(with.clone()).await));
    world.file("rules.txt", "one");
    assert!(
        is_hit(&world.wrap(with).await),
        "written again with the same content"
    );
}

#[tokio::test]
async fn a_directory_that_the_answer_depends_on_is_watched_by_its_listing() {
    let world = World::with(Act::new());
    world.file("rules/a", "1");
    let with = call(json!({"depends_on": ["rules"]}));
    world.wrap(with.clone()).await;
    assert!(is_hit(&world.wrap(with.clone()).await));
    world.file("rules/b", "2");
    assert!(!is_hit(&world.wrap(with.clone()).await), "one more");
    std::fs::remove_file(world.path("rules/a")).unwrap();
    assert!(!is_hit(&world.wrap(with.clone()).await), "one less");
    assert!(is_hit(&world.wrap(with).await));
}

#[tokio::test]
async fn a_result_is_not_stored_if_its_inputs_change_during_the_run() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "before").unwrap();
    let path = file.path().to_owned();
    let act = Act::new().answers(move |run, _| {
        if run == 1 {
            std::fs::write(&path, "after!").unwrap();
        }
        Ok(json!(run))
    });
    let world = World::with(act);
    let with = call(json!({"depends_on": [file.path()]}));
    let torn = world.wrap(with.clone()).await;
    assert_eq!(torn["_cache_stored"], false);
    assert!(
        text(&torn, "_cache_reason").starts_with("changed since: "),
        "{torn}"
    );
    assert_eq!(world.wrap(with).await["_cache_stored"], true);
}

#[tokio::test]
async fn depends_on_is_part_of_the_key() {
    let world = World::with(Act::new());
    let (a, b) = (world.file("a", "1"), world.file("b", "1"));
    for depends_on in [json!([]), json!([a]), json!([b]), json!([a, b])] {
        let with = call(json!({"depends_on": depends_on}));
        assert!(!is_hit(&world.wrap(with).await), "{depends_on}");
    }
    let remote = call(json!({"depends_on": ["https://example.org/x"]}));
    let response = world.wrap(remote).await;
    assert!(
        text(&response, "_cache_reason").contains("local paths"),
        "{response}"
    );
}

fn nested(inner: Value) -> Value {
    json!({"action": "cache.wrap", "args": inner, "key_strategy": "args"})
}

#[tokio::test]
async fn an_outer_wrap_answers_without_its_inner_wrap() {
    let act = Act::new();
    let world = World::with(act.clone());
    let with = nested(call(json!({"key": "inner"})));
    let miss = world.wrap(with.clone()).await;
    assert_eq!(text(&miss["result"], "_cache_key"), "cache:tester:inner");
    assert_eq!(world.entries().await.len(), 2);
    let hit = world.wrap(with).await;
    assert!(is_hit(&hit));
    assert_eq!(hit["result"], miss["result"]);
    assert!(is_hit(&world.wrap(call(json!({"key": "inner"}))).await));
    assert_eq!(act.runs(), 1);
}

#[tokio::test]
async fn an_outer_wrap_keys_the_inputs_of_its_inner_wrap() {
    let act = Act::new().implies(|_, runtime| Ok(runtime.settings["base_url"].clone()));
    let one = Setup::default()
        .settings(json!({"base_url": "a"}))
        .with(act.clone())
        .start();
    one.wrap(nested(call(json!({})))).await;
    assert!(is_hit(&one.wrap(nested(call(json!({})))).await));
    let two = Setup::in_home_of(&one)
        .settings(json!({"base_url": "b"}))
        .with(act.clone())
        .start();
    assert!(
        !is_hit(&two.wrap(nested(call(json!({})))).await),
        "another base URL"
    );
    let newer = Setup::in_home_of(&one).settings(json!({"base_url": "a"}));
    let newer = newer.with(act.clone().version(2)).start();
    assert!(
        !is_hit(&newer.wrap(nested(call(json!({})))).await),
        "another version"
    );
}

#[tokio::test]
async fn a_wrap_in_a_wrap_is_not_stale_when_a_file_of_the_inner_one_changes() {
    let world = World::with(Act::new());
    let file = world.file("f", "one");
    for inner in [
        json!({"action": "test.act", "args": {"file": file}, "key_strategy": "file_content"}),
        json!({"action": "test.act", "args": {"x": 1}, "depends_on": [file]}),
        nested(json!({"action": "test.act", "args": {"x": 2}, "depends_on": [file]})),
    ] {
        world.file("f", "one");
        let one = world.wrap(nested(inner.clone())).await;
        world.file("f", "another");
        let other = world.wrap(nested(inner)).await;
        let run = |response: &Value| response.pointer("/result/result").unwrap().clone();
        assert_ne!(run(&one), run(&other));
    }
}

#[tokio::test]
async fn followers_and_later_callers_do_not_pay_for_a_nested_call_twice() {
    let act = Act::new();
    let world = World::with(act.clone());
    let disabled_inside = nested(call(json!({"cache_enabled": false})));
    world.wrap(disabled_inside.clone()).await;
    assert!(
        is_hit(&world.wrap(disabled_inside).await),
        "the outer one is cached"
    );
    assert_eq!(act.runs(), 1);
}
