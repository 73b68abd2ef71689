//! The formats of requests and answers. Each has its own files, which parse requests to a [`Request`] and
//! render an [`Answer`].

pub(crate) mod anthropic;
mod bedrock;
pub(crate) mod chat;
mod check;
pub(crate) mod converse;
pub(crate) mod gemini;
pub(crate) mod interactions;
mod official;
mod openai;
pub(crate) mod responses;
mod route;

use axum::http::HeaderMap;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use cachalot_core::{Digest, Millis};

use crate::accounting::{self, Content, Rules};
use crate::answer::{Answer, TokenCounts};
use crate::dialogue::Dialogue;
use crate::ids::Ids;
use crate::reply::ScriptedUsage;

pub(crate) use official::check_embeddings;
pub(crate) use route::Route;

/// A JSON object.
type Object = Map<String, Value>;

/// An API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// OpenAI Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
    /// Gemini's `generateContent`.
    Gemini,
    /// Gemini's Interactions.
    Interactions,
    /// Amazon Bedrock's Converse.
    Converse,
}

/// A valid request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) dialogue: Dialogue,
    pub(crate) prompt: Prompt,
    /// Number of tokens at the beginning of the prompt whose cache writes last twelve hours.
    pub(crate) long_writes: u64,
    /// Maximum number of output tokens.
    pub(crate) limit: Option<u64>,
    /// Stop sequences.
    pub(crate) stop_sequences: Vec<String>,
    pub(crate) is_streamed: bool,
    pub(crate) thinking: Thinking,
    /// Fields of the request that the answer repeats, or on which its form depends.
    pub(crate) response_parameters: ResponseParameters,
}

#[derive(Debug, Clone)]
pub(crate) enum Prompt {
    Anthropic(accounting::anthropic::Prompt),
    OpenAi(accounting::openai::Prompt),
}

impl Prompt {
    pub(crate) fn tokens(&self) -> u64 {
        match self {
            Self::Anthropic(prompt) => prompt.tokens(),
            Self::OpenAi(prompt) => prompt.tokens(),
        }
    }
}

/// Visibility of a reply's reasoning in the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thinking {
    /// Not shown: thinking is not enabled.
    Never,
    /// Shown if the script shows the reasoning of this model.
    IfScripted,
    /// Shown.
    Always,
}

#[derive(Debug, Clone)]
pub(crate) enum ResponseParameters {
    Chat(chat::ResponseParameters),
    Responses(Box<responses::ResponseParameters>),
    Messages(anthropic::ResponseParameters),
    Gemini(gemini::ResponseParameters),
    Interactions(Box<interactions::ResponseParameters>),
    Converse(converse::ResponseParameters),
}

/// Context for the validation of a request.
pub(crate) struct ValidationContext<'a> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) rules: &'a Rules,
    pub(crate) namespace: Digest,
    /// Accepts unknown fields, and skips the validation against the official schemas.
    pub(crate) accepts_unknown: bool,
    /// Refuses requests that the model does not accept.
    pub(crate) by_model: bool,
    /// Stored responses and items of the Responses API.
    pub(crate) items: &'a responses::StoredItems,
    /// Message threads of the Messages API.
    pub(crate) threads: &'a anthropic::Threads,
    /// Contents that clients of Gemini have cached explicitly.
    pub(crate) cached_contents: &'a gemini::CachedContents,
    /// Stored interactions of Gemini.
    pub(crate) interactions: &'a interactions::StoredInteractions,
    pub(crate) now: Millis,
}

/// An answer, and the context for its rendering.
pub(crate) struct RenderContext<'a> {
    pub(crate) answer: &'a Answer,
    pub(crate) request: &'a Request,
    pub(crate) ids: &'a Ids,
    pub(crate) now: Millis,
    pub(crate) tokens: TokenCounts,
    /// The usage that the script sets; its token counts are already part of `tokens`.
    pub(crate) scripted: ScriptedUsage,
    /// The diagnosis of the cache, if the request asks for one; null if there is no difference to report.
    pub(crate) diagnosis: Option<Value>,
}

/// A request that the provider would refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: u16,
    /// `error.type`; `None` derives it from the status.
    pub(crate) kind: Option<&'static str>,
    pub(crate) message: String,
    pub(crate) param: Option<String>,
    pub(crate) code: Option<&'static str>,
    /// `error.details.error_code` of the Messages API.
    pub(crate) error_code: Option<&'static str>,
    /// True if the client's request is at fault; the server records such refusals as violations.
    pub(crate) is_violation: bool,
}

/// A rendered answer.
pub(crate) enum RenderedAnswer {
    Whole(Value),
    Events(Vec<Bytes>),
}

impl Format {
    /// Returns the API at this path.
    pub(crate) fn at(path: &str) -> Option<Self> {
        Route::at(path).map(|route| route.format)
    }

    /// Parses and validates a request.
    pub(crate) fn read(
        self,
        body: &Value,
        validation: &ValidationContext<'_>,
    ) -> Result<Request, ApiError> {
        let request = match self {
            Self::Chat => chat::read(body, validation),
            Self::Responses => responses::read(body, validation),
            Self::Messages => anthropic::read(body, validation, anthropic::Purpose::Answer),
            Self::Gemini => gemini::read(body, validation),
            Self::Interactions => interactions::read(body, validation),
            // The schema is that of Bedrock, which validates it before the model's own API does.
            Self::Converse => return converse::read(body, validation),
        }?;
        validation.check_schema(self, body)?;
        Ok(request)
    }

    /// Renders the body of an error response.
    pub(crate) fn error(self, refusal: &ApiError, request_id: &str) -> Value {
        match self {
            Self::Messages => anthropic::error(refusal, request_id),
            Self::Gemini | Self::Interactions => gemini::error(refusal),
            Self::Converse => converse::error(refusal),
            Self::Chat | Self::Responses => openai::error(refusal),
        }
    }

    /// Renders an error as an event of a stream that has begun.
    pub(crate) fn error_event(self, refusal: &ApiError, request_id: &str, at: usize) -> Bytes {
        match self {
            Self::Messages => event("error", &anthropic::error(refusal, request_id)),
            Self::Chat => data(&openai::error(refusal)),
            Self::Gemini => data(&gemini::error(refusal)),
            Self::Interactions => interactions::error_event(refusal),
            Self::Converse => event("internalServerException", &converse::error(refusal)),
            Self::Responses => responses::error_event(refusal, at),
        }
    }

    /// Returns the refusal of a prompt that exceeds the context window.
    pub(crate) fn too_long(self, tokens: u64, maximum: u64) -> ApiError {
        let refusal = |message: String| ApiError::with_status(400, message);
        match self {
            Self::Messages => refusal(format!(
                "prompt is too long: {tokens} tokens > {maximum} maximum"
            )),
            Self::Converse => refusal("Input is too long for requested model.".to_owned()),
            Self::Gemini | Self::Interactions => refusal(format!(
                "The input token count ({tokens}) exceeds the maximum number of tokens allowed ({maximum})."
            )),
            Self::Chat => refusal(format!(
                "This model's maximum context length is {maximum} tokens. However, your messages resulted in {tokens} tokens. Please reduce the length of the messages."
            ))
            .param("messages")
            .code("context_length_exceeded"),
            Self::Responses => refusal(
                "Your input exceeds the context window of this model. Please adjust your input and try again."
                    .to_owned(),
            )
            .param("input")
            .code("context_length_exceeded"),
        }
    }

    /// Returns the name of the header with the request id.
    pub(crate) fn id_header(self) -> &'static str {
        match self {
            Self::Messages => "request-id",
            Self::Gemini | Self::Interactions => "x-gemini-request-id",
            Self::Converse => "x-amzn-requestid",
            Self::Chat | Self::Responses => "x-request-id",
        }
    }
}

/// Renders the answers of a format. Implemented by the fields of the request on which their form depends.
pub(crate) trait AnswerWriter {
    /// Renders the answer as one body.
    fn whole(&self, context: &RenderContext<'_>) -> Value;

    /// Renders the answer as a stream of server-sent events.
    fn events(&self, context: &RenderContext<'_>) -> Vec<Bytes>;
}

impl RenderContext<'_> {
    pub(crate) fn render(&self) -> RenderedAnswer {
        let writer: &dyn AnswerWriter = match &self.request.response_parameters {
            ResponseParameters::Chat(parameters) => parameters,
            ResponseParameters::Responses(parameters) => &**parameters,
            ResponseParameters::Messages(parameters) => parameters,
            ResponseParameters::Gemini(parameters) => parameters,
            ResponseParameters::Interactions(parameters) => &**parameters,
            ResponseParameters::Converse(parameters) => parameters,
        };
        if self.request.is_streamed {
            RenderedAnswer::Events(writer.events(self))
        } else {
            RenderedAnswer::Whole(writer.whole(self))
        }
    }
}

impl ValidationContext<'_> {
    fn check_schema(&self, format: Format, body: &Value) -> Result<(), ApiError> {
        if self.accepts_unknown {
            return Ok(());
        }
        official::check(format, body, self.headers.contains_key("anthropic-beta"))
    }
}

/// Parses and validates a token-counting request.
pub(crate) fn count_tokens(
    body: &Value,
    validation: &ValidationContext<'_>,
) -> Result<Request, ApiError> {
    let request = anthropic::read(body, validation, anthropic::Purpose::CountTokens)?;
    // The schema of messages requires `max_tokens`, the only field that this request lacks.
    let mut body = body.clone();
    body["max_tokens"] = 1.into();
    validation.check_schema(Format::Messages, &body)?;
    Ok(request)
}

impl ApiError {
    /// Creates a refusal with status 400: the request is wrong.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self {
            is_violation: true,
            ..Self::with_status(400, message)
        }
    }

    /// Creates an error that is not caused by the request.
    pub(crate) fn with_status(status: u16, message: impl Into<String>) -> Self {
        Self {
            status,
            kind: None,
            message: message.into(),
            param: None,
            code: None,
            error_code: None,
            is_violation: false,
        }
    }

    pub(crate) fn param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    pub(crate) fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    pub(crate) fn error_code(mut self, code: &'static str) -> Self {
        self.error_code = Some(code);
        self
    }

    pub(crate) fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Creates the error response that a script asks for.
    pub(crate) fn simulated(status: u16) -> Self {
        let what = match status {
            401 => "invalid key",
            404 => "not found",
            408 | 504 => "timed out",
            429 => "rate limit reached",
            503 | 529 => "overloaded",
            500..=599 => "internal server error",
            _ => "request failed",
        };
        Self::with_status(status, format!("Simulated: {what}"))
    }
}

/// Renders a named server-sent event.
fn event(name: &str, data: &Value) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

/// Sets the members of `more` in `object`.
fn extend(object: &mut Value, more: &Value) {
    for (key, value) in more.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
}

/// Renders an unnamed server-sent event.
fn data(data: &Value) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

/// Renders the fields of an object that are not in `named`, sorted by name and without nulls: a part of the
/// frame of a block whose other fields are known.
fn other_fields(object: &Object, named: &[&str]) -> String {
    let mut fields: Vec<(&String, &Value)> = object
        .iter()
        .filter(|(key, value)| !named.contains(&key.as_str()) && !value.is_null())
        .collect();
    fields.sort_by_key(|(key, _)| *key);
    let fields: Vec<String> = fields
        .into_iter()
        .map(|(key, value)| format!("{}:{value}", json!(key)))
        .collect();
    fields.join(",")
}

/// Returns a member, unless it is null.
fn present<'a>(object: &'a Object, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|value| !value.is_null())
}

fn is_true(object: &Object, key: &str) -> bool {
    object.get(key) == Some(&Value::Bool(true))
}

/// Returns the items of a list; none of another value.
fn items(list: Option<&Value>) -> impl Iterator<Item = &Value> + Clone {
    list.and_then(Value::as_array).into_iter().flatten()
}

/// Returns the name of a model without that of its provider.
fn own_name(model: &str) -> &str {
    model.rsplit('/').next().unwrap_or(model)
}

/// Returns content without images.
fn content(frame: impl Into<String>, text: impl Into<String>) -> Content {
    Content {
        frame: frame.into(),
        text: text.into(),
        images: 0,
    }
}

/// Returns a text as it is, and other values as JSON.
fn plain(value: &Value) -> String {
    let text = value.as_str().map(str::to_owned);
    text.unwrap_or_else(|| value.to_string())
}

fn refuse<T>(message: impl Into<String>) -> Result<T, ApiError> {
    Err(ApiError::invalid(message))
}

fn text_of<'a>(object: &'a Object, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}
