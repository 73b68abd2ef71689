//! `subgraph`: another file that the branches of a fan-out run.

use serde_json::json;

use crate::support::Home;

const OUTER: &str = r#"
name: outer
nodes:
  - name: each
    type: dynamic_parallel
    items: "{{ state.sources }}"
    item_var: source
    index_var: i
    subgraph: ./inner.yaml
    input:
      name: "{{ state.source.name }}"
      n: "{{ state.source.n }}"
      text: "item {{ state.i }}"
    fan_in: collect
  - name: collect
    fan_in: true
    run: |
      got = []
      for r in parallel_results:
          s = r.state
          share = r["share"] if "share" in r else "none"
          got.append([r.success, s.get("name"), s.get("share"), s.get("base"), sorted(s.keys()), share])
      return {"got": got}
edges:
  - {from: __start__, to: each}
  - {from: each, to: collect}
  - {from: collect, to: __end__}
"#;

const INNER: &str = r#"
name: inner
nodes:
  - name: share
    run: |
      return {"share": 12 / state["n"], "seen": sorted(state.keys())}
  - name: last
    run: |
      return {"result": "inner result"}
"#;

/// The state that The Edge Agent (0.9.105) gives.
#[test]
fn run_ends_in_the_state_of_the_reference_implementation() {
    let home = Home::new();
    home.write("outer.yaml", OUTER);
    home.write("inner.yaml", INNER);
    let mut runners = vec!["embedded"];
    if !super::inline_code::has_no_python3() {
        runners.push("python3");
    }
    for runner in runners {
        let sources = json!([{"name": "a", "n": 1}, {"name": "b", "n": 0}, {"name": "c", "n": 4}]);
        let input = json!({"base": 1, "sources": sources}).to_string();
        let arguments = ["run", "outer.yaml", "--python", runner, "-q", "-i", &input];
        let ran = home.run(&arguments).ok();
        let keys = json!([
            "i", "n", "name", "result", "seen", "share", "source", "text"
        ]);
        assert_eq!(
            ran.json()["got"],
            json!([
                [true, "a", 12.0, null, keys, 12.0],
                [false, null, null, null, ["i", "source"], "none"],
                [true, "c", 3.0, null, keys, 3.0],
            ]),
            "{runner}: {ran}"
        );
        assert_eq!(
            ran.json()["parallel_results"][0]["state"],
            json!({
                "name": "a", "n": 1, "text": "item 0", "share": 12.0, "seen": ["n", "name", "text"],
                "result": "inner result", "source": {"name": "a", "n": 1}, "i": 0,
            })
        );
    }
}

#[test]
fn subgraph_steps_share_entries_with_runs_of_their_file() {
    let home = Home::new();
    home.write(
        "inner.yaml",
        "name: inner\nnodes:\n  - name: parse\n    uses: cache.wrap\n    with: {action: json.parse, args: {text: '{{ state.text }}'}}\n    output: parsed\n",
    );
    home.write(
        "outer.yaml",
        "name: outer\nnodes:\n  - {name: each, type: dynamic_parallel, items: ['[1]', '[2]'], subgraph: inner.yaml, input: {text: '{{ state.item }}'}, fan_in: end}\n  - name: end\n    uses: cache.wrap\n    with: {action: json.parse, args: {text: '[1]'}}\n    output: parsed\n",
    );
    let alone = home
        .run(&["run", "inner.yaml", "-q", "-i", "text=[1]"])
        .ok()
        .json();
    assert_eq!(alone["parsed"]["_cache_hit"], false);
    let state = home.run(&["run", "outer.yaml", "-q"]).ok().json();
    let parsed = |index: usize| &state["parallel_results"][index]["state"]["parsed"];
    assert_eq!(parsed(0)["_cache_hit"], true, "{state}");
    assert_eq!(parsed(0)["_cache_key"], alone["parsed"]["_cache_key"]);
    assert_eq!(parsed(1)["_cache_hit"], false);
    // The outer file's own steps have its own scope.
    assert_eq!(state["parsed"]["_cache_hit"], false);
    let again = home
        .run(&["run", "inner.yaml", "-q", "-i", "text=[2]"])
        .ok()
        .json();
    assert_eq!(again["parsed"]["_cache_hit"], true);
}

#[test]
fn subgraph_spends_the_budget_of_the_run() {
    let home = Home::new();
    home.write(
        "inner.yaml",
        "name: inner\nsettings: {llm: {model: openai/gpt-4o-mini}}\nnodes: [{name: a, uses: llm.call, with: {prompt: hi}}]\n",
    );
    home.write(
        "outer.yaml",
        "name: outer\nbudget: {max_tokens: 0}\nnodes:\n  - {name: each, type: dynamic_parallel, items: [1], subgraph: inner.yaml, fan_in: end}\n  - {name: end}\n",
    );
    let state = home.run(&["run", "outer.yaml", "-q"]).ok().json();
    let result = &state["parallel_results"][0];
    assert_eq!(result["error_type"], "over_budget", "{state}");
}

#[test]
fn subgraph_problems_and_approvals_name_the_other_file() {
    let home = Home::new();
    home.write("outer.yaml", OUTER);
    home.write(
        "inner.yaml",
        "name: inner\nnodes:\n  - name: a\n    usse: json.parse\n",
    );
    let ran = home.run(&["validate", "outer.yaml"]).fails(2);
    assert!(ran.stderr.contains("inner.yaml:4:5"), "{ran}");
    assert!(ran.stderr.contains("usse: json.parse"), "{ran}");
    home.write(
        "inner.yaml",
        "name: inner\nnodes:\n  - name: a\n    interrupt: before\n",
    );
    let ran = home.run(&["validate", "outer.yaml"]).ok();
    assert!(ran.stderr.contains("interrupt: before"), "{ran}");
    let ran = home.run(&["run", "outer.yaml"]).fails(2);
    assert!(ran.stderr.contains("--approve each/a"), "{ran}");
    let ran = home
        .run(&["run", "outer.yaml", "-q", "--approve", "each/a"])
        .ok();
    assert_eq!(ran.json()["got"], json!([]));
}

#[test]
fn unsupported_effort_is_found_in_a_subgraph() {
    let home = Home::new();
    home.write("outer.yaml", OUTER);
    home.write(
        "inner.yaml",
        "name: inner\nnodes:\n  - name: a\n    uses: llm.call\n    with: {model: openai/gpt-5.6-terra, reasoning_effort: enormous, prompt: x}\n",
    );
    let ran = home.run(&["validate", "outer.yaml"]).fails(2);
    assert!(ran.stderr.contains("inner.yaml:5"), "{ran}");
}
