//! Parameters that OpenAI refuses for some models. [`facts`] contains the facts about each model.

use serde_json::Value;

use super::super::{ApiError, Object, is_true, present, refuse};
use super::refusal;
use crate::facts::{self, OpenAiFacts};

/// Refuses the parameters that `/v1/chat/completions` refuses for `model`.
pub(in crate::wire) fn chat(request: &Object, model: &str) -> Result<(), ApiError> {
    let Some(facts) = facts::openai(model) else {
        return Ok(());
    };
    if facts.chat == Some(false) {
        let message =
            "This model is only supported in v1/responses and not in v1/chat/completions.";
        return Err(ApiError::invalid(message).param("model").status(404));
    }
    let effort = present(request, "reasoning_effort").and_then(Value::as_str);
    chat_effort(&facts, effort)?;
    let effort = effort.unwrap_or(&facts.default_effort);
    let tools = request.get("tools").and_then(Value::as_array);
    let is_function = |tool: &Value| tool.get("type").is_some_and(|kind| kind == "function");
    let has_functions = tools.is_some_and(|tools| tools.iter().any(is_function));
    if facts.tools_need_responses && has_functions && effort != "none" {
        let advice = if model.starts_with("gpt-5.4") || model.starts_with("gpt-5.5") {
            "Please use /v1/responses instead."
        } else {
            "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
        };
        let message = format!(
            "Function tools with reasoning_effort are not supported for {model} in \
             /v1/chat/completions. {advice}"
        );
        return Err(ApiError::invalid(message).param("reasoning_effort"));
    }
    if facts.reasons && effort != "none" {
        chat_sampling(request, &facts)?;
    }
    for key in ["max_completion_tokens", "max_tokens"] {
        let asked = present(request, key).and_then(Value::as_u64);
        if let (Some(asked), Some(maximum)) = (asked, facts.max_output)
            && asked > maximum
        {
            let message = format!(
                "{key} is too large: {asked}. This model supports at most {maximum} completion tokens, \
                 whereas you provided {asked}."
            );
            return Err(refusal(key, "invalid_value", message));
        }
    }
    check_common(request, &facts)
}

/// Refuses the parameters that `/v1/responses` refuses for `model`.
pub(in crate::wire) fn responses(request: &Object, model: &str) -> Result<(), ApiError> {
    let Some(facts) = facts::openai(model) else {
        return Ok(());
    };
    if facts.responses == Some(false) {
        let message =
            format!("The requested model '{model}' cannot be used with the Responses API.");
        return Err(ApiError::invalid(message).param("model"));
    }
    let reasoning = request.get("reasoning").and_then(Value::as_object);
    let effort = reasoning.and_then(|reasoning| present(reasoning, "effort")?.as_str());
    if !facts.reasons {
        for key in ["effort", "summary"] {
            if reasoning.is_some_and(|reasoning| present(reasoning, key).is_some()) {
                return Err(unsupported(&format!("reasoning.{key}")));
            }
        }
        let included = request.get("include").and_then(Value::as_array);
        if included.is_some_and(|all| all.iter().any(|one| one == "reasoning.encrypted_content")) {
            let message = "Encrypted content is not supported with this model.";
            return Err(ApiError::invalid(message).param("include"));
        }
    }
    if let (Some(effort), Some(efforts)) = (effort, &facts.efforts)
        && !efforts.iter().any(|known| known == effort)
    {
        let message = format!(
            "Unsupported value: '{effort}' is not supported with the '{model}' model. Supported values \
             are: {}.",
            format_list(efforts)
        );
        return Err(refusal("reasoning.effort", "unsupported_value", message));
    }
    if facts.reasons && effort.unwrap_or(&facts.default_effort) != "none" {
        for key in ["temperature", "top_p"] {
            if present(request, key).is_some_and(|value| value.as_f64() != Some(1.0)) {
                let message =
                    format!("Unsupported parameter: '{key}' is not supported with this model.");
                return Err(ApiError::invalid(message).param(key));
            }
        }
        if present(request, "top_logprobs").is_some_and(|count| count.as_u64() != Some(0)) {
            return Err(unsupported("top_logprobs"));
        }
    }
    let key = "max_output_tokens";
    let asked = present(request, key).and_then(Value::as_u64);
    if let (Some(asked), Some(maximum)) = (asked, facts.max_output)
        && asked > maximum
    {
        let message = format!(
            "Invalid '{key}': integer above maximum value. Expected a value <= {maximum}, but got {asked} \
             instead."
        );
        return Err(refusal(key, "integer_above_max_value", message));
    }
    check_common(request, &facts)
}

fn chat_effort(facts: &OpenAiFacts, effort: Option<&str>) -> Result<(), ApiError> {
    let Some(effort) = effort else {
        return Ok(());
    };
    if !facts.reasons {
        let message = "Unrecognized request argument supplied: reasoning_effort";
        return refuse(message);
    }
    match &facts.efforts {
        Some(efforts) if !efforts.iter().any(|known| known == effort) => {
            let message = format!(
                "Unsupported value: 'reasoning_effort' does not support '{effort}' with this model. \
                 Supported values are: {}.",
                format_list(efforts)
            );
            Err(refusal("reasoning_effort", "unsupported_value", message))
        }
        _ => Ok(()),
    }
}

/// Refuses sampling parameters, which a model does not accept while it reasons.
fn chat_sampling(request: &Object, facts: &OpenAiFacts) -> Result<(), ApiError> {
    for key in ["temperature", "top_p"] {
        let Some(value) = present(request, key).filter(|value| value.as_f64() != Some(1.0)) else {
            continue;
        };
        if facts.is_o_series {
            return Err(unsupported(key));
        }
        let message = format!(
            "Unsupported value: '{key}' does not support {value} with this model. Only the default (1) \
             value is supported."
        );
        return Err(refusal(key, "unsupported_value", message));
    }
    let is_default = |value: &Value| value.as_f64() == Some(0.0) || *value == Value::Bool(false);
    let keys = [
        "presence_penalty",
        "frequency_penalty",
        "logprobs",
        "top_logprobs",
        "logit_bias",
        "stop",
    ];
    match keys
        .iter()
        .find(|key| present(request, key).is_some_and(|value| !is_default(value)))
    {
        Some(key) => Err(unsupported(key)),
        None => Ok(()),
    }
}

fn check_common(request: &Object, facts: &OpenAiFacts) -> Result<(), ApiError> {
    if !facts.parallel_tool_calls && present(request, "parallel_tool_calls").is_some() {
        return Err(unsupported("parallel_tool_calls"));
    }
    if !facts.streams && is_true(request, "stream") {
        let message = "Unsupported value: 'stream' does not support true with this model. Supported \
                       values are: false.";
        return Err(refusal("stream", "unsupported_value", message));
    }
    Ok(())
}

fn unsupported(param: &str) -> ApiError {
    let message = format!("Unsupported parameter: '{param}' is not supported with this model.");
    refusal(param, "unsupported_parameter", message)
}

/// Formats a list of values: `'low'`, `'low' and 'high'`, `'low', 'medium', and 'high'`.
pub(in crate::wire) fn format_list(values: &[String]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("'{value}'")).collect();
    match quoted.as_slice() {
        [first, second] => format!("{first} and {second}"),
        [first @ .., last] if !first.is_empty() => format!("{}, and {last}", first.join(", ")),
        other => other.join(""),
    }
}
