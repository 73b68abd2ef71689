//! Parses a whole answer: a response object.

use cachalot_core::Digest;
use serde_json::Value;

use super::ITEM;
use crate::error::{Error, ErrorKind};
use crate::extra;
use crate::openai::{self, Object, malformed, text_of};
use crate::terms::has_count;
use crate::{Block, Format, Message, Reasoning, Reply, Role, StopReason, Terms, ToolUse};

/// Returns the usage in an answer's `usage`.
pub(crate) fn reported(usage: &Value) -> Option<crate::Usage> {
    openai::usage(usage, "input_tokens", "output_tokens")
}

/// Kinds of output items that cost money beside their tokens, and what they are.
const PRICED_ITEMS: [(&str, &str); 3] = [
    ("code_interpreter_call", "code interpreter"),
    ("file_search_call", "file search"),
    ("image_generation_call", "image generation"),
];

/// Returns the terms of an answer. `tool_usage` counts what its tools have done.
pub(super) fn terms(reply: &Reply) -> Terms {
    let tools = reply.extra.get("tool_usage").and_then(Value::as_object);
    let mut tools = tools.into_iter().flatten();
    let counted = tools.find(|(name, counts)| *name != SEARCHES && has_count(counts));
    let mut items = reply.message.content.iter().filter_map(item_type);
    let item = items.find_map(|kind| PRICED_ITEMS.iter().find(|(known, _)| *known == kind));
    let unknown = counted.map(|(name, _)| name.clone());
    Terms {
        unknown: unknown.or_else(|| item.map(|(_, name)| (*name).to_owned())),
        ..Terms::default()
    }
    .or(openai::terms(&reply.extra))
}

/// The member of `tool_usage` about searches of the web.
const SEARCHES: &str = "web_search";

/// Returns the number of searches of the web: as reported, or that of the calls in the answer.
fn web_searches(response: &Object, blocks: &[Block]) -> u64 {
    let reported = response
        .get("tool_usage")
        .and_then(|tools| tools.get(SEARCHES)?.get("num_requests")?.as_u64());
    reported.unwrap_or_else(|| {
        let searches = blocks.iter().filter(|block| {
            let Block::Other { verbatim, .. } = block else {
                return false;
            };
            // Pages that the model opens are free.
            let action = verbatim.get("action");
            let is_search =
                |action: &Value| action.get("type").is_some_and(|kind| kind == "search");
            item_type(block) == Some("web_search_call") && action.is_none_or(is_search)
        });
        searches.count() as u64
    })
}

/// Returns the type of an output item that is kept as it came.
fn item_type(block: &Block) -> Option<&str> {
    match block {
        Block::Other { verbatim, .. } => verbatim.get("type")?.as_str(),
        _ => None,
    }
}

/// Parses a response object.
pub(super) fn reply(mut response: Object) -> Result<Reply, Error> {
    let reported = response.shift_remove("error").unwrap_or(Value::Null);
    let status = text_of(&response, "status").map(str::to_owned);
    if !reported.is_null() || status.as_deref() == Some("failed") {
        return Err(failure(&reported));
    }
    if let Some(status @ ("cancelled" | "queued" | "in_progress")) = status.as_deref() {
        return Err(Error::new(
            ErrorKind::CutOff,
            format!("the answer is not complete (its status is {status}); ask again"),
        ));
    }
    let Some(Value::Array(items)) = response.shift_remove("output") else {
        return Err(malformed("it holds no output"));
    };
    let id = text_of(&response, "id").map(str::to_owned);
    let blocks = blocks(items, id.as_deref().unwrap_or_default());
    let stop = stop(&response, &blocks);
    let usage = response.get("usage").and_then(self::reported);
    let usage = usage.map(|usage| crate::Usage {
        web_searches: web_searches(&response, &blocks),
        ..usage
    });
    let model = text_of(&response, "model").unwrap_or_default().to_owned();
    for read in ["id", "object", "model", "status"] {
        response.shift_remove(read);
    }
    response.retain(|_, value| !value.is_null());
    Ok(Reply {
        message: Message::new(Role::Assistant, blocks),
        stop,
        usage,
        model,
        id,
        extra: response,
    })
}

/// Returns the error that a provider reports, or a general one if it reports none.
pub(super) fn failure(reported: &Value) -> Error {
    if reported.is_null() {
        return Error::new(
            ErrorKind::Unavailable,
            "the provider failed without a reason; retry",
        );
    }
    openai::provider_error(reported)
}

/// Returns the stop reason.
fn stop(response: &Object, blocks: &[Block]) -> StopReason {
    if text_of(response, "status") == Some("incomplete") {
        let reason = response
            .get("incomplete_details")
            .and_then(|details| details.get("reason"))
            .and_then(Value::as_str);
        return match reason {
            Some("max_output_tokens" | "max_tokens") => StopReason::Length,
            Some("content_filter") => StopReason::Refusal,
            other => StopReason::Other(other.unwrap_or("incomplete").to_owned()),
        };
    }
    let calls = |block: &Block| matches!(block, Block::ToolUse(_));
    let refuses = |block: &Block| match block {
        Block::Text { extra, .. } => {
            extra::field(Format::Responses, extra, "type").and_then(Value::as_str)
                == Some(openai::REFUSAL)
        }
        _ => false,
    };
    if blocks.iter().any(calls) {
        StopReason::ToolUse
    } else if blocks.iter().any(refuses) {
        StopReason::Refusal
    } else {
        StopReason::End
    }
}

fn blocks(items: Vec<Value>, response: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (at, item) in items.into_iter().enumerate() {
        let Value::Object(fields) = item else {
            continue;
        };
        match text_of(&fields, "type") {
            Some("message") if fields.get("content").is_some_and(readable) => {
                message(fields, &mut blocks);
            }
            Some("function_call") => blocks.push(function_call(fields, at, response)),
            Some("reasoning") => blocks.push(Block::Reasoning(Reasoning {
                text: thoughts(&fields),
                format: Format::Responses,
                verbatim: fields.into(),
            })),
            _ => blocks.push(Block::Other {
                format: Format::Responses,
                verbatim: fields.into(),
            }),
        }
    }
    blocks
}

/// Returns true if a content consists of at least one part. An item without parts is kept unchanged.
fn readable(content: &Value) -> bool {
    content
        .as_array()
        .is_some_and(|parts| !parts.is_empty() && parts.iter().all(Value::is_object))
}

/// Parses a message item: a block for each part.
fn message(mut item: Object, blocks: &mut Vec<Block>) {
    let content = item.shift_remove("content");
    for known in ["type", "role"] {
        item.shift_remove(known);
    }
    let Some(Value::Array(parts)) = content else {
        return;
    };
    for part in parts {
        let Value::Object(mut part) = part else {
            continue;
        };
        let kind = text_of(&part, "type").unwrap_or("output_text").to_owned();
        let text = match kind.as_str() {
            openai::REFUSAL => part.shift_remove(openai::REFUSAL),
            _ => part.shift_remove("text"),
        };
        let text = match text {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        if kind == "output_text" {
            part.shift_remove("type");
        }
        if !item.is_empty() {
            part.insert(ITEM.to_owned(), item.clone().into());
        }
        blocks.push(Block::Text {
            text,
            extra: extra::from_wire(Format::Responses, part),
        });
    }
}

fn function_call(mut item: Object, at: usize, response: &str) -> Block {
    let id = text_of(&item, "call_id")
        .or_else(|| text_of(&item, "id"))
        .map_or_else(|| derived_id(response, at), str::to_owned);
    let name = text_of(&item, "name").unwrap_or_default().to_owned();
    let arguments = match item.shift_remove("arguments") {
        Some(Value::String(text)) => text,
        None | Some(Value::Null) => String::new(),
        Some(value) => value.to_string(),
    };
    for read in ["type", "call_id", "name"] {
        item.shift_remove(read);
    }
    Block::ToolUse(ToolUse {
        id,
        name,
        arguments,
        extra: extra::from_wire(Format::Responses, item),
    })
}

/// Returns the reasoning text for display: the summary, or else the reasoning itself.
fn thoughts(item: &Object) -> String {
    let texts = |name: &str| {
        let parts = item.get(name).and_then(Value::as_array);
        let texts = parts.into_iter().flatten();
        openai::paragraphs(texts.filter_map(|part| part.get("text")?.as_str()))
    };
    let summary = texts("summary");
    if summary.is_empty() {
        texts("content")
    } else {
        summary
    }
}

/// Derives an id for a call without one; reading the same answer again yields the same id.
fn derived_id(response: &str, at: usize) -> String {
    let at = at.to_string();
    let digest = Digest::sha256_of_parts(&[response.as_bytes(), at.as_bytes()]).to_hex();
    format!("call_{}", digest.get(..24).unwrap_or_default())
}
