//! Small agent files with the final states in which The Edge Agent (0.9.105) ends them: branches, and
//! what inline code does to its state. `parallel_results` is compared by the node where branches meet.

use serde_json::{Value, json};

use crate::support::Home;

/// Runs the file in both runners, or in the embedded one alone where there is no `python3`.
#[track_caller]
fn ends_in(text: &str, expected: &Value) {
    let home = Home::new();
    home.write("agent.yaml", text);
    let mut runners = vec!["embedded"];
    if !super::inline_code::has_no_python3() {
        runners.push("python3");
    }
    for runner in runners {
        let ran = home.run(&["run", "agent.yaml", "--python", runner]).ok();
        let mut state = ran.json();
        state.as_object_mut().unwrap().remove("parallel_results");
        assert_eq!(state, *expected, "{runner}: {ran}");
    }
}

const EDGES: &str = "
edges:
  - {from: __start__, to: s}
  - {from: s, to: b1, type: parallel, fan_in: f}
  - {from: s, to: b2, type: parallel, fan_in: f}
  - {from: b1, to: f}
  - {from: b2, to: f}
  - {from: f, to: __end__}
";

#[test]
fn results_of_parallel_edges_have_the_fields_of_their_branch() {
    let text = format!(
        r#"
name: edges
initial_state: {{base: 1, nums: [1, 2]}}
nodes:
  - name: s
    run: |
      return {{"s": 1}}
  - name: b1
    run: |
      return {{"count": 1}}
  - name: b2
    run: |
      return {{"count": 2}}
  - name: f
    fan_in: true
    run: |
      total = 0
      for r in (parallel_results or []):
          total += int(r.state.get("count", 0))
      got = [r.get("count") for r in parallel_results if r.get("count")]
      by_item = [r["count"] for r in parallel_results]
      here = ["count" in r for r in parallel_results]
      before = [r["base"] for r in state["parallel_results"]]
      return {{"total": total, "got": got, "by_item": by_item, "here": here, "before": before}}
{EDGES}"#
    );
    ends_in(
        &text,
        &json!({
            "base": 1, "nums": [1, 2], "s": 1, "total": 3, "got": [1, 2], "by_item": [1, 2],
            "here": [true, true], "before": [1, 1],
        }),
    );
}

#[test]
fn results_of_a_fan_out_have_attributes_and_a_failed_branch_its_item() {
    let text = r#"
name: items
initial_state: {base: 1, xs: [1, 2, 0]}
nodes:
  - name: fan
    type: dynamic_parallel
    items: "{{ state.xs }}"
    item_var: n
    steps:
      - name: one
        run: |
          return {"half": 10 / state["n"]}
    fan_in: f
  - name: f
    fan_in: true
    run: |
      seen = [sorted(r.state) for r in parallel_results]
      return {
          "ok": [r.success for r in parallel_results],
          "branches": [r.branch for r in parallel_results],
          "half": [r.get("half", "none") for r in parallel_results],
          "failed": [r.state for r in parallel_results if not r.success],
          "items": [r["n"] for r in parallel_results],
          "seen": seen[:2],
          "timeouts": [r.timeout for r in parallel_results],
          "errors": [r.error is None for r in parallel_results],
      }
  - name: after
    run: |
      return {"again": len(parallel_results)}
"#;
    let mut expected = json!({
        "base": 1, "xs": [1, 2, 0], "ok": [true, true, false],
        "branches": ["fan[0]", "fan[1]", "fan[2]"], "half": [10.0, 5.0, "none"],
        "items": [1, 2, 0], "timeouts": [false, false, false], "errors": [true, true, false],
        "seen": [["base", "half", "index", "n", "xs"], ["base", "half", "index", "n", "xs"]],
        "again": 3,
    });
    expected["failed"] = json!([{"n": 0, "index": 2}]);
    ends_in(text, &expected);
}

#[test]
fn fail_fast_and_null_items_continue_at_the_fan_in() {
    let text = |fan_out: &str| {
        format!(
            r#"
name: fast
initial_state: {{xs: [0, 1, 2, 3, 4]}}
nodes:
  - name: fan
    type: dynamic_parallel
    item_var: n
    fan_in: f
{fan_out}
    steps:
      - run: |
          return {{"y": 10 / (state["n"] - 1)}}
  - name: f
    fan_in: true
    run: |
      out = [[r.success, r.error is None, r.state.get("y")] for r in parallel_results]
"#
        )
    };
    let fast = "    items: \"{{ state.xs }}\"\n    fail_fast: true\n    max_concurrency: 1";
    let failed = json!([false, false, null]);
    ends_in(
        &text(fast),
        &json!({
            "xs": [0, 1, 2, 3, 4],
            "out": [[true, true, -10.0], failed, failed, failed, failed],
        }),
    );
    for items in ["{{ state.missing }}", "{{ state.xs[5:] }}"] {
        ends_in(
            &text(&format!("    items: \"{items}\"")),
            &json!({"xs": [0, 1, 2, 3, 4], "out": []}),
        );
    }
}

#[test]
fn state_changes_of_a_block_are_kept() {
    let file = |code: &str| {
        let code: String = code.lines().map(|line| format!("      {line}\n")).collect();
        format!(
            "name: m\ninitial_state: {{x: 1, d: {{a: 1, l: [1, 2]}}, gone: 5}}\nnodes:\n  - name: n\n    run: |\n{code}"
        )
    };
    let d = json!({"a": 1, "l": [1, 2]});
    for (code, expected) in [
        (
            "state['x'] = 2\nstate['new'] = [1]\nreturn {'r': 1}",
            json!({"x": 2, "d": d, "gone": 5, "new": [1], "r": 1}),
        ),
        (
            "state['x'] = 2\nstate['d']['b'] = 7",
            json!({"x": 2, "d": {"a": 1, "l": [1, 2], "b": 7}, "gone": 5}),
        ),
        (
            "state.pop('gone')\nstate.pop('x')\nreturn {}",
            json!({"d": d}),
        ),
        (
            "state.pop('gone')\nreturn {'gone': 9}",
            json!({"x": 1, "d": d, "gone": 9}),
        ),
        (
            "state['x'] = 2\nreturn {'x': 3}",
            json!({"x": 3, "d": d, "gone": 5}),
        ),
        (
            "state['x'] = 2\nreturn 5",
            json!({"x": 2, "d": d, "gone": 5, "result": 5}),
        ),
        (
            "state['x'] = 2\nreturn state",
            json!({"x": 2, "d": d, "gone": 5}),
        ),
        (
            "def f(s):\n    s['deep'] = {'q': 1}\n    state['d']['l'].append(3)\nf(state)\nstate.update({'u': 1}, v=2)\nreturn {}",
            json!({"x": 1, "d": {"a": 1, "l": [1, 2, 3]}, "gone": 5, "deep": {"q": 1}, "u": 1, "v": 2}),
        ),
        (
            "state.clear()\nstate['only'] = 1\nreturn {}",
            json!({"only": 1}),
        ),
        (
            "for k in list(state):\n    if k.startswith('g'):\n        state.pop(k)",
            json!({"x": 1, "d": d, "k": "gone"}),
        ),
    ] {
        ends_in(&file(code), &expected);
    }
}

#[test]
fn state_changes_stay_within_their_branch_and_loop() {
    let text = r#"
name: places
initial_state: {x: 1, d: {a: 1}, xs: [1, 2]}
nodes:
  - name: st
    steps:
      - run: |
          state["step"] = 1
          state["d"]["b"] = 2
          return {"r1": 1}
      - run: |
          return {"seen": sorted(state)}
  - name: wl
    type: while_loop
    condition: "{{ state.x < 4 }}"
    max_iterations: 5
    body:
      - name: q
        run: |
          state["x"] += 1
          state["d"]["w"] = state["x"]
  - name: fan
    type: dynamic_parallel
    items: "{{ state.xs }}"
    steps:
      - run: |
          state["own"] = state["item"]
          state["d"]["br"] = state["item"]
          return {}
    fan_in: f
  - name: f
    fan_in: true
    run: |
      state["outd"] = dict(state["d"])
      return {"owns": [r.state["own"] for r in parallel_results], "ds": [r.state["d"] for r in parallel_results]}
"#;
    ends_in(
        text,
        &json!({
            "x": 4, "d": {"a": 1, "b": 2, "w": 4}, "xs": [1, 2], "step": 1, "r1": 1,
            "seen": ["d", "r1", "step", "x", "xs"], "outd": {"a": 1, "b": 2, "w": 4}, "owns": [1, 2],
            "ds": [{"a": 1, "b": 2, "w": 4, "br": 1}, {"a": 1, "b": 2, "w": 4, "br": 2}],
        }),
    );
    let text = format!(
        r#"
name: branches
initial_state: {{x: 1, d: {{a: 1}}}}
nodes:
  - name: s
    run: |
      return {{"s": 1}}
  - name: b1
    run: |
      state["count"] = 1
      state["d"]["b1"] = 1
      return {{}}
  - name: b2
    run: |
      state["d"]["b2"] = 1
      return {{"count": 2}}
  - name: f
    fan_in: true
    run: |
      return {{"counts": [r["count"] for r in parallel_results], "ds": [r["d"] for r in parallel_results]}}
{EDGES}"#
    );
    ends_in(
        &text,
        &json!({
            "x": 1, "d": {"a": 1}, "s": 1, "counts": [1, 2],
            "ds": [{"a": 1, "b1": 1}, {"a": 1, "b2": 1}],
        }),
    );
}
