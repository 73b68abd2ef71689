//! Thinking, output formats and other settings.

use serde_json::Value;

use super::super::check::{self, ViolationKind};
use super::super::{ApiError, Object, is_true, present, refuse, text_of};
use super::message::Message;
use super::role::Role;
use super::{list, missing, no_dictionary, unknown_tag};
use crate::facts::AnthropicFacts;

/// Thinking settings of a request.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ThinkingSettings {
    pub(super) is_on: bool,
    /// True for `display: omitted`.
    pub(super) is_hidden: bool,
}

pub(super) fn thinking(
    request: &Object,
    limit: Option<u64>,
    messages: &[Message],
    facts: Option<&AnthropicFacts>,
) -> Result<ThinkingSettings, ApiError> {
    // Models that accept no budget hide their thinking, unless the request asks for a summary.
    let hides = facts.is_some_and(|facts| !facts.budgeted_thinking);
    let config = match request.get("thinking") {
        None | Some(Value::Null) => {
            return Ok(ThinkingSettings {
                is_on: facts.is_some_and(|facts| facts.thinking_always_on),
                is_hidden: hides,
            });
        }
        Some(Value::Object(config)) => config,
        Some(_) => return no_dictionary("thinking"),
    };
    match text_of(config, "type") {
        "disabled" => return Ok(ThinkingSettings::default()),
        "adaptive" | "between_tools" => {}
        "enabled" => {
            budget(config, limit)?;
            begins_with_thinking(messages)?;
        }
        other => return unknown_tag("thinking", other, "'adaptive', 'disabled', 'enabled'"),
    }
    let temperature = request.get("temperature").and_then(Value::as_f64);
    if temperature.is_some_and(|temperature| (temperature - 1.0).abs() > f64::EPSILON) {
        return refuse("`temperature` may only be set to 1 when thinking is enabled.");
    }
    let top_p = request.get("top_p").and_then(Value::as_f64);
    if top_p.is_some_and(|top_p| top_p < 0.95) {
        return refuse(
            "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled.",
        );
    }
    if present(request, "top_k").is_some() {
        return refuse("`top_k` must be unset when thinking is enabled.");
    }
    Ok(ThinkingSettings {
        is_on: true,
        is_hidden: match text_of(config, "display") {
            "omitted" => true,
            "summarized" => false,
            _ => hides,
        },
    })
}

fn budget(config: &Object, limit: Option<u64>) -> Result<(), ApiError> {
    let Some(budget) = config.get("budget_tokens") else {
        return missing("thinking.enabled.budget_tokens");
    };
    match budget.as_u64() {
        Some(budget) if budget < 1_024 => {
            refuse("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
        }
        Some(budget) if limit.is_some_and(|limit| limit <= budget) => {
            refuse("`max_tokens` must be greater than `thinking.budget_tokens`.")
        }
        Some(_) => Ok(()),
        None => refuse("thinking.enabled.budget_tokens: Input should be a valid integer"),
    }
}

/// Checks that the model's last message begins with its thinking while tools are being used.
fn begins_with_thinking(messages: &[Message]) -> Result<(), ApiError> {
    let answers = messages.last().is_some_and(|last| {
        let is_result = |block: &Object| text_of(block, "type") == "tool_result";
        last.role == Role::User && last.blocks.iter().any(is_result)
    });
    let at = messages
        .iter()
        .rposition(|message| message.role == Role::Assistant);
    let (true, Some(at)) = (answers, at) else {
        return Ok(());
    };
    let first = messages[at].blocks.first();
    let first = first.map_or("", |block| text_of(block, "type"));
    if matches!(first, "thinking" | "redacted_thinking") {
        return Ok(());
    }
    refuse(format!(
        "messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found \
         `{first}`. When `thinking` is enabled, a final `assistant` message must start with a thinking \
         block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
    ))
}

/// Returns the schema that `output_config.format` requires.
pub(super) fn schema(request: &Object) -> Result<Option<Value>, ApiError> {
    let config = request
        .get("output_config")
        .and_then(|config| config.get("format"));
    let (at, format) = match (config, request.get("output_format")) {
        (Some(Value::Object(format)), _) => ("output_config.format", format),
        (_, Some(Value::Object(format))) => ("output_format", format),
        _ => return Ok(None),
    };
    if text_of(format, "type") != "json_schema" {
        return refuse(format!("{at}.type: Input should be 'json_schema'"));
    }
    let Some(schema) = format.get("schema").filter(|schema| schema.is_object()) else {
        return missing(&format!("{at}.schema"));
    };
    match check::strict(schema, false) {
        Err(found) if found.why == ViolationKind::Open => refuse(format!(
            "{at}.schema: For 'object' type, 'additionalProperties' must be explicitly set to false \
             (at /{})",
            found.path.join("/")
        )),
        _ => Ok(Some(schema.clone())),
    }
}

/// Checks a request with `max_tokens: 0`, which fills the cache and generates nothing: settings that imply
/// output are refused.
pub(super) fn prewarming(
    request: &Object,
    limit: Option<u64>,
    is_thinking: bool,
) -> Result<(), ApiError> {
    if limit != Some(0) {
        return Ok(());
    }
    let choice = request
        .get("tool_choice")
        .and_then(|choice| choice.get("type"));
    let forces_tools = choice.is_some_and(|kind| kind == "any" || kind == "tool");
    let implied = [
        ("stream", is_true(request, "stream")),
        ("thinking", is_thinking),
        ("output_config.format", schema(request)?.is_some()),
        ("tool_choice", forces_tools),
    ];
    match implied.iter().find(|(_, is_set)| *is_set) {
        Some((what, _)) => refuse(format!("max_tokens: 0 cannot be combined with `{what}`")),
        None => Ok(()),
    }
}

pub(super) fn stop_sequences(request: &Object) -> Result<Vec<String>, ApiError> {
    let mut stop_sequences = Vec::new();
    for (at, stop) in list(request, "stop_sequences")?.iter().enumerate() {
        match stop.as_str() {
            Some(text) if !text.trim().is_empty() => stop_sequences.push(text.to_owned()),
            Some(_) => {
                return refuse("stop_sequences: each stop sequence must contain non-whitespace");
            }
            None => {
                return refuse(format!(
                    "stop_sequences.{at}: Input should be a valid string"
                ));
            }
        }
    }
    Ok(stop_sequences)
}
