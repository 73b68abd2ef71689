//! Handles requests: authorization, parsing, validation, and the response.

mod cached_contents;
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

use crate::accountant::{Charge, InputTokens, PromptCaches};
use crate::accounting::Rules;
use crate::answer::{Answer, TokenCounts};
use crate::cloud::{aws, google};
use crate::delivery::{self, Delivery, DisconnectGuard};
use crate::diagnosis::Fingerprints;
use crate::ids::Ids;
use crate::received::{ReceivedRequest, RequestLog};
use crate::reply::{FaultKind, ScriptedReply};
use crate::script::{PlannedReply, Progress, Script};
use crate::wire::{
    self, ApiError, Format, Prompt, RenderContext, RenderedAnswer, Request, ResponseParameters,
    Route, Thinking, ValidationContext, anthropic, gemini, responses,
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
        let request_context = RequestContext {
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
            return self.refuse(request_context, &ApiError::with_status(413, message));
        };
        match (parts.method.clone(), path.as_str()) {
            (Method::GET, "/") => pages::welcome_page(&self, request_context),
            (Method::GET, "/service-account.json") => {
                let host = text(&request_context.headers, "host").unwrap_or_default();
                let account = google::service_account(&format!("http://{host}"));
                self.whole(request_context, StatusCode::OK, account.to_string())
            }
            (Method::POST, "/token") => match google::token(&body, at) {
                Ok(token) => self.whole(request_context, StatusCode::OK, token.to_string()),
                Err(refused) => self.whole(
                    request_context,
                    StatusCode::BAD_REQUEST,
                    refused.to_string(),
                ),
            },
            (Method::GET, "/v1/models") => pages::models(&self, request_context),
            (Method::GET, path) if path.starts_with(pages::MODEL) => {
                pages::model(&self, request_context, path)
            }
            (Method::POST, path) if Route::counts_tokens(path) => {
                self.count_tokens(request_context, &body)
            }
            (Method::GET, path) if path.starts_with(pages::RESPONSE) => {
                pages::stored_response(&self, request_context, path)
            }
            (Method::DELETE, path) if path.starts_with(pages::RESPONSE) => {
                pages::delete_response(&self, request_context, path)
            }
            (method, path) if let Some(name) = cached_contents::name(path) => {
                cached_contents::answer(&self, request_context, &method, name, &body)
            }
            (Method::POST, path) if Format::at(path).is_some() => {
                self.converse(request_context, &body, at).await
            }
            (method, path) => pages::not_found_page(&self, request_context, &method, path),
        }
    }

    async fn converse(&self, request_context: RequestContext, body: &Bytes, at: i64) -> Response {
        // Kept until the request is answered.
        let (request, _continuing) = match self.read(&request_context, body, at) {
            Ok(read) => read,
            Err(refusal) => return self.refuse(request_context, &refusal),
        };
        if let Some(refusal) = self.context_overflow(&request_context, &request) {
            return self.refuse(request_context, &refusal);
        }
        let planned_reply = self.planned_reply(&request);
        if let Some(FaultKind::Status {
            status,
            retry_after,
        }) = planned_reply.fault
        {
            let refusal = ApiError::simulated(status);
            return self.fail(request_context, &refusal, retry_after);
        }
        let has_error_event = matches!(planned_reply.fault, Some(FaultKind::ErrorEvent { .. }));
        if has_error_event && !request.is_streamed {
            return self.refuse(request_context, &ApiError::simulated(500));
        }
        let delivery = Delivery::new(self.script.pace, planned_reply.fault.as_ref());
        let charge = self.charge(&request, at);
        if !delivery.first_byte.is_zero() {
            tokio::time::sleep(delivery.first_byte).await;
        }
        self.state().prompt_caches.begin(&charge);
        let rendered = self.render(&request_context, &request, &planned_reply.reply, &charge);
        self.send(request_context, rendered, delivery)
    }

    /// Parses and validates a request. If it continues a thread, no other request may continue the thread
    /// until it is answered.
    fn read(
        &self,
        request_context: &RequestContext,
        body: &[u8],
        at: Millis,
    ) -> Result<(Request, Option<ThreadGuard<'_>>), ApiError> {
        let value = self.admit(request_context, body)?;
        let mut state = self.state();
        let validation = self.validation(request_context, &state, at);
        let request = request_context.format.read(&value, &validation)?;
        self.check_model_exists(&request.dialogue.model)?;
        let turn = match &request.response_parameters {
            ResponseParameters::Messages(response_parameters) => response_parameters.turn.as_ref(),
            ResponseParameters::Chat(_)
            | ResponseParameters::Responses(_)
            | ResponseParameters::Gemini(_)
            | ResponseParameters::Converse(_) => None,
        };
        let previous = turn.and_then(|turn| turn.previous.clone());
        let continuing = previous.map(|previous| {
            let namespace = request_context.namespace;
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
    fn admit(&self, request_context: &RequestContext, body: &[u8]) -> Result<Value, ApiError> {
        match &request_context.route {
            Some(route) if route.is_bedrock() && key(&request_context.headers).is_none() => {
                let RequestContext {
                    path,
                    query,
                    headers,
                    ..
                } = request_context;
                aws::check_signature(path, query, headers, body, self.clock.now())?;
            }
            Some(route) if route.is_vertex() => self.check_token(request_context)?,
            _ => self.authorize(request_context)?,
        }
        let mut value = serde_json::from_slice(body).map_err(|error| {
            ApiError::invalid(format!(
                "The body of the request is not valid JSON: {error}"
            ))
        })?;
        if let Some(route) = &request_context.route {
            route.check(&request_context.query)?;
            route.complete(&mut value)?;
        }
        Ok(value)
    }

    /// Checks that the access token was issued by this simulator.
    fn check_token(&self, request_context: &RequestContext) -> Result<(), ApiError> {
        let token = key(&request_context.headers).unwrap_or_default();
        if google::is_token(token, self.clock.now()) {
            return Ok(());
        }
        Err(ApiError::with_status(
            401,
            "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential.",
        ))
    }

    /// Checks the API key.
    fn authorize(&self, request_context: &RequestContext) -> Result<(), ApiError> {
        let key = key(&request_context.headers);
        if !self.script.accepts_key(key) {
            let message = match (request_context.format, key) {
                (Format::Messages, Some(_)) => "invalid x-api-key",
                (Format::Messages, None) => "x-api-key header is required",
                (Format::Gemini, Some(_)) => {
                    let message = "API key not valid. Please pass a valid API key.";
                    return Err(ApiError::with_status(400, message));
                }
                (Format::Gemini, None) => {
                    let message = "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API.";
                    return Err(ApiError::with_status(403, message));
                }
                (Format::Converse, Some(_)) => {
                    let message = "Authentication failed: Please make sure your API Key is valid.";
                    return Err(ApiError::with_status(403, message));
                }
                (_, Some(_)) => "Incorrect API key provided.",
                (_, None) => "You didn't provide an API key.",
            };
            return Err(ApiError::with_status(401, message));
        }
        Ok(())
    }

    fn validation<'a>(
        &'a self,
        request_context: &'a RequestContext,
        state: &'a MutableState,
        now: Millis,
    ) -> ValidationContext<'a> {
        ValidationContext {
            headers: &request_context.headers,
            rules: &self.rules,
            namespace: request_context.namespace,
            accepts_unknown: self.script.accepts_unknown_parameters,
            by_model: true,
            items: &state.items,
            threads: &state.threads,
            cached_contents: &state.cached_contents,
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
    fn context_overflow(
        &self,
        request_context: &RequestContext,
        request: &Request,
    ) -> Option<ApiError> {
        let most = self.script.context?;
        let tokens = match &request.prompt {
            Prompt::Anthropic(prompt) => prompt.tokens(),
            Prompt::OpenAi(prompt) => prompt.tokens(),
        };
        (tokens > most).then(|| request_context.format.too_long(tokens, most))
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
        let most = self.script.requests_per_minute;
        let prompt_caches = &mut self.state().prompt_caches;
        let charge = prompt_caches.charge(&request.prompt, &self.rules, most, at);
        match &request.response_parameters {
            ResponseParameters::Gemini(response_parameters) => {
                charge.with_cached(response_parameters.cached)
            }
            ResponseParameters::Chat(_)
            | ResponseParameters::Responses(_)
            | ResponseParameters::Messages(_)
            | ResponseParameters::Converse(_) => charge,
        }
    }

    fn render(
        &self,
        request_context: &RequestContext,
        request: &Request,
        reply: &ScriptedReply,
        charge: &Charge,
    ) -> RenderedAnswer {
        let id_prefix = match request_context.format {
            Format::Messages => "toolu_",
            Format::Converse => "tooluse_",
            Format::Chat | Format::Responses | Format::Gemini => "call_",
        };
        let answer = Answer::new(
            reply,
            &request.stop_sequences,
            request.limit,
            &request_context.ids,
            id_prefix,
        );
        let accounted = InputTokens::from(charge);
        let diagnosis = self.diagnose(request_context, request, accounted.read);
        let mut tokens = TokenCounts::from(accounted);
        (tokens.output, tokens.reasoning) = answer.tokens();
        if let ResponseParameters::Chat(response_parameters) = &request.response_parameters {
            let choices = response_parameters.choices as u64;
            tokens.output *= choices;
            tokens.reasoning *= choices;
        }
        if let Some(usage) = &reply.usage {
            tokens = tokens.with(usage);
        }
        let render_context = RenderContext {
            request,
            ids: &request_context.ids,
            now: self.clock.now(),
            tokens,
            diagnosis,
        };
        self.store_answer(request_context, &answer, &render_context);
        request_context.format.write(&answer, &render_context)
    }

    /// Diagnoses a cache miss if the request asks for it, see [`Fingerprints::diagnose`].
    fn diagnose(
        &self,
        request_context: &RequestContext,
        request: &Request,
        cached: u64,
    ) -> Option<Value> {
        let prefix = match request_context.format {
            Format::Messages | Format::Converse => anthropic::ID_PREFIX,
            Format::Chat | Format::Responses | Format::Gemini => responses::ID_PREFIX,
        };
        let id = request_context.ids.answer(prefix);
        let fingerprints = &mut self.state().fingerprints;
        fingerprints.diagnose(request_context.namespace, id, request, cached)
    }

    /// Stores the parts of an answer that later requests may refer to.
    fn store_answer(
        &self,
        request_context: &RequestContext,
        answer: &Answer,
        render_context: &RenderContext<'_>,
    ) {
        let namespace = request_context.namespace;
        match &render_context.request.response_parameters {
            ResponseParameters::Chat(_)
            | ResponseParameters::Gemini(_)
            | ResponseParameters::Converse(_) => {}
            ResponseParameters::Responses(response_parameters) => {
                let response = responses::response(answer, response_parameters, render_context);
                self.state()
                    .items
                    .remember(namespace, response_parameters, &response);
            }
            ResponseParameters::Messages(response_parameters) => {
                if let Some(turn) = &response_parameters.turn {
                    let content = anthropic::content(answer, response_parameters);
                    let id = request_context.ids.answer(anthropic::ID_PREFIX);
                    let threads = &mut self.state().threads;
                    threads.store(namespace, turn, id, content, render_context.now);
                }
            }
        }
    }

    fn send(
        &self,
        mut request_context: RequestContext,
        rendered: RenderedAnswer,
        delivery: Delivery,
    ) -> Response {
        match rendered {
            RenderedAnswer::Events(events) => {
                let (format, id) = (request_context.format, request_context.ids.request());
                let error = |at| format.error_event(&ApiError::simulated(500), &id, at);
                self.record.answer(request_context.number, 200);
                let is_framed = request_context
                    .route
                    .as_ref()
                    .is_some_and(Route::is_bedrock);
                let (content_type, frame): (_, fn(Bytes) -> Bytes) = match (is_framed, format) {
                    (true, Format::Converse) => (aws::EVENT_STREAM, |event| aws::event(&event)),
                    (true, _) => (aws::EVENT_STREAM, |event| aws::frame(&event)),
                    (false, _) => ("text/event-stream", |event| event),
                };
                let mut response = self.headed(&request_context, StatusCode::OK, content_type);
                let body = delivery::stream_body(
                    events,
                    delivery,
                    request_context.disconnect_guard,
                    error,
                    frame,
                );
                *response.body_mut() = body;
                response
            }
            RenderedAnswer::Whole(value) if delivery.cut_after.is_some() => {
                let whole = Bytes::from(value.to_string());
                self.record.answer(request_context.number, 200);
                let mut response =
                    self.headed(&request_context, StatusCode::OK, "application/json");
                let length = HeaderValue::from(whole.len());
                response
                    .headers_mut()
                    .insert(header::CONTENT_LENGTH, length);
                request_context.disconnect_guard.end();
                *response.body_mut() =
                    delivery::truncated_body(&whole, request_context.disconnect_guard);
                response
            }
            RenderedAnswer::Whole(value) => {
                let mut text = value.to_string();
                if delivery.is_malformed {
                    text.truncate(text.floor_char_boundary(text.len() / 2));
                }
                self.whole(request_context, StatusCode::OK, text)
            }
        }
    }

    fn count_tokens(&self, request_context: RequestContext, body: &[u8]) -> Response {
        let read = self.admit(&request_context, body).and_then(|value| {
            let state = self.state();
            let validation = self.validation(&request_context, &state, self.clock.now());
            match request_context.format {
                Format::Messages => wire::count_tokens(&value, &validation),
                format => format.read(&value, &validation),
            }
        });
        let read = read.and_then(|request| {
            self.check_model_exists(&request.dialogue.model)?;
            Ok(request)
        });
        let counted = read.map(|request| match &request.prompt {
            Prompt::Anthropic(prompt) => prompt.tokens(),
            Prompt::OpenAi(prompt) => prompt.tokens(),
        });
        match counted {
            Ok(tokens) => {
                let body = match request_context.format {
                    Format::Gemini => json!({"totalTokens": tokens}),
                    _ => json!({"input_tokens": tokens}),
                };
                self.whole(request_context, StatusCode::OK, body.to_string())
            }
            Err(refusal) => self.refuse(request_context, &refusal),
        }
    }

    fn refuse(&self, request_context: RequestContext, refusal: &ApiError) -> Response {
        self.fail(request_context, refusal, None)
    }

    fn fail(
        &self,
        request_context: RequestContext,
        refusal: &ApiError,
        retry_after: Option<Duration>,
    ) -> Response {
        if refusal.is_violation {
            let violation = format!("{}: {}", request_context.place, refusal.message);
            self.record.add_violation(violation);
        }
        let is_bedrock = request_context
            .route
            .as_ref()
            .is_some_and(Route::is_bedrock);
        let is_vertex = request_context.route.as_ref().is_some_and(Route::is_vertex);
        let body = match refusal.status {
            _ if is_bedrock => json!({"message": refusal.message}),
            // Google's frontend refuses, not the model's own API.
            401 | 403 if is_vertex => Format::Gemini.error(refusal, &request_context.ids.request()),
            _ => request_context
                .format
                .error(refusal, &request_context.ids.request()),
        };
        let status = StatusCode::from_u16(refusal.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = self.whole(request_context, status, body.to_string());
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

    fn whole(
        &self,
        mut request_context: RequestContext,
        status: StatusCode,
        body: String,
    ) -> Response {
        self.record.answer(request_context.number, status.as_u16());
        request_context.disconnect_guard.end();
        let mut response = self.headed(&request_context, status, "application/json");
        *response.body_mut() = Body::from(body);
        response
    }

    fn headed(
        &self,
        request_context: &RequestContext,
        status: StatusCode,
        content_type: &'static str,
    ) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        let is_bedrock = request_context
            .route
            .as_ref()
            .is_some_and(Route::is_bedrock);
        if let Ok(id) = HeaderValue::from_str(&request_context.ids.request()) {
            let name = match is_bedrock {
                true => "x-amzn-requestid",
                false => request_context.format.id_header(),
            };
            headers.insert(name, id);
        }
        match request_context.format {
            _ if is_bedrock => {}
            Format::Messages => {
                let organization = HeaderValue::from_static("simulator");
                headers.insert("anthropic-organization-id", organization);
            }
            Format::Gemini | Format::Converse => {}
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
