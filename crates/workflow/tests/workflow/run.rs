//! The run loop: order, results, loops, branches, failures.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::world::World;

#[track_caller]
fn fields(state: &Value, keys: &[&str]) -> Value {
    keys.iter()
        .map(|key| state.get(*key).cloned().unwrap_or(json!("<unset>")))
        .collect()
}

async fn run(text: &str, input: Value) -> Value {
    World::new().run(text, input).await.unwrap()
}

async fn fails(text: &str, input: Value) -> cachalot_workflow::graph::RunFailure {
    World::new().run(text, input).await.unwrap_err()
}

#[tokio::test]
async fn nodes_run_in_the_order_of_the_file_and_the_input_wins_over_the_initial_state() {
    let world = World::new();
    let text = "
initial_state: {a: 1, b: 1}
nodes:
  - name: first
    run: '{\"c\": [$a, $b]}'
  - name: idle
  - name: last
    uses: test.echo
    with: {value: '{{ state.c }}'}
    output: d
";
    let state = world.run(text, json!({"b": 2})).await.unwrap();
    assert_eq!(state, json!({"a": 1, "b": 2, "c": [1, 2], "d": [1, 2]}));
    assert_eq!(
        world.told.shown(),
        ["+ first", "- first", "+ idle", "- idle", "+ last", "- last"]
    );
}

#[tokio::test]
async fn results_are_merged_named_or_mapped() {
    let text = "
nodes:
  - {name: dict, uses: test.echo, with: {value: {x: 1, nested: {a: 1}}}}
  - {name: again, uses: test.echo, with: {value: {nested: {b: 2}}}}
  - {name: scalar, uses: test.echo, with: {value: 7}}
  - {name: keyed, uses: test.echo, with: {value: {y: 2}}, output_key: keyed}
  - name: mapped
    uses: test.echo
    with: {value: {data: [1, 2], none: null}}
    output:
      first: '{{ result.data[0] }}'
      count: 'n={{ result.data | length }}'
      none: '{{ result.none }}'
      both: ['{{ state.x }}', '{{ result.missing | default(0) }}']
  - {name: code, run: '[1]', output: code}
  - {name: nothing, run: 'null'}
";
    let state = run(text, json!({})).await;
    assert_eq!(
        state,
        json!({
            "x": 1, "nested": {"b": 2}, "result": 7, "keyed": {"y": 2},
            "first": 1, "count": "n=2", "none": null, "both": [1, 0], "code": [1],
        })
    );
}

#[tokio::test]
async fn an_expression_sets_its_key() {
    let text = "
nodes:
  - {name: e, run: {type: expression, value: '[1, 2]', output_key: list}}
  - {name: f, run: {type: expression, value: 'true'}}
";
    assert_eq!(
        run(text, json!({})).await,
        json!({"list": [1, 2], "result": true})
    );
}

#[tokio::test]
async fn with_may_be_one_template_and_must_be_a_mapping() {
    let text = "nodes: [{name: a, uses: test.echo, with: '{{ state.args }}'}]";
    assert_eq!(
        run(text, json!({"args": {"value": {"x": 1}}})).await["x"],
        json!(1)
    );
    let failure = fails(text, json!({"args": [1]})).await;
    assert_eq!(
        failure.to_string(),
        "node `a` failed: `with` is a list: expected a mapping"
    );
    let failure = fails(text, json!({"args": {"valeu": 1}})).await;
    assert!(
        failure.message.contains("did you mean `value`?"),
        "{failure}"
    );
    assert_eq!(failure.kind, "validation_error");
}

#[tokio::test]
async fn steps_run_in_turn_and_see_what_came_before() {
    let world = World::new();
    let text = "
nodes:
  - name: all
    steps:
      - {name: one, run: '{\"a\": 1}'}
      - {run: '{\"b\": [$a]}'}
      - {name: two, uses: test.echo, with: {value: '{{ state.b }}'}, output: c}
    output: last
";
    let state = world.run(text, json!({})).await.unwrap();
    assert_eq!(state, json!({"a": 1, "b": [1], "c": [1], "last": [1]}));
    assert_eq!(world.told.started(), ["all", "all/one", "all/2", "all/two"]);
}

#[tokio::test]
async fn a_loop_runs_while_its_condition_holds_and_reaching_its_limit_is_an_error() {
    let text = |limit: u32| {
        format!(
            "
nodes:
  - name: loop
    type: while_loop
    condition: state.count < 3
    max_iterations: {limit}
    body:
      - {{name: inc, run: '$count + 1'}}
  - {{name: after, run: '{{\"done\": true}}'}}
"
        )
    };
    assert_eq!(
        run(&text(3), json!({"count": 0})).await,
        json!({"count": 3, "done": true})
    );
    assert_eq!(run(&text(1), json!({"count": 3})).await["count"], json!(3));
    let failure = fails(&text(2), json!({"count": 0})).await;
    assert_eq!(failure.kind, "loop_limit");
    assert_eq!(failure.node, "loop");
    assert_eq!(failure.place.unwrap().to_string(), "agent.yaml:3:11");
    let failure = fails(&text(2), json!({})).await;
    assert_eq!(failure.kind, "template_error");
    assert!(
        failure.message.contains("`state.count` is undefined"),
        "{failure}"
    );
}

#[tokio::test]
async fn a_flag_that_is_unset_ends_a_loop_and_one_that_is_true_goes_on() {
    let text = "
nodes:
  - {name: loop, type: while_loop, condition: '!done', max_iterations: 5, body: [{name: set, run: '{\"done\": true}'}]}
";
    assert_eq!(run(text, json!({})).await, json!({"done": true}));
    let text = "nodes: [{name: loop, type: while_loop, condition: 'true', max_iterations: 2, body: [{name: b, run: 'null'}]}]";
    assert_eq!(fails(text, json!({})).await.kind, "loop_limit");
}

const GOTO: &str = "
nodes:
  - name: ask
    uses: test.echo
    with: {value: {score: '{{ state.score }}'}}
    output: answer
    goto:
      - {if: 'result.score > 8', to: good}
      - {if: 'result.score == 1', to: good}
      - {if: 'state.flag', to: __end__}
      - {to: bad}
  - {name: bad, run: '{\"was\": \"bad\"}', goto: __end__}
  - {name: good, run: '{\"was\": \"good\"}'}
  - {name: after, run: '{\"after\": true}'}
";

#[tokio::test]
async fn goto_takes_the_first_rule_that_holds_and_two_rules_may_share_a_target() {
    for (input, expected) in [
        (json!({"score": 9}), json!(["good", true])),
        (json!({"score": 1}), json!(["good", true])),
        (json!({"score": 2}), json!(["bad", "<unset>"])),
        (
            json!({"score": 2, "flag": true}),
            json!(["<unset>", "<unset>"]),
        ),
        (
            json!({"score": 2, "flag": "false"}),
            json!(["bad", "<unset>"]),
        ),
    ] {
        assert_eq!(
            fields(&run(GOTO, input.clone()).await, &["was", "after"]),
            expected,
            "{input}"
        );
    }
}

#[tokio::test]
async fn no_rule_that_holds_is_an_error_and_so_is_a_condition_that_fails() {
    let text = "nodes: [{name: a, goto: [{if: state.x, to: b}]}, {name: b}]";
    let failure = fails(text, json!({})).await;
    assert_eq!(
        (failure.kind, failure.node.as_str()),
        ("no_transition", "a")
    );
    let text = "nodes: [{name: a, goto: [{if: 'state.x.y', to: b}, {to: b}]}, {name: b}]";
    let failure = fails(text, json!({})).await;
    assert_eq!(failure.kind, "template_error");
    assert_eq!(failure.place.unwrap().to_string(), "agent.yaml:1:32");
}

#[tokio::test]
async fn a_goto_in_a_circle_ends_at_the_limit() {
    let failure = fails("nodes: [{name: a, goto: a}]", json!({})).await;
    assert_eq!(failure.kind, "node_limit");
}

#[tokio::test]
async fn edges_lead_from_the_start_by_conditions_and_goto_wins_over_them() {
    let text = "
nodes:
  - {name: never, run: '{\"never\": true}'}
  - {name: a, run: '{\"a\": true}'}
  - {name: b, run: '{\"b\": true}'}
  - {name: c, run: '{\"c\": true}', goto: __end__}
  - {name: d, run: '{\"d\": true}'}
edges:
  - {from: __start__, to: a}
  - {from: a, to: d}
  - {from: a, to: b, when: state.x}
  - {from: a, to: c, condition: {type: expression, value: state.y}, when: true}
  - {from: a, to: __end__, condition: 'state.z', when: false}
  - {from: b, to: __end__}
  - {from: c, to: d}
";
    for (input, expected) in [
        (json!({"x": 1, "z": 1}), json!([true, true, null, null])),
        (json!({"y": 1, "z": 1}), json!([true, null, true, null])),
        (json!({"z": 1}), json!([true, null, null, true])),
        (json!({}), json!([true, null, null, null])),
    ] {
        let state = run(text, input.clone()).await;
        let shown: Value = ["a", "b", "c", "d"]
            .iter()
            .map(|key| state.get(*key).cloned().unwrap_or_default())
            .collect();
        assert_eq!(shown, expected, "{input}");
        assert_eq!(state.get("never"), None);
    }
}

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
async fn parallel_branches_run_at_the_same_time_and_meet() {
    let world = World::new();
    let state = world.run(PARALLEL, json!({})).await.unwrap();
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
    assert_eq!(world.told.most_running.load(Ordering::SeqCst), 1 + 1);
    assert_eq!(
        world.told.started(),
        ["prepare", "slow", "quick", "then", "join", "last"]
    );
}

#[tokio::test]
async fn a_branch_that_fails_says_so_where_branches_meet() {
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
async fn branches_within_branches_meet_first_at_their_own_node() {
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
async fn a_branch_per_item_bounded_and_in_order() {
    let world = World::new();
    let input = json!({"waits": [40, 30, 20, 10], "base": {"b": 1}});
    let state = world
        .run(&fan_out("    max_concurrency: 2\n    output: all"), input)
        .await
        .unwrap();
    assert_eq!(world.told.most_running.load(Ordering::SeqCst), 2);
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
    assert!(!world.told.started().contains(&"skipped".to_owned()));
    assert!(world.told.shown().contains(&"% each: 4/4".to_owned()));
}

#[tokio::test]
async fn a_branch_that_fails_is_recorded_or_with_fail_fast_ends_the_others() {
    let input = json!({"waits": [30, 5, 10], "base": 0});
    let world = World::new();
    let state = world.run(&fan_out(""), input.clone()).await.unwrap();
    let outcomes: Vec<&Value> = state["parallel_results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| &r["success"])
        .collect();
    assert_eq!(outcomes, [true, false, true]);
    assert_eq!(state["parallel_results"][1]["error_type"], json!("broken"));
    assert_eq!(world.told.dropped.load(Ordering::SeqCst), 0);

    let world = World::new();
    let input = json!({"waits": [60_000, 5, 60_000], "base": 0});
    let failure = world
        .run(&fan_out("    fail_fast: true"), input)
        .await
        .unwrap_err();
    assert_eq!(failure.node, "each[1]");
    assert_eq!(world.told.dropped.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn items_must_be_a_list_and_may_be_empty() {
    let failure = fails(&fan_out(""), json!({})).await;
    assert_eq!(failure.message, "`items` is null: expected a list");
    let state = run(&fan_out(""), json!({"waits": []})).await;
    assert_eq!(state["parallel_results"], json!([]));
}

#[tokio::test]
async fn what_may_pass_is_tried_again_with_growing_delays() {
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
    let world = World::new();
    let began = Instant::now();
    let state = world.run(&text(3, ""), json!({})).await.unwrap();
    assert_eq!(state["got"], json!(1));
    assert!(began.elapsed() >= Duration::from_millis(5 + 15 + 45));
    assert_eq!(
        world.told.shown(),
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
async fn what_will_not_pass_is_not_tried_again_unless_its_kind_is_named() {
    let text = |more: &str| {
        format!("
nodes:
  - {{name: a, uses: test.echo, with: {{value: 1, fails: 1}}, on_error: {{max_retries: 2, retry_delay: 0{more}}}}}
")
    };
    let world = World::new();
    world.run(&text(""), json!({})).await.unwrap_err();
    assert_eq!(world.told.runs.load(Ordering::SeqCst), 1);
    let world = World::new();
    world
        .run(&text(", retryable_errors: [broken]"), json!({}))
        .await
        .unwrap();
    assert_eq!(world.told.runs.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_failure_is_raised_left_in_the_state_or_taken_care_of() {
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
async fn a_step_may_fail_gracefully_inside_its_node() {
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
async fn inline_code_prints_and_points_to_its_line_when_it_fails() {
    let world = World::new();
    let text = "
nodes:
  - name: code
    run: |
      print hello
      fail
";
    let failure = world.run(text, json!({})).await.unwrap_err();
    assert_eq!(
        failure.place.as_ref().unwrap().to_string(),
        "agent.yaml:6:7"
    );
    assert_eq!(
        world.told.shown(),
        ["+ code", "> code: hello", "! code: it failed"]
    );
}

#[tokio::test]
async fn no_failure_and_no_event_shows_a_secret() {
    let world = World::new();
    let text = "
nodes:
  - {name: a, uses: test.echo, with: {value: 'x {{ secrets.TOKEN }}', fails: 1}, on_error: {mode: graceful}}
  - {name: b, uses: test.echo, with: {value: '{{ secrets.TOKEN + 1 }}'}}
";
    let failure = world.run(text, json!({})).await.unwrap_err();
    let told = format!("{failure:?} {:?}", world.told.shown());
    assert!(!told.contains("hunter2"), "{told}");
    assert!(told.contains("[secret]"), "{told}");
}

#[tokio::test]
async fn dropping_a_run_cancels_what_is_under_way() {
    let world = World::new();
    let text = fan_out("");
    let run = world.run(&text, json!({"waits": [60_000, 60_000], "base": 0}));
    assert!(
        tokio::time::timeout(Duration::from_millis(10), run)
            .await
            .is_err()
    );
    assert_eq!(world.told.dropped.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn storage_hash_waits_for_storage_wherever_it_stands() {
    let world = World::new();
    std::fs::write(world.directory.path().join("a.txt"), "content").unwrap();
    let digest = cachalot_core::Digest::of(b"content").to_hex();
    let text = "
nodes:
  - {name: a, uses: test.echo, with: {value: ['{{ state.file | storage_hash }}', 'k:{{ \"a.txt\" | storage_hash(\"md5\") }}']}, output: hashes}
  - {name: b, goto: [{if: \"state.file | storage_hash == state.hashes[0]\", to: __end__}]}
";
    let state = world.run(text, json!({"file": "a.txt"})).await.unwrap();
    assert_eq!(
        state["hashes"],
        json!([digest, "k:9a0364b9e99bb480dd25e1f0284c8555"])
    );
    let failure = world
        .run(text, json!({"file": "gone.txt"}))
        .await
        .unwrap_err();
    assert!(
        failure.message.contains("storage_hash") && failure.message.contains("gone.txt"),
        "{failure}"
    );
    assert_eq!(failure.place.unwrap().line, 3);
    let named = "nodes: [{name: a, uses: test.echo, with: {value: \"{{ ['a.txt'] | map(state.filter) | list }}\"}}]";
    let failure = world
        .run(named, json!({"filter": "storage_hash"}))
        .await
        .unwrap_err();
    assert!(failure.message.contains("must be written out"), "{failure}");
}

#[tokio::test]
async fn how_a_memoized_action_was_answered_is_told_of_its_node_and_with_its_end() {
    let world = World::new();
    let text = "
nodes:
  - {name: a, steps: [{name: s, uses: test.echo, with: {plan: hit}}]}
  - {name: b, uses: test.echo}
";
    world.run(text, json!({})).await.unwrap();
    assert_eq!(
        world.told.shown(),
        [
            "+ a",
            "+ a/s",
            "= a/s: hit",
            "- a/s (hit)",
            "- a",
            "+ b",
            "- b"
        ]
    );
}
