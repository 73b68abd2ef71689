//! Amazon Bedrock's Converse:
//! <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html>.
//!
//! A request is validated by rules for all models, then translated to the model's own API, which has rules
//! of its own: for Claude, Anthropic Messages. This is the order of Bedrock. Requests to other models are
//! processed in the same way, without the features of Claude.

mod translation;
mod write;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::{
    ApiError, Format, Object, Request, Thinking, ValidationContext, is_true, items, own_name,
    refuse, text_of,
};
use super::{anthropic, bedrock};
use crate::facts;

/// Fields of the request on which the form of the answer depends.
#[derive(Debug, Clone)]
pub(crate) struct ResponseParameters {
    /// True if reasoning is signed.
    is_claude: bool,
    /// True if reasoning is signed but not shown.
    hides_thinking: bool,
    /// Tier that the request asks for.
    tier: Option<String>,
}

const NO_USER_MESSAGE: &str = "A conversation must start with a user message. Try again with a conversation that starts with a user message.";

/// Maximum number of cache points in a request.
const MAX_CACHE_POINTS: usize = 4;

/// Limit of output tokens if neither the request nor the table of models contains one.
const MAX_OUTPUT: u64 = 65_536;

pub(super) fn read(body: &Value, validation: &ValidationContext<'_>) -> Result<Request, ApiError> {
    let Some(request) = body.as_object() else {
        return refuse("The request body is not a JSON object.");
    };
    let model = text_of(request, "model");
    let anthropic_model = anthropic_model(model);
    cache_points(request, model, anthropic_model)?;
    turns(request)?;
    let has_tools = tools(request).next().is_some();
    if !has_tools && blocks(request).any(|(_, block)| uses_tools(block)) {
        return refuse(
            "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
        );
    }
    results(request)?;
    validation.check_schema(Format::Converse, body)?;
    let limit = request.get("inferenceConfig");
    let limit = limit.and_then(|config| config.get("maxTokens")?.as_u64());
    let maximum = anthropic_model.and_then(|model| facts::anthropic(model)?.max_output);
    let maximum = limit.or(maximum).unwrap_or(MAX_OUTPUT);
    let mut own = translation::translate_request(request, anthropic_model, maximum)?;
    let version = HeaderName::from_static("anthropic-version");
    let mut headers = HeaderMap::from_iter([(version, HeaderValue::from_static("2023-06-01"))]);
    let own_fields = own.as_object_mut();
    if own_fields.is_some_and(|own| own.shift_remove("anthropic_beta").is_some()) {
        headers.insert("anthropic-beta", HeaderValue::from_static("any"));
    }
    let validation = ValidationContext {
        headers: &headers,
        ..*validation
    };
    let read = anthropic::read(&own, &validation, anthropic::Purpose::Answer);
    let read = read.and_then(|read| {
        if anthropic_model.is_some() {
            validation.check_schema(Format::Messages, &own)?;
        }
        Ok(read)
    });
    let mut read = read.map_err(|refusal| ApiError {
        message: format!(
            "The model returned the following errors: {}",
            refusal.message
        ),
        ..refusal
    })?;
    let hides_thinking = match &read.response_parameters {
        super::ResponseParameters::Messages(parameters) => parameters.hides_thinking,
        _ => false,
    };
    read.dialogue.model = model.to_owned();
    read.limit = limit;
    read.is_streamed = is_true(request, "stream");
    if anthropic_model.is_none() {
        read.thinking = Thinking::IfScripted;
    }
    read.response_parameters = super::ResponseParameters::Converse(ResponseParameters {
        is_claude: anthropic_model.is_some(),
        hides_thinking,
        tier: request
            .get("serviceTier")
            .and_then(|tier| tier.get("type")?.as_str())
            .map(str::to_owned),
    });
    Ok(read)
}

pub(super) fn error(refusal: &ApiError) -> Value {
    json!({"message": refusal.message})
}

/// Returns Anthropic's own name of a model on Bedrock: `anthropic_model-sonnet-4-5-20250929` for
/// `us.anthropic.anthropic_model-sonnet-4-5-20250929-v1:0`.
fn anthropic_model(model: &str) -> Option<&str> {
    let (_, name) = own_name(model).split_once("anthropic.")?;
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
fn tools(request: &Object) -> impl Iterator<Item = &Value> {
    let config = request.get("toolConfig");
    items(config.and_then(|config| config.get("tools")))
}

fn content(message: &Value) -> impl Iterator<Item = &Value> + Clone {
    items(message.get("content"))
}

fn messages(request: &Object) -> &[Value] {
    let messages = request.get("messages").and_then(Value::as_array);
    messages.map(Vec::as_slice).unwrap_or_default()
}

/// Returns the blocks of all messages, with the index of their message.
fn blocks(request: &Object) -> impl Iterator<Item = (usize, &Value)> {
    let messages = messages(request).iter().enumerate();
    messages.flat_map(|(at, message)| content(message).map(move |block| (at, block)))
}

fn uses_tools(block: &Value) -> bool {
    block.get("toolUse").is_some() || block.get("toolResult").is_some()
}

/// Checks the number of cache points, and that the model accepts them.
fn cache_points(
    request: &Object,
    model: &str,
    anthropic_model: Option<&str>,
) -> Result<(), ApiError> {
    let is_point = |block: &&Value| block.get("cachePoint").is_some();
    let of_tools = tools(request).filter(is_point).count();
    let of_system = items(request.get("system")).filter(is_point).count();
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
        return refuse(format!(
            "The model returned the following errors: A maximum of {MAX_CACHE_POINTS} blocks with cache_control may be provided. Found {all}."
        ));
    }
    Ok(())
}

/// Checks that user and model alternate, beginning with the user, and that no message and no text is empty.
fn turns(request: &Object) -> Result<(), ApiError> {
    let mut before = None;
    for (at, message) in messages(request).iter().enumerate() {
        let role = message.get("role").and_then(Value::as_str);
        match (before, role) {
            (None, Some("assistant")) => {
                return refuse(NO_USER_MESSAGE);
            }
            (Some(before), Some(role)) if before == role => {
                return refuse(
                    "A conversation must alternate between user and assistant roles. Make sure the conversation alternates between user and assistant roles and try again.",
                );
            }
            _ => before = role,
        }
        if content(message).next().is_none() {
            return refuse(format!(
                "The content field in the Message object at messages.{at} is empty. Add a ContentBlock object to the content field and try again."
            ));
        }
        for (index, block) in content(message).enumerate() {
            let text = block.get("text").and_then(Value::as_str);
            if text.is_some_and(|text| text.trim().is_empty()) {
                return refuse(format!(
                    "The text field in the ContentBlock object at messages.{at}.content.{index} is blank. Add text to the text field, and try again."
                ));
            }
        }
    }
    if before.is_none() {
        return refuse(NO_USER_MESSAGE);
    }
    Ok(())
}

/// Checks that the results of a message are those of the calls in the previous message.
fn results(request: &Object) -> Result<(), ApiError> {
    let mut called: Vec<&str> = Vec::new();
    for (at, message) in messages(request).iter().enumerate() {
        let found = ids(message, "toolResult");
        let open: Vec<&str> = called
            .iter()
            .copied()
            .filter(|id| !found.contains(id))
            .collect();
        unanswered(at, &open)?;
        if found.len() > called.len() {
            return refuse(format!(
                "The number of toolResult blocks at messages.{at}.content exceeds the number of toolUse blocks of previous turn."
            ));
        }
        called = ids(message, "toolUse");
        if super::check::first_duplicate(called.iter().copied()).is_some() {
            return refuse(format!(
                "The toolUse blocks at messages.{at}.content contain duplicate Ids: {}",
                called.join(", ")
            ));
        }
    }
    unanswered(messages(request).len(), &called)
}

/// Returns the ids of a message's blocks of a kind.
fn ids<'a>(message: &'a Value, kind: &str) -> Vec<&'a str> {
    content(message)
        .filter_map(|block| block.get(kind)?.get("toolUseId")?.as_str())
        .collect()
}

fn unanswered(at: usize, open: &[&str]) -> Result<(), ApiError> {
    if open.is_empty() {
        Ok(())
    } else {
        refuse(format!(
            "Expected toolResult blocks at messages.{at}.content for the following Ids: {}",
            open.join(", ")
        ))
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
