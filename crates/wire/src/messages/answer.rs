//! Parses answers.

use cachalot_core::json;
use serde_json::{Map, Value};

use super::failure;
use super::usage::usage;
use crate::error::{Error, ErrorKind};
use crate::extra;
use crate::{Block, Format, Message, Reasoning, Reply, Role, StopReason, ToolUse};

/// A JSON object of the wire.
pub(super) type Fields = Map<String, Value>;

/// Parses a whole answer.
pub(crate) fn reply(body: &[u8]) -> Result<Reply, Error> {
    let text = std::str::from_utf8(body)
        .map_err(|error| malformed(format!("the answer is no UTF-8 text ({error})")))?;
    let mut fields = object(text, "the answer")?;
    // Proxies send errors without a type.
    if !fields.contains_key("content") && fields.contains_key("error") {
        return Err(failure::read(&fields));
    }
    let Some(Value::Array(content)) = fields.shift_remove("content") else {
        return Err(malformed("the answer has no `content`"));
    };
    let texts = json::member(text, "content").map(json::elements);
    let blocks = content
        .into_iter()
        .zip(texts.unwrap_or_default())
        .map(|(value, text)| match value {
            Value::Object(fields) => block(fields, json::member(text, "input").unwrap_or_default()),
            _ => Err(malformed("a block of the answer is no object")),
        })
        .collect::<Result<_, _>>()?;
    Ok(whole(fields, blocks))
}

/// Creates the reply from the answer's fields without `content`.
pub(super) fn whole(mut fields: Fields, blocks: Vec<Block>) -> Reply {
    fields.shift_remove("type");
    fields.shift_remove("role");
    let model = fields.shift_remove("model");
    let id = fields.shift_remove("id");
    let stop = fields.shift_remove("stop_reason");
    let usage = fields.shift_remove("usage").and_then(usage);
    if let Some((_, rest)) = &usage
        && !rest.is_empty()
    {
        fields.insert("usage".into(), Value::Object(rest.clone()));
    }
    Reply {
        message: Message::new(Role::Assistant, blocks),
        stop: stop_reason(stop.as_ref().and_then(Value::as_str), &["refusal"]),
        usage: usage.map(|(usage, _)| usage),
        model: text_of(model).unwrap_or_default(),
        id: text_of(id),
        extra: fields,
    }
}

/// Parses a block; `input` is the text of the arguments of a tool call.
pub(super) fn block(mut fields: Fields, input: &str) -> Result<Block, Error> {
    let kind = fields.get("type").and_then(Value::as_str);
    match kind.unwrap_or_default() {
        "text" if is_text_or_nothing(fields.get("text")) => {
            fields.shift_remove("type");
            Ok(Block::Text {
                text: text_of(fields.shift_remove("text")).unwrap_or_default(),
                extra: extra::from_wire(Format::Messages, fields),
            })
        }
        "tool_use" => tool_use(fields, input).map(Block::ToolUse),
        "thinking" => {
            let text = fields.get("thinking").and_then(Value::as_str);
            Ok(reasoning(text.unwrap_or_default().to_owned(), fields))
        }
        "redacted_thinking" => Ok(reasoning(String::new(), fields)),
        _ => Ok(Block::Other {
            format: Format::Messages,
            verbatim: Value::Object(fields),
        }),
    }
}

fn reasoning(text: String, fields: Fields) -> Block {
    Block::Reasoning(Reasoning {
        text,
        format: Format::Messages,
        verbatim: Value::Object(fields),
    })
}

fn is_text_or_nothing(value: Option<&Value>) -> bool {
    value.is_none_or(|value| value.is_string() || value.is_null())
}

fn tool_use(mut fields: Fields, input: &str) -> Result<ToolUse, Error> {
    fields.shift_remove("type");
    fields.shift_remove("input");
    let id = text_of(fields.shift_remove("id"));
    let name = text_of(fields.shift_remove("name"));
    let (Some(id), Some(name)) = (id, name) else {
        return Err(malformed("a call of a tool has no `id` or no `name`"));
    };
    Ok(ToolUse {
        id,
        name,
        arguments: input.to_owned(),
        extra: extra::from_wire(Format::Messages, fields),
    })
}

pub(crate) fn stop_reason(reason: Option<&str>, refusals: &[&str]) -> StopReason {
    match reason {
        Some("end_turn") => StopReason::End,
        Some("tool_use") => StopReason::ToolUse,
        Some("max_tokens" | "model_context_window_exceeded") => StopReason::Length,
        Some("stop_sequence") => StopReason::StopText,
        Some(reason) if refusals.contains(&reason) => StopReason::Refusal,
        Some(other) => StopReason::Other(other.to_owned()),
        None => StopReason::Other("not said".to_owned()),
    }
}

fn text_of(value: Option<Value>) -> Option<String> {
    match value {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// Parses JSON text that must be an object.
pub(super) fn object(text: &str, what: &str) -> Result<Fields, Error> {
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(malformed(format!("{what} is JSON, but no object"))),
        Err(error) => Err(malformed(format!("{what} is not JSON ({error})"))),
    }
}

/// Creates the error of an invalid answer.
pub(super) fn malformed(what: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Malformed,
        format!("{what}; check that the base URL is one of the Anthropic Messages API"),
    )
}
