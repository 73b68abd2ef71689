//! Failures: raised, left in the state, taken care of, tried again; and what they show.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::fixture::{Fixture, fails, fields, run};

#[tokio::test]
async fn transient_failures_are_retried_with_growing_delays() {
    let text = |fails: u32, more: &str| {
        format!(
            "
nodes:
  - name: flaky
    uses: test.echo
    with: {{value: 1, kind: passing, fails: {fails}}}
    output: got
    on_error: {{mode: retry, max_retries: 3, retry_delay: 0.005, backoff_multiplier: 3{more}}}
"
        )
    };
    let fixture = Fixture::new();
    let began = Instant::now();
    let state = fixture.run(&text(3, ""), json!({})).await.unwrap();
    assert_eq!(state["got"], json!(1));
    assert!(began.elapsed() >= Duration::from_millis(5 + 15 + 45));
    assert_eq!(
        fixture.reported.shown(),
        [
            "+ flaky",
            "~ flaky: 2 after 5ms",
            "~ flaky: 3 after 15ms",
            "~ flaky: 4 after 45ms",
            "- flaky"
        ]
    );
    let failure = fails(&text(4, ""), json!({})).await;
    assert_eq!((failure.kind, failure.retryable), ("timeout", true));
    let failure = fails(&text(1, ", retryable_errors: [broken]"), json!({})).await;
    assert_eq!(failure.kind, "timeout");
}

#[tokio::test]
async fn permanent_failures_are_retried_only_if_listed() {
    let text = |more: &str| {
        format!("
nodes:
  - {{name: a, uses: test.echo, with: {{value: 1, fails: 1}}, on_error: {{max_retries: 2, retry_delay: 0{more}}}}}
")
    };
    let fixture = Fixture::new();
    fixture.run(&text(""), json!({})).await.unwrap_err();
    assert_eq!(fixture.reported.runs.load(Ordering::SeqCst), 1);
    let fixture = Fixture::new();
    fixture
        .run(&text(", retryable_errors: [broken]"), json!({}))
        .await
        .unwrap();
    assert_eq!(fixture.reported.runs.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn on_error_raises_keeps_the_error_or_uses_a_fallback() {
    let text = |on_error: &str| {
        format!(
            "
nodes:
  - {{name: a, uses: test.echo, with: {{value: x, fails: 1}}{on_error}}}
  - {{name: b, run: '{{\"b\": true}}', goto: __end__}}
  - {{name: rescue, run: '{{\"rescued\": true}}'}}
"
        )
    };
    let failure = fails(&text(""), json!({})).await;
    assert_eq!(failure.to_string(), "node `a` failed: failure 1 of \"x\"");
    assert_eq!(failure.place.unwrap().line, 3);
    let error = json!({"node": "a", "error": "failure 1 of \"x\"", "error_type": "broken"});
    let state = run(&text(", on_error: {mode: graceful}"), json!({})).await;
    assert_eq!(state, json!({"__error__": error, "b": true}));
    let state = run(&text(", on_error: {fallback: rescue}"), json!({})).await;
    assert_eq!(state, json!({"__error__": error, "rescued": true}));
}

#[tokio::test]
async fn graceful_step_failure_continues_its_node() {
    let text = "
nodes:
  - name: all
    steps:
      - {name: a, uses: test.echo, with: {fails: 1}, on_error: {mode: graceful}}
      - {name: b, run: '{\"b\": true}'}
";
    let state = run(text, json!({})).await;
    assert_eq!(fields(&state, &["b"]), json!([true]));
    assert_eq!(state["__error__"]["node"], json!("all/a"));
}

#[tokio::test]
async fn inline_code_failure_has_printed_text_and_its_line() {
    let fixture = Fixture::new();
    let text = "
nodes:
  - name: code
    run: |
      print(\"hello\")
      fail
";
    let failure = fixture.run(text, json!({})).await.unwrap_err();
    assert_eq!(
        failure.place.as_ref().unwrap().to_string(),
        "agent.yaml:6:7"
    );
    assert_eq!(
        fixture.reported.shown(),
        ["+ code", "> code: hello", "! code: it failed"]
    );
}

#[tokio::test]
async fn failures_and_events_contain_no_secret() {
    let fixture = Fixture::new();
    let text = "
nodes:
  - {name: a, uses: test.echo, with: {value: 'x {{ secrets.TOKEN }}', fails: 1}, on_error: {mode: graceful}}
  - {name: b, uses: test.echo, with: {value: '{{ secrets.TOKEN + 1 }}'}}
";
    let failure = fixture.run(text, json!({})).await.unwrap_err();
    let reported = format!("{failure:?} {:?}", fixture.reported.shown());
    assert!(!reported.contains("hunter2"), "{reported}");
    assert!(reported.contains("[secret]"), "{reported}");
}

#[tokio::test]
async fn undefined_input_is_named_with_the_inputs_that_were_given() {
    let text = "
initial_state: {language: en}
nodes:
  - {name: one, uses: test.echo, with: {value: 1}, output: first}
  - {name: two, uses: test.echo, with: {value: 'a {{ state.file_path }}'}}
";
    let failure = fails(text, json!({"file": "x"})).await;
    assert_eq!(
        failure.message,
        "`state.file_path` is undefined; inputs given: `language`, `file`; set since: `first`: set it before, or give it a value with `| default(…)`"
    );
    let text = "nodes: [{name: one, uses: test.echo, with: {value: 'a {{ state.file_path }}'}}]";
    let failure = fails(text, json!({})).await;
    assert!(
        failure
            .message
            .starts_with("`state.file_path` is undefined; no inputs given: "),
        "{failure}"
    );
}

#[tokio::test]
async fn failed_run_leaves_the_fields_that_were_set_until_then() {
    let text = "
initial_state: {a: 1}
nodes:
  - {name: one, uses: test.echo, with: {value: 2}, output: b}
  - name: two
    steps:
      - {name: three, uses: test.echo, with: {value: 3}, output: c}
      - {name: four, uses: test.echo, with: {value: 4, fails: 1}, output: d}
  - {name: five, uses: test.echo, with: {value: 5}, output: e}
";
    let (ended, state) = Fixture::new().run_in(text, json!({"input": 0})).await;
    assert_eq!(ended.unwrap_err().node, "two/four");
    assert_eq!(state, json!({"a": 1, "input": 0, "b": 2, "c": 3}));
    // A failure that the file handles restores the state from before its node.
    let text = text.replace("    steps:", "    on_error: {mode: graceful}\n    steps:");
    let (ended, state) = Fixture::new().run_in(&text, json!({})).await;
    assert!(ended.is_ok());
    assert_eq!(state["e"], 5);
    assert_eq!(state.get("c"), None);
}
