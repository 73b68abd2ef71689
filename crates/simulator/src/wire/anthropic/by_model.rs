//! Parameters that Anthropic refuses for some models. [`facts`] contains the facts about each model.

use serde_json::Value;

use super::super::{ApiError, Object, present, refuse, text_of};
use crate::facts::AnthropicFacts;

/// Refuses the parameters that the API refuses for a model with these facts.
pub(super) fn check(request: &Object, model: &str, facts: &AnthropicFacts) -> Result<(), ApiError> {
    let limit = request.get("max_tokens").and_then(Value::as_u64);
    if let (Some(limit), Some(maximum)) = (limit, facts.max_output)
        && limit > maximum
    {
        return refuse(format!(
            "max_tokens: {limit} > {maximum}, which is the maximum allowed number of output tokens for {model}"
        ));
    }
    sampling(request, facts)?;
    thinking(request, facts)?;
    effort(request, facts)?;
    if facts.thinking_always_on || !facts.forced_tools {
        let choice = request.get("tool_choice").and_then(Value::as_object);
        let choice = choice.map(|choice| text_of(choice, "type"));
        if matches!(choice, Some("any" | "tool")) {
            return refuse("Thinking may not be enabled when tool_choice forces tool use.");
        }
    }
    let messages = request.get("messages").and_then(Value::as_array);
    let last = messages.and_then(|messages| messages.last()?.get("role")?.as_str());
    if !facts.prefill && last == Some("assistant") {
        return refuse(
            "This model does not support assistant message prefill. The conversation must end with a \
             user message.",
        );
    }
    Ok(())
}

fn sampling(request: &Object, facts: &AnthropicFacts) -> Result<(), ApiError> {
    let set = |key: &str| present(request, key);
    if facts.sampling {
        if set("temperature").is_some() && set("top_p").is_some() {
            return refuse(
                "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
            );
        }
        return Ok(());
    }
    // The defaults are accepted.
    let is_default = |value: &Value| value.as_f64() == Some(1.0);
    for key in ["temperature", "top_p", "top_k"] {
        if set(key).is_some_and(|value| key == "top_k" || !is_default(value)) {
            return refuse(format!("`{key}` is deprecated for this model."));
        }
    }
    Ok(())
}

fn thinking(request: &Object, facts: &AnthropicFacts) -> Result<(), ApiError> {
    let config = request.get("thinking").and_then(Value::as_object);
    match config.map(|config| text_of(config, "type")) {
        Some("enabled") if !facts.budgeted_thinking => refuse(
            "\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\" \
             and \"output_config.effort\" to control thinking behavior.",
        ),
        Some("adaptive") if !facts.adaptive_thinking => {
            refuse("adaptive thinking is not supported on this model")
        }
        Some("disabled") if facts.thinking_always_on => refuse(
            "\"thinking.type.disabled\" is not supported for this model. Thinking defaults to adaptive \
             mode when not specified; use \"thinking.type.enabled\" with \"budget_tokens\" for extended \
             thinking.",
        ),
        Some("disabled") if !facts.budgeted_thinking => match effort_of(request) {
            Some(effort @ ("xhigh" | "max")) => refuse(format!(
                "output_config.effort '{effort}' is not supported when thinking is disabled on this \
                 model. Use effort 'high' or below, or enable thinking."
            )),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn effort(request: &Object, facts: &AnthropicFacts) -> Result<(), ApiError> {
    match effort_of(request) {
        Some(_) if facts.efforts.is_empty() => {
            refuse("This model does not support the effort parameter.")
        }
        Some(effort) if !facts.efforts.iter().any(|known| known == effort) => {
            let mut levels = facts.efforts.clone();
            levels.sort();
            refuse(format!(
                "This model does not support effort level '{effort}'. Supported levels: {}.",
                levels.join(", ")
            ))
        }
        _ => Ok(()),
    }
}

fn effort_of(request: &Object) -> Option<&str> {
    request.get("output_config")?.get("effort")?.as_str()
}
