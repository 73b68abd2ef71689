//! Gemini's `generateContent`: <https://ai.google.dev/api/generate-content>.

mod cached;
mod content;
mod write;

use serde_json::{Map, Value, json};

use super::{
    ApiError, Object, Prompt, Request, Thinking, ValidationContext, check, is_true, items, openai,
    present, refuse, text_of,
};
use crate::accounting::Content;
use crate::accounting::openai::{Block, End, Mode};
use crate::dialogue::{Choice, Dialogue, OfferedTool};

pub(crate) use cached::CachedContents;
pub(super) use content::signature;

/// Fields of the request on which the form of the answer depends.
#[derive(Debug, Clone)]
pub(crate) struct ResponseParameters {
    pub(super) model: String,
    /// Number of tokens of the cached content that the request names.
    pub(crate) cached: u64,
    /// Tier that the request asks for.
    pub(super) tier: Option<String>,
}

/// Members of a request; `model` and `stream` are taken from the path.
const MEMBERS: [&str; 14] = [
    "cachedContent",
    "contents",
    "continuationToken",
    "generationConfig",
    "generateContentRequest",
    "labels",
    "model",
    "safetySettings",
    "serviceTier",
    "store",
    "stream",
    "systemInstruction",
    "toolConfig",
    "tools",
];

const GENERATION_MEMBERS: [&str; 23] = [
    "audioTranscriptionConfig",
    "candidateCount",
    "enableEnhancedCivicAnswers",
    "frequencyPenalty",
    "imageConfig",
    "logprobs",
    "maxOutputTokens",
    "mediaResolution",
    "presencePenalty",
    "responseFormat",
    "responseJsonSchema",
    "responseLogprobs",
    "responseMimeType",
    "responseModalities",
    "responseSchema",
    "seed",
    "speechConfig",
    "stopSequences",
    "temperature",
    "thinkingConfig",
    "topK",
    "topP",
    "translationConfig",
];

const THINKING_MEMBERS: [&str; 3] = ["includeThoughts", "thinkingBudget", "thinkingLevel"];

/// Members whose values belong to the caller: the names within them are not converted.
const VERBATIM: [&str; 9] = [
    "args",
    "labels",
    "parameters",
    "parametersJsonSchema",
    "partMetadata",
    "response",
    "responseJsonSchema",
    "responseSchema",
    "text",
];

/// Converts the names in a body to camel case; the API also accepts snake case.
fn in_camel_case(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| {
                let key = camel(key);
                let value = if VERBATIM.contains(&key.as_str()) {
                    value.clone()
                } else {
                    in_camel_case(value)
                };
                (key, value)
            })
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(in_camel_case).collect(),
        other => other.clone(),
    }
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut name, word| {
        let mut letters = word.chars();
        name.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        name.push_str(letters.as_str());
        name
    })
}

pub(super) fn read(body: &Value, validation: &ValidationContext<'_>) -> Result<Request, ApiError> {
    let body = in_camel_case(body);
    let request = object(&body, "request")?;
    let (request, cached) = validation.cached_contents.complete(request, validation)?;
    read_whole(&request, validation, cached)
}

/// Parses a request that includes the content of its cached content.
fn read_whole(
    request: &Object,
    validation: &ValidationContext<'_>,
    cached: u64,
) -> Result<Request, ApiError> {
    known(request, "", &MEMBERS, validation)?;
    let model = text_of(request, "model");
    let empty = Object::new();
    let config = present(request, "generationConfig");
    let config = config.map_or(Ok(&empty), |config| object(config, "generation_config"))?;
    known(config, "generation_config", &GENERATION_MEMBERS, validation)?;
    let thinking = thinking(config, model, validation)?;
    let tools = tools(request)?;
    let choice = choice(request, &tools)?;
    let read = content::read(request, model)?;
    let schema = output_schema(config, validation)?;

    let dialogue = Dialogue::new(model, tools, choice, schema, read.dialogue_item);
    let mut blocks: Vec<Block> = declarations(request)
        .map(|tool| openai::block(openai::tool_content(tool)))
        .collect();
    let system = request.get("systemInstruction");
    let system = system.map(|system| super::content("system", content::text(system)));
    blocks.extend(system.map(openai::block));
    for (role, text, images) in read.blocks {
        let content = Content {
            images,
            ..super::content(role, text)
        };
        blocks.push(Block {
            end: Some(End::Eligible),
            ..openai::block(content)
        });
    }
    let settings = ["responseMimeType", "responseJsonSchema", "responseSchema"];
    let settings: Object = settings
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), config.get(*name)?.clone())))
        .collect();
    Ok(Request {
        dialogue,
        prompt: Prompt::OpenAi(crate::accounting::openai::Prompt {
            namespace: validation.namespace,
            model: model.to_owned(),
            cache_key: None,
            settings: super::content(format!("gemini {}", Value::Object(settings)), ""),
            blocks,
            mode: Mode::Implicit,
            lifetime: None,
        }),
        long_writes: 0,
        limit: config.get("maxOutputTokens").and_then(Value::as_u64),
        stop_sequences: stop_sequences(config),
        is_streamed: is_true(request, "stream"),
        thinking,
        response_parameters: super::ResponseParameters::Gemini(ResponseParameters {
            model: model.to_owned(),
            cached,
            tier: request
                .get("serviceTier")
                .and_then(Value::as_str)
                .map(str::to_owned),
        }),
    })
}

pub(super) fn error(refusal: &ApiError) -> Value {
    let status = match refusal.status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        408 | 504 => "DEADLINE_EXCEEDED",
        429 => "RESOURCE_EXHAUSTED",
        503 | 529 => "UNAVAILABLE",
        500.. => "INTERNAL",
        _ => "FAILED_PRECONDITION",
    };
    json!({"error": {
        "code": refusal.status,
        "message": refusal.message,
        "status": status,
    }})
}

fn object<'a>(value: &'a Value, at: &str) -> Result<&'a Object, ApiError> {
    value.as_object().ok_or_else(|| {
        ApiError::invalid(format!(
            "Invalid JSON payload received. Unexpected value at '{at}': an object is expected."
        ))
    })
}

/// Refuses unknown members, with the error message of the API.
fn known(
    object: &Object,
    at: &str,
    names: &[&str],
    validation: &ValidationContext<'_>,
) -> Result<(), ApiError> {
    match object.keys().find(|key| !names.contains(&key.as_str())) {
        Some(key) if !validation.accepts_unknown => {
            let place = match at {
                "" => String::new(),
                at => format!(" at '{at}'"),
            };
            refuse(format!(
                "Invalid JSON payload received. Unknown name \"{key}\"{place}: Cannot find field."
            ))
        }
        _ => Ok(()),
    }
}

/// Returns the generation of a Gemini model: 2 for `gemini-2.5-flash`.
pub(super) fn generation(model: &str) -> Option<u32> {
    let rest = model.strip_prefix("gemini-")?;
    rest.split(['.', '-']).next()?.parse().ok()
}

/// Returns the visibility of thoughts; refuses a thinking configuration that the model does not accept.
fn thinking(
    config: &Object,
    model: &str,
    validation: &ValidationContext<'_>,
) -> Result<Thinking, ApiError> {
    let Some(thinking) = present(config, "thinkingConfig") else {
        return Ok(Thinking::Never);
    };
    let at = "generation_config.thinking_config";
    let thinking = object(thinking, at)?;
    known(thinking, at, &THINKING_MEMBERS, validation)?;
    let budget = thinking.get("thinkingBudget");
    let level = thinking.get("thinkingLevel").and_then(Value::as_str);
    if budget.is_some() && level.is_some() {
        return refuse("You can only set only one of thinking budget and thinking level.");
    }
    let generation = generation(model);
    if model.starts_with("gemini-2.0") || generation.is_some_and(|number| number < 2) {
        return refuse("Thinking is not enabled for this model.");
    }
    if level.is_some() && generation.is_some_and(|number| number < 3) {
        return refuse("Thinking level is not supported for this model.");
    }
    let levels = ["minimal", "low", "medium", "high"];
    if let Some(level) = level
        && !levels.contains(&level.to_ascii_lowercase().as_str())
    {
        return refuse(format!(
            "Invalid value at 'generation_config.thinking_config.thinking_level', \"{level}\""
        ));
    }
    if budget.and_then(Value::as_i64) == Some(0)
        && (model.starts_with("gemini-2.5-pro") || generation.is_some_and(|number| number > 2))
    {
        return refuse("Budget 0 is invalid. This model only works in thinking mode.");
    }
    Ok(if is_true(thinking, "includeThoughts") {
        Thinking::Always
    } else {
        Thinking::Never
    })
}

fn declarations(request: &Object) -> impl Iterator<Item = &Value> {
    items(request.get("tools")).flat_map(|tool| items(tool.get("functionDeclarations")))
}

fn tools(request: &Object) -> Result<Vec<OfferedTool>, ApiError> {
    let mut offered = Vec::new();
    for declaration in declarations(request) {
        let fields = object(declaration, "tools[0].function_declarations")?;
        let name = text_of(fields, "name");
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
        let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !starts || name.len() > 128 || !name.chars().all(fits) {
            return refuse(format!(
                "* GenerateContentRequest.tools[0].function_declarations[{}].name: Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 128.",
                offered.len()
            ));
        }
        if fields.contains_key("parameters") && fields.contains_key("parametersJsonSchema") {
            return refuse("parameters and parameters_json_schema cannot both be set.");
        }
        let schema = fields
            .get("parametersJsonSchema")
            .or_else(|| fields.get("parameters"));
        offered.push(OfferedTool {
            name: name.to_owned(),
            schema: lower_types(schema.cloned().unwrap_or_else(|| json!({"type": "object"}))),
        });
    }
    let names = offered.iter().map(|tool: &OfferedTool| tool.name.as_str());
    match check::first_duplicate(names) {
        Some(name) => refuse(format!("Duplicate function declaration found: {name}")),
        None => Ok(offered),
    }
}

/// Converts the types of a schema in the API's own dialect (`OBJECT`, `STRING`) to those of JSON Schema.
fn lower_types(schema: Value) -> Value {
    match schema {
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| match value {
                Value::String(name) if key == "type" => (key, name.to_lowercase().into()),
                value => (key, lower_types(value)),
            })
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.into_iter().map(lower_types).collect(),
        other => other,
    }
}

fn choice(request: &Object, tools: &[OfferedTool]) -> Result<Choice, ApiError> {
    let config = request
        .get("toolConfig")
        .and_then(|config| config.get("functionCallingConfig"));
    let Some(config) = config.and_then(Value::as_object) else {
        return Ok(Choice::Auto);
    };
    let allowed = items(config.get("allowedFunctionNames"));
    let allowed: Vec<&str> = allowed.filter_map(Value::as_str).collect();
    let mode = match config.get("mode").and_then(Value::as_str) {
        None | Some("AUTO" | "VALIDATED" | "MODE_UNSPECIFIED") => Choice::Auto,
        Some("NONE") => Choice::None,
        Some("ANY") => match allowed.first() {
            Some(name) => Choice::Named((*name).to_owned()),
            None => Choice::Any,
        },
        Some(other) => {
            return refuse(format!(
                "Invalid value at 'tool_config.function_calling_config.mode', \"{other}\""
            ));
        }
    };
    if !allowed.is_empty() && !matches!(mode, Choice::Named(_)) {
        return refuse("Please set allowed_function_names only when function calling mode is ANY.");
    }
    let unknown = allowed
        .iter()
        .find(|name| !tools.iter().any(|tool| tool.name == **name));
    match (unknown, &mode) {
        (Some(name), _) => refuse(format!(
            "* GenerateContentRequest.tool_config.function_calling_config.allowed_function_names: '{name}' is not among the function declarations"
        )),
        (None, Choice::Any) if tools.is_empty() => {
            refuse("Function calling config is set without function_declarations.")
        }
        _ => Ok(mode),
    }
}

fn output_schema(
    config: &Object,
    validation: &ValidationContext<'_>,
) -> Result<Option<Value>, ApiError> {
    let schema = config
        .get("responseJsonSchema")
        .or_else(|| config.get("responseSchema"));
    let mime = text_of(config, "responseMimeType");
    match (schema, mime) {
        (Some(_), "" | "text/plain") if !validation.accepts_unknown => refuse(
            "Response schema is only supported with response mime types application/json and text/x.enum.",
        ),
        (Some(schema), _) => Ok(Some(lower_types(schema.clone()))),
        (None, "application/json") => Ok(Some(json!({"type": "object"}))),
        (None, _) => Ok(None),
    }
}

fn stop_sequences(config: &Object) -> Vec<String> {
    let texts = items(config.get("stopSequences")).filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}
