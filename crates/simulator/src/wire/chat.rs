//! OpenAI Chat Completions.

mod gateway;
mod message;
mod write;

use serde_json::Value;

use super::openai::{self, Part, Speaker};
use super::{
    ApiError, Object, Prompt, Request, Thinking, ValidationContext, is_true, own_name, present,
    text_of,
};
use crate::dialogue::{Dialogue, OfferedTool};

/// Fields of the request on which the form of the answer depends.
#[derive(Debug, Clone)]
pub(crate) struct ResponseParameters {
    pub(super) model: String,
    /// Tier of the answer.
    pub(super) tier: &'static str,
    pub(super) has_usage_chunk: bool,
    pub(super) charges_writes: bool,
    /// Number of requested choices.
    pub(crate) choices: usize,
}

pub(super) fn read(body: &Value, validation: &ValidationContext<'_>) -> Result<Request, ApiError> {
    let (request, model) = openai::request_and_model(body)?;
    let rules = validation.rules.openai.model(model);
    if validation.by_model {
        openai::by_model::chat(request, model)?;
    }
    let is_streamed = stream(request)?;
    let limit = limit(request, openai::reasons(model, rules))?;
    let stop_sequences = stop_sequences(request)?;
    let choices = choices(request)?;
    let cache = openai::cache_parameters(request, rules)?;
    let tools = tools(request)?;
    let has_tools = !openai::list(request, "tools")?.is_empty();
    let choice = openai::choice(request, has_tools, &tools, |fields| {
        fields.get("function")?.get("name")?.as_str()
    })?;
    if request.contains_key("parallel_tool_calls") && !has_tools {
        let message = "'parallel_tool_calls' is only allowed when 'tools' are specified.";
        return Err(ApiError::invalid(message).param("parallel_tool_calls"));
    }
    let messages = message::read(request, rules)?;
    let schema = schema(request, &messages)?;

    let said = messages
        .iter()
        .filter_map(|message| message.dialogue_item.clone());
    let dialogue = Dialogue::new(model, tools, choice, schema.clone(), said);
    let settings = ["parallel_tool_calls", "reasoning_effort", "verbosity"];
    let settings = openai::settings(request, &settings, schema.as_ref());
    let parts: Vec<Part> = messages.into_iter().map(|message| message.part).collect();
    let tools = openai::list(request, "tools")?;
    let (prompt, long_writes) = if gateway::is_anthropic_model(model) {
        let messages = openai::list(request, "messages")?;
        gateway::check_markers(tools, messages)?;
        let prompt = gateway::prompt(validation, model, settings, tools, messages, parts);
        (Prompt::Anthropic(prompt), 0)
    } else {
        let (prompt, long_writes) =
            openai::prompt(validation, model, cache, settings, tools, parts);
        (Prompt::OpenAi(prompt), long_writes)
    };
    Ok(Request {
        dialogue,
        prompt,
        long_writes,
        limit,
        stop_sequences,
        is_streamed,
        thinking: Thinking::IfScripted,
        response_parameters: super::ResponseParameters::Chat(ResponseParameters {
            model: model.to_owned(),
            tier: openai::answered_tier(request),
            has_usage_chunk: has_usage_chunk(request),
            charges_writes: rules.caching == crate::accounting::Caching::Exact
                || gateway::is_anthropic_model(model),
            choices,
        }),
    })
}

fn stream(request: &Object) -> Result<bool, ApiError> {
    let is_streamed = is_true(request, "stream");
    if present(request, "stream_options").is_some() && !is_streamed {
        let message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
        return Err(ApiError::invalid(message).param("stream_options"));
    }
    Ok(is_streamed)
}

fn has_usage_chunk(request: &Object) -> bool {
    let options = request.get("stream_options");
    options.and_then(|options| options.get("include_usage")) == Some(&Value::Bool(true))
}

fn limit(request: &Object, reasons: bool) -> Result<Option<u64>, ApiError> {
    if present(request, "max_tokens").is_some() && reasons {
        let message = "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
                       'max_completion_tokens' instead.";
        return Err(openai::refusal(
            "max_tokens",
            "unsupported_parameter",
            message,
        ));
    }
    for key in ["max_completion_tokens", "max_tokens"] {
        if let Some(limit) = present(request, key) {
            return match limit.as_u64().filter(|limit| *limit > 0) {
                Some(limit) => Ok(Some(limit)),
                None => Err(openai::wrong_type(key, "an integer above 0", limit)),
            };
        }
    }
    Ok(None)
}

fn stop_sequences(request: &Object) -> Result<Vec<String>, ApiError> {
    match request.get("stop") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(stop)) => Ok(vec![stop.clone()]),
        Some(Value::Array(stop_sequences)) if stop_sequences.len() <= 4 => Ok(stop_sequences
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()),
        Some(other) => {
            let expected = "a string or up to four strings";
            Err(openai::wrong_type("stop", expected, other))
        }
    }
}

fn choices(request: &Object) -> Result<usize, ApiError> {
    const MOST: u64 = 128;
    let n = match request.get("n") {
        None | Some(Value::Null) => return Ok(1),
        Some(n) if n.is_i64() || n.is_u64() => n,
        Some(other) => return Err(openai::wrong_type("n", "an integer", other)),
    };
    let (bound, expected, code) = match n.as_u64() {
        Some(n @ 1..=MOST) => return Ok(usize::try_from(n).unwrap_or(1)),
        Some(1..) => ("above maximum", "<= 128", "integer_above_max_value"),
        _ => ("below minimum", ">= 1", "integer_below_min_value"),
    };
    let message = format!(
        "Invalid 'n': integer {bound} value. Expected a value {expected}, but got {n} instead."
    );
    Err(openai::refusal("n", code, message))
}

fn tools(request: &Object) -> Result<Vec<OfferedTool>, ApiError> {
    let tools = request.get("tools").and_then(Value::as_array);
    if tools.is_some_and(Vec::is_empty) {
        return Err(openai::empty_array("tools"));
    }
    let mut tools = Vec::new();
    for (at, tool) in openai::list(request, "tools")?.iter().enumerate() {
        let fields = openai::object(format!("tools[{at}]"), tool)?;
        match text_of(fields, "type") {
            "function" => match fields.get("function").and_then(Value::as_object) {
                Some(function) => {
                    tools.push(openai::tool(&format!("tools[{at}].function"), function)?);
                }
                None => return Err(openai::missing(format!("tools[{at}].function"))),
            },
            "custom" => {}
            "" => return Err(openai::missing(format!("tools[{at}].type"))),
            other => {
                let param = format!("tools[{at}].type");
                return Err(openai::wrong_value(param, other, "'function' and 'custom'"));
            }
        }
    }
    openai::distinct_tools(&tools)?;
    Ok(tools)
}

/// Returns the schema that `response_format` requires.
fn schema(request: &Object, messages: &[message::Message]) -> Result<Option<Value>, ApiError> {
    let format = match request.get("response_format") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(format)) => format,
        Some(other) => return Err(openai::wrong_type("response_format", "an object", other)),
    };
    match text_of(format, "type") {
        "text" => Ok(None),
        "json_schema" => match format.get("json_schema").and_then(Value::as_object) {
            Some(inner) => openai::output_schema("response_format.json_schema", inner).map(Some),
            None => Err(openai::missing("response_format.json_schema")),
        },
        "json_object" => {
            let mut blocks = messages.iter().flat_map(|message| &message.part.blocks);
            if blocks.any(|block| block.content.text.to_lowercase().contains("json")) {
                return Ok(Some(serde_json::json!({"type": "object"})));
            }
            let message = "'messages' must contain the word 'json' in some form, to use \
                           'response_format' of type 'json_object'.";
            Err(ApiError::invalid(message).param("messages"))
        }
        other => {
            let supported = "'json_object', 'json_schema', and 'text'";
            Err(openai::wrong_value(
                "response_format.type",
                other,
                supported,
            ))
        }
    }
}

/// Returns the speaker of a role.
fn speaker(role: &str) -> Speaker {
    match role {
        "system" | "developer" => Speaker::Developer,
        "assistant" => Speaker::Model,
        "tool" | "function" => Speaker::Tool,
        _ => Speaker::User,
    }
}
