//! Anthropic Messages.

mod block;
mod by_model;
pub(super) mod markers;
mod message;
mod prompt;
mod role;
mod settings;
mod threads;
mod version;
mod write;

use serde_json::{Value, json};

use super::{
    ApiError, Object, Prompt, Request, Thinking, ValidationContext, is_true, present, refuse,
    text_of,
};
use crate::dialogue::{Choice, Dialogue, OfferedTool};
use crate::facts;

pub(crate) use threads::{ThreadTurn, Threads};
pub(super) use version::{LATEST_VERSION, check_latest_version};

/// Prefix of the id of an answer.
pub(crate) const ID_PREFIX: &str = "msg_";

/// Fields of the request on which the form of the answer depends.
#[derive(Debug, Clone)]
pub(crate) struct ResponseParameters {
    pub(super) model: String,
    /// True if nothing is generated: the request only fills the cache.
    pub(super) is_prewarming: bool,
    /// True if the provider may compact the conversation before it answers.
    pub(super) may_compact: bool,
    /// True if the answer is a compaction of the conversation.
    pub(super) is_compacting: bool,
    /// Region that the request asks for.
    pub(super) inference_geo: Option<String>,
    /// Speed that the request asks for.
    pub(super) speed: Option<String>,
    /// True if thinking is signed but not shown.
    pub(super) hides_thinking: bool,
    pub(super) thinks: bool,
    /// The request's turn in a thread.
    pub(crate) turn: Option<ThreadTurn>,
    /// Set if the request asks for a diagnosis; holds the id of the answer to compare with, if there is
    /// one.
    pub(crate) diagnostics: Option<Option<String>>,
}

/// Purpose of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Answer,
    CountTokens,
}

pub(crate) fn read(
    body: &Value,
    validation: &ValidationContext<'_>,
    purpose: Purpose,
) -> Result<Request, ApiError> {
    let Some(version) = validation.headers.get("anthropic-version") else {
        return refuse("anthropic-version: header is required");
    };
    let Some(request) = body.as_object() else {
        return refuse("The request body is not a valid JSON object");
    };
    if version == LATEST_VERSION {
        check_latest_version(request)?;
    }
    let whole_request = threads::whole_request(request, validation)?;
    let (whole_request, turn) = whole_request
        .map(|whole_request| (whole_request.request, whole_request.turn))
        .unzip();
    let request = whole_request.as_ref().unwrap_or(request);
    let model = required_at("", request, "model")?;
    let rules = validation.rules.anthropic.model(model);
    let facts = facts::anthropic(model);
    let limit = match purpose {
        Purpose::Answer => Some(limit(request)?),
        Purpose::CountTokens => None,
    };
    if let (Purpose::Answer, true, Some(facts)) = (purpose, validation.by_model, &facts) {
        by_model::check(request, model, facts)?;
    }
    let mut tools = tools(request)?;
    tool_changes(request, &mut tools)?;
    let system = message::system(request)?;
    let messages = message::read(request, rules, !tools.is_empty())?;
    let thinking = settings::thinking(request, limit, &messages, facts.as_ref())?;
    let choice = choice(request, &tools, thinking.is_on)?;
    let schema = settings::schema(request)?;
    settings::prewarming(request, limit, thinking.is_on)?;
    let marks = markers::read(request, &system, &messages)?;

    let said = messages.iter().filter_map(message::Message::dialogue_item);
    let dialogue = Dialogue::new(model, tools, choice, schema, said);
    let prompt = prompt::build(request, validation, rules, &system, &messages, &marks);
    Ok(Request {
        dialogue,
        prompt: Prompt::Anthropic(prompt),
        long_writes: 0,
        limit: limit.filter(|limit| *limit > 0),
        stop_sequences: settings::stop_sequences(request)?,
        is_streamed: is_true(request, "stream"),
        thinking: if thinking.is_on {
            Thinking::Always
        } else {
            Thinking::Never
        },
        response_parameters: super::ResponseParameters::Messages(ResponseParameters {
            model: model.to_owned(),
            is_prewarming: limit == Some(0),
            may_compact: present(request, "context_management")
                .is_some_and(|management| management.to_string().contains("\"compact_")),
            is_compacting: present(request, "compaction").is_some(),
            inference_geo: named(request, "inference_geo"),
            speed: named(request, "speed"),
            hides_thinking: thinking.is_hidden,
            thinks: thinking.is_on,
            turn,
            diagnostics: diagnostics(request),
        }),
    })
}

pub(super) fn error(refusal: &ApiError, request_id: &str) -> Value {
    let kind = match refusal.status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        408 | 504 => "timeout_error",
        503 | 529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    let mut error = json!({
        "type": refusal.kind.unwrap_or(kind),
        "message": refusal.message,
    });
    if let Some(code) = refusal.error_code {
        error["details"] = json!({"error_code": code});
    }
    json!({"type": "error", "error": error, "request_id": request_id})
}

fn limit(request: &Object) -> Result<u64, ApiError> {
    let Some(limit) = request.get("max_tokens") else {
        return refuse("max_tokens: Field required");
    };
    match limit.as_u64() {
        Some(limit) => Ok(limit),
        None if limit.is_i64() => refuse("max_tokens: Input should be greater than or equal to 0"),
        None => refuse("max_tokens: Input should be a valid integer"),
    }
}

/// Returns `diagnostics.previous_message_id`, which may be null; `None` if the request has no
/// `diagnostics`.
fn diagnostics(request: &Object) -> Option<Option<String>> {
    let diagnostics = request.get("diagnostics")?.as_object()?;
    let previous = diagnostics.get("previous_message_id");
    Some(previous.and_then(Value::as_str).map(str::to_owned))
}

fn named(request: &Object, key: &str) -> Option<String> {
    request.get(key)?.as_str().map(str::to_owned)
}

/// Returns the list at `key`; empty if it is missing.
fn list<'a>(request: &'a Object, key: &str) -> Result<&'a [Value], ApiError> {
    match request.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => refuse(format!("{key}: Input should be a valid array")),
    }
}

/// Returns true if the client defines and runs the tool.
fn is_custom(tool: &Object) -> bool {
    matches!(text_of(tool, "type"), "" | "custom")
}

fn tools(request: &Object) -> Result<Vec<OfferedTool>, ApiError> {
    let mut tools = Vec::new();
    for (at, tool) in list(request, "tools")?.iter().enumerate() {
        let fields = dictionary(&format!("tools.{at}"), tool)?;
        if is_custom(fields) {
            tools.push(custom_tool(&format!("tools.{at}.custom"), fields)?);
        } else if text_of(fields, "type") != "mcp_toolset" {
            let name = required_at(&format!("tools.{at}"), fields, "name")?;
            tools.push(OfferedTool {
                name: name.to_owned(),
                schema: Value::Null,
            });
        }
    }
    let names = tools.iter().map(|tool| tool.name.as_str());
    if super::check::first_duplicate(names).is_some() {
        return refuse("tools: Tool names must be unique.");
    }
    Ok(tools)
}

/// Applies the tool changes of system messages: tools that they define are offered, others are removed. A
/// tool that is added by its name is one of `tools`.
fn tool_changes(request: &Object, tools: &mut Vec<OfferedTool>) -> Result<(), ApiError> {
    for (at, message) in list(request, "messages")?.iter().enumerate() {
        for (index, block) in super::items(message.get("content")).enumerate() {
            let tool = block.get("tool").and_then(Value::as_object);
            let (Some(tool), Some(kind)) = (tool, block.get("type").and_then(Value::as_str)) else {
                continue;
            };
            let definition = tool.get("definition").and_then(Value::as_object);
            match (kind, definition) {
                ("tool_addition", Some(definition)) if is_custom(definition) => {
                    let at = format!("messages.{at}.content.{index}.tool_addition.tool.definition");
                    let added = custom_tool(&at, definition)?;
                    tools.retain(|tool| tool.name != added.name);
                    tools.push(added);
                }
                ("tool_removal", None) if text_of(tool, "type") == "tool_reference" => {
                    tools.retain(|offered| offered.name != text_of(tool, "name"));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn custom_tool(at: &str, fields: &Object) -> Result<OfferedTool, ApiError> {
    const KEYS: [&str; 10] = [
        "input_schema",
        "name",
        "allowed_callers",
        "cache_control",
        "defer_loading",
        "description",
        "eager_input_streaming",
        "input_examples",
        "strict",
        "type",
    ];
    check_keys(at, fields, &KEYS)?;
    let name = required_at(at, fields, "name")?;
    if !super::check::is_tool_name(name) {
        return refuse(format!(
            "{at}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"
        ));
    }
    let schema = match fields.get("input_schema") {
        Some(Value::Object(schema)) if text_of(schema, "type") == "object" => schema,
        Some(Value::Object(schema)) if schema.contains_key("type") => {
            return refuse(format!("{at}.input_schema.type: Input should be 'object'"));
        }
        Some(Value::Object(_)) => return missing(&format!("{at}.input_schema.type")),
        Some(_) => return no_dictionary(&format!("{at}.input_schema")),
        None => return missing(&format!("{at}.input_schema")),
    };
    Ok(OfferedTool {
        name: name.to_owned(),
        schema: Value::Object(schema.clone()),
    })
}

fn missing<T>(at: &str) -> Result<T, ApiError> {
    refuse(format!("{at}: Field required"))
}

fn no_dictionary<T>(at: &str) -> Result<T, ApiError> {
    refuse(format!("{at}: Input should be a valid dictionary"))
}

fn dictionary<'a>(at: &str, value: &'a Value) -> Result<&'a Object, ApiError> {
    value.as_object().map_or_else(|| no_dictionary(at), Ok)
}

fn unknown_tag<T>(at: &str, tag: &str, expected: &str) -> Result<T, ApiError> {
    refuse(format!(
        "{at}: Input tag '{tag}' found using 'type' does not match any of the expected tags: {expected}"
    ))
}

fn check_keys(at: &str, fields: &Object, keys: &[&str]) -> Result<(), ApiError> {
    match fields.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => refuse(format!("{at}.{key}: Extra inputs are not permitted")),
        None => Ok(()),
    }
}

fn required_at<'a>(at: &str, object: &'a Object, key: &str) -> Result<&'a str, ApiError> {
    let at = match at {
        "" => key.to_owned(),
        at => format!("{at}.{key}"),
    };
    match object.get(key) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => refuse(format!("{at}: Input should be a valid string")),
        None => missing(&at),
    }
}

fn choice(request: &Object, tools: &[OfferedTool], is_thinking: bool) -> Result<Choice, ApiError> {
    let choice = match request.get("tool_choice") {
        None | Some(Value::Null) => return Ok(Choice::Auto),
        Some(Value::Object(fields)) => fields,
        Some(_) => return no_dictionary("tool_choice"),
    };
    if tools.is_empty() && list(request, "tools")?.is_empty() {
        return refuse("tool_choice: tool_choice may only be specified while providing tools.");
    }
    let choice = match text_of(choice, "type") {
        "auto" => Choice::Auto,
        "none" => Choice::None,
        "any" => Choice::Any,
        "tool" => Choice::Named(required_at("tool_choice.tool", choice, "name")?.to_owned()),
        other => return unknown_tag("tool_choice", other, "'auto', 'any', 'tool', 'none'"),
    };
    match &choice {
        Choice::Named(name) if !tools.iter().any(|tool| tool.name == *name) => refuse(format!(
            "tool_choice.name: Tool '{name}' not found in provided tools"
        )),
        Choice::Named(_) | Choice::Any if is_thinking => {
            refuse("Thinking may not be enabled when tool_choice forces tool use.")
        }
        _ => Ok(choice),
    }
}
