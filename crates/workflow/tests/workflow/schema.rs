//! The JSON Schema says what the loader does, as far as a schema can.

use std::collections::BTreeMap;

use cachalot_core::{duration, tree};
use cachalot_workflow::actions;
use cachalot_workflow::format::{self, schema};
use serde_json::{Value, json};

/// A minimal validator for the schema; panics on unknown keywords.
struct Validator(Value);

impl Validator {
    fn accepts(&self, text: &str) -> bool {
        self.valid(&self.0, &tree::parse("a.yaml", text).unwrap().to_value())
    }

    fn valid(&self, schema: &Value, value: &Value) -> bool {
        schema
            .as_object()
            .unwrap()
            .iter()
            .all(|(keyword, rule)| match keyword.as_str() {
                "$schema" | "$defs" | "title" | "description" | "default" | "then" => true,
                "$ref" => {
                    let pointer = rule.as_str().unwrap().strip_prefix('#').unwrap();
                    self.valid(self.0.pointer(pointer).unwrap(), value)
                }
                "type" => match rule {
                    Value::Array(types) => types.iter().any(|name| is_of_type(name, value)),
                    name => is_of_type(name, value),
                },
                "const" => rule == value,
                "enum" => rule.as_array().unwrap().contains(value),
                "anyOf" => rule
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|schema| self.valid(schema, value)),
                "allOf" => rule
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|schema| self.valid(schema, value)),
                "if" => !self.valid(rule, value) || self.valid(&schema["then"], value),
                "required" => {
                    let has = |name: &Value| value.get(name.as_str().unwrap()).is_some();
                    !value.is_object() || rule.as_array().unwrap().iter().all(has)
                }
                "properties" => value.as_object().is_none_or(|fields| {
                    fields.iter().all(|(key, field)| {
                        rule.get(key).is_none_or(|schema| self.valid(schema, field))
                    })
                }),
                "additionalProperties" => value.as_object().is_none_or(|fields| {
                    let others = fields
                        .iter()
                        .filter(|(key, _)| schema["properties"].get(*key).is_none());
                    others.into_iter().all(|(_, field)| match rule {
                        Value::Bool(allowed) => *allowed,
                        rule => self.valid(rule, field),
                    })
                }),
                "items" => value
                    .as_array()
                    .is_none_or(|items| items.iter().all(|item| self.valid(rule, item))),
                "minItems" => value
                    .as_array()
                    .is_none_or(|items| items.len() as u64 >= rule.as_u64().unwrap()),
                "minimum" => value
                    .as_f64()
                    .is_none_or(|number| number >= rule.as_f64().unwrap()),
                "exclusiveMinimum" => value
                    .as_f64()
                    .is_none_or(|number| number > rule.as_f64().unwrap()),
                "maximum" => value
                    .as_f64()
                    .is_none_or(|number| number <= rule.as_f64().unwrap()),
                "pattern" => value.as_str().is_none_or(|text| {
                    let is_of_durations = rule.as_str().unwrap().contains("(ms|s|min|m|h|d)");
                    if is_of_durations {
                        duration::parse(text).is_some()
                    } else {
                        text.starts_with("${")
                    }
                }),
                other => panic!("{other} is not known here"),
            })
    }
}

fn is_of_type(name: &Value, value: &Value) -> bool {
    match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other} is no type"),
    }
}

#[test]
fn files_that_load_match_the_schema() {
    let registry = actions::builtin();
    let validator = Validator(schema(&registry));
    for text in [
        "nodes: [{name: a}]",
        "config: {interrupt_before: [a]}\ninterrupt_before: [b]\nnodes: [{name: a, interrupt: before}, {name: b, interrupt_before: true}]",
        "
name: n
description: d
version: 1.0
variables: {a: 1}
state_schema: {x: str}
initial_state: {x: 1}
models:
  text: openai/gpt-4o
  mapping: {model: gpt-4o, thinking_budget: 1000}
  effort: {model: gpt-4o, thinking_budget: high}
  expanded:
    model: gpt-4o
    temperature: ${T:-1}
    max_tokens: ${M:-5}
providers:
  lab: {base_url: https://lab.example/v1, retries: 0}
agents:
  root:
    model: text
    description: d
    instruction: i
    toolsets:
      - {type: filesystem, tools: ['read_*'], readonly: true, instruction: i}
      - {type: shell, timeout: 5m, maxTimeout: 600, max_output: 1000, env: {A: 1}, pass_env: [B]}
      - {type: fetch, ttl: 1h, max_chars: 5, allowed_hosts: [a.example]}
      - {type: actions, allow: [http.get]}
      - {type: mcp, ref: files, tools: [x]}
      - {type: mcp, name: own, command: x, tools: {y: {read_only: true, ttl: 5m}}}
    sub_agents: [other, {name: third, fork: true}]
    max_iterations: 0
    max_consecutive_tool_calls: 3
    compaction_threshold: 0.8
    prefix: {ttl: 1h}
    hooks: {stop: [{type: command, command: 'true'}]}
    recall: 2
    review: {every_turns: 5, kind: memory, tools: [memory], max_input_tokens: 0, max_iterations: 4, inherit: prompt, notify: off}
  other: {model: mapping, review: {model: text}}
  third: {model: text}
permissions: {allow: [a], ask: [b], deny: ['c:path=x']}
budget: {max_cost: 0.5, max_tokens: 0, max_time: 10m}
mcps:
  files: {command: files, args: [x], timeout: 5, required: true, resources: false, prompts: {ttl: 1h}, trust: {read_only: ['*']}}
  far: {remote: {url: 'https://a.example/mcp', headers: {K: v}}, enabledTools: ['*'], toolTimeout: 30s}
tools: {cacheToolResults: true, cache_tool_results_ttl: {web_fetch: 5m}}
settings:
  name: s
  ltm: {backend: sqlite, path: p}
  cache: {max_bytes: 1, max_entries: 2, front_bytes: 3, patience_ms: 4, store_timeout_ms: 5}
  python: {time_limit: 0.5, memory_limit: 5, runner: python3}
  python3: {command: python3, time_limit: 1}
  parallel: {strategy: thread, max_workers: 2}
  llm:
    provider: openai
    model: gpt-4o
    base_url: https://api.example.com/v1
    token_key: MY_KEY
    key_header: x-key
    headers: {X-Team: whales}
    format: responses
    temperature: 0.5
    top_p: 1
    max_tokens: 100
    stop: [x]
    reasoning_effort: low
    parallel_tool_calls: false
    structured_output: {name: a, schema: {type: object}, strict: true}
    provider_opts: {seed: 1}
    cost: {input: 1.5, output: '2', cache_read: 0, cache_write: 1, cache_write_5m: 1, cache_write_1h: 2, above: {tokens: 200000, input: 3, output: 4}}
    prices: openai
    context: 128000
    timeouts: {connect: 5, first_byte: 1m30s, idle: 250ms}
    retries: 3
    fallbacks: [anthropic/claude-sonnet-5]
    shell_provider: mine
    shell_providers: {mine: {command: cat, args: ['{input_file}'], stdin_mode: file, timeout: 3, env: {A: b, C: 1}, verbose: true}}
  shell_providers: {mine: {}}
  lua: {time_limit: 1, memory_limit: 1000}
  web: {search: {base_url: u}}
  llamaextract: {base_url: u, api_key: k}
nodes:
  - {name: read, uses: file.read, with: {path: '{{ state.x }}'}, output: {a: '{{ result.content }}'}, goto: loop}
  - {name: read2, uses: actions.file_read, with: '{{ state.args }}', output_key: b, on_error: {mode: retry, max_retries: 1, retry_delay: 0.5, backoff_multiplier: 2, retryable_errors: [timeout], fallback: loop}}
  - {name: loop, type: while_loop, condition: state.x, max_iterations: 3, body: [{name: s, run: pass, language: python3}]}
  - {name: each, type: dynamic_parallel, items: [1], item_var: i, index_var: j, fan_in: join, max_concurrency: 2, fail_fast: true, action: {uses: json.parse, with: {text: '{}'}}}
  - {name: join, fan_in: true, steps: [{run: {type: expression, value: '1', output_key: k}}, {script: pass}, {language: lua, run: 'x = 1'}, {run: {type: lua, code: 'x = 1'}}]}
  - {name: end, goto: [{if: state.x, to: join}, {to: __end__}]}
edges:
  - {from: __start__, to: read}
  - {from: join, to: end, when: 'true', condition: {type: expression, value: state.x}}
".replace("when: 'true', ", "when: true, ").as_str(),
    ] {
        let loaded = format::load("a.yaml", text, &registry, &BTreeMap::new(), &cachalot_agent::definition::Builtins::default());
        loaded.unwrap_or_else(|problems| panic!("{}", crate::fixture::shown(&problems)));
        assert!(validator.accepts(text), "{text}");
    }
}

#[test]
fn the_schema_rejects_problems_that_the_loader_rejects() {
    let registry = actions::builtin();
    let validator = Validator(schema(&registry));
    for text in [
        "name: a",
        "nodes: []",
        "nodes: [{name: a}]\nnmae: x",
        "nodes: [{nmae: a}]",
        "nodes: [{name: a, uses: file.raed}]",
        "nodes: [{name: a, uses: file.read, with: {pth: x}}]",
        "nodes: [{name: a, uses: file.read, with: {}}]",
        "nodes: [{name: a, uses: file.read, with: [1]}]",
        "nodes: [{name: a, type: loop}]",
        "nodes: [{name: a, language: prolog, run: x}]",
        "nodes: [{name: a, run: {type: lua}}]",
        "nodes: [{name: a}]\nsettings: {shell_providers: {mine: {arguments: []}}}",
        "nodes: [{name: a}]\nsettings: {llm: {shell_providers: {mine: {stdin_mode: tty}}}}",
        "nodes: [{name: a, steps: [{run: x, goto: a}]}]",
        "nodes: [{name: a, on_error: {mode: x}}]",
        "nodes: [{name: a, goto: [{if: x}]}]",
        "nodes: [{name: a}]\nedges: [{from: a}]",
        "nodes: [{name: a}]\nsettings: {cache: {max_bytes: x}}",
        "nodes: [{name: a}]\nsettings: {llm: {modle: x}}",
        "nodes: [{name: a}]\nsettings: {llm: {retries: 11}}",
        "nodes: [{name: a}]\nsettings: {llm: {fallbacks: x}}",
        "nodes: [{name: a}]\nproviders: {a: {base_url: 'http://a', fallbacks: [x]}}",
        "nodes: [{name: a}]\nsettings: {llm: {format: chatty}}",
        "nodes: [{name: a}]\nsettings: {llm: {timeouts: {first: 5}}}",
        "nodes: [{name: a}]\nsettings: {llm: {structured_output: {name: a}}}",
        "nodes: [{name: a}]\nmodels: {a: {temperature: 1}}",
        "nodes: [{name: a}]\nmodels: {a: {model: x, temperature: 11}}",
        "nodes: [{name: a}]\nmodels: {a: {model: x, cost: {inptu: 1}}}",
        "nodes: [{name: a}]\nmodels: {a: 5}",
        "nodes: [{name: a}]\nproviders: {a: {base_url: 'http://a', model: x}}",
        "nodes: [{name: a}]\nagents: {a: {instruction: x}}",
        "nodes: [{name: a}]\nagents: {a: {model: gpt-4o, tols: []}}",
        "nodes: [{name: a}]\nagents: {a: {model: gpt-4o, sub_agents: a}}",
        "nodes: [{name: a}]\nagents: {a: {model: gpt-4o, sub_agents: [{fork: true}]}}",
        "nodes: [{name: a}]\nagents: {a: {model: gpt-4o, review: {kind: both}}}",
        "nodes: [{name: a}]\nagents: {a: {model: gpt-4o, review: {every: 3}}}",
        "nodes: [{name: a}]\nbudget: {max_cots: 1}",
        "nodes: [{name: a}]\nbudget: {max_tokens: many}",
        "nodes: [{name: a}]\nagents: {a: {model: gpt-4o}}\npermissions: {alow: []}",
        "nodes: [{name: a, uses: llm.call, with: {prmpt: x}}]",
        "nodes: [{name: a, uses: agent.run, with: {}}]",
    ] {
        assert!(
            format::load(
                "a.yaml",
                text,
                &registry,
                &BTreeMap::new(),
                &cachalot_agent::definition::Builtins::default()
            )
            .is_err(),
            "{text}"
        );
        assert!(!validator.accepts(text), "{text}");
    }
}

#[test]
fn every_action_is_in_the_schema_under_all_its_names() {
    let registry = actions::builtin();
    let schema = schema(&registry);
    let mut listed: Vec<&str> = schema["$defs"]["node"]["properties"]["uses"]["anyOf"][0]["enum"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    listed.sort_unstable();
    assert_eq!(listed, registry.names().collect::<Vec<_>>());
    assert_eq!(
        schema["$schema"],
        json!("https://json-schema.org/draft/2020-12/schema")
    );
}
