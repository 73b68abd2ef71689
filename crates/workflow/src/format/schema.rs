//! JSON Schema of agent files, generated from the parameter tables of the actions, for completion and
//! checks in editors. It describes shapes. [`super::load`] checks the rest: node names, templates, and the
//! actions' own checks.

mod team;

use serde_json::{Map, Value, json};

use super::agent::Language;
use super::settings::LedgerSettings;
use crate::actions::Registry;
use crate::{OperationMetadata, Parameter, ParameterKind};

/// Returns the JSON Schema (2020-12) of agent files that may use the actions of `registry`.
#[must_use]
pub fn schema(registry: &Registry) -> Value {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Cachalot agent file",
        "type": "object",
        "required": ["nodes"],
        "additionalProperties": false,
        "properties": {
            "name": text("The agent's name; part of cache handles."),
            "description": text("What the agent is for."),
            "version": { "description": "The version of the file; for people." },
            "variables": mapping("Constants: `{{ variables.x }}`, and `${x}` in arguments."),
            "settings": settings(),
            "config": config(),
            "interrupt_before": interrupt_before(),
            "state_schema": { "description": "What the state holds; for people." },
            "initial_state": mapping("The state to begin with; the input wins."),
            "extraction_schema": extraction_schema(),
            "nodes": {
                "description": "What the agent does.",
                "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/node" },
            },
            "edges": {
                "description": "What comes after what, where the order of the file does not say.",
                "type": "array", "items": edge(),
            },
        },
        "$defs": definitions(registry),
    });
    for (key, section) in team::sections() {
        schema["properties"][key] = section;
    }
    schema
}

fn config() -> Value {
    closed(
        "How other runtimes compile the file; only `interrupt_before` changes a run here.",
        json!({
            "raise_exceptions": boolean("A node that fails ends the run, whatever this says."),
            "interrupt_before": interrupt_before(),
            "interrupt_after": { "type": ["array", "null"], "maxItems": 0 },
            "checkpoint_dir": text("Without effect: no checkpoints are written."),
            "max_execution_time": { "description": "Without effect.", "type": "number" },
        }),
    )
}

/// Schema of `extraction_schema`. Other keys are accepted, because a file that does not use
/// `validate.extraction` may have any.
fn extraction_schema() -> Value {
    let texts = json!({ "type": "array", "items": { "type": "string" } });
    json!({
        "description": "Requirements of entities and relationships, for `validate.extraction`.",
        "type": "object",
        "properties": {
            "entities": {
                "type": "object",
                "properties": { "required_fields": texts, "optional_fields": texts },
            },
            "relationships": {
                "type": "object",
                "properties": {
                    "types": texts, "required_fields": texts, "optional_fields": texts,
                    "type_requirements": { "type": "object", "additionalProperties": texts },
                },
            },
        },
    })
}

fn interrupt_before() -> Value {
    json!({
        "description": "Nodes that run only if `cachalot run --approve NODE` approves them.",
        "type": ["array", "null"], "items": { "type": "string" },
    })
}

fn text(description: &str) -> Value {
    json!({ "description": description, "type": "string" })
}

fn mapping(description: &str) -> Value {
    json!({ "description": description, "type": "object" })
}

fn boolean(description: &str) -> Value {
    json!({ "description": description, "type": "boolean" })
}

/// Schema of an integer, or of the environment variable that contains it.
fn amount(description: &str, least: u64) -> Value {
    let variable = json!({ "type": "string", "pattern": "^\\$\\{" });
    json!({ "description": description, "anyOf": [{ "type": "integer", "minimum": least }, variable] })
}

fn closed(description: &str, properties: Value) -> Value {
    json!({
        "description": description,
        "type": "object", "additionalProperties": false, "properties": properties,
    })
}

fn settings() -> Value {
    closed(
        "Settings; `${NAME}` and `${NAME:-default}` stand for environment variables.",
        json!({
            "name": text("The agent's name in cache handles, where it is not `name`."),
            "ltm": closed("Long-term memory.", json!({
                "backend": text("The kind of memory: `sqlite`, `in-process`."),
                "path": text("Where it is kept."),
                "ltm_path": text("The same as `path`."),
            })),
            "ltm_path": text("The same as `ltm.path`."),
            "cache": closed("Bounds of the cache.", json!({
                "max_bytes": amount("How many bytes all entries together may have.", 0),
                "max_entries": amount("How many entries there may be.", 0),
                "front_bytes": amount("How many bytes of entries the process itself keeps.", 0),
                "patience_ms": amount("How long a call waits for a slow memory.", 1),
                "store_timeout_ms": amount("How long storing an answer may take.", 1),
            })),
            "ledger": closed("How long calls stay in the ledger one by one.", json!({
                "max_age": text("How old a call may be: a number with a unit, such as `90d` or `12h`."),
                "max_bytes": amount("How many bytes of data the ledger may hold.", LedgerSettings::LEAST_BYTES),
                "max_hits": amount("How many hits there may be.", 0),
            })),
            "python": closed("What runs inline code, and limits of the embedded interpreter.", python()),
            "lua": closed("Limits of inline code in Lua.", limits()),
            "python3": closed("Limits of inline code in the user's own interpreter.", interpreter()),
            "shell_providers": shell_providers(),
            "parallel": closed("Branches.", json!({
                "strategy": { "const": "thread" },
                "max_workers": amount("How many branches run at a time where a node does not say.", 1),
            })),
            "llm": {
                "description": "The model that is meant where none is named, and what holds for all of them.",
                "$ref": "#/$defs/llm_settings",
            },
            "web": closed("Web search.", json!({
                "search": closed("The SearXNG instance.", json!({ "base_url": text("Its URL.") })),
            })),
            "http": closed("Requests of actions.", json!({
                "allowed_hosts": {
                    "description": "The only hosts that actions request, redirects included: names (`*.example.com` for those below one), addresses, networks.",
                    "type": "array",
                    "items": { "type": "string" },
                },
            })),
            "llamaextract": closed("LlamaCloud.", json!({
                "base_url": text("The URL of its API."),
                "api_key": text("The key."),
            })),
        }),
    )
}

/// Schema of `shell_providers`, in `settings` and in `settings.llm`.
fn shell_providers() -> Value {
    let program = closed(
        "A program that answers a prompt on stdout.",
        json!({
            "command": text("The program; the name of the provider unless said."),
            "args": {
                "description": "Its arguments; `{prompt}` in one stands for the prompt, `{input_file}` for the path of a file with it.",
                "type": "array",
                "items": { "type": "string" },
            },
            "stdin_mode": {
                "description": "How it gets a prompt that no argument holds.",
                "enum": ["pipe", "file"],
            },
            "timeout": { "description": "Seconds after which it is killed.", "type": "number", "exclusiveMinimum": 0 },
            "env": {
                "description": "Environment variables, beside PATH, HOME, LANG, LC_* and TMPDIR.",
                "type": "object",
                "additionalProperties": { "type": ["string", "number", "boolean"] },
            },
            "verbose": { "description": "Read for other runtimes, without effect.", "type": "boolean" },
        }),
    );
    json!({
        "description": "Programs that answer prompts (`provider: shell`), by name.",
        "type": "object",
        "additionalProperties": program,
    })
}

fn limits() -> Value {
    json!({
        "time_limit": time_limit(),
        "memory_limit": amount("Bytes that a block may use.", 1),
    })
}

fn python() -> Value {
    let mut settings = limits();
    settings["runner"] = json!({
        "description": "The runner of Python blocks; `embedded` by default.",
        "anyOf": [{ "enum": Language::RUNNERS }, { "type": "string", "pattern": "^\\$\\{" }],
    });
    settings
}

fn interpreter() -> Value {
    json!({ "time_limit": time_limit(), "command": text("The interpreter.") })
}

fn time_limit() -> Value {
    let seconds = json!([{ "type": "number", "exclusiveMinimum": 0 }, { "type": "string", "pattern": "^\\$\\{" }]);
    json!({ "description": "Seconds that a block may take.", "anyOf": seconds })
}

fn edge() -> Value {
    json!({
        "type": "object",
        "required": ["from", "to"],
        "additionalProperties": false,
        "properties": {
            "from": text("A node, or `__start__`."),
            "to": text("A node, or `__end__`."),
            "when": {
                "description": "The condition; beside `condition`, what it must be.",
                "type": ["string", "boolean"],
            },
            "condition": {
                "description": "The same as `when`.",
                "anyOf": [
                    { "type": ["string", "boolean"] },
                    {
                        "type": "object", "required": ["value"], "additionalProperties": false,
                        "properties": { "type": { "const": "expression" }, "value": { "type": ["string", "boolean"] } },
                    },
                ],
            },
            "parallel": boolean("Whether this begins a branch beside others."),
            "type": { "description": "`parallel` is the same as `parallel: true`.", "enum": ["parallel", "normal"] },
            "fan_in": text("The node where the branches meet."),
            "parallel_strategy": { "const": "thread" },
        },
    })
}

fn definitions(registry: &Registry) -> Value {
    let actions: Vec<&OperationMetadata> =
        registry.actions().map(|action| action.metadata()).collect();
    let mut definitions = Map::from_iter([
        ("node".to_owned(), node(&actions, true)),
        ("step".to_owned(), node(&actions, false)),
        ("rule".to_owned(), rule()),
        ("on_error".to_owned(), on_error()),
    ]);
    for (name, definition) in team::definitions() {
        definitions.insert(name.to_owned(), definition);
    }
    // The settings of all models, plus the programs that answer in place of a model.
    let mut llm = definitions["model_settings"].clone();
    llm["properties"]["shell_provider"] = text("The program that is meant by `provider: shell`.");
    llm["properties"]["shell_providers"] = shell_providers();
    definitions.insert("llm_settings".to_owned(), llm);
    for about in actions {
        definitions.insert(definition_of(about), arguments(about));
    }
    Value::Object(definitions)
}

fn definition_of(about: &OperationMetadata) -> String {
    format!("with.{}", about.name)
}

/// Schema of a node, or of a step.
fn node(actions: &[&OperationMetadata], is_node: bool) -> Value {
    let mut properties = json!({
        "name": text("The name; the only one of its kind among nodes."),
        "description": text("What it is for."),
        "run": {
            "description": "Inline code; what it returns is merged into the state.",
            "anyOf": [{ "type": "string" }, expression(), lua()],
        },
        "script": text("The same as `run`."),
        "language": { "description": "The language of inline code.", "enum": ["python", "python3", "lua"] },
        "uses": {
            "description": "The action or tool to call.",
            "anyOf": [
                { "enum": names(actions) },
                { "type": "string", "pattern": r"^(tool\.[a-z_]+|mcp\..+\..+)$" },
            ],
        },
        "with": { "description": "Its arguments.", "type": ["object", "string", "null"] },
        "output": {
            "description": "The field that gets the result, or fields with values made of `result`.",
            "type": ["string", "object"],
        },
        "output_key": text("The same as `output`."),
        "steps": {
            "description": "Steps, one after the other.",
            "type": "array", "items": { "$ref": "#/$defs/step" },
        },
        "on_error": { "$ref": "#/$defs/on_error" },
    });
    if is_node {
        for (key, property) in node_only() {
            properties[key] = property;
        }
    }
    let mut node = json!({
        "type": "object", "additionalProperties": false, "properties": properties, "allOf": calls(actions),
    });
    if is_node {
        node["required"] = json!(["name"]);
    }
    node
}

fn expression() -> Value {
    json!({
        "type": "object", "required": ["type", "value"], "additionalProperties": false,
        "properties": {
            "type": { "const": "expression" },
            "value": text("A Python expression."),
            "output_key": text("The field that gets its value; `result` unless said."),
        },
    })
}

fn lua() -> Value {
    json!({
        "type": "object", "required": ["type", "code"], "additionalProperties": false,
        "properties": {
            "type": { "const": "lua" },
            "code": text("A block of Lua."),
        },
    })
}

/// Properties that nodes have and steps do not.
fn node_only() -> Vec<(&'static str, Value)> {
    let with = |description: &str, mut rest: Value| {
        rest["description"] = Value::from(description);
        rest
    };
    let steps = json!({ "type": "array", "items": { "$ref": "#/$defs/step" } });
    let rules = json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "$ref": "#/$defs/rule" } }] });
    let action = json!({ "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/step" }] });
    let whole = |most: u64| json!({ "type": "integer", "minimum": 1, "maximum": most });
    vec![
        (
            "type",
            with(
                "A loop, or a branch per item.",
                json!({ "enum": ["while_loop", "dynamic_parallel"] }),
            ),
        ),
        ("goto", with("What comes next.", rules)),
        (
            "interrupt",
            with(
                "`before`: the node runs only if `cachalot run --approve NODE` approves it.",
                json!({ "enum": ["before", "after"] }),
            ),
        ),
        (
            "interrupt_before",
            boolean("`true` is the same as `interrupt: before`."),
        ),
        (
            "fan_in",
            with(
                "Whether branches meet here; for a branch per item, where they meet.",
                json!({ "type": ["boolean", "string"] }),
            ),
        ),
        (
            "condition",
            with(
                "While it holds, the loop goes on.",
                json!({ "type": ["string", "boolean"] }),
            ),
        ),
        (
            "max_iterations",
            with("How often at most; to reach it is an error.", whole(1_000)),
        ),
        ("body", with("What is repeated.", steps)),
        (
            "items",
            with(
                "The items that get a branch each.",
                json!({ "type": ["array", "string"] }),
            ),
        ),
        (
            "item_var",
            text("The field that holds the item; `item` unless said."),
        ),
        (
            "index_var",
            text("The field that holds its place, from 0; `index` unless said."),
        ),
        ("action", with("What each branch does.", action)),
        (
            "subgraph",
            text("The agent file whose graph each branch runs; relative to this file."),
        ),
        ("input", mapping("The state that a subgraph begins with.")),
        (
            "max_concurrency",
            with("How many branches run at a time.", whole(10_000)),
        ),
        (
            "fail_fast",
            boolean("Whether no further branch begins after the first failure."),
        ),
    ]
}

fn names<'a>(actions: &[&'a OperationMetadata]) -> Vec<&'a str> {
    actions.iter().flat_map(|about| about.names()).collect()
}

/// Returns one schema condition per action: if `uses` names the action, `with` has the action's arguments.
fn calls(actions: &[&OperationMetadata]) -> Vec<Value> {
    let call = |about: &&OperationMetadata| {
        let arguments = json!([{ "$ref": format!("#/$defs/{}", definition_of(about)) }, { "type": ["string", "null"] }]);
        json!({
            "if": { "required": ["uses"], "properties": { "uses": { "enum": about.names().collect::<Vec<_>>() } } },
            "then": { "properties": { "with": { "anyOf": arguments } } },
        })
    };
    actions.iter().map(call).collect()
}

fn arguments(about: &OperationMetadata) -> Value {
    let properties: Map<String, Value> = about
        .parameters
        .table()
        .iter()
        .flat_map(|parameter| {
            let aliases = parameter.aliases.iter().map(move |alias| {
                let mut property = argument(parameter);
                property["description"] = format!("The same as `{}`.", parameter.name).into();
                (*alias, property)
            });
            std::iter::once((parameter.name, argument(parameter))).chain(aliases)
        })
        .map(|(name, property)| (name.to_owned(), property))
        .collect();
    let required: Vec<&str> = about
        .parameters
        .table()
        .iter()
        .filter(|parameter| parameter.required)
        .map(|parameter| parameter.name)
        .collect();
    json!({
        "description": about.description,
        "type": "object",
        "additionalProperties": false,
        "required": required,
        "properties": properties,
    })
}

/// Schema of an argument. Text is always accepted, because it can be a template or the text of a number.
fn argument(parameter: &Parameter) -> Value {
    let kinds = match parameter.kind {
        ParameterKind::Any => return json!({ "description": parameter.doc }),
        ParameterKind::Text => json!(["string", "number", "boolean", "null"]),
        ParameterKind::Integer => json!(["integer", "string", "null"]),
        ParameterKind::Number => json!(["number", "string", "null"]),
        ParameterKind::Boolean => json!(["boolean", "string", "null"]),
        ParameterKind::Object => json!(["object", "string", "null"]),
        ParameterKind::List => json!(["array", "string", "null"]),
    };
    json!({ "description": parameter.doc, "type": kinds })
}

fn rule() -> Value {
    json!({
        "type": "object",
        "required": ["to"],
        "additionalProperties": false,
        "properties": {
            "if": {
                "description": "The condition; without one the rule always holds.",
                "type": ["string", "boolean"],
            },
            "to": text("A node, or `__end__`."),
        },
    })
}

fn on_error() -> Value {
    closed(
        "What becomes of a failure.",
        json!({
            "mode": {
                "description": "Fail the run, leave `__error__` in the state and go on, or try again.",
                "enum": ["raise", "graceful", "retry"],
            },
            "max_retries": {
                "description": "How often to try again; 3 unless said.",
                "type": "integer", "minimum": 0, "maximum": 1000,
            },
            "retry_delay": {
                "description": "Seconds before the first retry; 1 unless said.",
                "type": "number", "minimum": 0,
            },
            "backoff_multiplier": {
                "description": "What each further delay is multiplied by; 2 unless said.",
                "type": "number", "minimum": 1,
            },
            "retryable_errors": {
                "description": "The kinds of failures that are tried again.",
                "type": "array", "items": { "type": "string" },
            },
            "fallback": text("The node to go to instead."),
        }),
    )
}
