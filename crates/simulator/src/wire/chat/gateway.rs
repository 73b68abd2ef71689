//! Chat requests to Anthropic's models, as gateways (OpenRouter, LiteLLM) accept them: cache reads and
//! writes follow Anthropic's rules, at the `cache_control` of parts.
//!
//! <https://openrouter.ai/docs/guides/best-practices/prompt-caching>
//!
//! A gateway forwards the markers, and Anthropic's errors about wrong ones. The error has the shape of the
//! gateway's format; additions of a gateway to the error are not simulated.

use serde_json::Value;

use super::super::anthropic::markers;
use super::super::openai::{Part, Speaker, tool_content};
use super::super::{ApiError, ValidationContext, items, own_name};
use crate::accounting::Content;
use crate::accounting::anthropic::{Block, Level, LookbackUnit, Prompt, Ttl};

/// Returns true if a model is one of Anthropic's.
pub(super) fn is_anthropic_model(model: &str) -> bool {
    own_name(model).starts_with("claude")
}

/// Refuses the markers that Anthropic refuses: more than four, an hour after five minutes, other lifetimes.
pub(super) fn check_markers(tools: &[Value], messages: &[Value]) -> Result<(), ApiError> {
    let named = |at: String, part: &Value| {
        let marker = marker(part)?;
        Some(markers::ttl(&at, marker).map(|ttl| (at, ttl)))
    };
    let mut marks = Vec::new();
    for (at, tool) in tools.iter().enumerate() {
        marks.extend(named(format!("tools.{at}"), tool).transpose()?);
    }
    for (at, message) in messages.iter().enumerate() {
        for (index, part) in items(message.get("content")).enumerate() {
            marks.extend(named(format!("messages.{at}.content.{index}"), part).transpose()?);
        }
    }
    markers::check(&marks)
}

/// Assembles the prompt on which caching depends. `messages` are those from which `parts` were parsed.
pub(super) fn prompt(
    validation: &ValidationContext<'_>,
    model: &str,
    settings: Content,
    tools: &[Value],
    messages: &[Value],
    parts: Vec<Part>,
) -> Prompt {
    let tools = tools.iter().map(|tool| Block {
        content: tool_content(tool),
        breakpoint: time(tool),
        run: LookbackUnit::Alone,
    });
    let mut levels = [Level::default(), Level::default(), Level::default()];
    levels[0].settings = settings;
    levels[0].blocks.extend(tools);
    let mut begun = false;
    for (part, message) in parts.into_iter().zip(messages) {
        begun |= part.speaker != Speaker::Developer;
        let level = &mut levels[if begun { 2 } else { 1 }];
        level.blocks.extend(blocks(part, message));
    }
    Prompt {
        namespace: validation.namespace,
        model: own_name(model).to_owned(),
        levels,
    }
}

/// Returns the blocks of a message: its reasoning, its parts, its calls.
fn blocks(part: Part, message: &Value) -> impl Iterator<Item = Block> {
    let parts = message.get("content").and_then(Value::as_array);
    let times: Vec<Option<Ttl>> = items(message.get("content")).map(time).collect();
    let reasoning = message.get("reasoning_content");
    let thought = usize::from(reasoning.is_some_and(Value::is_string));
    let calls_from = thought + parts.map_or(1, Vec::len);
    let is_result = part.speaker == Speaker::Tool;
    let blocks = part.blocks.into_iter().enumerate();
    blocks.map(move |(at, block)| Block {
        content: block.content,
        breakpoint: at.checked_sub(thought).and_then(|at| *times.get(at)?),
        run: match is_result {
            true => LookbackUnit::ToolResults,
            false if at >= calls_from => LookbackUnit::ToolUses,
            false => LookbackUnit::Alone,
        },
    })
}

fn time(part: &Value) -> Option<Ttl> {
    match marker(part)?.get("ttl").and_then(Value::as_str) {
        Some("1h") => Some(Ttl::OneHour),
        _ => Some(Ttl::FiveMinutes),
    }
}

fn marker(part: &Value) -> Option<&Value> {
    let marker = part.get("cache_control");
    marker.filter(|marker| !marker.is_null())
}
