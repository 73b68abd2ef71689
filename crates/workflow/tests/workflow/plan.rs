//! The plan: what would hit, what would be paid, what cannot be told, and nothing run.

use std::sync::atomic::Ordering;

use cachalot_workflow::graph::{Plan, PlannedOutcome};
use serde_json::{Value, json};

use crate::fixture::Fixture;

async fn plan(text: &str, input: Value) -> Plan {
    let fixture = Fixture::new();
    let plan = fixture.plan(text, input).await;
    assert_eq!(fixture.reported.runs.load(Ordering::SeqCst), 0);
    assert_eq!(fixture.reported.shown(), Vec::<String>::new());
    plan
}

fn shown(plan: &Plan) -> Vec<String> {
    let what = |what: &PlannedOutcome| match what {
        PlannedOutcome::Runs { work } => format!("runs {work}"),
        PlannedOutcome::Hit { handle } => format!("hits {handle}"),
        PlannedOutcome::Miss { handle, reason } => {
            format!("pays {} ({reason})", handle.as_deref().unwrap_or("-"))
        }
        PlannedOutcome::Unknown { node_to_run } => format!("unknown until {node_to_run}"),
        PlannedOutcome::Fails { message } => format!("fails: {message}"),
    };
    plan.nodes
        .iter()
        .map(|node| format!("{} {}", node.node, what(&node.outcome)))
        .collect()
}

#[tokio::test]
async fn plan_continues_after_hits_and_marks_dependents_unknown() {
    let text = "
nodes:
  - {name: first, uses: test.echo, with: {plan: hit, value: {x: '{{ state.n }}'}}, output: a}
  - {name: second, uses: test.echo, with: {plan: pays, value: '{{ state.a.x }}'}, output: b}
  - {name: third, uses: test.echo, with: {value: '{{ state.b }}'}, output: c}
  - {name: fourth, uses: test.echo, with: {value: 'x {{ state.n }} {{ state.c.y }}'}, output: d}
  - {name: fifth, uses: test.echo, with: {plan: pays, value: '{{ state.n }}'}, output: b}
  - {name: code, run: 'null'}
  - {name: last, uses: test.echo, with: {value: '{{ state.n }}'}, output: d}
";
    let plan = plan(text, json!({"n": 1})).await;
    assert_eq!(
        shown(&plan),
        [
            "first hits cache:x",
            "second pays cache:x (no entry)",
            "third unknown until second",
            "fourth unknown until third",
            "fifth pays cache:x (no entry)",
            "code runs inline code",
            "last unknown until code",
        ]
    );
    assert_eq!(plan.ends, None);
}

#[tokio::test]
async fn plan_ends_at_an_unknown_transition() {
    let text = "
nodes:
  - {name: ask, uses: test.echo, with: {plan: PLAN, value: {ok: true}}, output: a, goto: [{if: CONDITION, to: yes}, {to: no}]}
  - {name: no, uses: test.echo, goto: __end__}
  - {name: yes, uses: test.echo}
";
    let text =
        |plan: &str, condition: &str| text.replace("PLAN", plan).replace("CONDITION", condition);
    for condition in ["result.ok", "state.a.ok"] {
        let hit = plan(&text("hit", condition), json!({})).await;
        assert_eq!(shown(&hit), ["ask hits cache:x", "yes runs test.echo"]);
        let pays = plan(&text("pays", condition), json!({})).await;
        assert_eq!(shown(&pays), ["ask pays cache:x (no entry)"]);
        assert!(pays.ends.unwrap().contains("`ask` has run") || condition == "result.ok");
    }
    let known = plan(&text("pays", "state.n == 1"), json!({"n": 1})).await;
    assert_eq!(shown(&known)[1], "yes runs test.echo");
}

#[tokio::test]
async fn fan_outs_loops_and_steps_are_planned_as_far_as_known() {
    let text = "
nodes:
  - name: each
    type: dynamic_parallel
    items: '{{ state.items }}'
    fan_in: join
    action: {uses: test.echo, with: {plan: pays, value: '{{ state.item }}'}}
  - name: join
    fan_in: true
    steps:
      - {name: one, uses: test.echo, with: {value: '{{ state.parallel_results }}'}, output: r}
      - {name: two, uses: test.echo, with: {value: '{{ state.nothing.gone }}'}, output: r}
  - {name: loop, type: while_loop, condition: state.r, max_iterations: 5, body: [{name: b, run: 'null'}]}
";
    let plan = plan(text, json!({"items": [1, 2]})).await;
    assert_eq!(
        shown(&plan),
        [
            "each[0] pays cache:x (no entry)",
            "each[1] pays cache:x (no entry)",
            "join/one unknown until each",
            "join/two fails: `state.nothing` is undefined; inputs given: `items`: set it before, or give it a value with `| default(…)`",
        ]
    );
    assert!(plan.ends.unwrap().contains("`join/two` has run"));
}

#[tokio::test]
async fn parallel_branches_are_planned_from_the_same_state() {
    let text = "
nodes:
  - {name: s}
  - {name: a, uses: test.echo, with: {value: '{{ state.n }}'}, output: n}
  - {name: b, uses: test.echo, with: {plan: hit, value: '{{ state.n }}'}, output: n}
  - {name: j, fan_in: true, uses: test.echo, with: {plan: hit, value: '{{ state.n }}'}, output: m}
edges:
  - {from: s, to: a, parallel: true}
  - {from: s, to: b, parallel: true}
";
    let plan = plan(text, json!({"n": 1})).await;
    assert_eq!(
        shown(&plan),
        ["a runs test.echo", "b hits cache:x", "j hits cache:x"]
    );
}
