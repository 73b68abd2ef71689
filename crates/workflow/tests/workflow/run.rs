//! The run loop: order, results, loops, branches, failures.

use serde_json::{Value, json};

use crate::fixture::{Fixture, fails, fields, run};

#[tokio::test]
async fn nodes_run_in_file_order_and_input_overrides_initial_state() {
    let fixture = Fixture::new();
    let text = "
initial_state: {a: 1, b: 1}
nodes:
  - name: first
    run: '{\"c\": [of_a, of_b]}'
  - name: idle
  - name: last
    uses: test.echo
    with: {value: '{{ state.c }}'}
    output: d
";
    let state = fixture.run(text, json!({"b": 2})).await.unwrap();
    assert_eq!(state, json!({"a": 1, "b": 2, "c": [1, 2], "d": [1, 2]}));
    assert_eq!(
        fixture.reported.shown(),
        ["+ first", "- first", "+ idle", "- idle", "+ last", "- last"]
    );
}

#[tokio::test]
async fn results_are_merged_named_or_mapped_by_output() {
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
async fn expression_output_sets_its_key() {
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
async fn with_can_be_a_template_that_renders_a_mapping() {
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
async fn steps_run_in_order_and_read_earlier_results() {
    let fixture = Fixture::new();
    let text = "
nodes:
  - name: all
    steps:
      - {name: one, run: '{\"a\": 1}'}
      - {run: '{\"b\": [of_a]}'}
      - {name: two, uses: test.echo, with: {value: '{{ state.b }}'}, output: c}
    output: last
";
    let state = fixture.run(text, json!({})).await.unwrap();
    assert_eq!(state, json!({"a": 1, "b": [1], "c": [1], "last": [1]}));
    assert_eq!(
        fixture.reported.started(),
        ["all", "all/one", "all/2", "all/two"]
    );
}

#[tokio::test]
async fn while_loop_ends_by_condition_and_its_limit_is_an_error() {
    let text = |limit: u32| {
        format!(
            "
nodes:
  - name: loop
    type: while_loop
    condition: state.count < 3
    max_iterations: {limit}
    body:
      - {{name: inc, run: 'of_count + 1'}}
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
}

/// As in the reference implementation.
#[tokio::test]
async fn loop_that_compares_an_unset_field_begins() {
    for condition in ["state.count < 3", "{{ 3 > state.count }}"] {
        let text = format!(
            "nodes: [{{name: loop, type: while_loop, condition: '{condition}', max_iterations: 2, body: [{{name: set, run: '{{\"count\": 3}}'}}]}}]"
        );
        assert_eq!(run(&text, json!({})).await, json!({"count": 3}));
    }
}

#[tokio::test]
async fn unset_flag_ends_a_loop_and_a_true_flag_continues() {
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
async fn goto_takes_the_first_matching_rule() {
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
async fn goto_without_a_match_or_with_a_failing_condition_is_an_error() {
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
async fn goto_cycle_ends_at_the_limit() {
    let text = "
nodes:
  - {name: once}
  - {name: a}
  - {name: b, goto: [{if: state.done, to: __end__}, {to: a}]}
";
    let failure = fails(text, json!({})).await;
    assert_eq!(failure.kind, "node_limit");
    assert_eq!(
        failure.message,
        "stopped after 10,000 nodes: `a` 5,000 times, `b` 4,999 times ran in a cycle; see that a \
         condition (`goto`, `edges`) leads out of it, or repeat the steps in a `while_loop` with \
         `max_iterations`"
    );
}

#[tokio::test]
async fn edges_are_followed_by_condition_and_goto_overrides_them() {
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

#[tokio::test]
async fn storage_hash_works_in_every_template() {
    let fixture = Fixture::new();
    std::fs::write(fixture.directory.path().join("a.txt"), "content").unwrap();
    let digest = cachalot_core::Digest::sha256(b"content").to_hex();
    let text = "
nodes:
  - {name: a, uses: test.echo, with: {value: ['{{ state.file | storage_hash }}', 'k:{{ \"a.txt\" | storage_hash(\"md5\") }}']}, output: hashes}
  - {name: b, goto: [{if: \"state.file | storage_hash == state.hashes[0]\", to: __end__}]}
";
    let state = fixture.run(text, json!({"file": "a.txt"})).await.unwrap();
    assert_eq!(
        state["hashes"],
        json!([digest, "k:9a0364b9e99bb480dd25e1f0284c8555"])
    );
    let failure = fixture
        .run(text, json!({"file": "gone.txt"}))
        .await
        .unwrap_err();
    assert!(
        failure.message.contains("storage_hash") && failure.message.contains("gone.txt"),
        "{failure}"
    );
    assert_eq!(failure.place.unwrap().line, 3);
    let named = "nodes: [{name: a, uses: test.echo, with: {value: \"{{ ['a.txt'] | map(state.filter) | list }}\"}}]";
    let failure = fixture
        .run(named, json!({"filter": "storage_hash"}))
        .await
        .unwrap_err();
    assert!(failure.message.contains("must be written out"), "{failure}");
}

#[tokio::test]
async fn cache_outcome_of_an_action_is_reported_for_its_node() {
    let fixture = Fixture::new();
    let text = "
nodes:
  - {name: a, steps: [{name: s, uses: test.echo, with: {plan: hit}}]}
  - {name: b, uses: test.echo}
";
    fixture.run(text, json!({})).await.unwrap();
    assert_eq!(
        fixture.reported.shown(),
        ["+ a", "+ a/s", "= a/s: hit", "- a/s", "- a", "+ b", "- b"]
    );
}

#[tokio::test]
async fn templates_are_not_applied_to_inline_code() {
    let text = "nodes: [{name: a, run: '{\"x\": \"{{ state.y }} ${z}\"}'}]\nvariables: {z: 1}";
    assert_eq!(
        run(text, json!({"y": "no"})).await["x"],
        json!("{{ state.y }} ${z}")
    );
}

#[tokio::test]
async fn a_run_that_lacks_an_approval_runs_nothing() {
    let fixture = Fixture::new();
    let text = "
nodes:
  - {name: first, uses: test.echo, with: {value: 1}}
  - {name: second, uses: test.echo, with: {value: 2}, interrupt: before}
";
    let failure = fixture.run(text, json!({})).await.unwrap_err();
    assert_eq!((&*failure.node, failure.kind), ("second", "needs_approval"));
    assert_eq!(failure.message, "`second` needs approval before it runs");
    assert_eq!(failure.place.unwrap().line, 4);
    assert!(fixture.reported.shown().is_empty());
}
