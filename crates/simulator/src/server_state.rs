//! Handles requests: authorization, parsing, validation, and the response.

mod cached_contents;
mod embeddings;
mod pages;

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use cachalot_core::{Clock, Digest, Millis};

use crate::accountant::{Charge, PromptCaches};
use crate::accounting::Rules;
use crate::answer::{Answer, InputTokens, TokenCounts};
use crate::cloud::{aws, google};
use crate::delivery::{self, Delivery, DisconnectGuard};
use crate::diagnosis::Fingerprints;
use crate::ids::Ids;
use crate::received::{ReceivedRequest, RequestLog};
use crate::reply::{FaultKind, ScriptedReply};
use crate::script::{PlannedReply, Progress, Script};
use crate::wire::{
    self, AnswerWriter as _, ApiError, Format, RenderContext, RenderedAnswer, Request,
    ResponseParameters, Route, Thinking, ValidationContext, anthropic, gemini, interactions,
    responses,
};

/// Maximum size of a body, in bytes: 32 MB, as at Anthropic.
const MAX_BODY_BYTES: usize = 32 * 1024 * 1024;

/// State of the server, independent of its listener.
pub(crate) struct ServerState {
    pub(crate) script: Script,
    pub(crate) rules: Rules,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) record: Arc<RequestLog>,
    pub(crate) state: Mutex<MutableState>,
}

/// Mutable state.
#[derive(Default)]
pub(crate) struct MutableState {
    progress: Progress,
    prompt_caches: PromptCaches,
    items: responses::StoredItems,
    threads: anthropic::Threads,
    cached_contents: gemini::CachedContents,
    interactions: interactions::StoredInteractions,
    fingerprints: Fingerprints,
}

/// A request in progress.
struct RequestContext {
    format: Format,
    route: Option<Route>,
    path: String,
    query: String,
    /// Identifies the clients that share caches.
    namespace: Digest,
    headers: HeaderMap,
    ids: Ids,
    number: u64,
    place: String,
    disconnect_guard: DisconnectGuard,
}

impl RequestContext {
    fn is_bedrock(&self) -> bool {
        self.route.as_ref().is_some_and(Route::is_bedrock)
    }
}

impl ServerState {
    fn state(&self) -> MutexGuard<'_, MutableState> {
        self.state.lock()
    }

    /// Answers a request to any path.
    pub(crate) async fn answer(self: Arc<Self>, request: axum::extract::Request) -> Response {
        let (parts, body) = request.into_parts();
        let at = self.clock.now();
        let body = to_bytes(body, MAX_BODY_BYTES).await;
        let path = parts.uri.path().to_owned();
        let number = self.record.add_request(ReceivedRequest {
            at,
            method: parts.method.to_string(),
            path: path.clone(),
            headers: headers(&parts.headers),
            body: body.as_ref().cloned().unwrap_or_default(),
            status: 0,
            disconnected: false,
        });
        let route = Route::at(&path);
        let format = route.as_ref().map(|route| route.format);
        let mut headers = parts.headers;
        let platform = match &route {
            Some(route) if route.is_bedrock() => Some("bedrock"),
            Some(route) if route.is_vertex() => Some("vertex"),
            _ => None,
        };
        let namespace = match platform {
            // One account, whose signatures and tokens differ from request to request.
            Some(platform) => Digest::sha256_of_parts(&[platform.as_bytes()]),
            None => namespace(&headers),
        };
        if platform.is_some() {
            // The body contains the version.
            let version = HeaderValue::from_static("2023-06-01");
            headers.entry("anthropic-version").or_insert(version);
        }
        let mut context = RequestContext {
            format: format.unwrap_or_else(|| format_from_headers(&headers)),
            route,
            path: path.clone(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            namespace,
            headers,
            ids: Ids::new(body.as_deref().unwrap_or_default(), number),
            number,
            place: format!("{} {path}", parts.method),
            disconnect_guard: DisconnectGuard::new(Arc::clone(&self.record), number),
        };
        let Ok(body) = body else {
            let message = "Request exceeds the maximum allowed number of bytes.";
            return self.refuse(context, &ApiError::with_status(413, message));
        };
        let answered = match (parts.method, path.as_str()) {
            (Method::GET, "/") => Ok(pages::welcome_page()),
            (Method::GET, "/service-account.json") => {
                let host = text(&context.headers, "host").unwrap_or_default();
                Ok(google::service_account(&format!("http://{host}")))
            }
            (Method::POST, "/token") => match google::token(&body, at) {
                Ok(token) => Ok(token),
                Err(refused) => {
                    return self.whole(context, StatusCode::BAD_REQUEST, refused.to_string());
                }
            },
            (Method::GET, "/v1/models") => Ok(pages::models(&self, &context)),
            (Method::GET, path) if path.starts_with(pages::MODEL) => {
                pages::model(&self, &context, path)
            }
            (Method::POST, path) if Route::counts_tokens(path) => {
                self.count_tokens(&context, &body)
            }
            (Method::GET, path) if path.starts_with(pages::RESPONSE) => {
                pages::stored_response(&self, &context, path)
            }
            (Method::DELETE, path) if path.starts_with(pages::RESPONSE) => {
                pages::delete_response(&self, &context, path)
            }
            (method, path) if let Some(name) = cached_contents::name(path) => {
                context.format = Format::Gemini;
                cached_contents::answer(&self, &context, &method, name, &body)
            }
            (method @ (Method::GET | Method::DELETE), path)
                if let Some(id) = pages::interaction_id(path) =>
            {
                context.format = Format::Interactions;
                pages::stored_interaction(&self, &context, &method, id)
            }
            (Method::POST, path) if let Some(endpoint) = embeddings::endpoint(path) => {
                context.format = endpoint.format();
                embeddings::answer(&self, &context, endpoint, &body)
            }
            (Method::POST, path) if Format::at(path).is_some() => {
                return self.converse(context, &body, at).await;
            }
            // With this status, clients such as Codex go on without a WebSocket.
            (Method::GET, "/v1/responses") if context.headers.contains_key(header::UPGRADE) => {
                let message = "The simulator has no WebSockets: use POST /v1/responses.";
                Err(ApiError::with_status(426, message))
            }
            (method, path) => Err(pages::not_found(&method, path)),
        };
        match answered {
            Ok(body) => self.whole(context, StatusCode::OK, body.to_string()),
            Err(refusal) => self.refuse(context, &refusal),
        }
    }

    async fn converse(&self, context: RequestContext, body: &Bytes, at: i64) -> Response {
        // Kept until the request is answered.
        let (request, _continuing) = match self.read(&context, body, at) {
            Ok(read) => read,
            Err(refusal) => return self.refuse(context, &refusal),
        };
        if let Some(refusal) = self.context_overflow(&context, &request) {
            return self.refuse(context, &refusal);
        }
        let planned_reply = self.planned_reply(&request);
        if let Some(FaultKind::Status {
            status,
            retry_after,
        }) = planned_reply.fault
        {
            let refusal = ApiError::simulated(status);
            return self.fail(context, &refusal, retry_after);
        }
        let has_error_event = matches!(planned_reply.fault, Some(FaultKind::ErrorEvent { .. }));
        if has_error_event && !request.is_streamed {
            return self.refuse(context, &ApiError::simulated(500));
        }
        let delivery = Delivery::new(self.script.pace, planned_reply.fault.as_ref());
        let charge = self.charge(&request, at);
        if !delivery.first_byte.is_zero() {
            tokio::time::sleep(delivery.first_byte).await;
        }
        self.state().prompt_caches.begin(&charge);
        let mut rendered = self.render(&context, &request, &planned_reply.reply, &charge);
        if responses::is_compaction(&context.path)
            && let RenderedAnswer::Whole(response) = &mut rendered
            && let ResponseParameters::Responses(parameters) = &request.response_parameters
        {
            let user_messages = parameters.compacts.as_deref().unwrap_or_default();
            *response = responses::compacted(response, user_messages);
        }
        self.send(context, rendered, delivery)
    }

    /// Parses and validates a request. If it continues a thread, no other request may continue the thread
    /// until it is answered.
    fn read(
        &self,
        context: &RequestContext,
        body: &[u8],
        at: Millis,
    ) -> Result<(Request, Option<ThreadGuard<'_>>), ApiError> {
        let value = self.admit(context, body)?;
        let value = responses::equivalent_request(&context.path, value)?;
        let mut state = self.state();
        let validation = self.validation(context, &state, at);
        let request = context.format.read(&value, &validation)?;
        self.check_model_exists(&request.dialogue.model)?;
        let turn = match &request.response_parameters {
            ResponseParameters::Messages(parameters) => parameters.turn.as_ref(),
            _ => None,
        };
        let previous = turn.and_then(|turn| turn.previous.clone());
        let continuing = previous.map(|previous| {
            let namespace = context.namespace;
            state.threads.begin(namespace, &previous);
            ThreadGuard {
                server_state: self,
                namespace,
                previous,
            }
        });
        Ok((request, continuing))
    }

    /// Checks the credentials and parses the body as JSON.
    fn admit(&self, context: &RequestContext, body: &[u8]) -> Result<Value, ApiError> {
        match &context.route {
            Some(route) if route.is_bedrock() && key(&context.headers).is_none() => {
                let RequestContext {
                    path,
                    query,
                    headers,
                    ..
                } = context;
                aws::check_signature(path, query, headers, body, self.clock.now())?;
            }
            Some(route) if route.is_vertex() => self.check_token(context)?,
            _ => self.authorize(context)?,
        }
        let mut value = serde_json::from_slice(body).map_err(|error| {
            ApiError::invalid(format!(
                "The body of the request is not valid JSON: {error}"
            ))
        })?;
        if let Some(route) = &context.route {
            route.check(&context.query)?;
            route.complete(&mut value)?;
        }
        Ok(value)
    }

    /// Checks that the access token was issued by this simulator.
    fn check_token(&self, context: &RequestContext) -> Result<(), ApiError> {
        let token = key(&context.headers).unwrap_or_default();
        if google::is_token(token, self.clock.now()) {
            return Ok(());
        }
        Err(ApiError::with_status(
            401,
            "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential.",
        ))
    }

    /// Checks the API key.
    fn authorize(&self, context: &RequestContext) -> Result<(), ApiError> {
        let key = key(&context.headers);
        if !self.script.accepts_key(key) {
            let (status, message) = match (context.format, key) {
                (Format::Messages, Some(_)) => (401, "invalid x-api-key"),
                (Format::Messages, None) => (401, "x-api-key header is required"),
                (Format::Gemini | Format::Interactions, Some(_)) => {
                    (400, "API key not valid. Please pass a valid API key.")
                }
                (Format::Gemini | Format::Interactions, None) => (
                    403,
                    "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API.",
                ),
                (Format::Converse, Some(_)) => (
                    403,
                    "Authentication failed: Please make sure your API Key is valid.",
                ),
                (_, Some(_)) => (401, "Incorrect API key provided."),
                (_, None) => (401, "You didn't provide an API key."),
            };
            return Err(ApiError::with_status(status, message));
        }
        Ok(())
    }

    fn validation<'a>(
        &'a self,
        context: &'a RequestContext,
        state: &'a MutableState,
        now: Millis,
    ) -> ValidationContext<'a> {
        ValidationContext {
            headers: &context.headers,
            rules: &self.rules,
            namespace: context.namespace,
            accepts_unknown: self.script.accepts_unknown_parameters,
            by_model: true,
            items: &state.items,
            threads: &state.threads,
            cached_contents: &state.cached_contents,
            interactions: &state.interactions,
            now,
        }
    }

    fn check_model_exists(&self, model: &str) -> Result<(), ApiError> {
        if self.script.has_model(model) {
            return Ok(());
        }
        let message =
            format!("The model '{model}' does not exist or you do not have access to it.");
        Err(ApiError::with_status(404, message).code("model_not_found"))
    }

    /// Returns the refusal of a prompt that exceeds the context window in the script.
    fn context_overflow(&self, context: &RequestContext, request: &Request) -> Option<ApiError> {
        let maximum = self.script.context?;
        let tokens = request.prompt.tokens();
        (tokens > maximum).then(|| context.format.too_long(tokens, maximum))
    }

    fn planned_reply(&self, request: &Request) -> PlannedReply {
        let mut state = self.state();
        let mut planned_reply = self
            .script
            .planned_reply(&request.dialogue, &mut state.progress);
        let shows_reasoning = match request.thinking {
            Thinking::Never => false,
            Thinking::Always => true,
            Thinking::IfScripted => {
                let model = &request.dialogue.model;
                self.script
                    .shows_reasoning(model, planned_reply.is_built_in)
            }
        };
        if !shows_reasoning {
            planned_reply.reply.reasoning = None;
        }
        planned_reply
    }

    fn charge(&self, request: &Request, at: i64) -> Charge {
        let maximum = self.script.requests_per_minute;
        let prompt_caches = &mut self.state().prompt_caches;
        let charge = prompt_caches.charge(&request.prompt, &self.rules, maximum, at);
        match &request.response_parameters {
            ResponseParameters::Gemini(parameters) => charge.with_cached(parameters.cached),
            _ => charge,
        }
    }

    fn render(
        &self,
        context: &RequestContext,
        request: &Request,
        reply: &ScriptedReply,
        charge: &Charge,
    ) -> RenderedAnswer {
        let id_prefix = match context.format {
            Format::Messages => "toolu_",
            Format::Converse => "tooluse_",
            Format::Chat | Format::Responses | Format::Gemini | Format::Interactions => "call_",
        };
        let answer = Answer::new(
            reply,
            &request.stop_sequences,
            request.limit,
            &context.ids,
            id_prefix,
        );
        let input = InputTokens::from(charge).with_long_writes(request.long_writes);
        let diagnosis = self.diagnose(context, request, input.read);
        let (output, reasoning) = answer.tokens();
        let mut tokens = TokenCounts {
            input,
            output,
            reasoning,
        };
        if let ResponseParameters::Chat(parameters) = &request.response_parameters {
            let choices = parameters.choices as u64;
            tokens.output *= choices;
            tokens.reasoning *= choices;
        }
        if let Some(usage) = &reply.usage {
            tokens = tokens.with(usage);
        }
        let rendering = RenderContext {
            answer: &answer,
            request,
            ids: &context.ids,
            now: self.clock.now(),
            tokens,
            scripted: reply.usage.unwrap_or_default(),
            diagnosis,
        };
        self.store_answer(context.namespace, &rendering);
        rendering.render()
    }

    /// Diagnoses a cache miss if the request asks for it, see [`Fingerprints::diagnose`].
    fn diagnose(&self, context: &RequestContext, request: &Request, cached: u64) -> Option<Value> {
        let prefix = match context.format {
            Format::Messages | Format::Converse => anthropic::ID_PREFIX,
            Format::Chat | Format::Responses | Format::Gemini | Format::Interactions => {
                responses::ID_PREFIX
            }
        };
        let id = context.ids.answer(prefix);
        let fingerprints = &mut self.state().fingerprints;
        fingerprints.diagnose(context.namespace, id, request, cached)
    }

    /// Stores the parts of an answer that later requests may refer to.
    fn store_answer(&self, namespace: Digest, rendering: &RenderContext<'_>) {
        match &rendering.request.response_parameters {
            ResponseParameters::Responses(parameters) => {
                let response = parameters.whole(rendering);
                let items = &mut self.state().items;
                items.remember(namespace, parameters, &response);
            }
            ResponseParameters::Interactions(parameters) => {
                let interaction = parameters.whole(rendering);
                let interactions = &mut self.state().interactions;
                interactions.remember(namespace, parameters, &interaction);
            }
            ResponseParameters::Messages(parameters) => {
                if let Some(turn) = &parameters.turn {
                    let content = parameters.content(rendering);
                    let id = rendering.ids.answer(anthropic::ID_PREFIX);
                    let threads = &mut self.state().threads;
                    threads.store(namespace, turn, id, content, rendering.now);
                }
            }
            _ => {}
        }
    }

    fn send(
        &self,
        mut context: RequestContext,
        rendered: RenderedAnswer,
        delivery: Delivery,
    ) -> Response {
        match rendered {
            RenderedAnswer::Events(events) => {
                let (format, id) = (context.format, context.ids.request());
                let error = |at| format.error_event(&ApiError::simulated(500), &id, at);
                let is_framed = context.is_bedrock();
                let (content_type, frame): (_, fn(Bytes) -> Bytes) = match (is_framed, format) {
                    (true, Format::Converse) => (aws::EVENT_STREAM, |event| aws::event(&event)),
                    (true, _) => (aws::EVENT_STREAM, |event| aws::frame(&event)),
                    (false, _) => ("text/event-stream", |event| event),
                };
                let mut response = self.headed(&context, StatusCode::OK, content_type);
                let guard = context.disconnect_guard;
                *response.body_mut() = delivery::stream_body(events, delivery, guard, error, frame);
                response
            }
            RenderedAnswer::Whole(value) if delivery.cut_after.is_some() => {
                let whole = Bytes::from(value.to_string());
                let mut response = self.headed(&context, StatusCode::OK, "application/json");
                let length = HeaderValue::from(whole.len());
                let headers = response.headers_mut();
                headers.insert(header::CONTENT_LENGTH, length);
                context.disconnect_guard.end();
                *response.body_mut() = delivery::truncated_body(&whole, context.disconnect_guard);
                response
            }
            RenderedAnswer::Whole(value) => {
                let mut text = value.to_string();
                if delivery.is_malformed {
                    text.truncate(text.floor_char_boundary(text.len() / 2));
                }
                self.whole(context, StatusCode::OK, text)
            }
        }
    }

    fn count_tokens(&self, context: &RequestContext, body: &[u8]) -> Result<Value, ApiError> {
        let value = self.admit(context, body)?;
        let value = responses::equivalent_request(&context.path, value)?;
        let state = self.state();
        let validation = self.validation(context, &state, self.clock.now());
        let request = match context.format {
            Format::Messages => wire::count_tokens(&value, &validation),
            format => format.read(&value, &validation),
        }?;
        self.check_model_exists(&request.dialogue.model)?;
        let tokens = request.prompt.tokens();
        Ok(match context.format {
            Format::Gemini => json!({"totalTokens": tokens}),
            Format::Responses => json!({"object": "response.input_tokens", "input_tokens": tokens}),
            _ => json!({"input_tokens": tokens}),
        })
    }

    fn refuse(&self, context: RequestContext, refusal: &ApiError) -> Response {
        self.fail(context, refusal, None)
    }

    fn fail(
        &self,
        context: RequestContext,
        refusal: &ApiError,
        retry_after: Option<Duration>,
    ) -> Response {
        if refusal.is_violation {
            let violation = format!("{}: {}", context.place, refusal.message);
            self.record.add_violation(violation);
        }
        let is_bedrock = context.is_bedrock();
        let is_vertex = context.route.as_ref().is_some_and(Route::is_vertex);
        let body = match refusal.status {
            _ if is_bedrock => json!({"message": refusal.message}),
            // Google's frontend refuses, not the model's own API.
            401 | 403 if is_vertex => Format::Gemini.error(refusal, &context.ids.request()),
            _ => context.format.error(refusal, &context.ids.request()),
        };
        let status = StatusCode::from_u16(refusal.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = self.whole(context, status, body.to_string());
        if is_bedrock {
            let kind = HeaderValue::from_static(aws::error_type(refusal));
            response.headers_mut().insert("x-amzn-errortype", kind);
        }
        if let Some(after) = retry_after {
            let headers = response.headers_mut();
            let seconds = after.as_millis().div_ceil(1_000);
            if let Ok(value) = HeaderValue::from_str(&seconds.to_string()) {
                headers.insert(header::RETRY_AFTER, value);
            }
            if !after.as_millis().is_multiple_of(1_000)
                && let Ok(value) = HeaderValue::from_str(&after.as_millis().to_string())
            {
                headers.insert("retry-after-ms", value);
            }
        }
        response
    }

    fn whole(&self, mut context: RequestContext, status: StatusCode, body: String) -> Response {
        context.disconnect_guard.end();
        let mut response = self.headed(&context, status, "application/json");
        *response.body_mut() = Body::from(body);
        response
    }

    fn headed(
        &self,
        context: &RequestContext,
        status: StatusCode,
        content_type: &'static str,
    ) -> Response {
        self.record.answer(context.number, status.as_u16());
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        let is_bedrock = context.is_bedrock();
        if let Ok(id) = HeaderValue::from_str(&context.ids.request()) {
            let name = if is_bedrock {
                "x-amzn-requestid"
            } else {
                context.format.id_header()
            };
            headers.insert(name, id);
        }
        match context.format {
            _ if is_bedrock => {}
            Format::Messages => {
                let organization = HeaderValue::from_static("simulator");
                headers.insert("anthropic-organization-id", organization);
            }
            Format::Gemini | Format::Interactions | Format::Converse => {}
            Format::Chat | Format::Responses => {
                headers.insert("openai-version", HeaderValue::from_static("2020-10-01"));
                headers.insert("openai-processing-ms", HeaderValue::from_static("1"));
            }
        }
        if content_type == "text/event-stream" {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        }
        response
    }
}

/// A thread that a request in progress continues.
struct ThreadGuard<'a> {
    server_state: &'a ServerState,
    namespace: Digest,
    previous: String,
}

impl Drop for ThreadGuard<'_> {
    fn drop(&mut self) {
        let threads = &mut self.server_state.state().threads;
        threads.release(self.namespace, &self.previous);
    }
}

/// Returns the format of a client: Anthropic's clients send a version header.
fn format_from_headers(headers: &HeaderMap) -> Format {
    if headers.contains_key("anthropic-version") {
        Format::Messages
    } else {
        Format::Chat
    }
}

fn headers(headers: &HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        .map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.as_str().to_owned(), value)
        })
        .collect()
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Returns the key of a request: a bearer token, or the header of Anthropic, Azure or Google.
fn key(headers: &HeaderMap) -> Option<&str> {
    let bearer = text(headers, "authorization").and_then(|value| value.strip_prefix("Bearer "));
    bearer
        .or_else(|| text(headers, "x-api-key"))
        .or_else(|| text(headers, "api-key"))
        .or_else(|| text(headers, "x-goog-api-key"))
}

/// Returns the namespace of the caches: requests with the same key, organization and project share them.
fn namespace(headers: &HeaderMap) -> Digest {
    let part = |name| text(headers, name).unwrap_or_default().as_bytes();
    Digest::sha256_of_parts(&[
        key(headers).unwrap_or_default().as_bytes(),
        part("openai-organization"),
        part("openai-project"),
    ])
}
