//! Times in YAML have one form: every key that takes a duration takes `30s`, and says what to write in place
//! of `5 minutes`.

use serde_json::Value;

use crate::support::Home;

/// A key, and a file with it; `TIME` stands for the duration.
const KEYS: [(&str, &str); 48] = [
    (
        "settings.ltm.staleness",
        "{settings: {ltm: {staleness: TIME}}, nodes: [{name: n}]}",
    ),
    (
        "settings.cache.patience",
        "{settings: {cache: {patience: TIME}}, nodes: [{name: n}]}",
    ),
    (
        "settings.cache.store_timeout",
        "{settings: {cache: {store_timeout: TIME}}, nodes: [{name: n}]}",
    ),
    (
        "settings.ledger.max_age",
        "{settings: {ledger: {max_age: TIME}}, nodes: [{name: n}]}",
    ),
    (
        "settings.python.time_limit",
        "{settings: {python: {time_limit: TIME}}, nodes: [{name: n}]}",
    ),
    (
        "settings.python3.time_limit",
        "{settings: {python3: {time_limit: TIME}}, nodes: [{name: n}]}",
    ),
    (
        "settings.lua.time_limit",
        "{settings: {lua: {time_limit: TIME}}, nodes: [{name: n}]}",
    ),
    (
        "settings.shell_providers.timeout",
        "{settings: {shell_providers: {p: {timeout: TIME}}}, nodes: [{name: n}]}",
    ),
    (
        "settings.llm.shell_providers.timeout",
        "{settings: {llm: {shell_providers: {p: {timeout: TIME}}}}, nodes: [{name: n}]}",
    ),
    (
        "settings.llm.timeouts.connect",
        "{settings: {llm: {timeouts: {connect: TIME}}}, nodes: [{name: n}]}",
    ),
    (
        "models.timeouts.first_byte",
        "{models: {m: {model: openai/gpt-5.6-terra, timeouts: {first_byte: TIME}}}, nodes: [{name: n}]}",
    ),
    (
        "providers.timeouts.idle",
        "{providers: {p: {base_url: 'https://p.example/v1', timeouts: {idle: TIME}}}, nodes: [{name: n}]}",
    ),
    (
        "models.timeouts.total",
        "{models: {m: {model: openai/gpt-5.6-terra, timeouts: {total: TIME}}}, nodes: [{name: n}]}",
    ),
    (
        "budget.max_time",
        "{budget: {max_time: TIME}, nodes: [{name: n}]}",
    ),
    (
        "on_error.retry_delay",
        "{nodes: [{name: n, on_error: {mode: retry, retry_delay: TIME}}]}",
    ),
    (
        "cache.wrap ttl",
        "{nodes: [{name: n, uses: cache.wrap, with: {action: json.parse, args: {text: '1'}, ttl: TIME}}]}",
    ),
    (
        "http.get timeout",
        "{nodes: [{name: n, uses: http.get, with: {url: 'https://a.example/', timeout: TIME}}]}",
    ),
    (
        "http.get timeout in cache.wrap",
        "{nodes: [{name: n, uses: cache.wrap, with: {action: http.get, args: {url: 'https://a.example/', timeout: TIME}}}]}",
    ),
    (
        "http.post timeout",
        "{nodes: [{name: n, uses: http.post, with: {url: 'https://a.example/', timeout: TIME}}]}",
    ),
    (
        "shell.run timeout",
        "{nodes: [{name: n, uses: shell.run, with: {command: [ls], timeout: TIME}}]}",
    ),
    (
        "web.search timeout",
        "{nodes: [{name: n, uses: web.search, with: {query: whales, timeout: TIME}}]}",
    ),
    (
        "memory.store ttl",
        "{nodes: [{name: n, uses: memory.store, with: {key: a, value: 1, ttl: TIME}}]}",
    ),
    (
        "llm.call timeout",
        "{nodes: [{name: n, uses: llm.call, with: {prompt: a, model: openai/gpt-5.6-terra, timeout: TIME}}]}",
    ),
    (
        "llm.stream timeout",
        "{nodes: [{name: n, uses: llm.stream, with: {prompt: a, model: openai/gpt-5.6-terra, timeout: TIME}}]}",
    ),
    (
        "reason.cot timeout",
        "{nodes: [{name: n, uses: reason.cot, with: {problem: a, model: openai/gpt-5.6-terra, timeout: TIME}}]}",
    ),
    (
        "retry.loop retry_delay",
        "{nodes: [{name: n, uses: retry.loop, with: {validate: reflection.evaluate, validate_args: {data: 1, schema: {}}, correct: m, retry_delay: TIME}}, {name: m}]}",
    ),
    (
        "llamaextract.extract timeout",
        "{nodes: [{name: n, uses: llamaextract.extract, with: {file: a.pdf, agent_name: a, timeout: TIME}}]}",
    ),
    (
        "llamaextract.extract poll_interval",
        "{nodes: [{name: n, uses: llamaextract.extract, with: {file: a.pdf, agent_name: a, poll_interval: TIME}}]}",
    ),
    (
        "llamaextract.extract polling_interval",
        "{nodes: [{name: n, uses: llamaextract.extract, with: {file: a.pdf, agent_name: a, polling_interval: TIME}}]}",
    ),
    (
        "tool.shell timeout",
        "{nodes: [{name: n, uses: tool.shell, with: {command: ls, timeout: TIME}}]}",
    ),
    (
        "mcps.timeout",
        "{mcps: {s: {command: s, timeout: TIME}}, agents: {a: {model: openai/gpt-5.6-terra}}}",
    ),
    (
        "mcps.max_timeout",
        "{mcps: {s: {command: s, max_timeout: TIME}}, agents: {a: {model: openai/gpt-5.6-terra}}}",
    ),
    (
        "mcps.startup_timeout",
        "{mcps: {s: {command: s, startup_timeout: TIME}}, agents: {a: {model: openai/gpt-5.6-terra}}}",
    ),
    (
        "mcps.trust.ttl",
        "{mcps: {s: {command: s, trust: {read_only: [x], ttl: TIME}}}, agents: {a: {model: openai/gpt-5.6-terra}}}",
    ),
    (
        "mcps.tools.ttl",
        "{mcps: {s: {command: s, tools: {x: {read_only: true, ttl: TIME}}}}, agents: {a: {model: openai/gpt-5.6-terra}}}",
    ),
    (
        "mcps.resources.ttl",
        "{mcps: {s: {command: s, resources: {ttl: TIME}}}, agents: {a: {model: openai/gpt-5.6-terra}}}",
    ),
    (
        "mcps.prompts.ttl",
        "{mcps: {s: {command: s, prompts: {ttl: TIME}}}, agents: {a: {model: openai/gpt-5.6-terra}}}",
    ),
    (
        "toolsets.shell.timeout",
        "{agents: {a: {model: openai/gpt-5.6-terra, toolsets: [{type: shell, timeout: TIME}]}}}",
    ),
    (
        "toolsets.shell.max_timeout",
        "{agents: {a: {model: openai/gpt-5.6-terra, toolsets: [{type: shell, max_timeout: TIME}]}}}",
    ),
    (
        "toolsets.fetch.timeout",
        "{agents: {a: {model: openai/gpt-5.6-terra, toolsets: [{type: fetch, timeout: TIME}]}}}",
    ),
    (
        "toolsets.fetch.ttl",
        "{agents: {a: {model: openai/gpt-5.6-terra, toolsets: [{type: fetch, ttl: TIME}]}}}",
    ),
    (
        "toolsets.api.timeout",
        "{agents: {a: {model: openai/gpt-5.6-terra, toolsets: [{type: api, timeout: TIME, api_config: {name: x, endpoint: 'https://a.example/'}}]}}}",
    ),
    (
        "toolsets.mcp.timeout",
        "{agents: {a: {model: openai/gpt-5.6-terra, toolsets: [{type: mcp, command: s, timeout: TIME}]}}}",
    ),
    (
        "tools.cacheToolResultsTtl",
        "{tools: {cacheToolResults: true, cacheToolResultsTtl: {web_fetch: TIME}}, agents: {a: {model: openai/gpt-5.6-terra}}}",
    ),
    (
        "agents.cache.ttl",
        "{agents: {a: {model: openai/gpt-5.6-terra, cache: {enabled: true, ttl: TIME}}}}",
    ),
    (
        "agents.budget.max_time",
        "{agents: {a: {model: openai/gpt-5.6-terra}}, budget: {max_time: TIME}}",
    ),
    (
        "agents.review.max_time",
        "{agents: {a: {model: openai/gpt-5.6-terra}}, budget: {max_time: TIME}}",
    ),
    (
        "hooks.timeout",
        "{agents: {a: {model: openai/gpt-5.6-terra, hooks: {stop: {type: command, command: c, timeout: TIME}}}}}",
    ),
];

/// Validates the file of every key with this duration in it.
fn validated(home: &Home, time: &str) -> Vec<(&'static str, Value)> {
    let files: Vec<String> = KEYS
        .iter()
        .map(|(key, file)| {
            let name = format!("{}.yaml", key.replace(' ', "-"));
            home.write(&name, file.replace("TIME", time));
            name
        })
        .collect();
    let mut arguments = vec!["validate", "--json"];
    arguments.extend(files.iter().map(String::as_str));
    let documents = home.run(&arguments).json();
    let documents = documents.as_array().unwrap().clone();
    assert_eq!(documents.len(), KEYS.len());
    KEYS.iter().map(|(key, _)| *key).zip(documents).collect()
}

#[test]
fn every_duration_takes_the_same_form() {
    let home = Home::new();
    for (key, document) in validated(&home, "1m30s") {
        assert_eq!(document["problems"], serde_json::json!([]), "{key}");
    }
    for (key, document) in validated(&home, "90") {
        // A number without a unit could be meant as days.
        let is_valid = key != "settings.ledger.max_age";
        assert_eq!(document["valid"], is_valid, "{key}: {document}");
    }
    for (key, document) in validated(&home, "5 minutes") {
        let problems = document["problems"].as_array().unwrap();
        assert_eq!(problems.len(), 1, "{key}: {document}");
        let problem = &problems[0];
        let message = problem["message"].as_str().unwrap();
        assert!(
            message.contains("is `5 minutes`, which is no duration"),
            "{key}: {message}"
        );
        assert_eq!(problem["help"], "write `5m`", "{key}");
        assert_eq!(
            (&problem["code"], &problem["line"]),
            (&"bad-value".into(), &1.into()),
            "{key}"
        );
        let name = key.rsplit(['.', ' ']).next().unwrap();
        let is_named = message.contains(name);
        // The name of an alias, of a mapping, and of a step around the action.
        let is_other = ["polling_interval", "cacheToolResultsTtl", "cache.wrap"]
            .iter()
            .any(|other| key.contains(other));
        assert!(is_named || is_other, "{key}: {message}");
    }
}

/// Keys whose name has a unit, mappings of durations, words that are no durations, fields of the output of
/// hooks, and keys without effect.
const OTHERS: [&str; 11] = [
    "cache_tool_results_ttl",
    "max_execution_time",
    "patience_ms",
    "seconds",
    "store_timeout_ms",
    "trace_payload_retention_days",
    "trace_retention_days",
    "ttl",
    "ttl_days",
    "ttl_hours",
    "ttl_seconds",
];

/// Collects the keys that are named like a time and take no text.
fn collect_numbers(schema: &Value, found: &mut std::collections::BTreeSet<String>) {
    const WORDS: [&str; 11] = [
        "timeout",
        "ttl",
        "delay",
        "interval",
        "time_limit",
        "max_time",
        "patience",
        "staleness",
        "max_age",
        "_ms",
        "seconds",
    ];
    match schema {
        Value::Array(items) => items.iter().for_each(|item| collect_numbers(item, found)),
        Value::Object(fields) => {
            let properties = fields.get("properties").and_then(Value::as_object);
            for (key, schema) in properties.into_iter().flatten() {
                let alternatives = schema["anyOf"].as_array();
                let takes = |schema: &Value| {
                    let types = &schema["type"];
                    let several = types.as_array();
                    types == "string" || several.is_some_and(|list| list.contains(&"string".into()))
                };
                let takes_text =
                    takes(schema) || alternatives.is_some_and(|all| all.iter().any(takes));
                let holds_keys = schema.get("properties").is_some();
                if WORDS.iter().any(|word| key.contains(word)) && !takes_text && !holds_keys {
                    found.insert(key.clone());
                }
            }
            fields
                .values()
                .for_each(|schema| collect_numbers(schema, found));
        }
        _ => {}
    }
}

/// A new key with a time takes durations, too.
#[test]
fn schema_has_no_other_form_of_times() {
    let home = Home::new();
    let mut found = std::collections::BTreeSet::new();
    for arguments in [&["schema"][..], &["schema", "hooks"]] {
        collect_numbers(&home.run(arguments).ok().json(), &mut found);
    }
    let unknown: Vec<&String> = found
        .iter()
        .filter(|key| !OTHERS.contains(&key.as_str()))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?} take numbers only");
}

/// A duration and the number of seconds that means the same have one cache key.
#[test]
#[cfg(unix)]
fn durations_are_keyed_by_their_seconds() {
    let home = Home::new();
    let run = |timeout: &str| {
        let text = format!(
            "nodes:\n  - name: n\n    uses: cache.wrap\n    with:\n      action: shell.run\n      ttl: 1h\n      args: {{command: [echo, a], timeout: {timeout}}}\n    output: wrapped\n  - name: tool\n    uses: tool.shell\n    with: {{command: echo b, timeout: {timeout}}}\n    output: tool\n"
        );
        home.write("agent.yaml", text);
        home.run(&["run", "agent.yaml"]).ok().json()
    };
    let first = run("1m");
    assert_eq!(first["wrapped"]["_cache_hit"], false, "{first}");
    assert!(first["tool"].to_string().contains('b'), "{first}");
    for same in ["60", "60.0s", "'{{ 30 + 30 }}'", "'{{ \"1m\" }}'"] {
        assert_eq!(run(same)["wrapped"]["_cache_hit"], true, "{same}");
    }
    assert_eq!(run("61s")["wrapped"]["_cache_hit"], false);
}
