//! `subgraph`: branches that run the graph of another file.

use cachalot_workflow::format::Agent;
use cachalot_workflow::graph;
use serde_json::{Map, Value, json};

use crate::fixture::{Fixture, shown};

/// A fan-out over `items` that runs `inner.yaml`, with more keys in front of the file.
fn outer(keys: &str) -> String {
    format!(
        "{keys}
name: outer
nodes:
  - name: each
    type: dynamic_parallel
    items: '{{{{ state.items }}}}'
    subgraph: ./inner.yaml
    input: {{n: '{{{{ state.item }}}}', place: 'at {{{{ state.index }}}}', fixed: [1, '{{{{ state.base }}}}']}}
    fan_in: end
  - name: end
    fan_in: true
"
    )
}

const INNER: &str = "
name: inner
initial_state: {n: 0, start: 5}
variables: {v: 9}
nodes:
  - {name: first, uses: test.echo, with: {value: '{{ state.n * variables.v }}'}, output: product}
  - {name: second, uses: test.echo, with: {value: '{{ state.keys() | list | sort }}'}, output: seen}
";

fn fixture(files: &[(&str, &str)]) -> Fixture {
    let fixture = Fixture::new();
    for (name, text) in files {
        let path = fixture.directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    fixture
}

/// Loads `outer.yaml`, which is written first. Problems are shown without the directory.
fn load(fixture: &Fixture, text: &str) -> Result<Agent, String> {
    let path = fixture.directory.path().join("outer.yaml");
    std::fs::write(&path, text).unwrap();
    let directory = format!("{}/", fixture.directory.path().display());
    fixture
        .read(&path.to_string_lossy(), text)
        .map_err(|problems| shown(&problems).replace(&directory, ""))
}

#[track_caller]
fn refused(files: &[(&str, &str)], text: &str, expected: &[&str]) {
    let reported = load(&fixture(files), text).unwrap_err();
    assert_eq!(reported.lines().collect::<Vec<_>>(), expected, "{text}");
}

#[tokio::test]
async fn subgraph_runs_per_item_from_input_to_final_state() {
    let fixture = fixture(&[("inner.yaml", INNER)]);
    let agent = load(&fixture, &outer("")).unwrap();
    let input = json!({"items": [2, 3], "base": "b", "start": "not seen"});
    let state = fixture.run_agent(&agent, input).await.unwrap();
    let branch = |index: usize, n: u64| {
        json!({
            "branch": format!("each[{index}]"), "index": index, "success": true,
            "subgraph": "./inner.yaml",
            "state": {
                "n": n, "start": 5, "place": format!("at {index}"), "fixed": [1, "b"],
                "product": 9 * n, "seen": ["fixed", "n", "place", "product", "start"],
                "item": n, "index": index,
            },
        })
    };
    assert_eq!(
        state["parallel_results"],
        json!([branch(0, 2), branch(1, 3)])
    );
    assert_eq!(state["start"], "not seen");
    let mut started = fixture.reported.started();
    started.sort();
    assert_eq!(
        started,
        [
            "each",
            "each[0]",
            "each[0]/first",
            "each[0]/second",
            "each[1]",
            "each[1]/first",
            "each[1]/second",
            "end"
        ]
    );
}

#[tokio::test]
async fn subgraph_failure_fails_its_branch() {
    let inner = "nodes: [{name: a, uses: test.echo, with: {value: 1, fails: 1}}]";
    let fixture = fixture(&[("inner.yaml", inner)]);
    let agent = load(&fixture, &outer("")).unwrap();
    let state = fixture
        .run_agent(&agent, json!({"items": [7], "base": 1}))
        .await;
    assert_eq!(
        state.unwrap()["parallel_results"],
        json!([{
            "branch": "each[0]", "index": 0, "success": false, "state": {"item": 7, "index": 0},
            "error": "failure 1 of 1", "error_type": "broken",
        }])
    );
}

#[tokio::test]
async fn templates_after_a_subgraph_do_not_mix_outer_state_into_results() {
    let fixture = fixture(&[("inner.yaml", INNER)]);
    let text = outer("").replace(
        "    fan_in: true\n",
        "    fan_in: true
    uses: test.echo
    with:
      value: ['{{ state.parallel_results[0].product }}', '{{ state.parallel_results[0].state.base }}', '{{ state.parallel_results[0].state.product }}']
    output: read
",
    );
    let agent = load(&fixture, &text).unwrap();
    let state = fixture
        .run_agent(&agent, json!({"items": [2], "base": "b"}))
        .await;
    assert_eq!(state.unwrap()["read"], json!([18, null, 18]));
}

#[tokio::test]
async fn plan_includes_the_nodes_of_a_subgraph() {
    let fixture = fixture(&[("inner.yaml", INNER)]);
    let agent = load(&fixture, &outer("")).unwrap();
    let Value::Object(input) = json!({"items": [2], "base": 1}) else {
        unreachable!()
    };
    let plan = graph::plan(&agent, input, &fixture.runtime).await;
    let nodes: Vec<&str> = plan.nodes.iter().map(|node| node.node.as_str()).collect();
    assert_eq!(nodes, ["each[0]/first", "each[0]/second"]);
    assert_eq!(plan.ends, None);
    let unknown = graph::plan(&agent, Map::new(), &fixture.runtime).await;
    assert_eq!(unknown.ends, None);
}

#[test]
fn subgraph_problems_have_their_place_in_its_file() {
    refused(
        &[("inner.yaml", "nodes:\n  - {name: a, usse: test.echo}\n")],
        &outer(""),
        &["inner.yaml:2:15: unknown key `usse` in a node [unknown-key]; did you mean `uses`?"],
    );
    refused(
        &[],
        &outer(""),
        &[
            "outer.yaml:7:15: inner.yaml: No such file or directory (os error 2) [unreadable-subgraph]; the path is relative to the agent file, and the file is UTF-8 text",
        ],
    );
    refused(
        &[],
        "nodes:
- {name: a, type: dynamic_parallel, items: [], fan_in: e, subgraph: 'https://x.example/a.yaml'}
- {name: b, type: dynamic_parallel, items: [], fan_in: e, subgraph: [x]}
- {name: c, type: dynamic_parallel, items: [], fan_in: e, subgraph: x, steps: []}
- {name: d, type: dynamic_parallel, items: [], fan_in: e, steps: [], input: {}}
- {name: e, goto: g, subgraph: x}
- {name: f, type: dynamic_parallel, items: [], fan_in: e, action: {subgraph: x}}
- {name: g}
",
        &[
            "outer.yaml:2:69: https://x.example/a.yaml: a subgraph is a file on this machine [unsupported]; download it, and write its path",
            "outer.yaml:3:69: `subgraph` must be the path of an agent file, but this is a list [wrong-type]; write the path of an agent file here",
            "outer.yaml:4:3: a fan-out whose branches do more than one thing [conflicting-work]; give it exactly one of `action`, `steps`, `run`, `uses` and `subgraph`",
            "outer.yaml:4:69: x: No such file or directory (os error 2) [unreadable-subgraph]; the path is relative to the agent file, and the file is UTF-8 text",
            "outer.yaml:5:70: `input` without `subgraph` [missing-key]; name the file that begins with it: `subgraph: ./FILE.yaml`",
            "outer.yaml:6:22: `subgraph` in a node is not supported [unsupported]; take it out: it would have no effect here",
            "outer.yaml:7:68: `subgraph` in a step is not supported [unsupported]; take it out: it would have no effect here",
        ],
    );
}

#[test]
fn recursive_subgraphs_are_a_problem_with_the_chain() {
    let again = "nodes: [{name: a, type: dynamic_parallel, items: [], subgraph: ../outer.yaml, fan_in: b}, {name: b}]";
    refused(
        &[("in/inner.yaml", again)],
        &outer("").replace("./inner.yaml", "in/inner.yaml"),
        &[
            "in/inner.yaml:1:64: a subgraph runs itself: outer.yaml → in/inner.yaml → in/../outer.yaml [subgraph-cycle]; take it out of one of them",
        ],
    );
    refused(
        &[],
        &outer("").replace("inner.yaml", "outer.yaml"),
        &[
            "outer.yaml:7:15: a subgraph runs itself: outer.yaml → outer.yaml [subgraph-cycle]; take it out of one of them",
        ],
    );
}

#[test]
fn too_many_subgraphs_are_refused_before_all_are_read() {
    let twice = |next: usize| {
        format!(
            "nodes: [{{name: a, type: dynamic_parallel, items: [], subgraph: {next}.yaml, fan_in: c}}, {{name: b, type: dynamic_parallel, items: [], subgraph: {next}.yaml, fan_in: c}}, {{name: c}}]"
        )
    };
    let texts: Vec<(String, String)> = (1..=9)
        .map(|depth| (format!("{depth}.yaml"), twice(depth + 1)))
        .collect();
    let files: Vec<(&str, &str)> = texts
        .iter()
        .map(|(name, text)| (&**name, &**text))
        .collect();
    let reported = load(&fixture(&files), &twice(1)).unwrap_err();
    assert!(reported.contains("more than 100 subgraphs"), "{reported}");
    assert!(reported.contains("nested more than 8 deep"), "{reported}");
}

#[test]
fn run_wide_settings_of_a_subgraph_cannot_differ() {
    let inner = "
settings:
  name: other
  ltm: {backend: in-process}
  cache: {max_entries: 5}
  http: {allowed_hosts: [a.example]}
  parallel: {max_workers: 3}
budget: {max_tokens: 5}
agents: {root: {model: openai/gpt-4o}}
nodes: [{name: a}]
";
    let same = "settings:\n  cache: {max_entries: 5}\n  ltm: {backend: sqlite}\n";
    let reported = load(&fixture(&[("inner.yaml", inner)]), &outer(same)).unwrap_err();
    assert_eq!(
        reported.lines().collect::<Vec<_>>(),
        [
            "inner.yaml:4:3: `settings.ltm` holds for a whole run, and differs from that of outer.yaml [subgraph-differs]; take it out here, or write the same into outer.yaml",
            "inner.yaml:6:3: `settings.http` holds for a whole run, and differs from that of outer.yaml [subgraph-differs]; take it out here, or write the same into outer.yaml",
            "inner.yaml:8:1: `budget` holds for a whole run, and differs from that of outer.yaml [subgraph-differs]; take it out here, or write the same into outer.yaml",
            "inner.yaml:9:1: a subgraph has no `agents` of its own [unsupported]; put them into a file of their own, and name it: `uses: agent.run` with `file`",
        ]
    );
}

#[tokio::test]
async fn subgraph_settings_default_to_those_of_the_outer_file() {
    let keys = "
models: {shared: openai/gpt-4o}
settings:
  name: outer name
  llm: {model: openai/gpt-4o, temperature: 0.5}
  parallel: {max_workers: 3}
  python: {runner: python3}
";
    let load_inner = |text: &str| {
        let fixture = fixture(&[("inner.yaml", text)]);
        let agent = load(&fixture, &outer(keys)).unwrap();
        agent.subgraphs()[0].settings.clone()
    };
    let inherited = load_inner("nodes: [{name: a, run: 'return 1'}]");
    assert_eq!(
        inherited.value,
        json!({
            "llm": {"model": "openai/gpt-4o", "temperature": 0.5},
            "parallel": {"max_workers": 3}, "python": {"runner": "python3"},
        })
    );
    assert_eq!(
        (inherited.parallel.max_workers, inherited.name),
        (Some(3), None)
    );
    let own = load_inner(
        "settings: {name: own, llm: {model: anthropic/claude-sonnet-5}}\nnodes: [{name: a}]",
    );
    assert_eq!(own.name.as_deref(), Some("own"));
    assert_eq!(
        own.value["llm"],
        json!({"model": "anthropic/claude-sonnet-5"})
    );
    assert_eq!(own.value["parallel"], json!({"max_workers": 3}));

    let fixture = fixture(&[("inner.yaml", "nodes: [{name: a, run: 'return 1'}]")]);
    let agent = load(&fixture, &outer(keys)).unwrap();
    assert_eq!(agent.subgraphs()[0].models.models[0].0, "shared");
    let languages = fixture.languages(&agent, json!({"items": [1]})).await;
    assert_eq!(languages, ["each[0]/a Python3"]);
}

#[test]
fn model_restriction_of_the_outer_file_applies_to_a_subgraph() {
    refused(
        &[("inner.yaml", "nodes: [{name: a, uses: llm.call}]")],
        &outer("settings: {llm: {backend: local}}"),
        &[
            "outer.yaml:1:18: `backend` in `settings.llm` has no effect [no-effect]; for a model on this machine, run a server and name it with `base_url`",
            "outer.yaml:1:27: no model is loaded into this process: prompts would leave this machine [unsupported]; for a model on this machine, run a server and name it with `base_url`",
            "inner.yaml:1:25: there is no action `llm.call` [unknown-action]; `cachalot schema` lists all actions",
        ],
    );
}

#[tokio::test]
async fn approvals_of_a_subgraph_are_those_of_the_run() {
    let inner = "nodes: [{name: a}, {name: b, interrupt: before}]";
    let fixture = fixture(&[("inner.yaml", inner)]);
    let mut agent = load(&fixture, &outer("interrupt_before: [end]")).unwrap();
    let directory = format!("{}/", fixture.directory.path().display());
    assert_eq!(
        shown(&agent.warnings).replace(&directory, ""),
        "outer.yaml:1:20: `end` and `each/b` need approval before they run [needs-approval]; to approve, add `--approve end --approve each/b` to `cachalot run`"
    );
    agent.approve(&["end".to_owned()]).unwrap();
    let input = json!({"items": [1], "base": 1});
    let failure = fixture.run_agent(&agent, input.clone()).await.unwrap_err();
    assert_eq!((&*failure.node, failure.kind), ("each/b", "needs_approval"));
    assert!(fixture.reported.shown().is_empty());
    agent.approve(&["each/b".to_owned()]).unwrap();
    fixture.run_agent(&agent, input).await.unwrap();
    let mut agent = load(&fixture, &outer("")).unwrap();
    agent.approve(&["all".to_owned()]).unwrap();
    assert!(agent.needs_approval().is_none());
}

#[test]
fn item_without_state_prefix_is_a_warning() {
    let fixture = fixture(&[("inner.yaml", INNER)]);
    let text = outer("").replace("'{{ state.item }}'", "'{{ item }}'");
    let agent = load(&fixture, &text).unwrap();
    assert!(
        shown(&agent.warnings)
            .ends_with("8:16: `{{ item }}` is null [unknown-name]; write `{{ state.item }}`"),
        "{}",
        shown(&agent.warnings)
    );
}
