//! The schema of the `hooks:` section of an agent file.

use serde_json::{Map, Value, json};

use super::{DRAFT, sentence};
use crate::contract::BlockEffect;
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
    json!({
        "description": "Hooks for the same tools.",
        "type": "object",
        "additionalProperties": false,
        "required": ["hooks"],
        "properties": {
            "matcher": text("For tool events: a regular expression that matches the whole name of the tool; all tools if it is empty, `*` or absent."),
            "preempt_yolo": flag("Read for files of docker-agent. Without effect: hooks run independent of permissions."),
            "sequential": flag("Run the hooks one after the other."),
            "dialect": dialect(),
            "hooks": one_or_more(hook),
        },
    })
}

fn dialect() -> Value {
    let names = Dialect::ALL.map(Dialect::name);
    described(
        json!({ "enum": names }),
        "The dialect of the hooks' input and output.",
    )
}

/// A mapping of strings; other scalar values are converted to text.
fn plain(about: &str) -> Value {
    let value = json!({ "type": ["string", "number", "boolean", "null"] });
    described(
        json!({ "type": "object", "additionalProperties": value }),
        about,
    )
}

/// The schema of a definition, for an event that can or cannot be blocked.
fn hook(may_block: bool) -> Value {
    let of = |kind: &str, about: &str, required: &[&str], own: Value| {
        handler(kind, about, required, shared(may_block), own)
    };
    json!({ "anyOf": [
        of("command", "A shell line, with JSON on stdin and stdout.", &["command"], json!({
            "command": text("The line."),
        })),
        of("builtin", "A handler that comes with the program.", &["command"], json!({
            "command": text("Its name."),
            "args": texts("Its arguments."),
        })),
        of("http", "A POST request with the same JSON.", &["url"], json!({
            "url": text("The URL."),
            "headers": plain("Further headers; `${env.NAME}` in a value stands for an environment variable."),
        })),
        of("model", "A question to a model.", &["model", "prompt"], json!({
            "model": text("The model, as agents name theirs."),
            "prompt": text("A template of the question."),
            "system_prompt": text("The system prompt before it."),
            "schema": described(
                json!({ "enum": ["pre_tool_use_decision", "guard_decision"] }),
                "The form of its judgement; without one, its answer is context.",
            ),
        })),
    ]})
}

/// The schema of a handler type with its own properties.
fn handler(
    kind: &str,
    about: &str,
    required: &[&str],
    mut properties: Map<String, Value>,
    own: Value,
) -> Value {
    properties.insert("type".to_owned(), json!({ "const": kind }));
    if let Value::Object(own) = own {
        properties.extend(own);
    }
    let required = [&["type"], required].concat();
    json!({
        "description": about,
        "type": "object",
        "additionalProperties": false,
        "required": required,
        "properties": properties,
    })
}

/// The schema of a definition in the dialect of another runtime, with the options of Claude Code.
fn foreign() -> Value {
    let of = |kind: &str, about: &str, required: &[&str], own: Value| {
        let mut properties = shared(true);
        let options = json!({
            "once": flag("Claude Code: whether it runs the first time in a session, and then no more."),
            "if": text("Claude Code: the calls of tools that it is for, as a permission rule such as `Bash(git *)`."),
            "async": flag("Claude Code: runs in the background."),
            "asyncRewake": flag("Claude Code: the same; its reason for blocking is delivered when the next turn starts."),
            "description": text("For people."),
            "statusMessage": text("For people."),
        });
        properties.extend(options.as_object().cloned().unwrap_or_default());
        handler(kind, about, required, properties, own)
    };
    let prompt = || {
        json!({
            "prompt": text("The question; `$ARGUMENTS` is replaced by the hook's input."),
            "model": text("The model; without one that of the settings, or else the agent's own."),
        })
    };
    json!({ "anyOf": [
        of("command", "A shell line, or a program with its arguments.", &["command"], json!({
            "command": text("The line; with `args`, the program."),
            "args": texts("Arguments, with which no shell runs."),
            "shell": described(json!({ "enum": ["bash", "powershell"] }), "Claude Code: the shell that the line is for."),
        })),
        of("http", "A POST request with the same JSON.", &["url"], json!({
            "url": text("The URL."),
            "headers": plain("Further headers; `$NAME` in a value stands for an environment variable."),
            "allowedEnvVars": texts("The environment variables that headers may name."),
        })),
        of("prompt", "Claude Code: a question to a model, which objects or does not.", &["prompt"], prompt()),
        of("agent", "Claude Code: the same as `prompt` here.", &["prompt"], prompt()),
        hook(true),
    ]})
}

/// The properties of all definitions.
fn shared(may_block: bool) -> Map<String, Value> {
    let on_error: &[&str] = match may_block {
        true => &["warn", "ignore", "block"],
        false => &["warn", "ignore"],
    };
    let shared = json!({
        "name": text("For messages."),
        "timeout": described(
            json!({ "type": "number" }),
            "The timeout, in whole seconds, in other dialects in their unit; 60 seconds if it is absent or not positive.",
        ),
        "env": plain("Further environment variables; `${env.NAME}` in a value stands for one."),
        "working_dir": text("The working directory; the directory of the tools by default."),
        "on_error": described(json!({ "enum": on_error }), "The effect of a failure."),
        "strict_output": flag("Treat output that the event does not support as a failure."),
        "sequential": flag("Wait for the previous hooks, even if the hooks of the event run in parallel."),
        "dialect": dialect(),
    });
    shared.as_object().cloned().unwrap_or_default()
}

fn text(about: &str) -> Value {
    described(json!({ "type": "string" }), about)
}

fn texts(about: &str) -> Value {
    described(
        json!({ "type": "array", "items": { "type": "string" } }),
        about,
    )
}

fn flag(about: &str) -> Value {
    described(json!({ "type": "boolean" }), about)
}

fn described(mut schema: Value, about: &str) -> Value {
    schema["description"] = about.into();
    schema
}
