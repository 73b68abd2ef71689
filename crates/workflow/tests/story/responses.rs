//! Fields of the responses of `cache.wrap`.

use std::sync::Arc;

use cachalot_workflow::{Arguments, Failure};
use serde_json::{Value, json};

use crate::fixture::{Fixture, START_TEXT, is_hit, text};
use crate::test_actions::TestAction;

/// Sixty days after the start.
const EXPIRY: &str = "2027-01-20T02:42:00.123Z";

fn fields(response: &Value) -> Vec<&str> {
    let fields = response.as_object().unwrap();
    fields.keys().map(String::as_str).collect()
}

#[tokio::test]
async fn a_miss_reports_storing_and_its_reason() {
    let fixture = Fixture::with(TestAction::new());
    let response = fixture
        .wrap(json!({"action": "test.act", "args": {}, "key": "k"}))
        .await;
    assert_eq!(
        response,
        json!({
            "success": true,
            "result": {"run": 1, "given": {}},
            "_cache_hit": false,
            "_cache_key": "cache:tester:k",
            "_cache_expires_at": EXPIRY,
            "_cache_stored": true,
            "_cache_reason": "not in the cache",
        })
    );
}

#[tokio::test]
async fn a_hit_reports_the_creation_time() {
    let fixture = Fixture::with(TestAction::new());
    let call = json!({"action": "test.act", "args": {}, "key": "k"});
    fixture.wrap(call.clone()).await;
    fixture.after(std::time::Duration::from_secs(86_400));
    let expected = json!({
        "success": true,
        "result": {"run": 1, "given": {}},
        "_cache_hit": true,
        "_cache_key": "cache:tester:k",
        "_cache_created_at": START_TEXT,
        "_cache_expires_at": EXPIRY,
        "_cache_stored": true,
        "_cache_reason": null,
    });
    // From the memory's entry, then from the front: the same.
    assert_eq!(fixture.wrap(call.clone()).await, expected);
    assert_eq!(fixture.wrap(call).await, expected);
}

#[tokio::test]
async fn disabled_cache_neither_reads_nor_stores_and_has_no_key() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    fixture
        .wrap(json!({"action": "test.act", "args": {}, "key": "k"}))
        .await;
    let disabled = json!({"action": "test.act", "args": {}, "key": "k", "cache_enabled": false});
    for run in [2, 3] {
        assert_eq!(
            fixture.wrap(disabled.clone()).await,
            json!({
                "success": true,
                "result": {"run": run, "given": {}},
                "_cache_hit": false,
                "_cache_key": null,
                "_cache_expires_at": null,
                "_cache_stored": false,
                "_cache_reason": "caching is off",
            })
        );
    }
    let kept = fixture
        .wrap(json!({"action": "test.act", "args": {}, "key": "k"}))
        .await;
    assert_eq!(
        (kept["result"]["run"].clone(), test_action.runs()),
        (json!(1), 3)
    );
}

#[tokio::test]
async fn skip_cache_runs_and_stores() {
    let fixture = Fixture::with(TestAction::new());
    let call = json!({"action": "test.act", "args": {}, "key": "k"});
    let skipping = json!({"action": "test.act", "args": {}, "key": "k", "skip_cache": true});
    fixture.wrap(call.clone()).await;
    fixture.after(std::time::Duration::from_secs(10));
    assert_eq!(
        fixture.wrap(skipping).await,
        json!({
            "success": true,
            "result": {"run": 2, "given": {}},
            "_cache_hit": false,
            "_cache_key": "cache:tester:k",
            "_cache_expires_at": "2027-01-20T02:42:10.123Z",
            "_cache_stored": true,
            "_cache_reason": "a fresh answer was asked for",
        })
    );
    let after = fixture.wrap(call).await;
    assert_eq!(after["_cache_hit"], true);
    assert_eq!(after["result"]["run"], 2, "what skipping stored is served");
}

#[tokio::test]
async fn a_failed_hash_reports_no_key_and_a_reason() {
    let fixture = Fixture::with(TestAction::new());
    let call = json!({
        "action": "test.act",
        "args": {"file": "absent.pdf"},
        "key_strategy": "file_content",
    });
    let response = fixture.wrap(call).await;
    let reason = text(&response, "_cache_reason");
    assert!(
        reason.starts_with("no key: ") && reason.contains("absent.pdf"),
        "{reason}"
    );
    assert_eq!(
        response,
        json!({
            "success": true,
            "result": {"run": 1, "given": {"file": "absent.pdf"}},
            "_cache_hit": false,
            "_cache_key": null,
            "_cache_expires_at": null,
            "_cache_stored": false,
            "_cache_reason": reason,
        })
    );
}

#[tokio::test]
async fn unstored_result_has_a_reason() {
    let fixture =
        Fixture::with(TestAction::new().gives(json!({"success": false, "error": "no luck"})));
    let response = fixture
        .wrap(json!({"action": "test.act", "args": {}, "key": "k"}))
        .await;
    assert_eq!(
        response,
        json!({
            "success": false,
            "result": {"success": false, "error": "no luck"},
            "_cache_hit": false,
            "_cache_key": "cache:tester:k",
            "_cache_expires_at": null,
            "_cache_stored": false,
            "_cache_reason": "the action did not report success",
        })
    );
}

#[tokio::test]
async fn failing_action_fails_the_node_as_unwrapped() {
    let failure = Failure::transient("http_error", "the server said 503");
    let fixture = Fixture::with(TestAction::new().fails(failure));
    let bare = fixture.fails("test.act", json!({})).await;
    let wrapped = fixture
        .fails("cache.wrap", json!({"action": "test.act", "args": {}}))
        .await;
    assert_eq!(
        (wrapped.kind, &wrapped.message, wrapped.retryable),
        (bare.kind, &bare.message, bare.retryable)
    );
}

#[tokio::test]
async fn on_error_return_gives_the_error_object() {
    let test_action = TestAction::new().fails(Failure::new("http_error", "the server said 404"));
    let fixture = Fixture::with(test_action.clone());
    let call = json!({"action": "test.act", "args": {}, "key": "k", "on_error": "return"});
    let expected = json!({
        "success": false,
        "error": "the server said 404",
        "error_type": "action_error",
        "_cache_hit": false,
        "_cache_key": "cache:tester:k",
        "_cache_expires_at": null,
        "_cache_stored": false,
        "_cache_reason": "the work failed",
    });
    assert_eq!(fixture.wrap(call.clone()).await, expected);
    assert_eq!(
        fixture.wrap(call).await,
        expected,
        "a failure is not replayed"
    );
    assert_eq!(test_action.runs(), 2);
    let off =
        json!({"action": "test.act", "args": {}, "cache_enabled": false, "on_error": "return"});
    assert_eq!(fixture.wrap(off).await["_cache_key"], Value::Null);
}

#[tokio::test]
async fn on_error_return_covers_invalid_arguments() {
    let fixture = Fixture::with(TestAction::new());
    let call = json!({"action": "http.get", "args": {"url": null}, "on_error": "return"});
    let response = fixture.wrap(call).await;
    assert_eq!(response["success"], false);
    assert!(text(&response, "error").contains("`url`"), "{response}");
    let failing = json!({"action": "http.get", "args": {"url": null}});
    assert_eq!(
        fixture.fails("cache.wrap", failing).await.kind,
        "validation_error"
    );
}

#[tokio::test]
async fn unknown_action_is_not_found_with_a_suggestion() {
    let fixture = Fixture::with(TestAction::new());
    let failure = fixture
        .fails("cache.wrap", json!({"action": "test.akt", "args": {}}))
        .await;
    assert_eq!(failure.kind, "action_not_found");
    assert!(
        failure.message.contains("did you mean `test.act`?"),
        "{failure}"
    );
}

#[tokio::test]
async fn effect_only_action_is_refused() {
    let fixture = Fixture::with(TestAction::new());
    let store = json!({"action": "ltm.store", "args": {"key": "k", "value": 1}});
    let failure = fixture.fails("cache.wrap", store).await;
    assert_eq!(failure.kind, "validation_error");
    assert!(failure.message.contains("only has an effect"), "{failure}");
    assert!(fixture.records("user").await.is_empty());
}

#[tokio::test]
async fn reporter_receives_every_answer_with_its_cost() {
    let fixture = Fixture::with(TestAction::new().takes(std::time::Duration::from_millis(20)));
    let call = json!({"action": "test.act", "args": {}, "key": "k"});
    fixture.wrap(call.clone()).await;
    fixture.wrap(call).await;
    let answered = fixture.events.answered();
    let [miss, hit] = answered.as_slice() else {
        panic!("{answered:?}")
    };
    assert_eq!((miss.outcome, hit.outcome), ("miss", "hit"));
    assert_eq!(miss.handle.as_deref(), Some("cache:tester:k"));
    assert_eq!(miss.handle, hit.handle);
    assert_eq!(miss.reason.as_deref(), Some("not in the cache"));
    assert_eq!(hit.reason, None);
    assert_eq!((miss.paid.calls, miss.saved.calls), (1, 0));
    assert_eq!((hit.paid.calls, hit.saved.calls), (0, 1));
    assert_eq!(hit.saved, miss.paid, "what it saved is what it had cost");
    assert!(miss.paid.time >= std::time::Duration::from_millis(20));
}

#[tokio::test]
async fn reporter_receives_the_cost_of_a_failure() {
    let test_action = TestAction::new().fails(Failure::new("boom", "boom"));
    let fixture = Fixture::with(test_action.takes(std::time::Duration::from_millis(5)));
    fixture
        .fails("cache.wrap", json!({"action": "test.act", "args": {}}))
        .await;
    let answered = fixture.events.answered();
    let [failed] = answered.as_slice() else {
        panic!("{answered:?}")
    };
    assert_eq!((failed.outcome, failed.paid.calls), ("failed", 1));
    assert_eq!(failed.reason.as_deref(), Some("the work failed"));
}

#[tokio::test]
async fn an_error_result_is_failed_in_the_report_and_in_the_ledger() {
    for answer in [
        json!({"success": false, "error": "no luck"}),
        json!({"error": "no luck"}),
    ] {
        let fixture = Fixture::with(TestAction::new().gives(answer));
        fixture
            .wrap(json!({"action": "test.act", "args": {}, "key": "k"}))
            .await;
        let answered = fixture.events.answered();
        let outcomes: Vec<_> = answered.iter().map(|one| one.outcome).collect();
        assert_eq!(outcomes, ["failed"]);
        let ledger = fixture.runtime.cache.ledger();
        ledger.flush().await;
        let totals = ledger.totals().unwrap();
        let [(_, _, totals)] = totals.as_slice() else {
            panic!("{totals:?}")
        };
        assert_eq!((totals.failed, totals.paid_runs()), (1, 0));
    }
}

#[tokio::test]
async fn both_names_of_each_action_are_equivalent() {
    let fixture = Fixture::with(TestAction::new());
    let call = json!({"action": "test.act", "args": {}, "key": "k"});
    fixture.ok("actions.cache_wrap", call.clone()).await;
    let hit = fixture.ok("cache.wrap", call).await;
    assert_eq!(fields(&hit)[..3], ["success", "result", "_cache_hit"]);
    assert_eq!(hit["_cache_hit"], true);
    let key = json!({"key": "k"});
    let got = fixture.ok("actions.cache_get", key.clone()).await;
    assert_eq!(got, fixture.ok("cache.get", key.clone()).await);
    assert_eq!(got["found"], true);
    assert_eq!(
        fixture.ok("actions.cache_invalidate", key).await["deleted_count"],
        1
    );
}

#[tokio::test]
async fn hits_share_one_response() {
    let fixture = Fixture::with(TestAction::new());
    let action = Arc::clone(fixture.runtime.actions.get("cache.wrap").unwrap());
    let with = json!({"action": "test.act", "args": {"x": [1, 2]}});
    let arguments = action
        .metadata()
        .check(with.as_object().unwrap().clone())
        .unwrap();
    let mut responses = Vec::new();
    for _ in 0..3 {
        let response = action.run_shared(arguments.clone(), &fixture.runtime).await;
        responses.push(response.unwrap());
    }
    assert_eq!(responses[0]["result"], responses[1]["result"]);
    assert!(!is_hit(&responses[0]) && is_hit(&responses[1]));
    assert!(Arc::ptr_eq(&responses[1], &responses[2]));
}

#[tokio::test]
async fn future_of_a_wrap_is_as_small_as_the_allocator_keeps_at_hand() {
    let fixture = Fixture::with(TestAction::new());
    let action = fixture.runtime.actions.get("cache.wrap").unwrap();
    let future = action.run_shared(Arguments::new(), &fixture.runtime);
    // glibc keeps freed blocks of up to 1,032 bytes per thread; larger ones take ten times as long.
    let size = size_of_val(&*future);
    assert!(size <= 1_032, "{size}");
}
