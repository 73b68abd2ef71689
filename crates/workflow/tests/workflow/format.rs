//! Agent files: what is wrong with them, where, and what they mean.

mod approvals;
mod extraction;
mod team;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cachalot_workflow::actions;
use cachalot_workflow::codes;
use cachalot_workflow::format::{self, Agent, PythonChoice, PythonRunner};
use serde_json::json;

use crate::fixture::{EventLog, Fixture, registry, shown};

fn environment() -> BTreeMap<String, String> {
    [
        ("DATA", "/data"),
        ("LIMIT", "100"),
        ("EMPTY", ""),
        ("FLAG", "true"),
        ("CODE", "007"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

fn load(text: &str) -> Result<Agent, String> {
    load_with(&registry(&Arc::new(EventLog::default())), text)
}

fn load_with(registry: &cachalot_workflow::Registry, text: &str) -> Result<Agent, String> {
    format::load(
        "a.yaml",
        text,
        registry,
        &environment(),
        &cachalot_agent::definition::Builtins::default(),
    )
    .map_err(|problems| {
        for problem in &problems {
            assert!(
                codes::ALL.iter().any(|(code, _)| *code == problem.code),
                "{problem}"
            );
        }
        shown(&problems)
    })
}

/// Asserts the exact problems, line by line; none for a valid file.
#[track_caller]
fn problems(text: &str, expected: &[&str]) {
    let reported = match load(text) {
        Ok(_) => String::new(),
        Err(reported) => reported,
    };
    let reported: Vec<&str> = reported.lines().collect();
    assert_eq!(reported, expected, "in:\n{text}");
}

/// The remedy for a file without nodes.
const A_NODE: &str = "write the nodes below `nodes:` as a list, each with a name and what it does: `- {name: greet, run: 'return {\"text\": 1}'}`";

/// The same, of a file whose actions are those that come with the program.
#[track_caller]
fn real_problems(text: &str, expected: &[&str]) {
    let reported = load_with(&actions::builtin(), text)
        .err()
        .unwrap_or_default();
    assert_eq!(
        reported.lines().collect::<Vec<_>>(),
        expected,
        "in:\n{text}"
    );
}

#[test]
fn minimal_file_loads() {
    let agent = load("name: n\ndescription: d\nversion: 1.10\nstate_schema: {a: str}\nnodes: [{name: a, description: x}]\n").unwrap();
    assert_eq!(agent.name.as_deref(), Some("n"));
    assert_eq!(agent.version.as_deref(), Some("1.1"));
    assert_eq!(agent.node_names().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn top_level_keys_are_checked() {
    problems(
        "[a]",
        &[
            "a.yaml:1:1: an agent file must be a mapping, but this is a list [wrong-type]; write a mapping here",
        ],
    );
    problems(
        "name: a\n",
        &[&format!(
            "a.yaml:1:1: an agent file needs `nodes` [missing-key]; {A_NODE}"
        )],
    );
    problems(
        "nodes: []\n",
        &[&format!(
            "a.yaml:1:8: `nodes` is empty [missing-key]; {A_NODE}"
        )],
    );
    for empty in ["nodes:\n", "nodes: null\n", "nodes: # none yet\n"] {
        problems(
            empty,
            &[&format!(
                "a.yaml:1:1: `nodes` is empty [missing-key]; {A_NODE}"
            )],
        );
    }
    problems(
        "nodes:\n  a: {run: x}\n",
        &[&format!(
            "a.yaml:2:3: `nodes` must be a list, but this is a mapping [wrong-type]; {A_NODE}"
        )],
    );
    problems(
        "nmae: a\nimports: []\nconfig: {}\nobservability: {}\nnodes: [{name: a}]\nvariables: [1]\n",
        &[
            "a.yaml:1:1: unknown key `nmae` in an agent file [unknown-key]; did you mean `name`?",
            "a.yaml:2:1: `imports` in an agent file is not supported [unsupported-section]; take it out: it would have no effect here",
            "a.yaml:4:1: `observability` in an agent file has no effect [no-effect]; `cachalot run --ndjson` writes the events of a run",
            "a.yaml:6:12: `variables` must be a mapping, but this is a list [wrong-type]; write a mapping here",
        ],
    );
}

#[test]
fn config_without_effect_is_accepted() {
    let file = "config:\n  raise_exceptions: true\n  interrupt_before: []\n  interrupt_after:\n  checkpoint_dir: ./c\n  max_execution_time: 120000\nnodes: [{name: a}]\n";
    let agent = load(file).unwrap();
    assert_eq!(
        shown(&agent.warnings).lines().collect::<Vec<_>>(),
        [
            "a.yaml:5:3: `checkpoint_dir` in `config` has no effect [no-effect]; no checkpoints are written",
            "a.yaml:6:3: `max_execution_time` in `config` has no effect [no-effect]; `budget: {max_time: 2m}` at the top of the file limits a run",
        ]
    );
    assert!(
        load("config: {}\nnodes: [{name: a}]\n")
            .unwrap()
            .warnings
            .is_empty()
    );
    problems(
        "config:\n  interrupt_after: a\n  checkpoint: ./c/a.pkl\n  raise_exception: true\n  checkpoint_dir: [x]\nnodes: [{name: a}]\n",
        &[
            "a.yaml:2:3: `interrupt_after` in `config` has no effect [no-effect]; give the answer before the run: `cachalot run FILE --input NAME=ANSWER`",
            "a.yaml:3:15: `checkpoint`: a run does not continue from a checkpoint [unsupported]; take it out to run from the start; give a state with `--input`",
            "a.yaml:4:3: unknown key `raise_exception` in `config` [unknown-key]; did you mean `raise_exceptions`?",
            "a.yaml:5:3: `checkpoint_dir` in `config` has no effect [no-effect]; no checkpoints are written",
        ],
    );
}

#[test]
fn too_deeply_indented_keys_are_reported() {
    for (text, expected) in [
        (
            "nodes:\n  - name: a\n    uses: csv.parse\n      with: {text: x}\n",
            "a.yaml:4:7: `with` is indented further than `uses`, which has its value already [yaml-syntax]; indent `with` by 4 spaces, like `uses`",
        ),
        (
            "nodes:\n  - name: a\n      uses: csv.parse\n",
            "a.yaml:3:7: `uses` is indented further than `name`, which has its value already [yaml-syntax]; indent `uses` by 4 spaces, like `name`",
        ),
        (
            "nodes:\n  - name: a\n    uses: 'csv.parse'\n\n    # more\n         with:\n           text: x\n",
            "a.yaml:6:10: `with` is indented further than `uses`, which has its value already [yaml-syntax]; indent `with` by 4 spaces, like `uses`",
        ),
        (
            "nodes:\n  - name: a\n    uses: csv.parse\n    on_error:\n      mode: raise\n      with: {text: x}\n",
            "a.yaml:6:7: `with` is indented too far: it is read as a part of `on_error` [unknown-key]; indent it by 4 spaces, like `on_error`",
        ),
        (
            "nodes:\n  - name: a\n    uses: csv.parse\n    output:\n      r: \"{{ result.data }}\"\n      with: {text: x}\n",
            "a.yaml:6:7: `with` is indented too far: it is read as a part of `output` [unknown-key]; indent it by 4 spaces, like `output`",
        ),
        (
            "nodes:\n  - name: a\n    steps:\n      - name: b\n        uses: csv.parse\n        with:\n          text: x\n          output: r\n",
            "a.yaml:8:11: `output` is indented too far: it is read as a part of `with` [unknown-key]; indent it by 8 spaces, like `with`",
        ),
    ] {
        real_problems(text, &[expected]);
    }
    // One that is there twice is not where the other belongs.
    real_problems(
        "nodes:\n  - name: a\n    uses: csv.parse\n    with: {text: x, output: r}\n    output: r\n",
        &[
            "a.yaml:4:21: `csv.parse` has no parameter `output` [unknown-key]; expected one of: text, path, delimiter, header, has_header",
        ],
    );
    // A field of an output may have any name.
    real_problems(
        "nodes:\n  - name: a\n    uses: csv.parse\n    with: {text: x}\n    output: {goto: \"{{ result.data }}\"}\n",
        &[],
    );
}

#[test]
fn aliases_of_parameters_are_checked() {
    real_problems(
        "nodes:\n  - name: a\n    uses: csv.parse\n    with: {text: x, has_header: 3}\n  - name: b\n    uses: csv.parse\n    with: {text: x, header: true, has_header: true}\n  - name: c\n    uses: csv.parse\n    with: {text: x, has_headers: true}\n",
        &[
            "a.yaml:4:33: parameter `header` of `csv.parse` must be `true` or `false`, but this is a number [wrong-type]; write `true` or `false` here",
            "a.yaml:7:35: `header` and `has_header` are one parameter: give one of them [conflicting-keys]; take one of them out",
            "a.yaml:10:21: `csv.parse` has no parameter `has_headers` [unknown-key]; did you mean `has_header`?",
        ],
    );
}

#[test]
fn node_names_are_checked() {
    problems(
        "nodes:\n- {name: a}\n- {name: a}\n- {name: __end__}\n- {run: x}\n- 7\n",
        &[
            "a.yaml:3:10: a second node is called `a` [duplicate-node]; give it another name",
            "a.yaml:4:10: a node cannot be called `__end__` [bad-value]; the name stands for where a run begins or ends",
            "a.yaml:5:3: a node needs `name` [missing-key]; add `name: …`",
            "a.yaml:6:3: a node must be a mapping, but this is a number [wrong-type]; write a mapping here",
        ],
    );
}

#[test]
fn actions_and_arguments_are_checked() {
    problems(
        "nodes:
- {name: a, uses: test.ecko}
- {name: b, uses: nothing.like.it}
- {name: c, uses: test.needs, with: {count: 1.5, ratio: x, flag: 'yes', fields: [1], items: {}, pth: x}}
- {name: d, uses: test.needs}
- {name: e, uses: test.needs, with: [1]}
- {name: f, uses: test.needs, with: {path: null}}
- {name: g, with: {a: 1}}
- {name: h, uses: test.echo, run: x}
- {name: fine, uses: test.needs, with: {path: 7, count: '3', ratio: '0.5', flag: 'TRUE', fields: '{{ state.x }}', items: []}}
- {name: fine2, uses: actions.test_echo, with: '{{ state.all }}'}
",
        &[
            "a.yaml:2:19: there is no action `test.ecko` [unknown-action]; did you mean `test.echo`?",
            "a.yaml:3:19: there is no action `nothing.like.it` [unknown-action]; `cachalot schema` lists all actions",
            "a.yaml:4:45: parameter `count` of `test.needs` must be a whole number, but this is a number [wrong-type]; write a whole number here",
            "a.yaml:4:57: parameter `ratio` of `test.needs` must be a number, but this is text [wrong-type]; write a number here",
            "a.yaml:4:66: parameter `flag` of `test.needs` must be `true` or `false`, but this is text [wrong-type]; write `true` or `false` here",
            "a.yaml:4:81: parameter `fields` of `test.needs` must be a mapping, but this is a list [wrong-type]; write a mapping here",
            "a.yaml:4:93: parameter `items` of `test.needs` must be a list, but this is a mapping [wrong-type]; write a list here",
            "a.yaml:4:97: `test.needs` has no parameter `pth` [unknown-key]; did you mean `path`?",
            "a.yaml:5:19: `test.needs` needs `path` [missing-key]; add `path: …`: For tests",
            "a.yaml:6:37: the arguments of `test.needs` must be a mapping, but this is a list [wrong-type]; write a mapping here",
            "a.yaml:7:37: `test.needs` needs `path` [missing-key]; add `path: …`: For tests",
            "a.yaml:8:13: `with` without `uses` [missing-key]; name the action that takes these arguments: `uses: …`",
            "a.yaml:9:30: `uses` and `run` in one node [conflicting-work]; a node does one thing: make two nodes, or use `steps`",
        ],
    );
}

#[test]
fn templates_are_checked_at_load() {
    problems(
        "nodes:
- name: a
  uses: test.echo
  with:
    value: \"{{ state.x | uper }} and {{ stat.x }}\"
  output: {k: '{{ resutl.x }}', fine: '{{ result.x }}'}
  goto: [{if: 'result.', to: a}, {if: result.x, to: a}]
- {name: b, uses: test.echo, with: {value: '{{ result.x }}'}}
- {name: c, run: 'return f\"{{ not_a_template }}\"'}
",
        &[
            "a.yaml:5:26: there is no filter `uper` [unknown-filter]; did you mean `upper`?",
            "a.yaml:5:41: there is no `stat` here [unknown-name]; did you mean `state`?",
            "a.yaml:6:19: there is no `resutl` here [unknown-name]; did you mean `result`?",
            "a.yaml:7:22: the template is malformed: unexpected end of input, expected identifier or integer [bad-template]",
            "a.yaml:8:48: there is no `result` here [unknown-name]; what the run has set is `state.result`; names are state, variables, secrets, settings, env",
        ],
    );
}

#[test]
fn goto_and_edges_are_checked() {
    problems(
        "nodes:
- {name: ask, goto: aks}
- {name: b, goto: [{if: x, to: nowhere}, {to: ask}, {if: y, to: b}, {ot: b}]}
- {name: c, goto: 7}
- {name: d}
edges:
- {from: d, to: ask}
- {from: d, to: b}
- {from: dd, to: __end__}
- {from: d, to: __start__}
- {to: d, frm: d}
- {from: __end__, to: d}
",
        &[
            "a.yaml:2:21: `goto` names `aks`, and there is no such node [goto-undefined]; did you mean `ask`?",
            "a.yaml:3:32: `to` names `nowhere`, and there is no such node [goto-undefined]; the nodes are ask, b, c, d",
            "a.yaml:3:53: this rule is never reached: the one before it has no `if` [unreachable]; put the rule without `if` last",
            "a.yaml:3:70: unknown key `ot` in a rule of `goto` [unknown-key]; did you mean `to`?",
            "a.yaml:4:19: `goto` must be the name of a node, but this is a number [wrong-type]; write the name of a node here",
            "a.yaml:8:3: this edge is never taken: another one from the same node always is [unreachable]; give one of them a condition (`when: …`), or both `parallel: true`",
            "a.yaml:9:10: `from` names `dd`, and there is no such node [edge-undefined]; did you mean `d`?",
            "a.yaml:10:17: `to` names `__start__`, and there is no such node [edge-undefined]; the nodes are ask, b, c, d",
            "a.yaml:11:11: unknown key `frm` in an edge [unknown-key]; did you mean `from`?",
            "a.yaml:12:10: `from` names `__end__`, and there is no such node [edge-undefined]; the nodes are ask, b, c, d",
        ],
    );
}

#[test]
fn fan_outs_and_fan_ins_are_checked() {
    problems(
        "nodes:
- {name: s}
- {name: a}
- {name: b}
- {name: each, type: dynamic_parallel, item_vra: x}
- {name: two, type: dynamic_parallel, items: [1], fan_in: jion, action: {uses: test.echo}, run: x}
- {name: join}
edges:
- {from: s, to: a, parallel: true}
- {from: s, to: b, parallel: true}
- {from: a, to: __end__}
- {from: b, to: a, parallel: true, fan_in: join, parallel_strategy: process}
- {from: b, to: s}
",
        &[
            "a.yaml:5:3: a node needs `items` [missing-key]; add `items: …`",
            "a.yaml:5:3: a fan-out whose branches do nothing [conflicting-work]; give it exactly one of `action`, `steps`, `run`, `uses` and `subgraph`",
            "a.yaml:5:3: a fan-out needs `fan_in` [missing-key]; name the node that gets `parallel_results`: `fan_in: …`",
            "a.yaml:5:40: unknown key `item_vra` in a node [unknown-key]; did you mean `item_var`?",
            "a.yaml:6:3: a fan-out whose branches do more than one thing [conflicting-work]; give it exactly one of `action`, `steps`, `run`, `uses` and `subgraph`",
            "a.yaml:6:59: `fan_in` names `jion`, and there is no such node [fan-in-undefined]; did you mean `join`?",
            "a.yaml:9:3: the branches that begin here do not meet at one node [fan-in-undefined]; add `fan_in: NODE` to each of these edges, or mark the node at which they meet with `fan_in: true`",
            "a.yaml:12:69: there is only one way to run branches [no-effect]; branches run at the same time in one process",
            "a.yaml:13:3: an edge beside parallel ones is not parallel [bad-value]; give it `parallel: true`, or let it begin elsewhere",
        ],
    );
}

#[test]
fn items_are_a_list_or_a_template() {
    problems(
        "nodes:\n- {name: e, type: dynamic_parallel, items: 5, fan_in: j, run: x}\n- {name: j}\n",
        &[
            "a.yaml:2:44: `items` must be a list or a template of one, but this is a number [wrong-type]; write a list or a template of one here",
        ],
    );
}

#[test]
fn loops_steps_and_types_are_checked() {
    problems(
        "nodes:
- {name: l, type: while_loop, max_iterations: 1001, body: [{type: while_loop, condition: x}]}
- {name: m, type: while_loop, condition: '{{', max_iterations: 0, body: []}
- {name: n, type: while_lop}
- {name: o, type: matrix, strategy: {}}
- {name: p, steps: [{run: x, goto: n, on_error: {fallback: n}}]}
- {name: q, language: prolog, run: 'a(X) :- b(X).'}
- {name: r, language: pyhton, run: x}
- {name: s, run: {type: prolog, code: x}}
- {name: t, run: {type: expression}}
- {name: u, interrupt: after}
",
        &[
            "a.yaml:2:3: a node needs `condition` [missing-key]; add `condition: …`",
            "a.yaml:2:47: `max_iterations` must be from 1 to 1000, but it is 1001 [out-of-range]; write a whole number that is from 1 to 1000",
            "a.yaml:2:67: a step cannot be a `while_loop` [unsupported]; make it a node of its own",
            "a.yaml:3:43: the template is malformed: unexpected end of input, expected expression [bad-template]",
            "a.yaml:3:64: `max_iterations` must be from 1 to 1000, but it is 0 [out-of-range]; write a whole number that is from 1 to 1000",
            "a.yaml:4:19: there is no type of node `while_lop` [bad-value]; did you mean `while_loop`?",
            "a.yaml:5:19: there is no type of node `matrix` [unsupported]; `dynamic_parallel` runs a branch per item",
            "a.yaml:5:27: `strategy` in a node is not supported [unsupported]; take it out: it would have no effect here",
            "a.yaml:6:30: a step has no `goto` [unsupported]; steps run one after the other: make it a node of its own",
            "a.yaml:6:60: a step has no `fallback` [unsupported]; give it to the node that the step belongs to",
            "a.yaml:7:23: there is no prolog here [unsupported]; write the block in Python or Lua",
            "a.yaml:8:23: there is no language `pyhton` [bad-value]; did you mean `python`?",
            "a.yaml:9:25: there is no `prolog` here [unsupported]; write `expression` or `lua`, or give `run` the code as text",
            "a.yaml:10:18: `run` needs `value` [missing-key]; add `value: …`",
            "a.yaml:11:13: `interrupt` in a node has no effect [no-effect]; give the answer before the run: `cachalot run FILE --input NAME=ANSWER`",
        ],
    );
}

#[test]
fn lua_blocks_are_checked() {
    problems(
        "nodes:
- name: q
  language: lua
  run: |
    local x = 1
    if x == 1 then
      return {}
- {name: r, run: {type: lua, code: 'x = = 1'}}
- name: s
  run: |
    -- lua
    return {
- {name: t, run: {type: lua}}
- {name: u, language: python, run: '-- lua'}
- {name: v, language: lua, steps: [{run: 'x ='}]}
- {name: w, run: {type: lua, code: 'return 1', output_key: x}}
",
        &[
            "a.yaml:7:7: not Lua: 'end' expected (to close 'if' at line 6) near <eof> [script-syntax]; correct the block",
            "a.yaml:8:36: not Lua: unexpected symbol near '=' [script-syntax]; correct the block",
            "a.yaml:12:5: not Lua: unexpected symbol near <eof> [script-syntax]; correct the block",
            "a.yaml:13:18: `run` needs `code` [missing-key]; add `code: …`",
            "a.yaml:15:42: not Lua: unexpected symbol near <eof> [script-syntax]; correct the block",
            "a.yaml:16:48: unknown key `output_key` in `run` [unknown-key]; expected one of: type, code",
        ],
    );
}

#[test]
fn shell_providers_are_checked() {
    let text = "settings:
  llm:
    shell_providers:
      mine: {command: cat, args: [x], stdin_mode: file, timeout: 0, env: {A: []}, comand: x}
  shell_providers: {yours: {stdin_mode: tty}}
nodes:
- {name: a, uses: llm.call, with: {provider: shell, shell_provider: mien, prompt: x}}
- {name: b, uses: cache.wrap, with: {action: llm.call, args: {provider: shell, shell_provider: claud, prompt: x}}}
- {name: c, uses: llm.call, with: {provider: shell, shell_provider: yours, prompt: x}}
- {name: d, uses: llm.call, with: {provider: shell, shell_provider: '{{ state.x }}', prompt: x}}
";
    let reported = load_with(&actions::builtin(), text).unwrap_err();
    assert_eq!(
        reported.lines().collect::<Vec<_>>(),
        [
            "a.yaml:4:51: `stdin_mode: file`, and no argument holds the path [bad-value]; put `{input_file}` where the program takes the path of its input",
            "a.yaml:4:66: `timeout` is 0, but it must be above 0 [out-of-range]; write a duration that is above 0, such as `1h`",
            "a.yaml:4:78: `A` in `env` must be text, but this is a list [wrong-type]; write text here",
            "a.yaml:4:83: unknown key `comand` in a shell provider [unknown-key]; did you mean `command`?",
            "a.yaml:5:41: `stdin_mode` cannot be `tty` [bad-value]; expected one of: pipe, file",
            "a.yaml:7:69: there is no program `mien` for `provider: shell` [bad-value]; did you mean `mine`?",
            "a.yaml:8:96: there is no program `claud` for `provider: shell` [bad-value]; did you mean `claude`?",
        ]
    );
}

#[test]
fn on_error() {
    problems(
        "nodes:
- {name: a, on_error: {mode: rety, max_retries: -1, retry_delay: -1, backoff_multiplier: 0.5, fallback: zzz, x: 1}}
- {name: b, on_error: {mode: retry, retryable_errors: timeout, fallback: __end__}}
",
        &[
            "a.yaml:2:30: `mode` cannot be `rety` [bad-value]; did you mean `retry`?",
            "a.yaml:2:49: `max_retries` must be at most 1000 and not negative, but it is -1 [out-of-range]; write a whole number that is at most 1000 and not negative",
            "a.yaml:2:66: `retry_delay` is -1, but it must be 0 or more [out-of-range]; write a duration that is 0 or more, such as `1h`",
            "a.yaml:2:90: `backoff_multiplier` must be at least 1, but it is 0.5 [out-of-range]; write a number that is at least 1",
            "a.yaml:2:105: `fallback` names `zzz`, and there is no such node [fallback-undefined]; the nodes are a, b",
            "a.yaml:2:110: unknown key `x` in `on_error` [unknown-key]; expected one of: max_retries, mode, retry_delay, backoff_multiplier, retryable_errors, fallback",
            "a.yaml:3:55: `retryable_errors` must be a list, but this is text [wrong-type]; write a list here",
            "a.yaml:3:74: `fallback` names `__end__`, and there is no such node [fallback-undefined]; the nodes are a, b",
        ],
    );
}

#[test]
fn environment_variables_are_expanded_in_settings_only() {
    let agent = load(
        "settings:
  name: x-${LIMIT}-$${LIMIT}-${EMPTY}${UNSET:-d}${EMPTY:-e}
  ltm: {backend: sqlite, ltm_path: '${DATA}/m.db'}
  cache: {max_bytes: '${LIMIT}', max_entries: 5}
  llamaextract: {api_key: x}
variables: {a: '${LIMIT}'}
nodes: [{name: a}]
",
    );
    assert_eq!(
        agent.unwrap_err(),
        "a.yaml:4:22: `max_bytes` must be a whole number, but this is text [wrong-type]; take the quotes away"
    );
    let agent = load(
        "settings:
  name: x-${LIMIT}-$${LIMIT}-${EMPTY}${UNSET:-d}${EMPTY:-e}
  ltm: {backend: sqlite, ltm_path: '${DATA}/m.db'}
  cache:
    max_bytes: ${LIMIT}
    patience_ms: 250
  llamaextract:
    api_key: \"${CODE}\"
    base_url: ${CODE}
  python: {time_limit: 0.5, memory_limit: 1000}
  parallel: {strategy: thread, max_workers: 4}
variables: {a: '${LIMIT}'}
nodes: [{name: a}]
",
    )
    .unwrap();
    let settings = &agent.settings;
    assert_eq!(settings.name.as_deref(), Some("x-100-${LIMIT}-de"));
    assert_eq!(settings.memory.path.as_deref(), Some("/data/m.db"));
    assert_eq!(settings.memory.backend.as_deref(), Some("sqlite"));
    assert_eq!(
        settings.memory.place.as_ref().unwrap().to_string(),
        "a.yaml:3:18"
    );
    assert_eq!(settings.cache.limits.max_bytes, Some(100));
    assert_eq!(
        settings.cache.limits.patience,
        Some(Duration::from_millis(250))
    );
    assert_eq!(
        settings.value["llamaextract"],
        json!({"api_key": "007", "base_url": "007"})
    );
    assert_eq!(
        settings.python.limits.time_limit,
        Some(Duration::from_millis(500))
    );
    assert_eq!(settings.parallel.max_workers, Some(4));
    assert_eq!(agent.variables["a"], json!("${LIMIT}"));
}

#[test]
fn settings_keys_are_checked() {
    problems(
        "settings:
  ltm: {pth: x, path: a}
  ltm_path: b
  name: ${UNSE}
  cache: {max_byte: 1}
  llm: {modle: x}
  web: {search: {base_url: 1}}
  python: {time_limit: 0}
  parallel: {strategy: process}
  chache: {}
nodes: [{name: a}]
",
        &[
            "a.yaml:2:9: unknown key `pth` in `settings.ltm` [unknown-key]; did you mean `path`?",
            "a.yaml:3:13: `ltm_path` names a second place of the store [bad-value]; keep one of `ltm.path`, `ltm.ltm_path`, `ltm_path`, `ltm.url`, `ltm.ltm_url` and `ltm.ltm_blob_uri`",
            "a.yaml:4:9: `name`: the environment variable `UNSE` is not set [unset-variable]; set it, or give it a default: `${UNSE:-default}`",
            "a.yaml:5:11: unknown key `max_byte` in `settings.cache` [unknown-key]; did you mean `max_bytes`?",
            "a.yaml:6:9: unknown key `modle` in `settings.llm` [unknown-key]; did you mean `model`?",
            "a.yaml:7:28: `base_url` must be text, but this is a number [wrong-type]; put it in quotes",
            "a.yaml:8:24: `time_limit` is 0, but it must be above 0 [out-of-range]; write a duration that is above 0, such as `1h`",
            "a.yaml:9:24: there is no parallel strategy `process` [no-effect]; branches run at the same time in one process",
            "a.yaml:10:3: unknown key `chache` in `settings` [unknown-key]; did you mean `cache`?",
        ],
    );
}

#[test]
fn problem_codes_are_unique() {
    let mut codes: Vec<&str> = codes::ALL.iter().map(|(code, _)| *code).collect();
    let count = codes.len();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), count);
    assert!(codes::ALL.iter().all(|(_, what)| what.ends_with('.')));
}

#[test]
fn first_and_last_example_of_the_story_load() {
    let registry = actions::builtin();
    let extraction = "
name: document_extraction_agent
description: Extract data from documents with caching

nodes:
  - name: extract_with_cache
    uses: cache.wrap
    with:
      action: llamaextract.extract
      key_strategy: file_content
      key_source: file
      ttl_days: 60
      cleanup_probability: 0.05
      args:
        file: \"{{ state.file_path }}\"
        agent_name: \"{{ state.agent_name }}\"
    output: extraction_result

  - name: check_result
    run: |
      result = state.get(\"extraction_result\", {})
      cache_hit = result.get(\"_cache_hit\", False)

      if cache_hit:
        print(f\"Cache hit! Created at: {result.get('_cache_created_at')}\")
      else:
        print(\"Cache miss - fresh extraction performed\")

      return {\"data\": result.get(\"result\", {}).get(\"data\")}
";
    let management = "
name: cache_management_agent

nodes:
  - name: invalidate_old_extractions
    uses: cache.invalidate
    with:
      metadata_filter:
        _cache_action: llamaextract.extract
    output: invalidation_result

  - name: report
    run: |
      result = state.get(\"invalidation_result\", {})
      return {\"deleted\": result.get(\"deleted_count\", 0)}
";
    for text in [extraction, management] {
        let agent = format::load(
            "a.yaml",
            text,
            &registry,
            &BTreeMap::new(),
            &cachalot_agent::definition::Builtins::default(),
        );
        agent.unwrap_or_else(|problems| panic!("{}", shown(&problems)));
    }
}

#[tokio::test]
async fn runner_of_a_block_is_its_own_then_command_line_then_file() {
    const NODES: &str = "
nodes:
  - {name: plain, run: pass}
  - {name: own, language: python, run: pass}
  - name: all
    language: python3
    steps: [{name: first, run: pass}, {language: python, run: pass}]
  - {name: loop, type: while_loop, condition: state.x, max_iterations: 1, body: [{run: pass}]}
  - name: each
    type: dynamic_parallel
    items: [1]
    fan_in: end
    steps: [{name: in, run: pass}]
  - {name: end, run: {type: expression, value: '1'}}
";
    let runners = async |settings: &str, runner: Option<PythonRunner>| {
        let agent = format::load_with_python(
            "a.yaml",
            &format!("{settings}{NODES}"),
            &registry(&Arc::new(EventLog::default())),
            &[("RUNNER".to_owned(), "python3".to_owned())].into(),
            &cachalot_agent::definition::Builtins::default(),
            PythonChoice {
                runner,
                ..PythonChoice::EMBEDDED
            },
        )
        .unwrap_or_else(|problems| panic!("{}", shown(&problems)));
        Fixture::new().languages(&agent, json!({})).await
    };
    let all = |of_the_others: &str| {
        [
            format!("plain {of_the_others}"),
            format!("own {of_the_others}"),
            "all/first Python3".to_owned(),
            format!("all/2 {of_the_others}"),
            format!("loop/1 {of_the_others}"),
            format!("each[0]/in {of_the_others}"),
            format!("end {of_the_others}"),
        ]
    };
    let file = |runner: &str| format!("settings: {{python: {{runner: {runner}}}}}");
    assert_eq!(runners("", None).await, all("Python"));
    assert_eq!(
        runners("", Some(PythonRunner::Python3)).await,
        all("Python3")
    );
    assert_eq!(runners(&file("embedded"), None).await, all("Python"));
    assert_eq!(runners(&file("python3"), None).await, all("Python3"));
    assert_eq!(runners(&file("'${RUNNER}'"), None).await, all("Python3"));
    assert_eq!(
        runners(&file("python3"), Some(PythonRunner::Embedded)).await,
        all("Python")
    );
    assert_eq!(
        runners(&file("embedded"), Some(PythonRunner::Python3)).await,
        all("Python3")
    );
}

#[test]
fn endless_cycle_is_a_problem() {
    const HELP: &str = "let one of them lead out: `goto: [{if: …, to: …}, {to: __end__}]`; or repeat the steps in a `while_loop`";
    let endless = |place: &str, cycle: &str| {
        format!("{place}: the run never leaves these nodes: {cycle} [endless-cycle]; {HELP}")
    };
    problems(
        "nodes: [{name: a, goto: a}]",
        &[&endless("a.yaml:1:16", "`a` → `a`")],
    );
    problems(
        "nodes: [{name: s}, {name: a}, {name: b}, {name: c, goto: a}]",
        &[&endless("a.yaml:1:27", "`a` → `b` → `c` → `a`")],
    );
    // Every way stays in the cycle.
    problems(
        "nodes: [{name: a, goto: [{if: state.x, to: b}, {to: c}]}, {name: b, goto: a}, {name: c, goto: a}]",
        &[&endless("a.yaml:1:16", "`a` → `b` → `a`")],
    );
    problems(
        "nodes: [{name: a}, {name: b}]\nedges: [{from: a, to: b}, {from: b, to: a}]",
        &[&endless("a.yaml:1:16", "`a` → `b` → `a`")],
    );
    for ends in [
        "nodes: [{name: a, goto: [{if: state.x, to: __end__}, {to: a}]}]",
        "nodes: [{name: a, goto: [{if: state.x, to: a}]}]",
        "nodes: [{name: a, goto: b}, {name: b, goto: a, on_error: {fallback: c}}, {name: c}]",
        "nodes: [{name: a, goto: __end__}, {name: b, goto: b}]",
        "nodes: [{name: a}, {name: b}]\nedges: [{from: a, to: b}, {from: b, to: a, when: state.x}]",
        "nodes: [{name: a}, {name: b}, {name: c, fan_in: true}]\nedges: [{from: a, to: b, parallel: true, fan_in: c}, {from: b, to: c}]",
    ] {
        problems(ends, &[]);
    }
}

#[test]
fn constant_is_accepted_in_code() {
    let written = "variables: {limit: 3}\nnodes:\n- name: a\n  run: |\n    x = [1, 2][:${limit}]\n    return {'y': x}\n";
    assert_eq!(shown(&load(written).unwrap().warnings), "");
    problems(
        &written.replace("${limit}", "${limt}"),
        &["a.yaml:5:5: SyntaxError: Got unexpected token $ [script-syntax]; correct the block"],
    );
}

#[test]
fn template_in_code_is_a_warning() {
    let warnings = |text: &str| shown(&load(text).unwrap().warnings);
    assert_eq!(
        warnings("nodes:\n- name: a\n  run: |\n    x = 1\n    y = '{{ state.x }}'\n"),
        "a.yaml:5:5: `{{ state.x }}` in code is not rendered [template-in-code]; read the value in Python: `state[\"x\"]`, `variables[\"x\"]`; secrets are for the arguments of actions"
    );
    let variable = "variables: {limit: 3}\nnodes: [{name: a, steps: [{run: 'x = \"${limit}\"'}]}]";
    assert!(warnings(variable).contains("`${limit}` in code"));
    for none in [
        "nodes: [{name: a, run: 'x = f\"{{ state.x }}\"'}]",
        "nodes: [{name: a, run: 'x = \"${limit}\"'}]",
        "nodes: [{name: a, uses: test.echo, with: {value: '{{ state.x }}'}}]",
    ] {
        assert_eq!(warnings(none), "", "{none}");
    }
}

#[test]
fn unknown_runner_is_refused_with_the_supported_ones() {
    problems(
        "settings:\n  python: {runner: python}\nnodes: [{name: a}]\n",
        &["a.yaml:2:20: `runner` cannot be `python` [bad-value]; did you mean `python3`?"],
    );
    problems(
        "settings:\n  python3: {runner: python3}\nnodes: [{name: a}]\n",
        &[
            "a.yaml:2:13: unknown key `runner` in `settings.python3` [unknown-key]; expected one of: time_limit, command",
        ],
    );
}

#[test]
fn yaml_errors_are_reported_with_their_place() {
    problems(
        "nodes: [{name: a, uses: test.echo, with: {value: 18446744073709551616}}]",
        &[
            "a.yaml:1:50: the integer 18446744073709551616 does not fit into 64 bits [integer-too-large]; put it in quotes to keep every digit, as text",
        ],
    );
    assert!(
        load("nodes: [{name: a}]\nnodes: []\n")
            .unwrap_err()
            .contains("a.yaml:2:1: ")
    );
    assert!(load("").unwrap_err().contains("[empty-file]"));
}

/// Loads a file that can be used: its warnings.
fn warnings(text: &str) -> Vec<String> {
    let agent = load(text).unwrap();
    agent.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn keys_without_effect_are_warnings() {
    let text = r"
settings:
  auto_trace: true
  llm: {default_model: m, backend: auto}
  parallel: {strategy: process, streams: {enabled: true}}
observability: {enabled: true}
nodes:
  - {name: a, action: http.get, with: {url: x}, outputs: {b: c}, output: d}
  - {name: b, uses: test.echo, condition: x, params: {}, interrupt: after}
edges:
  - {from: a, to: b}
  - {from: a, to: a}
";
    assert_eq!(
        warnings(text),
        [
            "a.yaml:3:3: `auto_trace` in `settings` has no effect [no-effect]; `cachalot run --ndjson` writes the events of a run",
            "a.yaml:4:9: `default_model` in `settings.llm` has no effect [no-effect]; the default model is `model`, its provider `provider`",
            "a.yaml:4:27: `backend` in `settings.llm` has no effect [no-effect]; for a model on this machine, run a server and name it with `base_url`",
            "a.yaml:5:24: there is no parallel strategy `process` [no-effect]; branches run at the same time in one process",
            "a.yaml:5:33: `streams` in `settings.parallel` has no effect [no-effect]; no data goes from node to node but the state",
            "a.yaml:6:1: `observability` in an agent file has no effect [no-effect]; `cachalot run --ndjson` writes the events of a run",
            "a.yaml:8:15: `action` in a node has no effect: this node does nothing [no-effect]; to run it, write `uses: http.get`",
            "a.yaml:9:32: `condition` in a node has no effect [no-effect]; the node runs unconditionally: give an edge `when: …`, or the node before `goto`",
            "a.yaml:9:46: `params` in a node has no effect [no-effect]; the arguments of an action stand in `with`",
            "a.yaml:9:58: `interrupt` in a node has no effect [no-effect]; give the answer before the run: `cachalot run FILE --input NAME=ANSWER`",
            "a.yaml:12:5: this edge is never taken: another one from the same node always is [unreachable]; give one of them a condition (`when: …`), or both `parallel: true`",
        ]
    );
}

#[test]
fn in_process_model_is_refused() {
    let local = "settings: {llm: {backend: local}}\nnodes: [{name: a, uses: cache.wrap, with: {action: llm.call, args: {}}}]";
    let reported = load(local).unwrap_err();
    assert!(
        reported.contains("a.yaml:1:27: no model is loaded into this process: prompts would leave this machine [unsupported]"),
        "{reported}"
    );
}

#[test]
fn api_key_is_read_from_the_named_variable() {
    for key in ["${UNSET_KEY}", "${UNSET_KEY:-}"] {
        let text = format!("settings: {{llm: {{api_key: \"{key}\"}}}}\nnodes: [{{name: a}}]");
        let agent = load(&text).unwrap();
        assert_eq!(agent.settings.llm.token_key.as_deref(), Some("UNSET_KEY"));
    }
    problems(
        "settings: {llm: {api_key: sk-1}}\nnodes: [{name: a}]",
        &[
            "a.yaml:1:18: a key stands in the file [bad-value]; write it into an environment variable, and the name of that here: `token_key: NAME`",
        ],
    );
}

#[test]
fn unsupported_store_is_a_warning_if_unused() {
    let file = |uses: &str| {
        format!(
            "settings: {{ltm: {{backend: hierarchical, catalog: {{url: x}}}}}}\nnodes: [{{name: a, {uses}}}]"
        )
    };
    assert_eq!(
        warnings(&file("run: return")),
        [
            "a.yaml:1:27: the store backend `hierarchical` is not part of this build [no-effect]; no node uses the store, so the file runs without it",
        ]
    );
    let agent = load(&file("run: return")).unwrap();
    assert_eq!(agent.settings.memory.backend, None);
    // The command refuses the backend.
    for uses in [
        "uses: test.echo, with: {action: ltm.store}",
        "uses: ltm.get",
    ] {
        let text = file(uses);
        let found = load(&text).map(|agent| (agent.settings.memory.backend, agent.warnings));
        match found {
            Ok(found) => assert_eq!(found, (Some("hierarchical".to_owned()), vec![])),
            Err(reported) => assert!(!reported.contains("no-effect"), "{reported}"),
        }
    }
}

/// Sizes at which work that grows with the square of the number of nodes would take minutes.
#[test]
fn files_with_many_nodes_are_checked_in_linear_time() {
    const NODES: usize = 20_000;
    let nodes = |node: &dyn Fn(usize) -> String| {
        let nodes: Vec<String> = (0..NODES)
            .map(|index| format!("- {{{}}}\n", node(index)))
            .collect();
        format!("nodes:\n{}", nodes.concat())
    };
    let edges = |edge: &dyn Fn(usize) -> String| {
        let edges: Vec<String> = (0..NODES - 1)
            .map(|index| format!("- {{{}}}\n", edge(index)))
            .collect();
        format!("edges:\n{}", edges.concat())
    };
    let named = nodes(&|index| format!("name: n{index}"));
    assert!(load(&named).is_ok());
    let chain = edges(&|index| format!("from: n{index}, to: n{}", index + 1));
    assert!(load(&format!("{named}{chain}")).is_ok());
    let rules = nodes(&|index| match index + 1 {
        NODES => format!("name: n{index}"),
        next => format!(
            "name: n{index}, goto: n{next}, on_error: {{fallback: n{}}}",
            NODES - 1
        ),
    });
    assert!(load(&rules).is_ok());
    let endless = nodes(&|index| format!("name: n{index}, goto: n{}", (index + 1) % NODES));
    assert!(
        load(&endless)
            .unwrap_err()
            .contains("never leaves these nodes")
    );
    let approved = nodes(&|index| format!("name: n{index}, interrupt_before: true"));
    assert_eq!(load(&approved).unwrap().unapproved().count(), NODES);
    let same = nodes(&|_| "name: n".to_owned());
    assert_eq!(load(&same).unwrap_err().lines().count(), NODES - 1);
    let unknown = edges(&|index| format!("from: n{index}, to: m{index}"));
    assert_eq!(
        load(&format!("{named}{unknown}"))
            .unwrap_err()
            .lines()
            .count(),
        NODES - 1
    );
}
