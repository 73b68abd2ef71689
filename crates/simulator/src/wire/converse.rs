//! Amazon Bedrock's Converse:
//! <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html>.
//!
//! A request is validated by rules for all models, then translated to the model's own API, which has rules
//! of its own: for Claude, Anthropic Messages. This is the order of Bedrock. Requests to other models are
//! processed in the same way, without the features of Claude.

mod translation;
mod write;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use super::{ApiError, Format, Request, Thinking, ValidationContext, text_of};
use super::{anthropic, bedrock};
use crate::facts;

pub(super) use write::write;

/// Fields of the request on which the form of the answer depends.
#[derive(Debug, Clone)]
pub(crate) struct ResponseParameters {
    /// True if reasoning is signed.
    is_claude: bool,
    /// True if reasoning is signed but not shown.
    hides_thinking: bool,
}

/// Maximum number of cache points in a request.
const MAX_CACHE_POINTS: usize = 4;

/// Limit of output tokens if neither the request nor the table of models contains one.
const MAX_OUTPUT: u64 = 65_536;

pub(super) fn read(body: &Value, validation: &ValidationContext<'_>) -> Result<Request, ApiError> {
    let Some(request) = body.as_object() else {
        return Err(ApiError::invalid("The request body is not a JSON object."));
    };
    let model = text_of(request, "model");
    let anthropic_model = anthropic_model(model);
    cache_points(request, model, anthropic_model)?;
    turns(request)?;
    let has_tools = list(request.get("toolConfig"), "tools").next().is_some();
    if !has_tools && blocks(request).any(|(_, block)| uses_tools(block)) {
        return Err(ApiError::invalid(
            "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
        ));
    }
    results(request)?;
    validation.check_schema(Format::Converse, body)?;
    let limit = request
        .get("inferenceConfig")
        .and_then(|config| config.get("maxTokens"))
        .and_then(Value::as_u64);
    let most = anthropic_model.and_then(facts::anthropic);
    let most = most.and_then(|facts| facts.max_output);
    let mut own = translation::translate_request(
        request,
        anthropic_model,
        limit.unwrap_or(most.unwrap_or(MAX_OUTPUT)),
    )?;
    let version = HeaderName::from_static("anthropic-version");
    let mut headers = HeaderMap::from_iter([(version, HeaderValue::from_static("2023-06-01"))]);
    if own
        .as_object_mut()
        .and_then(|own| own.shift_remove("anthropic_beta"))
        .is_some()
    {
        headers.insert("anthropic-beta", HeaderValue::from_static("any"));
    }
    let validation = ValidationContext {
        headers: &headers,
        ..*validation
    };
    let read = anthropic::read(&own, &validation, anthropic::Purpose::Answer);
    let read = read.and_then(|read| match anthropic_model {
        Some(_) => validation
            .check_schema(Format::Messages, &own)
            .map(|()| read),
        None => Ok(read),
    });
    let mut read = read.map_err(|refusal| ApiError {
        message: format!(
            "The model returned the following errors: {}",
            refusal.message
        ),
        ..refusal
    })?;
    let hides_thinking = match &read.response_parameters {
        super::ResponseParameters::Messages(response_parameters) => {
            response_parameters.hides_thinking
        }
        _ => false,
    };
    read.dialogue.model = model.to_owned();
    read.limit = limit;
    read.is_streamed = request.get("stream") == Some(&Value::Bool(true));
    if anthropic_model.is_none() {
        read.thinking = Thinking::IfScripted;
    }
    read.response_parameters = super::ResponseParameters::Converse(ResponseParameters {
        is_claude: anthropic_model.is_some(),
        hides_thinking,
    });
    Ok(read)
}

pub(super) fn error(refusal: &ApiError) -> Value {
    json!({"message": refusal.message})
}

/// Returns Anthropic's own name of a model on Bedrock: `anthropic_model-sonnet-4-5-20250929` for
/// `us.anthropic.anthropic_model-sonnet-4-5-20250929-v1:0`.
fn anthropic_model(model: &str) -> Option<&str> {
    let name = model.rsplit('/').next().unwrap_or(model);
    let (_, name) = name.split_once("anthropic.")?;
    let is_version = |text: &str| {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        text.split(':').all(digits)
    };
    match name.rsplit_once("-v") {
        Some((name, version)) if is_version(version) => Some(name),
        _ => Some(name),
    }
}

/// Returns the list at `key` of an object; empty if there is none.
fn list<'a>(object: Option<&'a Value>, key: &str) -> impl Iterator<Item = &'a Value> {
    let list = object.and_then(|object| object.get(key)?.as_array());
    list.into_iter().flatten()
}

fn messages(request: &Map<String, Value>) -> &[Value] {
    let messages = request.get("messages").and_then(Value::as_array);
    messages.map(Vec::as_slice).unwrap_or_default()
}

/// Returns the blocks of all messages, with the index of their message.
fn blocks(request: &Map<String, Value>) -> impl Iterator<Item = (usize, &Value)> {
    let messages = messages(request).iter().enumerate();
    messages.flat_map(|(at, message)| list(Some(message), "content").map(move |it| (at, it)))
}

fn uses_tools(block: &Value) -> bool {
    block.get("toolUse").is_some() || block.get("toolResult").is_some()
}

/// Checks the number of cache points, and that the model accepts them.
fn cache_points(
    request: &Map<String, Value>,
    model: &str,
    anthropic_model: Option<&str>,
) -> Result<(), ApiError> {
    let is_point = |block: &&Value| block.get("cachePoint").is_some();
    let of_tools = list(request.get("toolConfig"), "tools")
        .filter(is_point)
        .count();
    let system = request.get("system").and_then(Value::as_array);
    let of_system = system.into_iter().flatten().filter(is_point).count();
    let of_messages = blocks(request).filter(|(_, block)| is_point(block)).count();
    let all = of_tools + of_system + of_messages;
    if all == 0 {
        return Ok(());
    }
    match anthropic_model {
        Some(anthropic_model) => {
            let request = Value::Object(request.clone());
            bedrock::check_markers(anthropic_model, bedrock::members(&request, "cachePoint"))?;
        }
        // Nova accepts cache points in the system text and in messages.
        None if model.contains("amazon.nova") && of_tools == 0 => {}
        None => return Err(bedrock::without_markers()),
    }
    if all > MAX_CACHE_POINTS {
        return Err(ApiError::invalid(format!(
            "The model returned the following errors: A maximum of {MAX_CACHE_POINTS} blocks with cache_control may be provided. Found {all}."
        )));
    }
    Ok(())
}

/// Checks that user and model alternate, beginning with the user, and that no message and no text is empty.
fn turns(request: &Map<String, Value>) -> Result<(), ApiError> {
    let mut before = None;
    for (at, message) in messages(request).iter().enumerate() {
        let role = message.get("role").and_then(Value::as_str);
        match (before, role) {
            (None, Some("assistant")) => {
                return Err(ApiError::invalid(
                    "A conversation must start with a user message. Try again with a conversation that starts with a user message.",
                ));
            }
            (Some(before), Some(role)) if before == role => {
                return Err(ApiError::invalid(
                    "A conversation must alternate between user and assistant roles. Make sure the conversation alternates between user and assistant roles and try again.",
                ));
            }
            _ => before = role,
        }
        let content = list(Some(message), "content");
        if content.count() == 0 {
            return Err(ApiError::invalid(format!(
                "The content field in the Message object at messages.{at} is empty. Add a ContentBlock object to the content field and try again."
            )));
        }
        for (index, block) in list(Some(message), "content").enumerate() {
            let text = block.get("text").and_then(Value::as_str);
            if text.is_some_and(|text| text.trim().is_empty()) {
                return Err(ApiError::invalid(format!(
                    "The text field in the ContentBlock object at messages.{at}.content.{index} is blank. Add text to the text field, and try again."
                )));
            }
        }
    }
    if before.is_none() {
        return Err(ApiError::invalid(
            "A conversation must start with a user message. Try again with a conversation that starts with a user message.",
        ));
    }
    Ok(())
}

/// Checks that the results of a message are those of the calls in the previous message.
fn results(request: &Map<String, Value>) -> Result<(), ApiError> {
    let ids = |message: &Value, kind: &str| -> Vec<String> {
        list(Some(message), "content")
            .filter_map(|block| block.get(kind)?.get("toolUseId")?.as_str())
            .map(str::to_owned)
            .collect()
    };
    let mut called: Vec<String> = Vec::new();
    for (at, message) in messages(request).iter().enumerate() {
        let found = ids(message, "toolResult");
        let open: Vec<&str> = called
            .iter()
            .filter(|id| !found.contains(id))
            .map(String::as_str)
            .collect();
        if !open.is_empty() {
            return Err(ApiError::invalid(format!(
                "Expected toolResult blocks at messages.{at}.content for the following Ids: {}",
                open.join(", ")
            )));
        }
        if found.len() > called.len() {
            return Err(ApiError::invalid(format!(
                "The number of toolResult blocks at messages.{at}.content exceeds the number of toolUse blocks of previous turn."
            )));
        }
        called = ids(message, "toolUse");
        if super::check::first_duplicate(called.iter().map(String::as_str)).is_some() {
            return Err(ApiError::invalid(format!(
                "The toolUse blocks at messages.{at}.content contain duplicate Ids: {}",
                called.join(", ")
            )));
        }
    }
    match called.is_empty() {
        true => Ok(()),
        false => Err(ApiError::invalid(format!(
            "Expected toolResult blocks at messages.{}.content for the following Ids: {}",
            messages(request).len(),
            called.join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anthropic_models_have_their_own_names() {
        for (model, own) in [
            (
                "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
                Some("claude-sonnet-4-5-20250929"),
            ),
            ("anthropic.claude-opus-4-8", Some("claude-opus-4-8")),
            (
                "arn:aws:bedrock:us-east-1:1:inference-profile/eu.anthropic.claude-opus-4-6-v1",
                Some("claude-opus-4-6"),
            ),
            ("amazon.nova-pro-v1:0", None),
        ] {
            assert_eq!(anthropic_model(model), own, "{model}");
        }
    }
}
