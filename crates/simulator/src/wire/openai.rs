//! Parameters, error bodies and prompt blocks that OpenAI's two formats share.

pub(super) mod by_model;

use serde_json::{Value, json};

use super::check::{self, StrictnessViolation, ViolationKind};
use super::{
    ApiError, Object, ValidationContext, content, is_true, other_fields, plain, present, refuse,
    text_of,
};
use crate::accounting::openai::{Block, End, Mode, Prompt};
use crate::accounting::{Caching, Content, OpenAiModel};
use crate::dialogue::{Choice, OfferedTool};
use crate::facts;
use crate::tokens;

/// Maximum length of `prompt_cache_key`, in characters.
const MAX_KEY_CHARS: usize = 64;

pub(super) fn error(refusal: &ApiError) -> Value {
    let (kind, code) = match refusal.status {
        429 => ("requests", Some("rate_limit_exceeded")),
        401 => ("invalid_request_error", Some("invalid_api_key")),
        500.. => ("server_error", None),
        _ => ("invalid_request_error", None),
    };
    json!({"error": {
        "message": refusal.message,
        "type": refusal.kind.unwrap_or(kind),
        "param": refusal.param,
        "code": refusal.code.or(code),
    }})
}

/// Returns the request object and its model.
pub(super) fn request_and_model(body: &Value) -> Result<(&Object, &str), ApiError> {
    let Some(request) = body.as_object() else {
        return refuse("We could not parse the JSON body of your request: expected a JSON object.");
    };
    match request.get("model").and_then(Value::as_str) {
        Some(model) if !model.is_empty() => Ok((request, model)),
        _ => Err(ApiError::invalid("you must provide a model parameter").param("model")),
    }
}

/// Returns true if a model reasons: by its facts, or by its family if the model is unknown.
pub(super) fn reasons(model: &str, rules: &OpenAiModel) -> bool {
    facts::openai(model).map_or(rules.reasons, |facts| facts.reasons)
}

/// Creates a refusal of the parameter `param`.
pub(super) fn refusal(
    param: impl Into<String>,
    code: &'static str,
    message: impl Into<String>,
) -> ApiError {
    ApiError::invalid(message).param(param).code(code)
}

pub(super) fn missing(param: impl Into<String>) -> ApiError {
    let param = param.into();
    let message = format!("Missing required parameter: '{param}'.");
    refusal(param, "missing_required_parameter", message)
}

pub(super) fn wrong_type(param: impl Into<String>, expected: &str, found: &Value) -> ApiError {
    let param = param.into();
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    let message =
        format!("Invalid type for '{param}': expected {expected}, but got {found} instead.");
    refusal(param, "invalid_type", message)
}

pub(super) fn wrong_value(param: impl Into<String>, found: &str, supported: &str) -> ApiError {
    let message = format!("Invalid value: '{found}'. Supported values are: {supported}.");
    refusal(param, "invalid_value", message)
}

pub(super) fn empty_array(param: impl Into<String>) -> ApiError {
    let param = param.into();
    let message = format!(
        "Invalid '{param}': empty array. Expected an array with minimum length 1, but got an empty \
         array instead."
    );
    refusal(param, "empty_array", message)
}

pub(super) fn too_long(param: impl Into<String>, maximum: usize, length: usize) -> ApiError {
    let param = param.into();
    let message = format!(
        "Invalid '{param}': string too long. Expected a string with maximum length {maximum}, but got a \
         string with length {length} instead."
    );
    refusal(param, "string_above_max_length", message)
}

fn not_before_breakpoints(param: impl Into<String>) -> ApiError {
    let param = param.into();
    let message = format!(
        "Unsupported parameter: '{param}' is only supported with gpt-5.6 and later models."
    );
    refusal(param, "unsupported_parameter", message)
}

pub(super) fn object(param: impl Into<String>, value: &Value) -> Result<&Object, ApiError> {
    let wrong = || wrong_type(param, "an object", value);
    value.as_object().ok_or_else(wrong)
}

/// Returns a text that must be given.
pub(super) fn text(param: impl Into<String>, value: Option<&Value>) -> Result<&str, ApiError> {
    match value {
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(wrong_type(param, "a string", other)),
        None => Err(missing(param)),
    }
}

/// Returns a text that may be missing or null.
pub(super) fn optional_text(
    param: impl Into<String>,
    value: Option<&Value>,
) -> Result<Option<&str>, ApiError> {
    let value = value.filter(|value| !value.is_null());
    value.map(|value| text(param, Some(value))).transpose()
}

/// Checks the name of a tool, in a definition or a call.
pub(super) fn tool_name(param: &str, name: Option<&Value>) -> Result<String, ApiError> {
    let name = text(param, name)?;
    if name.chars().count() > 64 {
        return Err(too_long(param, 64, name.chars().count()));
    }
    if !check::is_tool_name(name) {
        let message = format!(
            "Invalid '{param}': string does not match pattern. Expected a string that matches the \
             pattern '^[a-zA-Z0-9_-]+$'."
        );
        return Err(refusal(param, "invalid_value", message));
    }
    Ok(name.to_owned())
}

/// Returns the list at `key`; empty if it is missing.
pub(super) fn list<'a>(request: &'a Object, key: &str) -> Result<&'a [Value], ApiError> {
    match request.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(other) => Err(wrong_type(key, "an array", other)),
    }
}

/// Checks a tool and returns its name and schema. `at` is its place; `function` contains its fields.
pub(super) fn tool(at: &str, function: &Object) -> Result<OfferedTool, ApiError> {
    let name = tool_name(&format!("{at}.name"), function.get("name"))?;
    let param = format!("{at}.parameters");
    let code = "invalid_function_parameters";
    let schema = match function.get("parameters") {
        None | Some(Value::Null) => json!({"type": "object", "properties": {}}),
        Some(schema @ Value::Object(fields)) => {
            if !fields.is_empty() && text_of(fields, "type") != "object" {
                let message = format!(
                    "Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \
                     \"object\"', got 'type: {}'.",
                    fields.get("type").unwrap_or(&Value::Null)
                );
                return Err(refusal(param, code, message));
            }
            schema.clone()
        }
        Some(other) => return Err(wrong_type(param, "an object", other)),
    };
    if let Some(message) = strictness_violation(function, &schema, &format!("function '{name}'")) {
        return Err(refusal(param, code, message));
    }
    Ok(OfferedTool { name, schema })
}

/// Returns the message about a schema that has to be strict, because `fields` say so, and is not. `what` is its owner.
fn strictness_violation(fields: &Object, schema: &Value, what: &str) -> Option<String> {
    if !is_true(fields, "strict") {
        return None;
    }
    let violation = check::strict(schema, true).err()?;
    let described = describe_violation(&violation);
    Some(format!("Invalid schema for {what}: {described}"))
}

pub(super) fn distinct_tools(tools: &[OfferedTool]) -> Result<(), ApiError> {
    match check::first_duplicate(tools.iter().map(|tool| tool.name.as_str())) {
        Some(name) => {
            let message =
                format!("Invalid 'tools': the function name '{name}' is used more than once.");
            Err(refusal("tools", "invalid_value", message))
        }
        None => Ok(()),
    }
}

/// Returns the schema of a `json_schema` format; `format` contains its fields.
pub(super) fn output_schema(param: &str, format: &Object) -> Result<Value, ApiError> {
    let name = tool_name(&format!("{param}.name"), format.get("name"))?;
    let Some(schema) = format.get("schema").filter(|schema| schema.is_object()) else {
        return Err(missing(format!("{param}.schema")));
    };
    let owner = format!("response_format '{name}'");
    if let Some(message) = strictness_violation(format, schema, &owner) {
        return Err(refusal(param, "invalid_json_schema", message));
    }
    Ok(schema.clone())
}

fn describe_violation(why: &StrictnessViolation) -> String {
    let path: Vec<String> = why.path.iter().map(|step| format!("'{step}'")).collect();
    let path = path.join(", ");
    match &why.why {
        ViolationKind::Open => format!(
            "In context=({path}), 'additionalProperties' is required to be supplied and to be false."
        ),
        ViolationKind::Optional(name) => format!(
            "In context=({path}), 'required' is required to be supplied and to be an array including \
             every key in properties. Missing '{name}'."
        ),
    }
}

/// Parses `tool_choice`. `has_tools` is true if the request offers tools of any kind, `tools` are its
/// functions; `name_in` returns the name of a named function.
pub(super) fn choice(
    request: &Object,
    has_tools: bool,
    tools: &[OfferedTool],
    name_in: impl Fn(&Object) -> Option<&str>,
) -> Result<Choice, ApiError> {
    let choice = match request.get("tool_choice") {
        None | Some(Value::Null) => return Ok(Choice::Auto),
        Some(_) if !has_tools => {
            let message = "'tool_choice' is only allowed when 'tools' are specified.";
            return Err(ApiError::invalid(message).param("tool_choice"));
        }
        Some(Value::String(word)) => match word.as_str() {
            "auto" => Choice::Auto,
            "none" => Choice::None,
            "required" => Choice::Any,
            other => {
                let supported = "'none', 'auto', and 'required'";
                return Err(wrong_value("tool_choice", other, supported));
            }
        },
        Some(Value::Object(fields)) => match name_in(fields) {
            Some(name) => Choice::Named(name.to_owned()),
            // Allowed tools, hosted tools: the model may choose.
            None => Choice::Auto,
        },
        Some(other) => return Err(wrong_type("tool_choice", "a string or an object", other)),
    };
    match &choice {
        Choice::Named(name) if !tools.iter().any(|tool| tool.name == *name) => {
            let message = format!("Tool choice '{name}' not found in 'tools' parameter.");
            Err(ApiError::invalid(message).param("tool_choice"))
        }
        _ => Ok(choice),
    }
}

/// Cache parameters of a request.
pub(super) struct CacheParameters {
    key: Option<String>,
    mode: Mode,
    lifetime: Option<String>,
}

pub(super) fn cache_parameters(
    request: &Object,
    model: &OpenAiModel,
) -> Result<CacheParameters, ApiError> {
    let key = optional_text("prompt_cache_key", request.get("prompt_cache_key"))?;
    let length = key.map_or(0, |key| key.chars().count());
    if length > MAX_KEY_CHARS {
        return Err(too_long("prompt_cache_key", MAX_KEY_CHARS, length));
    }
    let retention = match request.get("prompt_cache_retention") {
        None | Some(Value::Null) => None,
        Some(Value::String(word)) if ["in_memory", "24h"].contains(&word.as_str()) => {
            Some(word.clone())
        }
        Some(other) => {
            let found = other.to_string();
            let supported = "'in_memory' and '24h'";
            return Err(wrong_value("prompt_cache_retention", &found, supported));
        }
    };
    let mut parameters = CacheParameters {
        key: key.map(str::to_owned),
        mode: Mode::Implicit,
        lifetime: retention.filter(|_| model.caching != Caching::Exact),
    };
    if let Some(options) = present(request, "prompt_cache_options") {
        parameters.take_options(options, model)?;
    }
    Ok(parameters)
}

impl CacheParameters {
    fn take_options(&mut self, options: &Value, model: &OpenAiModel) -> Result<(), ApiError> {
        let param = "prompt_cache_options";
        let options = object(param, options)?;
        if model.caching != Caching::Exact {
            return Err(not_before_breakpoints(param));
        }
        self.mode = match options.get("mode").and_then(Value::as_str) {
            None | Some("implicit") => Mode::Implicit,
            Some("explicit") => Mode::Explicit,
            Some(other) => {
                let supported = "'implicit' and 'explicit'";
                return Err(wrong_value(format!("{param}.mode"), other, supported));
            }
        };
        self.lifetime = match options.get("ttl").and_then(Value::as_str) {
            None => None,
            Some(ttl @ ("30m" | LONG_LIFETIME)) => Some(ttl.to_owned()),
            Some(other) => {
                let supported = "'30m' and '12h'";
                return Err(wrong_value(format!("{param}.ttl"), other, supported));
            }
        };
        Ok(())
    }
}

/// Returns true if a content part has a breakpoint.
pub(super) fn is_marked(param: &str, part: &Object, model: &OpenAiModel) -> Result<bool, ApiError> {
    let Some(marker) = present(part, "prompt_cache_breakpoint") else {
        return Ok(false);
    };
    let param = format!("{param}.prompt_cache_breakpoint");
    if model.caching != Caching::Exact {
        return Err(not_before_breakpoints(param));
    }
    if let Some(other) = marker
        .get("ttl")
        .filter(|ttl| **ttl != "30m" && **ttl != LONG_LIFETIME)
    {
        let found = plain(other);
        return Err(wrong_value(
            format!("{param}.ttl"),
            &found,
            "'30m' and '12h'",
        ));
    }
    match marker.get("mode").and_then(Value::as_str) {
        Some("explicit") => Ok(true),
        Some(other) => Err(wrong_value(format!("{param}.mode"), other, "'explicit'")),
        None => Err(missing(format!("{param}.mode"))),
    }
}

/// Author of a message, as far as the end of the message depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    Developer,
    User,
    Model,
    Tool,
}

/// A message or item, as blocks.
pub(super) struct Part {
    pub(super) speaker: Speaker,
    pub(super) blocks: Vec<Block>,
    /// Index of the last block whose breakpoint asks for twelve hours.
    pub(super) long: Option<usize>,
}

/// The lifetime of cache writes beside the usual one.
const LONG_LIFETIME: &str = "12h";

/// Returns the index of the last part with a breakpoint that asks for twelve hours.
pub(super) fn last_long_breakpoint(content: Option<&Value>) -> Option<usize> {
    let parts = content.and_then(Value::as_array)?;
    parts.iter().rposition(|part| {
        let marker = part.get("prompt_cache_breakpoint");
        marker.and_then(|marker| marker.get("ttl")) == Some(&json!(LONG_LIFETIME))
    })
}

/// Assembles the prompt on which caching depends, and returns the number of tokens at its beginning whose
/// writes last twelve hours. The cache keeps all writes of a request as long as the longest.
pub(super) fn prompt(
    validation: &ValidationContext<'_>,
    model: &str,
    cache: CacheParameters,
    settings: Content,
    tools: &[Value],
    mut parts: Vec<Part>,
) -> (Prompt, u64) {
    let beginning = parts
        .iter()
        .take_while(|part| part.speaker == Speaker::Developer)
        .count();
    for at in 0..parts.len() {
        let next_is_tool = parts
            .get(at + 1)
            .is_some_and(|next| next.speaker == Speaker::Tool);
        let end = match parts[at].speaker {
            Speaker::User => End::Eligible,
            Speaker::Tool if !next_is_tool => End::Eligible,
            Speaker::Developer if at + 1 == beginning => End::Beginning,
            _ => End::Other,
        };
        if let Some(last) = parts[at].blocks.last_mut() {
            last.end = Some(end);
        }
    }
    let mut blocks: Vec<Block> = tools.iter().map(tool_content).map(block).collect();
    let mut long = None;
    for part in parts {
        long = part.long.map(|at| blocks.len() + at).or(long);
        blocks.extend(part.blocks);
    }
    let is_long = |lifetime: &Option<String>| lifetime.as_deref() == Some(LONG_LIFETIME);
    let long_writes = match long {
        _ if is_long(&cache.lifetime) => u64::MAX,
        Some(last) => {
            let contents = blocks.iter().take(last + 1).map(|block| &block.content);
            settings.tokens() + contents.map(Content::tokens).sum::<u64>()
        }
        None => 0,
    };
    let prompt = Prompt {
        namespace: validation.namespace,
        model: model.to_owned(),
        cache_key: cache.key,
        settings,
        blocks,
        mode: cache.mode,
        lifetime: match long {
            Some(_) => Some(LONG_LIFETIME.to_owned()),
            None => cache.lifetime,
        },
    };
    (prompt, long_writes)
}

/// Returns the tier that an answer reports: `fast` is an older name of `priority`, and a project's setting,
/// which applies to `auto`, is the default here.
pub(super) fn answered_tier(request: &Object) -> &'static str {
    match text_of(request, "service_tier") {
        "flex" => "flex",
        "priority" | "fast" => "priority",
        "scale" => "scale",
        "ultrafast" => "ultrafast",
        _ => "default",
    }
}

pub(super) fn tool_content(tool: &Value) -> Content {
    content("tool", tool.to_string())
}

/// Returns a block without a breakpoint.
pub(super) fn block(content: Content) -> Block {
    Block {
        content,
        ..Block::default()
    }
}

/// Returns the settings that are rendered before the prompt: those of `keys` that are set, and a schema,
/// whose tokens count.
pub(super) fn settings(request: &Object, keys: &[&str], schema: Option<&Value>) -> Content {
    let set = keys.iter().filter_map(|key| {
        let value = present(request, key)?;
        Some(format!("{key}={value}"))
    });
    let schema = schema.map(Value::to_string).unwrap_or_default();
    content(set.collect::<Vec<_>>().join("&"), schema)
}

/// Markers in content parts: OpenAI's, and that of compatible servers for Anthropic models.
const MARKERS: [&str; 2] = ["prompt_cache_breakpoint", "cache_control"];

/// Returns the content of a part, without its markers.
pub(super) fn part_content(frame: &str, part: &Object) -> Content {
    let [marker, other_marker] = MARKERS;
    let kind = text_of(part, "type");
    match kind {
        // A text part of any type is equal to a string.
        "text" | "input_text" | "output_text" | "refusal" => {
            let key = if kind == "refusal" { "refusal" } else { "text" };
            let named = ["type", key, marker, other_marker, "annotations", "logprobs"];
            let frame = format!("{frame}|{}", other_fields(part, &named));
            content(frame, text_of(part, key))
        }
        _ => Content {
            frame: format!("{frame}|{}", other_fields(part, &MARKERS)),
            text: String::new(),
            images: tokens::TOKENS_PER_IMAGE,
        },
    }
}

/// Returns the block of a text that is written as a string.
pub(super) fn text_block(frame: &str, text: &str) -> Block {
    block(content(format!("{frame}|"), text))
}
