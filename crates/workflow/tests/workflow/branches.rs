//! Parallel branches: one per edge, one per item.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::{Fixture, fails, fields, run};

const PARALLEL: &str = "
nodes:
  - {name: prepare, run: '{\"x\": 1}'}
  - {name: slow, uses: test.echo, with: {wait: 100, value: {from: slow, x: '{{ state.x + 1 }}'}}}
  - {name: quick, uses: test.echo, with: {value: {from: quick}}}
  - {name: then, run: '{\"then\": true}'}
  - {name: join, fan_in: true, uses: test.echo, with: {value: '{{ state.parallel_results }}'}, output: joined}
  - {name: last, run: '{\"last\": true}'}
edges:
  - {from: prepare, to: slow, parallel: true}
  - {from: prepare, to: quick, type: parallel}
";

#[tokio::test]
async fn parallel_branches_run_concurrently_and_join() {
    let fixture = Fixture::new();
    let state = fixture.run(PARALLEL, json!({})).await.unwrap();
    assert_eq!(
        state["joined"],
        json!([
            {"branch": "slow", "index": 0, "success": true, "state": {"from": "slow", "x": 2}},
            {"branch": "quick", "index": 1, "success": true, "state": {"from": "quick", "then": true}},
        ])
    );
    // What branches set stays in them.
    assert_eq!(
        fields(&state, &["x", "from", "last"]),
        json!([1, "<unset>", true])
    );
    assert_eq!(fixture.reported.most_running.load(Ordering::SeqCst), 1 + 1);
    assert_eq!(
        fixture.reported.started(),
        ["prepare", "slow", "quick", "then", "join", "last"]
    );
}

#[tokio::test]
async fn failed_branch_is_in_the_fan_in_results() {
    let text = "
nodes:
  - {name: s}
  - {name: a, uses: test.echo, with: {value: 1, fails: 9}}
  - {name: b, run: '{\"b\": 1}'}
  - {name: j, fan_in: true}
edges:
  - {from: s, to: a, parallel: true, fan_in: j}
  - {from: s, to: b, parallel: true, fan_in: j, when: state.go}
  - {from: a, to: j}
  - {from: b, to: j}
";
    let failed = json!({"branch": "a", "index": 0, "success": false, "state": {}, "error": "failure 1 of 1", "error_type": "broken"});
    assert_eq!(
        run(text, json!({})).await["parallel_results"],
        json!([failed])
    );
    let both = run(text, json!({"go": true})).await;
    assert_eq!(
        both["parallel_results"][1],
        json!({"branch": "b", "index": 1, "success": true, "state": {"b": 1}})
    );
}

#[tokio::test]
async fn nested_branches_join_at_their_own_node() {
    let text = "
nodes:
  - {name: s}
  - {name: a}
  - {name: a1, run: '{\"x\": 1}'}
  - {name: a2, run: '{\"x\": 2}'}
  - {name: inner, fan_in: true, run: '{\"inner\": true}'}
  - {name: b, run: '{\"x\": 3}'}
  - {name: outer, fan_in: true}
edges:
  - {from: s, to: a, parallel: true}
  - {from: s, to: b, parallel: true}
  - {from: a, to: a1, parallel: true}
  - {from: a, to: a2, parallel: true}
  - {from: inner, to: outer}
";
    let results = run(text, json!({})).await["parallel_results"].clone();
    assert_eq!(results[0]["state"]["inner"], json!(true));
    let inner: Vec<&Value> = results[0]["state"]["parallel_results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| &r["state"]["x"])
        .collect();
    assert_eq!(inner, [1, 2]);
    assert_eq!(results[1]["state"], json!({"x": 3}));
}

fn fan_out(extra: &str) -> String {
    format!(
        "
nodes:
  - name: each
    type: dynamic_parallel
    items: '{{{{ state.waits }}}}'
    item_var: ms
    fan_in: join
{extra}
    action:
      uses: test.echo
      with:
        wait: '{{{{ state.ms }}}}'
        value: {{got: '{{{{ state.index }}}}', base: '{{{{ state.base }}}}'}}
        fails: '{{{{ 1 if state.ms == 5 else 0 }}}}'
  - {{name: skipped}}
  - {{name: join, fan_in: true}}
"
    )
}

#[tokio::test]
async fn dynamic_branches_are_bounded_and_ordered() {
    let fixture = Fixture::new();
    let input = json!({"waits": [40, 30, 20, 10], "base": {"b": 1}});
    let state = fixture
        .run(&fan_out("    max_concurrency: 2\n    output: all"), input)
        .await
        .unwrap();
    assert_eq!(fixture.reported.most_running.load(Ordering::SeqCst), 2);
    let results = state["parallel_results"].as_array().unwrap();
    assert_eq!(results.len(), 4);
    assert_eq!(
        results[1],
        json!({
            "branch": "each[1]", "index": 1, "success": true, "result": {"got": 1, "base": {"b": 1}},
            "state": {"ms": 30, "index": 1, "got": 1, "base": {"b": 1}},
        })
    );
    assert_eq!(state["all"], state["parallel_results"]);
    assert!(!fixture.reported.started().contains(&"skipped".to_owned()));
    assert!(fixture.reported.shown().contains(&"% each: 4/4".to_owned()));
}

#[tokio::test]
async fn failed_branch_is_recorded_with_its_item() {
    let input = json!({"waits": [30, 5, 10], "base": 0});
    let fixture = Fixture::new();
    let state = fixture.run(&fan_out(""), input.clone()).await.unwrap();
    let results = state["parallel_results"].as_array().unwrap();
    let outcomes: Vec<&Value> = results.iter().map(|r| &r["success"]).collect();
    assert_eq!(outcomes, [true, false, true]);
    assert_eq!(
        results[1],
        json!({
            "branch": "each[1]", "index": 1, "success": false, "state": {"ms": 5, "index": 1},
            "error": "failure 1 of {\"got\":1,\"base\":0}", "error_type": "broken",
        })
    );
    assert_eq!(fixture.reported.dropped.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn fail_fast_starts_no_further_branches_and_the_run_continues() {
    let fixture = Fixture::new();
    let input = json!({"waits": [20, 5, 30, 40], "base": 0});
    let text = fan_out("    fail_fast: true\n    max_concurrency: 2");
    let state = fixture.run(&text, input).await.unwrap();
    let results = state["parallel_results"].as_array().unwrap();
    // The first branch ran when the second one failed, and went on to its end.
    let outcomes: Vec<Value> = results
        .iter()
        .map(|r| json!([r["success"], r["error_type"]]))
        .collect();
    assert_eq!(
        json!(outcomes),
        json!([
            [true, null],
            [false, "broken"],
            [false, "cancelled"],
            [false, "cancelled"]
        ])
    );
    assert_eq!(
        results[3],
        json!({
            "branch": "each[3]", "index": 3, "success": false, "state": {},
            "error": "not run: another branch has failed, and `fail_fast` is set",
            "error_type": "cancelled",
        })
    );
    assert_eq!(fixture.reported.runs.load(Ordering::SeqCst), 2);
    assert!(fixture.reported.started().contains(&"join".to_owned()));
}

#[tokio::test]
async fn items_must_be_a_list_and_null_is_empty() {
    let failure = fails(&fan_out(""), json!({"waits": "text"})).await;
    assert_eq!(failure.message, "`items` is text: expected a list");
    for (text, input) in [
        (fan_out(""), json!({"waits": []})),
        (fan_out(""), json!({"waits": null})),
        (fan_out(""), json!({})),
    ] {
        let state = run(&text, input).await;
        assert_eq!(state["parallel_results"], json!([]));
    }
}

#[tokio::test]
async fn templates_read_branch_states_from_results() {
    let text = "
nodes:
  - {name: begin, run: '{\"x\": 1, \"success\": \"mine\"}'}
  - {name: a, run: '{\"a\": {\"deep\": [2]}}'}
  - {name: b, run: '{\"x\": 3}'}
  - name: join
    fan_in: true
    uses: test.echo
    with:
      value:
        - '{{ state.parallel_results[0].a.deep[0] }}'
        - '{{ state.parallel_results[0].state.a }}'
        - '{{ state.parallel_results[0].state.x }}'
        - '{{ state.parallel_results[1].x }}'
        - '{{ state.parallel_results[1].get(\"x\") }}'
        - '{{ state.parallel_results[1][\"state\"][\"x\"] }}'
        - '{{ state.parallel_results[0].success }}'
        - '{{ state.parallel_results[0].state.success }}'
        - '{{ state.parallel_results[0].state.missing | default(\"none\") }}'
        - '{% for r in state.parallel_results %}{{ r.branch }}:{{ r.x }} {% endfor %}'
        - '{{ state.parallel_results[1].state }}'
    output: found
edges:
  - {from: begin, to: a, parallel: true, fan_in: join}
  - {from: begin, to: b, parallel: true, fan_in: join}
";
    let state = run(text, json!({})).await;
    assert_eq!(
        state["found"],
        json!([2, {"deep": [2]}, 1, 3, 3, 3, true, "mine", "none", "a:1 b:3 ", {"x": 3}])
    );
}

#[tokio::test]
async fn dropping_a_run_cancels_running_branches() {
    let fixture = Fixture::new();
    let text = fan_out("");
    let run = fixture.run(&text, json!({"waits": [60_000, 60_000], "base": 0}));
    assert!(
        tokio::time::timeout(Duration::from_millis(10), run)
            .await
            .is_err()
    );
    assert_eq!(fixture.reported.dropped.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn each_branch_is_retried_separately() {
    let fixture = Fixture::new();
    let text = "
nodes:
  - name: each
    type: dynamic_parallel
    items: [1, 2]
    fan_in: join
    action:
      uses: test.echo
      with: {value: '{{ state.item }}', fails: 1, kind: passing}
      on_error: {mode: retry, retry_delay: 0}
  - {name: join, fan_in: true}
";
    let state = fixture.run(text, json!({})).await.unwrap();
    let results: Vec<&Value> = state["parallel_results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| &r["result"])
        .collect();
    assert_eq!(results, [1, 2]);
    assert_eq!(fixture.reported.runs.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn fan_out_accepts_steps_and_inline_code() {
    for branch in [
        "steps: [{run: '{\"a\": of_item}'}, {run: '{\"b\": [of_a]}'}]",
        "run: '{\"a\": of_item, \"b\": [of_item]}'",
    ] {
        let text = format!(
            "
nodes:
  - {{name: each, type: dynamic_parallel, items: [5], fan_in: join, {branch}}}
  - {{name: join, fan_in: true}}
"
        );
        let state = run(&text, json!({})).await;
        assert_eq!(
            state["parallel_results"][0]["state"],
            json!({"item": 5, "index": 0, "a": 5, "b": [5]})
        );
    }
}
