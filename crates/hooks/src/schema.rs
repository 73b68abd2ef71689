//! JSON Schemas of the input, the output and the configuration of hooks. Generated from the
//! contracts ([`crate::CONTRACTS`]), so that they are always in sync.

use serde_json::{Map, Value, json};

use crate::Event;
use crate::contract::{Contract, Field, INPUT_KEYS, Key, Kind, OUTPUT_KEYS};

mod files;

pub use files::hooks_schema;

/// The JSON Schema draft.
const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The keys that every input has.
const REQUIRED_KEYS: [&str; 3] = ["session_id", "cwd", "hook_event_name"];

/// The JSON Schema (2020-12) of the input at an event, in our own dialect.
#[must_use]
pub fn input_schema(event: Event) -> Value {
    let mut properties: Map<String, Value> = inputs(event.contract()).map(property).collect();
    properties.insert(
        "hook_event_name".to_owned(),
        json!({ "const": event.name() }),
    );
    json!({
        "$schema": DRAFT,
        "title": format!("Input of hooks at {event}"),
        "description": sentence(event.contract().fires),
        "type": "object",
        "required": REQUIRED_KEYS,
        "properties": properties,
    })
}

/// The JSON Schema (2020-12) of the output at an event, in our own dialect.
#[must_use]
pub fn output_schema(event: Event) -> Value {
    let honoured = event.contract().honours.iter();
    let mut specific: Map<String, Value> = honoured
        .flat_map(|honoured| honoured.keys())
        .map(property)
        .collect();
    specific.insert(
        "hook_event_name".to_owned(),
        json!({ "const": event.name() }),
    );
    let mut properties: Map<String, Value> = OUTPUT_KEYS.iter().map(property).collect();
    properties["hook_specific_output"]["properties"] = Value::Object(specific);
    properties["hook_specific_output"]["additionalProperties"] = json!(false);
    json!({
        "$schema": DRAFT,
        "title": format!("Output of hooks at {event}"),
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    })
}

/// The input keys of an event, each once.
fn inputs(contract: &Contract) -> impl Iterator<Item = &'static Key> {
    let fields = contract.fields;
    INPUT_KEYS.iter().filter(move |key| {
        Field::COMMON.contains(&key.name)
            || fields.iter().any(|field| field.keys().contains(&key.name))
    })
}

fn property(key: &Key) -> (String, Value) {
    let mut schema = of_kind(key.kind);
    schema["description"] = key.about.into();
    (key.name.to_owned(), schema)
}

fn of_kind(kind: Kind) -> Value {
    match kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::OneOf(texts) => json!({ "enum": texts }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Whole => json!({ "type": "integer", "minimum": 0 }),
        Kind::Number => number(),
        Kind::Mapping => json!({ "type": "object" }),
        Kind::Texts => texts(),
        Kind::List => json!({ "type": "array", "items": { "type": "object" } }),
        Kind::Synthetic => synthetic(),
    }
}

/// The schema of a synthetic answer.
fn synthetic() -> Value {
    json!({
        "type": "object",
        "required": ["content"],
        "properties": {
            "content": { "type": "string", "minLength": 1, "description": "The text." },
            "provenance": { "type": "string", "description": "The source, in a few words." },
            "metadata": texts(),
            "saved": {
                "description": "The saved spend; the cost in US dollars.",
                "type": "object",
                "properties": {
                    "calls": number(),
                    "seconds": number(),
                    "input_tokens": number(),
                    "output_tokens": number(),
                    "cost": number(),
                },
            },
        },
    })
}

fn number() -> Value {
    json!({ "type": "number", "minimum": 0 })
}

/// The schema of a mapping of strings.
fn texts() -> Value {
    json!({ "type": "object", "additionalProperties": { "type": "string" } })
}

/// Capitalizes the first letter and appends a full stop.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(char::to_uppercase);
    first
        .into_iter()
        .flatten()
        .chain(letters)
        .chain(['.'])
        .collect()
}
