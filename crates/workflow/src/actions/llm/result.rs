//! The result of a model call for workflows.

use cachalot_model::{Block, Charge, Reply, StopReason};
use serde_json::{Map, Value, json};

use super::super::arguments::CheckedArguments;
use super::answer_schema::AnswerSchema;
use crate::{Failure, exact_json, spending};

/// Returns the result of a call. An incomplete answer is marked so that the surrounding wrap does not
/// store it.
///
/// # Errors
/// If the answer does not match the requested schema.
pub(super) fn build(
    reply: &Reply,
    charge: &Charge,
    schema: Option<&AnswerSchema>,
    given: &CheckedArguments<'_>,
) -> Result<Value, Failure> {
    let text = reply.message.text();
    let mut fields = Map::new();
    if let Some(schema) = schema {
        fields.insert("data".to_owned(), data(reply, &text, schema, given)?);
    }
    let (calls, arguments_are_json) = tool_calls(reply);
    if let Some(reason) = not_cacheable_reason(reply, &text, !calls.is_empty(), arguments_are_json)
    {
        spending::decline_storing(reason);
    }
    fields.insert("content".to_owned(), text.into());
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
    let dollars = charge.cost.as_ref().ok().map(|cost| cost.dollars());
    fields.insert("cost".to_owned(), json!(dollars));
    if let Err(unknown) = &charge.cost {
        fields.insert("unpriced".to_owned(), unknown.to_string().into());
    }
    Ok(Value::Object(fields))
}

/// Returns the tool calls of the model, and true if all their arguments are JSON.
fn tool_calls(reply: &Reply) -> (Vec<Value>, bool) {
    let mut arguments_are_json = true;
    let calls = reply
        .message
        .tool_uses()
        .map(|call| {
            let arguments = match call.arguments.trim() {
                "" => Ok(json!({})),
                text => exact_json::parse(text),
            };
            arguments_are_json &= arguments.is_ok();
            json!({
                "id": call.id,
                "name": call.name,
                // Arguments that are not JSON stay text.
                "arguments": arguments.unwrap_or_else(|_| call.arguments.as_str().into()),
            })
        })
        .collect();
    (calls, arguments_are_json)
}

/// Returns the reason why an answer must not be replayed. An answer with tool calls may be replayed: no
/// tool runs here.
fn not_cacheable_reason(
    reply: &Reply,
    text: &str,
    calls: bool,
    arguments_are_json: bool,
) -> Option<String> {
    match &reply.stop {
        StopReason::Length => Some("the answer is cut off (max_tokens)".to_owned()),
        StopReason::Refusal => Some("the model refused to answer".to_owned()),
        StopReason::Other(reason) => Some(format!(
            "the answer ended with an unknown stop reason (`{reason}`)"
        )),
        _ if !arguments_are_json => Some("the arguments of a tool call are not JSON".to_owned()),
        _ if !calls && text.trim().is_empty() => Some("the answer is empty".to_owned()),
        _ => None,
    }
}

/// Returns the parsed answer, which matches the requested schema; null if the model refused, or calls
/// tools first.
fn data(
    reply: &Reply,
    text: &str,
    schema: &AnswerSchema,
    given: &CheckedArguments<'_>,
) -> Result<Value, Failure> {
    let has_tool_calls = reply.message.tool_uses().next().is_some();
    if reply.stop == StopReason::Refusal || (has_tool_calls && text.trim().is_empty()) {
        return Ok(Value::Null);
    }
    let cut = match reply.stop {
        StopReason::Length => "; it is cut off: raise `max_tokens`",
        _ => "",
    };
    let wrong = |what: &str, reason: &dyn std::fmt::Display| {
        given.transient(
            "invalid_answer",
            format_args!(
                "the answer is not {what} that `response_format` asks for ({reason}){cut}"
            ),
        )
    };
    let data = exact_json::parse(text).map_err(|error| wrong("the JSON", &error))?;
    // Whole numbers beyond 64 bits are text in the data, but numbers for the schema.
    let checked = serde_json::from_str(text).map_err(|error| wrong("the JSON", &error))?;
    match schema.check(&checked) {
        Ok(()) => Ok(data),
        Err(reason) => Err(wrong("of the shape", &reason)),
    }
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
        // The names that other runtimes use.
        "prompt_tokens": usage.total_input(),
        "completion_tokens": usage.output,
        "total_tokens": usage.total_input().saturating_add(usage.output),
    })
}
