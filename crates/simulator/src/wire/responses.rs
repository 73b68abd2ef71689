//! OpenAI Responses.

mod compaction;
mod events;
mod item;
mod items;
mod tools;
mod write;

use std::collections::HashMap;

use serde_json::{Value, json};

use super::openai::{self, Part, Speaker};
use super::{
    ApiError, Object, Prompt, Request, Thinking, ValidationContext, is_true, present, text_of,
};
use crate::accounting::Caching;
use crate::dialogue::{Choice, Dialogue};
use crate::facts;

pub(crate) use compaction::{compacted, equivalent_request, is_compaction, is_count};
pub(super) use events::error_event;
pub(crate) use items::StoredItems;

/// Prefix of the id of a response.
pub(crate) const ID_PREFIX: &str = "resp_";

/// Fields of the request that the answer repeats.
#[derive(Debug, Clone)]
pub(crate) struct ResponseParameters {
    /// Fields of the answer that are taken from the request.
    pub(super) repeated: Value,
    pub(super) has_encrypted: bool,
    pub(super) has_summary: bool,
    pub(super) charges_writes: bool,
    pub(super) is_stored: bool,
    /// Tier of the answer.
    pub(super) tier: &'static str,
    /// True if nothing is generated: the request only fills the cache.
    pub(super) is_prewarming: bool,
    /// True if the provider may compact the conversation before it answers.
    pub(super) may_compact: bool,
    /// The user's messages, if the answer is a compaction of the conversation.
    pub(crate) compacts: Option<Vec<Value>>,
    /// Namespace by function.
    pub(super) namespaces: HashMap<String, String>,
    /// The response that the request continues.
    pub(super) previous: Option<String>,
    /// The items of the request itself.
    pub(super) input: Vec<Value>,
    /// The response to compare the cache with.
    pub(crate) comparison: Option<String>,
    /// Compared settings, each with its reason for a cache miss.
    pub(crate) compared: Vec<(&'static str, String)>,
}

const INCLUDABLE: [&str; 8] = [
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
];

pub(super) fn read(body: &Value, validation: &ValidationContext<'_>) -> Result<Request, ApiError> {
    let (request, model) = openai::request_and_model(body)?;
    let rules = validation.rules.openai.model(model);
    if validation.by_model {
        openai::by_model::responses(request, model)?;
    }
    unsupported(request)?;
    let limit = limit(request)?;
    let included = included(request)?;
    let cache = openai::cache_parameters(request, rules)?;
    let schema = schema(request)?;
    let known = validation.items.in_namespace(validation.namespace);
    let previous = "previous_response_id";
    let previous = openai::optional_text(previous, request.get(previous))?;
    let history = match previous {
        None => Vec::new(),
        Some(id) => known.history(id).ok_or_else(|| previous_not_found(id))?,
    };
    let input = item::given(request, known, previous.is_some())?;
    let conversation = || history.iter().chain(&input);
    let tools = tools::read(request, conversation())?;
    let choice = choice(request, &tools)?;
    let items = item::read(&history, &input, rules, known)?;

    let compacts = input
        .last()
        .is_some_and(|last| last.get("type") == Some(&json!("compaction_trigger")));
    let compacts = compacts.then(|| {
        let messages = conversation().enumerate();
        let messages = messages
            .filter_map(|(at, item)| compaction::user_message(item, format!("msg_user_{at}")));
        messages.collect::<Vec<Value>>()
    });
    let is_prewarming = request
        .get("prompt_cache_options")
        .and_then(|options| options.get("prewarm"))
        == Some(&Value::Bool(true));
    let said = items.iter().filter_map(|item| item.dialogue_item.clone());
    let dialogue = Dialogue::new(model, tools.functions, choice, schema.clone(), said);
    let settings = [
        "parallel_tool_calls",
        "reasoning",
        "text",
        "context_management",
    ];
    let settings = openai::settings(request, &settings, schema.as_ref());
    let mut parts: Vec<Part> = instructions(request)?.into_iter().collect();
    parts.extend(items.into_iter().filter_map(|item| item.part));
    let offered = openai::list(request, "tools")?;
    let (prompt, long_writes) = openai::prompt(validation, model, cache, settings, offered, parts);
    let summary = request
        .get("reasoning")
        .and_then(|reasoning| reasoning.get("summary"));
    Ok(Request {
        dialogue,
        prompt: Prompt::OpenAi(prompt),
        long_writes,
        limit: if is_prewarming { Some(0) } else { limit },
        stop_sequences: Vec::new(),
        is_streamed: is_true(request, "stream"),
        thinking: if openai::reasons(model, rules) {
            Thinking::Always
        } else {
            Thinking::IfScripted
        },
        response_parameters: super::ResponseParameters::Responses(Box::new(ResponseParameters {
            repeated: repeated(request),
            has_encrypted: included.contains(&"reasoning.encrypted_content"),
            has_summary: summary.is_some_and(|summary| !summary.is_null()),
            charges_writes: rules.caching == Caching::Exact,
            is_stored: request.get("store") != Some(&Value::Bool(false)),
            tier: openai::answered_tier(request),
            is_prewarming,
            may_compact: request
                .get("context_management")
                .is_some_and(|management| management.to_string().contains("\"compaction\"")),
            compacts,
            namespaces: tools.namespaces,
            previous: previous.map(str::to_owned),
            input,
            comparison: comparison(request),
            compared: compared(request, model),
        })),
    })
}

/// Returns the id of the response that the request continues.
fn previous_not_found(id: &str) -> ApiError {
    let message = format!("Previous response with id '{id}' not found.");
    openai::refusal(
        "previous_response_id",
        "previous_response_not_found",
        message,
    )
}

/// Refuses features that the simulator does not support.
fn unsupported(request: &Object) -> Result<(), ApiError> {
    for key in ["background", "conversation", "prompt"] {
        let is_set = |value: &Value| !value.is_null() && *value != Value::Bool(false);
        if request.get(key).is_some_and(is_set) {
            let message = format!("The simulator does not have '{key}': leave it out.");
            return Err(ApiError::with_status(400, message).param(key));
        }
    }
    Ok(())
}

fn limit(request: &Object) -> Result<Option<u64>, ApiError> {
    let key = "max_output_tokens";
    let Some(limit) = present(request, key) else {
        return Ok(None);
    };
    match limit.as_u64() {
        Some(tokens) if tokens >= 16 => Ok(Some(tokens)),
        Some(_) => {
            let message = format!(
                "Invalid '{key}': integer below minimum value. Expected a value >= 16, but got \
                 {limit} instead."
            );
            Err(openai::refusal(key, "integer_below_min_value", message))
        }
        None => Err(openai::wrong_type(key, "an integer", limit)),
    }
}

fn included(request: &Object) -> Result<Vec<&str>, ApiError> {
    let mut included = Vec::new();
    for (at, what) in openai::list(request, "include")?.iter().enumerate() {
        let word = what.as_str().unwrap_or_default();
        if !INCLUDABLE.contains(&word) {
            let supported: Vec<String> = INCLUDABLE.iter().map(|one| format!("'{one}'")).collect();
            let param = format!("include[{at}]");
            return Err(openai::wrong_value(param, word, &supported.join(", ")));
        }
        included.push(word);
    }
    Ok(included)
}

/// Parses `tool_choice`. Unlike Chat Completions, Responses takes `auto` and `none` without tools.
fn choice(request: &Object, tools: &tools::Tools) -> Result<Choice, ApiError> {
    match text_of(request, "tool_choice") {
        "auto" => Ok(Choice::Auto),
        "none" => Ok(Choice::None),
        _ => openai::choice(request, tools.has_any, &tools.functions, |fields| {
            (text_of(fields, "type") == "function").then(|| text_of(fields, "name"))
        }),
    }
}

/// Returns the schema that `text.format` requires.
fn schema(request: &Object) -> Result<Option<Value>, ApiError> {
    let format = request.get("text").and_then(|text| text.get("format"));
    let format = match format {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(format)) => format,
        Some(other) => return Err(openai::wrong_type("text.format", "an object", other)),
    };
    match text_of(format, "type") {
        "text" => Ok(None),
        "json_object" => Ok(Some(json!({"type": "object"}))),
        "json_schema" => openai::output_schema("text.format", format).map(Some),
        other => {
            let supported = "'json_object', 'json_schema', and 'text'";
            Err(openai::wrong_value("text.format.type", other, supported))
        }
    }
}

/// Returns `prompt_cache_options.comparison_response_id`.
fn comparison(request: &Object) -> Option<String> {
    let options = request.get("prompt_cache_options")?;
    let id = options.get("comparison_response_id")?.as_str()?;
    Some(id.to_owned())
}

/// Returns the settings that are compared with those of an earlier request; a default equals a missing
/// value.
fn compared(request: &Object, model: &str) -> Vec<(&'static str, String)> {
    let effort = facts::openai(model).map(|facts| facts.default_effort);
    let effort = effort.unwrap_or_else(|| "medium".to_owned());
    [
        ("service_tier_changed", "service_tier", json!("auto")),
        (
            "text_format_changed",
            "text/format",
            json!({"type": "text"}),
        ),
        (
            "reasoning_effort_changed",
            "reasoning/effort",
            json!(effort),
        ),
        ("verbosity_changed", "text/verbosity", json!("medium")),
    ]
    .map(|(reason, path, default)| {
        let mut steps = path.split('/');
        let first = steps.next().and_then(|key| request.get(key));
        let found = steps.fold(first, |value, key| value?.get(key));
        let found = found.filter(|value| !value.is_null());
        (reason, found.unwrap_or(&default).to_string())
    })
    .to_vec()
}

/// Returns `instructions` as a developer message before the input.
fn instructions(request: &Object) -> Result<Option<Part>, ApiError> {
    let text = openai::optional_text("instructions", request.get("instructions"))?;
    Ok(text.map(|text| Part {
        speaker: Speaker::Developer,
        blocks: vec![openai::text_block("developer", text)],
        long: None,
    }))
}

/// Returns the fields that the answer repeats, with the defaults that the provider fills in.
fn repeated(request: &Object) -> Value {
    let mut repeated = json!({
        "instructions": null,
        "max_output_tokens": null,
        "max_tool_calls": null,
        "model": null,
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "prompt_cache_key": null,
        "reasoning": {"effort": null, "summary": null},
        "safety_identifier": null,
        "store": true,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "user": null,
        "metadata": {},
    });
    if request.contains_key("prompt_cache_options") {
        repeated["prompt_cache_options"] = json!({"mode": "implicit", "ttl": "30m"});
    }
    if request.contains_key("access_programs") {
        repeated["access_programs"] = json!({});
    }
    for (key, value) in repeated.as_object_mut().into_iter().flatten() {
        match (value, present(request, key)) {
            (_, None) => {}
            (Value::Object(defaults), Some(Value::Object(given))) => defaults.extend(given.clone()),
            (value, Some(given)) => *value = given.clone(),
        }
    }
    repeated
}
