//! An answer as workflows see it.

use cachalot_core::Cost;
use cachalot_model::{Block, Reply, StopReason};
use serde_json::{Map, Value, json};

use super::super::arguments::Given;
use crate::{Failure, spending};

/// The result of a call. An answer that is not whole is not to be kept: the wrap around is told.
pub(super) fn of(
    reply: &Reply,
    cost: Cost,
    parsed: bool,
    given: &Given<'_>,
) -> Result<Value, Failure> {
    let text = reply.message.text();
    let mut fields = Map::new();
    if parsed {
        fields.insert("data".to_owned(), data(reply, &text, given)?);
    }
    fields.insert("content".to_owned(), text.into());
    let calls: Vec<Value> = reply
        .message
        .tool_uses()
        .map(|call| {
            json!({
                "id": call.id,
                "name": call.name,
                // What is no JSON stays text.
                "arguments": serde_json::from_str(&call.arguments)
                    .unwrap_or_else(|_| Value::from(call.arguments.as_str())),
            })
        })
        .collect();
    if !calls.is_empty() {
        fields.insert("tool_calls".to_owned(), calls.into());
    }
    let thoughts: Vec<&str> = reply
        .message
        .content
        .iter()
        .filter_map(|block| match block {
            Block::Reasoning(reasoning) if !reasoning.text.is_empty() => Some(&*reasoning.text),
            _ => None,
        })
        .collect();
    if !thoughts.is_empty() {
        fields.insert("reasoning".to_owned(), thoughts.join("\n").into());
    }
    fields.insert("model".to_owned(), reply.model.as_str().into());
    fields.insert("stop_reason".to_owned(), stop(&reply.stop).into());
    fields.insert("usage".to_owned(), usage(reply));
    let dollars = (cost.unpriced == 0).then(|| cost.dollars());
    fields.insert("cost".to_owned(), json!(dollars));
    match reply.stop {
        StopReason::Length => spending::decline("the answer is cut off (max_tokens)"),
        StopReason::Refusal => spending::decline("the model refused to answer"),
        _ => {}
    }
    Ok(Value::Object(fields))
}

fn data(reply: &Reply, text: &str, given: &Given<'_>) -> Result<Value, Failure> {
    if reply.stop == StopReason::Refusal {
        return Ok(Value::Null);
    }
    serde_json::from_str(text).map_err(|error| {
        let cut = match reply.stop {
            StopReason::Length => "; it is cut off: raise `max_tokens`",
            _ => "",
        };
        Failure::passing(
            "invalid_answer",
            format!(
                "{}: the answer is not the JSON that `response_format` asks for ({error}){cut}",
                given.action()
            ),
        )
    })
}

fn stop(reason: &StopReason) -> &str {
    match reason {
        StopReason::End => "end",
        StopReason::ToolUse => "tool_use",
        StopReason::Length => "length",
        StopReason::StopText => "stop",
        StopReason::Refusal => "refusal",
        StopReason::Other(reason) => reason,
    }
}

fn usage(reply: &Reply) -> Value {
    let Some(usage) = reply.usage else {
        return Value::Null;
    };
    json!({
        "input_tokens": usage.total_input(),
        "output_tokens": usage.output,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write(),
        "reasoning_tokens": usage.reasoning,
    })
}
