//! The JSON Schema of agent files, made from the actions' own tables, so that an editor can complete
//! and check what is written. It tells shapes; `cachalot validate` tells the rest.

use serde_json::{Map, Value, json};

use crate::action::{About, Parameter, ParameterKind};
use crate::actions::Registry;

/// JSON Schema (2020-12) of agent files whose actions are those of `registry`.
#[must_use]
pub fn schema(registry: &Registry) -> Value {
    let mut definitions = Map::new();
    let mut by_action = Vec::new();
    for action in registry.actions() {
        let about = action.about();
        let shown = about.names.first().copied().unwrap_or_default();
        let definition = format!("with.{shown}");
        by_action.push(json!({
            "if": {"properties": {"uses": {"enum": about.names}}, "required": ["uses"]},
            "then": {"properties": {"with": {"$ref": format!("#/$defs/{definition}")}}},
        }));
        definitions.insert(definition, arguments(about));
    }
    definitions.insert("node".to_owned(), node(registry, by_action));
    definitions.insert("on_error".to_owned(), on_error());
    definitions.insert("edge".to_owned(), edge());
    definitions.insert("settings".to_owned(), settings());
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Cachalot agent file",
        "type": "object",
        "required": ["nodes"],
        "additionalProperties": false,
        "properties": {
            "name": {"type": "string", "description": "The agent's name; part of every cache handle."},
            "description": {"type": "string"},
            "version": {"type": ["string", "number"]},
            "variables": {"type": "object", "description": "Values for templates: {{ variables.NAME }}."},
            "settings": {"$ref": "#/$defs/settings"},
            "state_schema": {"description": "For readers; not checked."},
            "initial_state": {"type": "object", "description": "The state before the input is laid over it."},
            "nodes": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            "edges": {"type": "array", "items": {"$ref": "#/$defs/edge"}},
        },
        "$defs": definitions,
    })
}

/// A template may stand where a value of any type is wanted.
fn template_or(kind: Value) -> Value {
    json!({"anyOf": [kind, {"type": "string"}, {"type": "null"}]})
}

fn arguments(about: &About) -> Value {
    let properties: Map<String, Value> = about
        .parameters
        .iter()
        .map(|parameter| (parameter.name.to_owned(), of_parameter(parameter)))
        .collect();
    let required: Vec<&str> =
        about.parameters.iter().filter(|p| p.required).map(|p| p.name).collect();
    json!({
        "description": about.doc,
        "anyOf": [
            {"type": "object", "properties": properties, "required": required, "additionalProperties": false},
            {"type": "string", "description": "One template that gives all arguments."},
        ],
    })
}

fn of_parameter(parameter: &Parameter) -> Value {
    let mut schema = match parameter.kind {
        ParameterKind::Any => json!({}),
        ParameterKind::Text => json!({"type": ["string", "number", "boolean", "null"]}),
        ParameterKind::Integer => template_or(json!({"type": "integer"})),
        ParameterKind::Number => template_or(json!({"type": "number"})),
        ParameterKind::Boolean => template_or(json!({"type": "boolean"})),
        ParameterKind::Object => template_or(json!({"type": "object"})),
        ParameterKind::List => template_or(json!({"type": "array"})),
    };
    schema["description"] = parameter.doc.into();
    schema
}

fn node(registry: &Registry, by_action: Vec<Value>) -> Value {
    let nodes = json!({"type": "array", "items": {"$ref": "#/$defs/node"}});
    let names: Vec<&str> = registry.names().collect();
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "description": {"type": "string"},
            "run": {"description": "Inline Python; what it returns is merged into the state."},
            "script": {"description": "The same as run."},
            "language": {"enum": ["python", "python3"]},
            "uses": {"anyOf": [{"enum": names}, {"type": "string"}]},
            "with": {},
            "output": {"type": ["string", "object"]},
            "output_key": {"type": "string"},
            "steps": nodes,
            "type": {"enum": ["while_loop", "dynamic_parallel"]},
            "condition": {"type": ["string", "boolean"]},
            "max_iterations": {"type": "integer", "minimum": 1, "maximum": 1000},
            "body": nodes,
            "items": {"type": ["string", "array"]},
            "item_var": {"type": "string", "default": "item"},
            "index_var": {"type": "string", "default": "index"},
            "action": {"type": ["string", "object"]},
            "max_concurrency": {"type": "integer", "minimum": 1, "maximum": 10000},
            "fail_fast": {"type": "boolean", "default": false},
            "fan_in": {"type": ["boolean", "string"]},
            "on_error": {"$ref": "#/$defs/on_error"},
            "goto": {
                "anyOf": [
                    {"type": "string"},
                    {"type": "array", "items": {
                        "type": "object",
                        "required": ["to"],
                        "properties": {"if": {"type": ["string", "boolean"]}, "to": {"type": "string"}},
                        "additionalProperties": false,
                    }},
                ],
            },
        },
        "additionalProperties": false,
        "allOf": by_action,
    })
}

fn on_error() -> Value {
    json!({
        "type": "object",
        "properties": {
            "mode": {"enum": ["raise", "graceful", "retry"]},
            "max_retries": {"type": "integer", "minimum": 0, "maximum": 1000},
            "retry_delay": {"type": "number", "description": "Seconds before the second attempt."},
            "backoff_multiplier": {"type": "number", "minimum": 1},
            "fallback": {"type": "string", "description": "The node to go on with."},
            "retryable_errors": {"type": "array", "items": {"type": "string"}},
        },
        "additionalProperties": false,
    })
}

fn edge() -> Value {
    json!({
        "type": "object",
        "required": ["from", "to"],
        "properties": {
            "from": {"type": "string"},
            "to": {"type": "string"},
            "when": {},
            "condition": {},
            "parallel": {"type": "boolean"},
            "type": {"enum": ["parallel", "normal"]},
            "fan_in": {"type": "string"},
            "parallel_strategy": {"const": "thread"},
        },
        "additionalProperties": false,
    })
}

fn settings() -> Value {
    let section = |properties: Value| {
        json!({"type": "object", "properties": properties, "additionalProperties": false})
    };
    let text = json!({"type": "string"});
    let count = json!({"type": "integer", "minimum": 0});
    let seconds = json!({"type": "number", "exclusiveMinimum": 0});
    section(json!({
        "name": {"type": "string", "description": "The agent's name in cache handles."},
        "ltm_path": text,
        "ltm": section(json!({
            "backend": {"enum": ["sqlite", "in-process"]}, "path": text, "ltm_path": text,
        })),
        "cache": section(json!({
            "max_bytes": count, "max_entries": count, "front_bytes": count, "patience_ms": count,
        })),
        "python": section(json!({"time_limit": seconds, "memory_limit": count})),
        "python3": section(json!({"time_limit": seconds, "memory_limit": count, "command": text})),
        "parallel": section(json!({"max_workers": {"type": "integer", "minimum": 1}, "strategy": {"const": "thread"}})),
        "web": section(json!({"search": section(json!({"base_url": text}))})),
        "llamaextract": section(json!({"base_url": text, "api_key": text})),
    }))
}
