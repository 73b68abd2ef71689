//! Why a call was answered as it was.

use std::time::Duration;

use cachalot_cache::{
    CacheMode, CallStatus, Explanation, HANDLE_LABEL, HitPolicy, Ledger, Policy, RunPolicy, Scope,
};
use cachalot_store::Label;
use serde_json::{Value, json};

use crate::test_engine::{EngineBuilder, Question, TestEngine, clock, in_domains, in_process};

struct TestDirectory {
    here: TestEngine,
    _home: tempfile::TempDir,
}

impl TestDirectory {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let clock = clock();
        let here = EngineBuilder::over(in_process(&clock), &clock)
            .ledger(&home.path().join("ledger.db"))
            .make();
        Self { here, _home: home }
    }

    async fn ask(&self, input: Value) {
        self.here
            .ask(&Question::of(input), &Policy::default(), "x")
            .await;
    }

    async fn why(&self, what: Option<&str>) -> Option<Explanation> {
        self.ledger().flush().await;
        self.ledger().explain(what).unwrap()
    }

    async fn why_last(&self) -> Explanation {
        self.why(None).await.unwrap()
    }

    fn ledger(&self) -> &Ledger {
        self.here.cache.ledger()
    }
}

fn differences(why: &Explanation) -> Vec<(&str, Option<Value>, Option<Value>)> {
    why.differences
        .iter()
        .map(|one| (one.pointer.as_str(), one.old.clone(), one.new.clone()))
        .collect()
}

#[tokio::test]
async fn changed_argument_is_explained_with_both_values() {
    let place = TestDirectory::new();
    place
        .ask(json!({"path": "a", "options": {"depth": 1, "kinds": ["x", "y"]}}))
        .await;
    place
        .ask(json!({"path": "a", "options": {"depth": 2, "kinds": ["x", "y"]}}))
        .await;
    let why = place.why_last().await;
    assert_eq!(
        differences(&why),
        [("/options/depth", Some(json!(1)), Some(json!(2)))]
    );
    assert_eq!((why.same.is_none(), why.hidden_difference), (true, false));
    assert_eq!(why.nearest.unwrap().input.unwrap()["options"]["depth"], 1);
    assert_eq!(
        (why.call.answered, why.call.reason.as_deref()),
        (CallStatus::Miss, Some("not in the cache"))
    );
}

#[tokio::test]
async fn added_and_removed_arguments_are_explained() {
    let place = TestDirectory::new();
    place
        .ask(json!({"a/b": 1, "list": [1, 2], "same": null}))
        .await;
    place
        .ask(json!({"~": true, "list": [1], "same": null}))
        .await;
    let why = place.why_last().await;
    let mut found = differences(&why);
    found.sort_by_key(|(pointer, _, _)| *pointer);
    let expected = [
        ("/a~1b", Some(json!(1)), None),
        ("/list/1", Some(json!(2)), None),
        ("/~0", None, Some(json!(true))),
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn changed_type_is_a_difference() {
    let place = TestDirectory::new();
    place.ask(json!({"n": 1})).await;
    place.ask(json!({"n": 1.0})).await;
    let why = place.why_last().await;
    assert_eq!(why.differences.len(), 1, "{why:?}");
    place.ask(json!("whole")).await;
    assert_eq!(place.why_last().await.differences[0].pointer, "");
}

#[tokio::test]
async fn nearest_call_has_the_fewest_differences_and_is_the_newest() {
    let place = TestDirectory::new();
    place.ask(json!({"a": 1, "b": 1, "c": 1})).await;
    place.ask(json!({"a": 1, "b": 2, "c": 1})).await;
    place.ask(json!({"a": 9, "b": 9, "c": 9})).await;
    place.ask(json!({"a": 1, "b": 3, "c": 1})).await;
    let why = place.why_last().await;
    assert_eq!(differences(&why), [("/b", Some(json!(2)), Some(json!(3)))]);
}

#[tokio::test]
async fn calls_of_other_names_and_scopes_and_later_calls_are_not_compared() {
    let place = TestDirectory::new();
    let base = Question::of(json!({"a": 1}));
    let other_scope = Question {
        scope: Scope::Agent("other".into()),
        ..base.clone()
    };
    for question in [&base.clone().named("other"), &other_scope, &base] {
        place.here.ask(question, &Policy::default(), "x").await;
    }
    place
        .here
        .ask(
            &Question::of(json!({"a": 2})).named("later"),
            &Policy::default(),
            "x",
        )
        .await;
    let why = place.why(Some(&base.key().to_string())).await.unwrap();
    assert!(
        why.nearest.is_none() && why.same.is_none() && why.differences.is_empty(),
        "{why:?}"
    );
}

#[tokio::test]
async fn repeated_key_is_explained_by_its_reason_without_differences() {
    let place = TestDirectory::new();
    let question = Question::number(1);
    let policy = Policy {
        run: RunPolicy {
            ttl: Some(Duration::from_secs(5)),
            ..in_domains(&["d"]).run
        },
        ..in_domains(&["d"])
    };
    place.here.ask(&question, &policy, "x").await;
    place.here.after(Duration::from_secs(5));
    place.here.ask(&question, &policy, "x").await;
    let why = place.why_last().await;
    assert_eq!(why.call.reason.as_deref(), Some("expired"));
    let same = why.same.unwrap();
    assert_eq!(
        (same.reason.as_deref(), why.nearest.is_none()),
        (Some("not in the cache"), true)
    );
    assert!(same.id < why.call.id);
    place
        .here
        .cache
        .write_guard(&policy.hit.domains)
        .await
        .finish()
        .await
        .unwrap();
    place.here.ask(&question, &policy, "x").await;
    assert_eq!(
        place.why_last().await.call.reason.as_deref(),
        Some("d was written to since")
    );
}

#[tokio::test]
async fn a_hit_is_explained_by_the_call_that_paid() {
    let place = TestDirectory::new();
    place.ask(json!(1)).await;
    place.ask(json!(1)).await;
    let why = place.why_last().await;
    assert_eq!(
        (why.call.answered, why.same.unwrap().answered),
        (CallStatus::Hit, CallStatus::Miss)
    );
}

#[tokio::test]
async fn the_last_call_is_the_newest_row_despite_hits() {
    let place = TestDirectory::new();
    place.ask(json!({"n": 1})).await;
    place.ask(json!({"n": 1})).await;
    place.ask(json!({"n": 2})).await;
    let why = place.why_last().await;
    assert_eq!(why.call.answered, CallStatus::Miss);
    assert_eq!(differences(&why), [("/n", Some(json!(1)), Some(json!(2)))]);
}

#[tokio::test]
async fn call_is_found_by_key_or_handle() {
    let place = TestDirectory::new();
    let question = Question::number(1);
    let policy = Policy {
        run: RunPolicy {
            labels: vec![Label::new(HANDLE_LABEL, "cache:tester:one")],
            ..RunPolicy::default()
        },
        ..Policy::default()
    };
    place.here.ask(&question, &policy, "x").await;
    place
        .here
        .ask(&Question::number(2), &Policy::default(), "x")
        .await;
    for text in [question.key().to_string(), "cache:tester:one".into()] {
        assert_eq!(
            place.why(Some(&text)).await.unwrap().call.key,
            question.key().to_string()
        );
    }
    assert!(place.why(Some("cache:tester:two")).await.is_none());
    assert!(
        place
            .why(Some(&Question::number(3).key().to_string()))
            .await
            .is_none()
    );
    place.here.ask(&question, &policy, "").await;
    assert_eq!(
        place
            .why(Some("cache:tester:one"))
            .await
            .unwrap()
            .call
            .answered,
        CallStatus::Hit
    );
}

#[tokio::test]
async fn truncated_inputs_report_a_hidden_difference() {
    let place = TestDirectory::new();
    let long = |n: usize| {
        let items: Vec<String> = (0..200)
            .map(|i| format!("{i} {n} {}", "x".repeat(1_500)))
            .collect();
        json!({ "items": items })
    };
    place.ask(long(1)).await;
    place.ask(long(2)).await;
    let why = place.why_last().await;
    assert!(why.call.input.is_none());
    assert!(
        why.differences.is_empty() && why.hidden_difference,
        "{:?}",
        why.nearest
    );
    assert!(why.nearest.is_some());
}

#[tokio::test]
async fn refused_calls_are_compared_with_calls_that_were_answered() {
    let place = TestDirectory::new();
    place.ask(json!({"text": "a", "session": 1})).await;
    let frozen = Policy {
        hit: HitPolicy {
            mode: CacheMode::Frozen,
            ..HitPolicy::default()
        },
        ..Policy::default()
    };
    let refused = [
        json!({"text": "b", "session": 2}),
        // Nearer to the call before, which has no answer either.
        json!({"text": "a", "session": 2}),
        json!({"text": "a", "session": 2}),
    ];
    for input in refused {
        let question = Question::of(input);
        let begun = place.here.cache.begin(&question.call(), &frozen).await;
        assert!(begun.is_err());
    }
    place.ledger().flush().await;
    let explained = place.ledger().explain_refused(10).unwrap();
    let shown: Vec<_> = explained
        .iter()
        .map(|(why, number)| (differences(why).len(), why.same.is_some(), *number))
        .collect();
    assert_eq!(shown, [(2, false, 1), (1, false, 2)]);
    assert_eq!(explained[1].0.differences[0].pointer, "/session");
    assert_eq!(place.ledger().explain_refused(1).unwrap().len(), 1);
    let last = place.why_last().await;
    assert_eq!((last.same, last.differences.len()), (None, 1));
}

#[tokio::test]
async fn misses_that_are_not_stored_are_counted_by_their_reasons() {
    let place = TestDirectory::new();
    place.ask(json!({"text": "stored"})).await;
    let small = Policy {
        run: RunPolicy {
            max_bytes: 0,
            ..RunPolicy::default()
        },
        ..Policy::default()
    };
    for text in ["a", "b"] {
        let question = Question::of(json!({ "text": text }));
        place.here.ask(&question, &small, "x").await;
    }
    place.ledger().flush().await;
    let reason = "too large: 1 bytes, at most 0 are kept".to_owned();
    let unstored = place.ledger().unstored_misses().unwrap();
    assert_eq!(unstored, [(reason, 2)]);
}
