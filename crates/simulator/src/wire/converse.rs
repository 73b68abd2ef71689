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

use super::{Format, Judge, Refusal, Request, Thinking, text_of};
use super::{anthropic, bedrock};
use crate::facts;

pub(super) use write::write;

/// Fields of the request on which the form of the answer depends.
#[derive(Debug, Clone)]
pub(crate) struct Form {
    /// True if reasoning is signed.
    is_claude: bool,
    /// True if reasoning is signed but not shown.
    hides_thinking: bool,
}

/// Maximum number of cache points in a request.
const MOST_CACHE_POINTS: usize = 4;

/// Limit of output tokens if neither the request nor the table of models contains one.
const MOST_OUTPUT: u64 = 65_536;

pub(super) fn read(body: &Value, judge: &Judge<'_>) -> Result<Request, Refusal> {
    let Some(request) = body.as_object() else {
        return Err(Refusal::invalid("The request body is not a JSON object."));
    };
    let model = text_of(request, "model");
    let claude = claude(model);
    cache_points(request, model, claude)?;
    turns(request)?;
    let has_tools = list(request.get("toolConfig"), "tools").next().is_some();
    if !has_tools && blocks(request).any(|(_, block)| uses_tools(block)) {
        return Err(Refusal::invalid(
            "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
        ));
    }
    results(request)?;
    judge.by_schema(Format::Converse, body)?;
    let limit = request
        .get("inferenceConfig")
        .and_then(|config| config.get("maxTokens"))
        .and_then(Value::as_u64);
    let most = claude.and_then(facts::anthropic);
    let most = most.and_then(|facts| facts.max_output);
    let mut own = translation::of(
        request,
        claude,
        limit.unwrap_or(most.unwrap_or(MOST_OUTPUT)),
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
    let judge = Judge {
        headers: &headers,
        ..*judge
    };
    let read = anthropic::read(&own, &judge, anthropic::Purpose::Answer);
    let read = read.and_then(|read| match claude {
        Some(_) => judge.by_schema(Format::Messages, &own).map(|()| read),
        None => Ok(read),
    });
    let mut read = read.map_err(|refusal| Refusal {
        message: format!(
            "The model returned the following errors: {}",
            refusal.message
        ),
        ..refusal
    })?;
    let hides_thinking = match &read.form {
        super::Form::Messages(form) => form.hides_thinking,
        _ => false,
    };
    read.dialogue.model = model.to_owned();
    read.limit = limit;
    read.is_streamed = request.get("stream") == Some(&Value::Bool(true));
    if claude.is_none() {
        read.thinking = Thinking::IfScripted;
    }
    read.form = super::Form::Converse(Form {
        is_claude: claude.is_some(),
        hides_thinking,
    });
    Ok(read)
}

pub(super) fn error(refusal: &Refusal) -> Value {
    json!({"message": refusal.message})
}

/// Returns Anthropic's own name of a model on Bedrock: `claude-sonnet-4-5-20250929` for
/// `us.anthropic.claude-sonnet-4-5-20250929-v1:0`.
fn claude(model: &str) -> Option<&str> {
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
    claude: Option<&str>,
) -> Result<(), Refusal> {
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
    match claude {
        Some(claude) => {
            let request = Value::Object(request.clone());
            bedrock::check_markers(claude, bedrock::members(&request, "cachePoint"))?;
        }
        // Nova accepts cache points in the system text and in messages.
        None if model.contains("amazon.nova") && of_tools == 0 => {}
        None => return Err(bedrock::without_markers()),
    }
    if all > MOST_CACHE_POINTS {
        return Err(Refusal::invalid(format!(
            "The model returned the following errors: A maximum of {MOST_CACHE_POINTS} blocks with cache_control may be provided. Found {all}."
        )));
    }
    Ok(())
}

/// Checks that user and model alternate, beginning with the user, and that no message and no text is empty.
fn turns(request: &Map<String, Value>) -> Result<(), Refusal> {
    let mut before = None;
    for (at, message) in messages(request).iter().enumerate() {
        let role = message.get("role").and_then(Value::as_str);
        match (before, role) {
            (None, Some("assistant")) => {
                return Err(Refusal::invalid(
                    "A conversation must start with a user message. Try again with a conversation that starts with a user message.",
                ));
            }
            (Some(before), Some(role)) if before == role => {
                return Err(Refusal::invalid(
                    "A conversation must alternate between user and assistant roles. Make sure the conversation alternates between user and assistant roles and try again.",
                ));
            }
            _ => before = role,
        }
        let content = list(Some(message), "content");
        if content.count() == 0 {
            return Err(Refusal::invalid(format!(
                "The content field in the Message object at messages.{at} is empty. Add a ContentBlock object to the content field and try again."
            )));
        }
        for (index, block) in list(Some(message), "content").enumerate() {
            let text = block.get("text").and_then(Value::as_str);
            if text.is_some_and(|text| text.trim().is_empty()) {
                return Err(Refusal::invalid(format!(
                    "The text field in the ContentBlock object at messages.{at}.content.{index} is blank. Add text to the text field, and try again."
                )));
            }
        }
    }
    if before.is_none() {
        return Err(Refusal::invalid(
            "A conversation must start with a user message. Try again with a conversation that starts with a user message.",
        ));
    }
    Ok(())
}

/// Checks that the results of a message are those of the calls in the previous message.
fn results(request: &Map<String, Value>) -> Result<(), Refusal> {
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
            return Err(Refusal::invalid(format!(
                "Expected toolResult blocks at messages.{at}.content for the following Ids: {}",
                open.join(", ")
            )));
        }
        if found.len() > called.len() {
            return Err(Refusal::invalid(format!(
                "The number of toolResult blocks at messages.{at}.content exceeds the number of toolUse blocks of previous turn."
            )));
        }
        called = ids(message, "toolUse");
        if super::check::repeated(called.iter().map(String::as_str)).is_some() {
            return Err(Refusal::invalid(format!(
                "The toolUse blocks at messages.{at}.content contain duplicate Ids: {}",
                called.join(", ")
            )));
        }
    }
    match called.is_empty() {
        true => Ok(()),
        false => Err(Refusal::invalid(format!(
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
    fn models_of_anthropic_have_their_own_names() {
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
            assert_eq!(claude(model), own, "{model}");
        }
    }
}
