//! The normal form of a request, as providers compare it: independent of the way in which a client
//! writes the JSON.
//!
//! Providers parse a request before they hash it. They therefore ignore white space between JSON tokens,
//! escapes within strings, the order of members in their own objects, null members, and members with
//! their default value. [`piece`] normalizes a tool, a block of the system text or a message; [`member`]
//! normalizes a parameter. JSON that belongs to the caller (schemas, arguments of tools) keeps the order
//! of its members, which reaches the model.
//!
//! Sources of defaults: the OpenAPI documents of OpenAI, and the prompt-caching and effort pages of
//! platform.claude.com. Those of a format are in its [`RequestRules`], those of single models in the catalog.

mod long_texts;

use serde_json::{Map, Value, json};

use self::long_texts::LongTexts;
use crate::Level;
use crate::request_rules::{DefaultMember, ModelDefaults, RequestRules, Shape, without};

/// A piece in its normal form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NormalPiece {
    /// Compact JSON.
    pub bytes: Vec<u8>,
    /// The offset at which a cache marker may be inserted; `None` if markers are not allowed.
    pub mark_at: Option<u32>,
}

/// Default values of members that all formats have.
const DEFAULTS: [DefaultMember; 4] = [
    DefaultMember::new(Shape::Tool, "defer_loading", "false"),
    DefaultMember::new(Shape::Block, "annotations", "[]"),
    DefaultMember::new(Shape::Block, "logprobs", "[]"),
    DefaultMember::new(Shape::Block, "detail", r#""auto""#),
];

/// Members of blocks, tools and calls that are objects of the provider. All others belong to the caller.
const PARTS: [&str; 7] = [
    "function",
    "custom",
    "source",
    "image_url",
    "input_audio",
    "file",
    "citations",
];

/// Returns a piece in its normal form; `None` if the format does not know it.
#[must_use]
pub fn piece(rules: &RequestRules, level: Level, bytes: &[u8]) -> Option<NormalPiece> {
    match LongTexts::find(bytes) {
        Some((texts, short)) => Some(texts.put_back(short_piece(rules, level, &short)?)),
        None => short_piece(rules, level, bytes),
    }
}

pub(crate) fn short_piece(rules: &RequestRules, level: Level, bytes: &[u8]) -> Option<NormalPiece> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let (shape, object) = match (level, value) {
        (Level::Tool, Value::Object(tool)) => (Shape::Tool, tool),
        (Level::System, Value::String(text)) if rules.has_system_blocks => {
            (Shape::Block, text_block("text", text))
        }
        // The `instructions` of Responses.
        (Level::System, Value::String(text)) => {
            return Some(NormalPiece {
                bytes: serde_json::to_vec(&text).ok()?,
                mark_at: None,
            });
        }
        (Level::System, Value::Object(block)) if rules.has_system_blocks => (Shape::Block, block),
        (Level::Message, Value::String(text)) => {
            let message = [("role", json!("user")), ("content", Value::String(text))];
            let message = message.map(|(name, value)| (name.to_owned(), value));
            (Shape::Message, Map::from_iter(message))
        }
        (Level::System | Level::Message, Value::Object(message)) => (Shape::Message, message),
        _ => return None,
    };
    let role = object.get("role").and_then(Value::as_str);
    let is_input = role != Some("assistant");
    let object = normalized(rules, shape, is_input, object);
    let place = match shape {
        Shape::Message => last_block(rules, is_input, &object),
        _ => is_markable(&object).then_some(1),
    };
    let mut written = Vec::with_capacity(bytes.len());
    serde_json::to_writer(&mut written, &object).ok()?;
    let bytes = written;
    let mark_at = place.and_then(|behind| u32::try_from(bytes.len() - behind).ok());
    Some(NormalPiece { bytes, mark_at })
}

fn text_block(kind: &str, text: String) -> Map<String, Value> {
    let members = [("type", Value::from(kind)), ("text", Value::String(text))];
    let members = members.map(|(name, value)| (name.to_owned(), value));
    Map::from_iter(members)
}

fn normalized(
    rules: &RequestRules,
    shape: Shape,
    is_input: bool,
    object: Map<String, Value>,
) -> Map<String, Value> {
    let members = object.into_iter().filter(|(_, value)| !value.is_null());
    let mut members: Vec<(String, Value)> = members
        .map(|(name, value)| {
            let value = inner(rules, shape, is_input, &name, value);
            (name, value)
        })
        .filter(|(name, value)| !is_default(rules, shape, name, value))
        .collect();
    members.sort_by(|(one, _), (other, _)| (rank(one), one).cmp(&(rank(other), other)));
    members.into_iter().collect()
}

/// The order in which members are written: the usual order of the providers' clients.
fn rank(name: &str) -> usize {
    const FIRST: [&str; 8] = [
        "role",
        "type",
        "id",
        "tool_use_id",
        "call_id",
        "tool_call_id",
        "name",
        "description",
    ];
    match name {
        // Last, so that the offset for a marker is known.
        "content" => FIRST.len() + 1,
        name => FIRST
            .iter()
            .position(|first| *first == name)
            .unwrap_or(FIRST.len()),
    }
}

fn inner(rules: &RequestRules, shape: Shape, is_input: bool, name: &str, value: Value) -> Value {
    match (shape, name, value) {
        (Shape::Message | Shape::Block, "content", Value::String(text)) => {
            match rules.text_blocks {
                None => Value::String(text),
                Some((input, _)) if is_input => json!([text_block(input, text)]),
                Some((_, output)) => json!([text_block(output, text)]),
            }
        }
        (Shape::Message | Shape::Block, "content", Value::Array(blocks)) => {
            let blocks = all(rules, Shape::Block, is_input, blocks);
            if rules.reads_list_as_string {
                only_text(blocks)
            } else {
                Value::Array(blocks)
            }
        }
        (Shape::Message, "output", Value::Array(parts)) => {
            only_text(all(rules, Shape::Block, is_input, parts))
        }
        (Shape::Message, "tool_calls", Value::Array(calls)) => {
            Value::Array(all(rules, Shape::Part, is_input, calls))
        }
        (Shape::Tool | Shape::Block | Shape::Part, name, Value::Object(part))
            if PARTS.contains(&name) =>
        {
            Value::Object(normalized(rules, Shape::Part, is_input, part))
        }
        (_, _, value) => value,
    }
}

fn all(rules: &RequestRules, shape: Shape, is_input: bool, values: Vec<Value>) -> Vec<Value> {
    let values = values.into_iter().map(|value| match value {
        Value::Object(object) => Value::Object(normalized(rules, shape, is_input, object)),
        other => other,
    });
    values.collect()
}

/// Replaces a list of one text block by its text.
fn only_text(blocks: Vec<Value>) -> Value {
    let text = match blocks.as_slice() {
        [Value::Object(only)] if only.len() == 2 => only.get("text").filter(|_| {
            let kind = only.get("type").and_then(Value::as_str);
            matches!(kind, Some("text" | "input_text" | "output_text"))
        }),
        _ => None,
    };
    text.cloned().unwrap_or(Value::Array(blocks))
}

fn is_default(rules: &RequestRules, shape: Shape, name: &str, value: &Value) -> bool {
    let defaults = DEFAULTS.iter().chain(rules.defaults);
    let mut known = defaults.filter(|default| default.shape == shape && default.name == name);
    known.any(|default| {
        serde_json::from_str::<Value>(default.value).is_ok_and(|default| default == *value)
    })
}

/// The distance of a marker from the end of a message in bytes: after its last block.
fn last_block(rules: &RequestRules, is_input: bool, message: &Map<String, Value>) -> Option<usize> {
    let blocks = message.get("content").and_then(Value::as_array)?;
    let last = blocks.last().and_then(Value::as_object)?;
    let takes = is_input || rules.marks_answers;
    (takes && is_markable(last)).then_some("}]}".len())
}

fn is_markable(block: &Map<String, Value>) -> bool {
    let kind = block.get("type").and_then(Value::as_str);
    match kind.unwrap_or_default() {
        "thinking" | "redacted_thinking" | "reasoning" => false,
        "text" | "input_text" => {
            let text = block.get("text").and_then(Value::as_str);
            text.is_some_and(|text| !text.trim().is_empty())
        }
        _ => !block.is_empty(),
    }
}

/// Returns a parameter in its normal form; `None` if it has its default value.
#[must_use]
pub fn member(
    rules: &RequestRules,
    model: &ModelDefaults<'_>,
    name: &str,
    value: Value,
) -> Option<Value> {
    let value = match (name, value) {
        (_, Value::Null) => return None,
        (_, Value::Array(values)) if values.is_empty() => return None,
        ("modalities", Value::Array(values)) if values == [json!("text")] => return None,
        ("tool_choice", Value::Object(mut choice)) => {
            if choice.get("disable_parallel_tool_use") == Some(&Value::Bool(false)) {
                choice.shift_remove("disable_parallel_tool_use");
            }
            if choice.len() == 1 {
                without(&mut choice, "type", |kind| kind == "auto");
            }
            Value::Object(choice)
        }
        ("context_management", Value::Object(mut management)) => {
            if management.get("edits") == Some(&json!([])) {
                management.shift_remove("edits");
            }
            Value::Object(management)
        }
        (name, Value::Object(mut object)) => {
            (rules.normalize_member)(name, &mut object, model);
            Value::Object(object)
        }
        (_, value) => value,
    };
    let said = match &value {
        Value::Object(members) => members.values().any(|value| !value.is_null()),
        Value::String(word) => !is_default_word(rules, model, name, word),
        Value::Bool(is) => !matches!(
            (name, is),
            ("parallel_tool_calls", true) | ("disable_parallel_tool_use", false)
        ),
        _ => true,
    };
    let plain = name == "response_format" && value == json!({"type": "text"});
    (said && !plain).then_some(value)
}

fn is_default_word(
    rules: &RequestRules,
    model: &ModelDefaults<'_>,
    name: &str,
    word: &str,
) -> bool {
    match (name, word) {
        ("tool_choice" | "function_call" | "service_tier", "auto")
        | ("speed", "standard")
        | ("verbosity", "medium")
        | ("truncation", "disabled") => true,
        (name, effort) if rules.effort_members.contains(&name) => {
            rules.effort(model) == Some(effort)
        }
        _ => false,
    }
}
