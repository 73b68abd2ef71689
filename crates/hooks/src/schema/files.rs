//! The schema of the `hooks:` section of an agent file.

use serde_json::{Map, Value, json};

use super::{DRAFT, sentence};
use crate::contract::Blocks;
use crate::{Dialect, Event};

/// The JSON Schema (2020-12) of the `hooks:` section of an agent file.
#[must_use]
pub fn hooks_schema() -> Value {
    let mut properties: Map<String, Value> = Event::all().map(event).collect();
    properties.insert("dialect".to_owned(), dialect());
    json!({
        "$schema": DRAFT,
        "title": "Hooks of an agent",
        "description": "What is run when something happens, by event.",
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": properties,
        "patternProperties": {
            "^[A-Z][A-Za-z]+$": hooks("With `dialect`: an event as it is called there.", "guard"),
        },
        "$defs": {
            "hook": hook(false),
            "guard": hook(true),
            "hook_group": group("hook"),
            "guard_group": group("guard"),
        },
    })
}

/// An event with its hooks. A guard may block by failing.
fn event(event: Event) -> (String, Value) {
    let kind = match event.contract().blocks {
        Blocks::Refusal => "guard",
        Blocks::GoingOn | Blocks::Nothing => "hook",
    };
    let about = sentence(event.contract().fires);
    (event.name().to_owned(), hooks(&about, kind))
}

/// Hooks and groups of them.
fn hooks(about: &str, kind: &str) -> Value {
    let group = format!("{kind}_group");
    let hooks = one_or_more(&json!({ "anyOf": [reference(kind), reference(&group)] }));
    described(hooks, about)
}

/// One stands for a list of one.
fn one_or_more(item: &Value) -> Value {
    json!({ "anyOf": [item, { "type": "array", "items": item }, { "type": "null" }] })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

/// Hooks for the same tools.
fn group(kind: &str) -> Value {
    json!({
        "description": "Hooks for the same tools.",
        "type": "object",
        "additionalProperties": false,
        "required": ["hooks"],
        "properties": {
            "matcher": text("Of events of tools, the tools: a regular expression that matches the whole name; all of them if it is empty, `*` or absent."),
            "preempt_yolo": flag("Read for files of docker-agent. Of no effect: hooks are asked whatever the permissions say."),
            "sequential": flag("Whether each of them waits for those before it."),
            "dialect": dialect(),
            "hooks": one_or_more(&reference(kind)),
        },
    })
}

fn dialect() -> Value {
    let names = Dialect::ALL.map(Dialect::name);
    described(
        json!({ "enum": names }),
        "In whose words hooks are told and speak.",
    )
}

/// Texts by name; other plain values are taken as their text.
fn plain(about: &str) -> Value {
    let value = json!({ "type": ["string", "number", "boolean", "null"] });
    described(
        json!({ "type": "object", "additionalProperties": value }),
        about,
    )
}

/// A definition, of an event that can be blocked or of one that cannot.
fn hook(may_block: bool) -> Value {
    let of = |kind: &str, about: &str, required: &[&str], own: Value| {
        let mut properties = shared(may_block);
        properties.insert("type".to_owned(), json!({ "const": kind }));
        properties.extend(own.as_object().cloned().unwrap_or_default());
        let required = [&["type"], required].concat();
        json!({
            "description": about,
            "type": "object",
            "additionalProperties": false,
            "required": required,
            "properties": properties,
        })
    };
    json!({ "anyOf": [
        of("command", "A shell line, with JSON on stdin and stdout.", &["command"], json!({
            "command": text("The line."),
        })),
        of("builtin", "A handler that comes with the program.", &["command"], json!({
            "command": text("Its name."),
            "args": {
                "description": "Its arguments.",
                "type": "array", "items": { "type": "string" },
            },
        })),
        of("http", "A POST request with the same JSON.", &["url"], json!({
            "url": text("Where to."),
            "headers": plain("Further headers; `${env.NAME}` in a value stands for an environment variable."),
        })),
        of("model", "A question to a model.", &["model", "prompt"], json!({
            "model": text("The model, as agents name theirs."),
            "prompt": text("A template of the question."),
            "system_prompt": text("What the model is told before it."),
            "schema": described(
                json!({ "enum": ["pre_tool_use_decision", "guard_decision"] }),
                "The form of its judgement; without one, its answer is context.",
            ),
        })),
    ]})
}

/// What all definitions have.
fn shared(may_block: bool) -> Map<String, Value> {
    let on_error: &[&str] = match may_block {
        true => &["warn", "ignore", "block"],
        false => &["warn", "ignore"],
    };
    let shared = json!({
        "name": text("For messages."),
        "timeout": described(
            json!({ "type": "number" }),
            "How long it may take, in whole seconds, in other dialects in their unit; 60 seconds if it is absent or not positive.",
        ),
        "env": plain("Further environment variables; `${env.NAME}` in a value stands for one."),
        "working_dir": text("Where it runs, if not in the directory that tools work in."),
        "on_error": described(json!({ "enum": on_error }), "What a failure brings about."),
        "strict_output": flag("Whether an output with anything that the event does not honour is a failure."),
        "sequential": flag("Whether it waits for those before it, also where the event's hooks run beside each other."),
        "dialect": dialect(),
    });
    shared.as_object().cloned().unwrap_or_default()
}

fn text(about: &str) -> Value {
    described(json!({ "type": "string" }), about)
}

fn flag(about: &str) -> Value {
    described(json!({ "type": "boolean" }), about)
}

fn described(mut schema: Value, about: &str) -> Value {
    schema["description"] = about.into();
    schema
}
