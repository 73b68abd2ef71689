//! The schema of the `hooks:` section of an agent file.

use cachalot_core::config::{Settings as _, Table};
use serde_json::{Map, Value, json};

use super::{DRAFT, sentence};
use crate::contract::BlockEffect;
use crate::definition::tables::{
    CLAUDE_COMMAND, ClaudeOptions, ForeignHttpHook, GROUP, HOOK_TYPES, McpToolHook, PromptHook,
    REMARKS, SharedOptions, TOOL_GROUP,
};
use crate::{Dialect, Event};

/// The JSON Schema (2020-12) of the `hooks:` section of an agent file.
#[must_use]
pub fn hooks_schema() -> Value {
    let mut properties: Map<String, Value> = Event::all().map(event).collect();
    for (name, schema) in of_docker_agent() {
        properties.entry(name).or_insert(schema);
    }
    properties.insert("dialect".to_owned(), dialect());
    json!({
        "$schema": DRAFT,
        "title": "Hooks of an agent",
        "description": "Hooks by event.",
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": properties,
        "patternProperties": {
            "^[A-Z][A-Za-z]+$": described(
                one_or_more(&json!({ "anyOf": [reference("foreign"), reference("foreign_group")] })),
                "With `dialect`: an event as it is called there.",
            ),
        },
        "$defs": {
            "hook": hook(false),
            "guard": hook(true),
            "foreign": foreign(),
            "hook_group": group(&json!({ "anyOf": [reference("hook"), of_dialect("foreign")] })),
            "guard_group": group(&json!({ "anyOf": [reference("guard"), of_dialect("foreign")] })),
            "foreign_group": group(&reference("foreign")),
        },
    })
}

/// The schema of an event's hooks. Only events that can be blocked allow `on_error: block`.
fn event(event: Event) -> (String, Value) {
    let kind = match event.contract().blocks {
        BlockEffect::Refusal => "guard",
        BlockEffect::Continue | BlockEffect::Nothing => "hook",
    };
    let about = sentence(event.contract().fires);
    (event.name().to_owned(), hooks(&about, kind))
}

/// The events of docker-agent that we do not have under this name: aliases of ours, and events that
/// files may contain although they never fire.
fn of_docker_agent() -> impl Iterator<Item = (String, Value)> {
    let vocabulary = Dialect::DockerAgent.vocabulary();
    let renamed = vocabulary.events.iter().map(|event_name| {
        let (_, schema) = event(event_name.event);
        (event_name.name.to_owned(), schema)
    });
    let unsupported = vocabulary
        .unsupported
        .iter()
        .filter(|unsupported| !unsupported.guards);
    let unsupported = unsupported.map(|unsupported| {
        let about = format!("Never happens here; {}.", unsupported.nearest);
        (unsupported.name.to_owned(), described(json!({}), &about))
    });
    renamed.chain(unsupported)
}

/// The schema of hooks and groups of hooks.
fn hooks(about: &str, kind: &str) -> Value {
    let group = format!("{kind}_group");
    let hooks = one_or_more(&json!({ "anyOf": [
        reference(kind),
        reference(&group),
        of_dialect("foreign"),
        of_dialect("foreign_group"),
    ]}));
    described(hooks, about)
}

/// The schema of an item that contains `dialect`.
fn of_dialect(name: &str) -> Value {
    json!({ "allOf": [reference(name), { "required": ["dialect"] }] })
}

/// Allows a single item instead of a list.
fn one_or_more(item: &Value) -> Value {
    json!({ "anyOf": [item, { "type": "array", "items": item }, { "type": "null" }] })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

/// The schema of a group of hooks with a common matcher.
fn group(hook: &Value) -> Value {
    let mut group = object(&GROUP, &[&TOOL_GROUP]);
    group["required"] = json!(["hooks"]);
    group["properties"]["hooks"] = one_or_more(hook);
    group
}

fn dialect() -> Value {
    let dialect = GROUP.parameter("dialect");
    dialect.map_or(Value::Null, |dialect| dialect.schema(false))
}

/// The schema of a mapping with the keys of several tables, which has no other keys.
fn object(table: &Table, further: &[&Table]) -> Value {
    let mut schema = table.schema(false);
    for table in further {
        let Value::Object(keys) = table.schema(false)["properties"].take() else {
            continue;
        };
        if let Some(properties) = schema["properties"].as_object_mut() {
            properties.extend(keys);
        }
    }
    schema["additionalProperties"] = false.into();
    schema
}

/// The schema of a hook of a type.
fn handler(kind: &str, table: &Table, further: &[&Table]) -> Value {
    let mut schema = object(table, &[&[SharedOptions::TABLE], further].concat());
    schema["properties"]["type"] = json!({ "const": kind });
    if let Some(required) = schema["required"].as_array_mut() {
        required.insert(0, "type".into());
    }
    schema
}

/// The schema of a hook, for an event that can or cannot be blocked.
fn hook(may_block: bool) -> Value {
    let types = HOOK_TYPES.map(|(kind, table)| {
        let mut hook = handler(kind, table, &[]);
        if !may_block {
            hook["properties"]["on_error"]["enum"] = json!(["warn", "ignore"]);
        }
        hook
    });
    json!({ "anyOf": types })
}

/// The schema of a hook in the dialect of another runtime, with the options of Claude Code.
fn foreign() -> Value {
    let types = [
        ("command", &CLAUDE_COMMAND),
        ("http", ForeignHttpHook::TABLE),
        ("prompt", PromptHook::TABLE),
        ("agent", PromptHook::TABLE),
        ("mcp_tool", McpToolHook::TABLE),
    ];
    let types = types.map(|(kind, table)| handler(kind, table, &[ClaudeOptions::TABLE, &REMARKS]));
    let mut all = types.to_vec();
    all.push(hook(true));
    json!({ "anyOf": all })
}

fn described(mut schema: Value, about: &str) -> Value {
    schema["description"] = about.into();
    schema
}
