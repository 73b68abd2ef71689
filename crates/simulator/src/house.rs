//! Handles requests: authorization, parsing, validation, and the response.

mod cached_contents;
mod pages;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use serde_json::{Value, json};

use cachalot_core::{Clock, Digest, Millis};

use crate::accountant::{Accounted, Charge, Stores};
use crate::accounting::Rules;
use crate::answer::{Answer, Tokens};
use crate::cloud::{aws, google};
use crate::delivery::{self, Attendance, Delivery};
use crate::diagnosis::Fingerprints;
use crate::ids::Ids;
use crate::received::{Received, Record};
use crate::reply::{FaultKind, ScriptedReply};
use crate::script::{Progress, Scene, Script};
use crate::wire::{
    self, Form, Format, Judge, Making, Prompt, Refusal, Rendered, Request, Route, Thinking,
    anthropic, gemini, responses,
};

/// Maximum size of a body, in bytes: 32 MB, as at Anthropic.
const LARGEST_BODY: usize = 32 * 1024 * 1024;

/// State of the server, independent of its listener.
pub(crate) struct House {
    pub(crate) script: Script,
    pub(crate) rules: Rules,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) record: Arc<Record>,
    pub(crate) state: Mutex<State>,
}

/// Mutable state.
#[derive(Default)]
pub(crate) struct State {
    progress: Progress,
    stores: Stores,
    items: responses::Items,
    threads: anthropic::Threads,
    cached_contents: gemini::CachedContents,
    fingerprints: Fingerprints,
}

/// A request in progress.
struct Visit {
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
    attendance: Attendance,
}

impl House {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a request to any path.
    pub(crate) async fn answer(self: Arc<Self>, request: axum::extract::Request) -> Response {
        let (parts, body) = request.into_parts();
        let at = self.clock.now();
        let body = to_bytes(body, LARGEST_BODY).await;
        let path = parts.uri.path().to_owned();
        let number = self.record.arrive(Received {
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
            Some(platform) => Digest::of_parts(&[platform.as_bytes()]),
            None => namespace(&headers),
        };
        if platform.is_some() {
            // The body contains the version.
            let version = HeaderValue::from_static("2023-06-01");
            headers.entry("anthropic-version").or_insert(version);
        }
        let visit = Visit {
            format: format.unwrap_or_else(|| by_headers(&headers)),
            route,
            path: path.clone(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            namespace,
            headers,
            ids: Ids::new(body.as_deref().unwrap_or_default(), number),
            number,
            place: format!("{} {path}", parts.method),
            attendance: Attendance::new(Arc::clone(&self.record), number),
        };
        let Ok(body) = body else {
            let message = "Request exceeds the maximum allowed number of bytes.";
            return self.refuse(visit, &Refusal::with_status(413, message));
        };
        match (parts.method.clone(), path.as_str()) {
            (Method::GET, "/") => self.welcome(visit),
            (Method::GET, "/service-account.json") => {
                let host = text(&visit.headers, "host").unwrap_or_default();
                let account = google::service_account(&format!("http://{host}"));
                self.whole(visit, StatusCode::OK, account.to_string())
            }
            (Method::POST, "/token") => match google::token(&body, at) {
                Ok(token) => self.whole(visit, StatusCode::OK, token.to_string()),
                Err(refused) => self.whole(visit, StatusCode::BAD_REQUEST, refused.to_string()),
            },
            (Method::GET, "/v1/models") => self.models(visit),
            (Method::GET, path) if path.starts_with(pages::MODEL) => self.model(visit, path),
            (Method::POST, path) if Route::counts_tokens(path) => self.count_tokens(visit, &body),
            (Method::GET, path) if path.starts_with(pages::RESPONSE) => {
                self.stored_response(visit, path)
            }
            (Method::DELETE, path) if path.starts_with(pages::RESPONSE) => {
                self.delete_response(visit, path)
            }
            (method, path) if let Some(name) = cached_contents::name(path) => {
                self.cached_contents(visit, &method, name, &body)
            }
            (Method::POST, path) if Format::at(path).is_some() => {
                self.converse(visit, &body, at).await
            }
            (method, path) => self.lost(visit, &method, path),
        }
    }

    async fn converse(&self, visit: Visit, body: &Bytes, at: i64) -> Response {
        // Kept until the request is answered.
        let (request, _continuing) = match self.read(&visit, body, at) {
            Ok(read) => read,
            Err(refusal) => return self.refuse(visit, &refusal),
        };
        if let Some(refusal) = self.beyond_context(&visit, &request) {
            return self.refuse(visit, &refusal);
        }
        let scene = self.scene(&request);
        if let Some(FaultKind::Status {
            status,
            retry_after,
        }) = scene.fault
        {
            let refusal = Refusal::simulated(status);
            return self.fail(visit, &refusal, retry_after);
        }
        let has_error_event = matches!(scene.fault, Some(FaultKind::ErrorEvent { .. }));
        if has_error_event && !request.is_streamed {
            return self.refuse(visit, &Refusal::simulated(500));
        }
        let delivery = Delivery::new(self.script.pace, scene.fault.as_ref());
        let charge = self.charge(&request, at);
        if !delivery.first_byte.is_zero() {
            tokio::time::sleep(delivery.first_byte).await;
        }
        self.state().stores.begin(&charge);
        let rendered = self.render(&visit, &request, &scene.reply, &charge);
        self.send(visit, rendered, delivery)
    }

    /// Parses and validates a request. If it continues a thread, no other request may continue the thread
    /// until it is answered.
    fn read(
        &self,
        visit: &Visit,
        body: &[u8],
        at: Millis,
    ) -> Result<(Request, Option<Continuing<'_>>), Refusal> {
        let value = self.admit(visit, body)?;
        let mut state = self.state();
        let judge = self.judge(visit, &state, at);
        let request = visit.format.read(&value, &judge)?;
        self.known_model(&request.dialogue.model)?;
        let turn = match &request.form {
            Form::Messages(form) => form.turn.as_ref(),
            Form::Chat(_) | Form::Responses(_) | Form::Gemini(_) | Form::Converse(_) => None,
        };
        let previous = turn.and_then(|turn| turn.previous.clone());
        let continuing = previous.map(|previous| {
            let namespace = visit.namespace;
            state.threads.begin(namespace, &previous);
            Continuing {
                house: self,
                namespace,
                previous,
            }
        });
        Ok((request, continuing))
    }

    /// Checks the credentials and parses the body as JSON.
    fn admit(&self, visit: &Visit, body: &[u8]) -> Result<Value, Refusal> {
        match &visit.route {
            Some(route) if route.is_bedrock() && key(&visit.headers).is_none() => {
                let Visit {
                    path,
                    query,
                    headers,
                    ..
                } = visit;
                aws::check_signature(path, query, headers, body, self.clock.now())?;
            }
            Some(route) if route.is_vertex() => self.check_token(visit)?,
            _ => self.authorize(visit)?,
        }
        let mut value = serde_json::from_slice(body).map_err(|error| {
            Refusal::invalid(format!(
                "The body of the request is not valid JSON: {error}"
            ))
        })?;
        if let Some(route) = &visit.route {
            route.check(&visit.query)?;
            route.complete(&mut value)?;
        }
        Ok(value)
    }

    /// Checks that the access token was issued by this simulator.
    fn check_token(&self, visit: &Visit) -> Result<(), Refusal> {
        let token = key(&visit.headers).unwrap_or_default();
        if google::is_token(token, self.clock.now()) {
            return Ok(());
        }
        Err(Refusal::with_status(
            401,
            "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential.",
        ))
    }

    /// Checks the API key.
    fn authorize(&self, visit: &Visit) -> Result<(), Refusal> {
        let key = key(&visit.headers);
        if !self.script.admits(key) {
            let message = match (visit.format, key) {
                (Format::Messages, Some(_)) => "invalid x-api-key",
                (Format::Messages, None) => "x-api-key header is required",
                (Format::Gemini, Some(_)) => {
                    let message = "API key not valid. Please pass a valid API key.";
                    return Err(Refusal::with_status(400, message));
                }
                (Format::Gemini, None) => {
                    let message = "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API.";
                    return Err(Refusal::with_status(403, message));
                }
                (Format::Converse, Some(_)) => {
                    let message = "Authentication failed: Please make sure your API Key is valid.";
                    return Err(Refusal::with_status(403, message));
                }
                (_, Some(_)) => "Incorrect API key provided.",
                (_, None) => "You didn't provide an API key.",
            };
            return Err(Refusal::with_status(401, message));
        }
        Ok(())
    }

    fn judge<'a>(&'a self, visit: &'a Visit, state: &'a State, now: Millis) -> Judge<'a> {
        Judge {
            headers: &visit.headers,
            rules: &self.rules,
            namespace: visit.namespace,
            accepts_unknown: self.script.accepts_unknown_parameters,
            by_model: true,
            items: &state.items,
            threads: &state.threads,
            cached_contents: &state.cached_contents,
            now,
        }
    }

    fn known_model(&self, model: &str) -> Result<(), Refusal> {
        if self.script.knows_model(model) {
            return Ok(());
        }
        let message =
            format!("The model '{model}' does not exist or you do not have access to it.");
        Err(Refusal::with_status(404, message).code("model_not_found"))
    }

    /// Returns the refusal of a prompt that exceeds the context window in the script.
    fn beyond_context(&self, visit: &Visit, request: &Request) -> Option<Refusal> {
        let most = self.script.context?;
        let tokens = match &request.prompt {
            Prompt::Anthropic(prompt) => prompt.tokens(),
            Prompt::OpenAi(prompt) => prompt.tokens(),
        };
        (tokens > most).then(|| visit.format.too_long(tokens, most))
    }

    fn scene(&self, request: &Request) -> Scene {
        let mut state = self.state();
        let mut scene = self.script.scene(&request.dialogue, &mut state.progress);
        let shows_reasoning = match request.thinking {
            Thinking::Never => false,
            Thinking::Always => true,
            Thinking::IfScripted => {
                let model = &request.dialogue.model;
                self.script.shows_reasoning(model, scene.is_built_in)
            }
        };
        if !shows_reasoning {
            scene.reply.reasoning = None;
        }
        scene
    }

    fn charge(&self, request: &Request, at: i64) -> Charge {
        let most = self.script.requests_per_minute;
        let stores = &mut self.state().stores;
        let charge = stores.charge(&request.prompt, &self.rules, most, at);
        match &request.form {
            Form::Gemini(form) => charge.with_cached(form.cached),
            Form::Chat(_) | Form::Responses(_) | Form::Messages(_) | Form::Converse(_) => charge,
        }
    }

    fn render(
        &self,
        visit: &Visit,
        request: &Request,
        reply: &ScriptedReply,
        charge: &Charge,
    ) -> Rendered {
        let id_prefix = match visit.format {
            Format::Messages => "toolu_",
            Format::Converse => "tooluse_",
            Format::Chat | Format::Responses | Format::Gemini => "call_",
        };
        let answer = Answer::new(reply, request, &visit.ids, id_prefix);
        let accounted = Accounted::from(charge);
        let diagnosis = self.diagnose(visit, request, accounted.read);
        let mut tokens = Tokens::from(accounted);
        (tokens.output, tokens.reasoning) = answer.tokens();
        if let Form::Chat(form) = &request.form {
            let choices = form.choices as u64;
            tokens.output *= choices;
            tokens.reasoning *= choices;
        }
        if let Some(usage) = &reply.usage {
            tokens = tokens.with(usage);
        }
        let making = Making {
            request,
            ids: &visit.ids,
            now: self.clock.now(),
            tokens,
            diagnosis,
        };
        self.keep(visit, &answer, &making);
        visit.format.write(&answer, &making)
    }

    /// Diagnoses a cache miss if the request asks for it, see [`Fingerprints::diagnose`].
    fn diagnose(&self, visit: &Visit, request: &Request, cached: u64) -> Option<Value> {
        let prefix = match visit.format {
            Format::Messages | Format::Converse => anthropic::ID_PREFIX,
            Format::Chat | Format::Responses | Format::Gemini => responses::ID_PREFIX,
        };
        let id = visit.ids.answer(prefix);
        let fingerprints = &mut self.state().fingerprints;
        fingerprints.diagnose(visit.namespace, id, request, cached)
    }

    /// Stores the parts of an answer that later requests may refer to.
    fn keep(&self, visit: &Visit, answer: &Answer, making: &Making<'_>) {
        let namespace = visit.namespace;
        match &making.request.form {
            Form::Chat(_) | Form::Gemini(_) | Form::Converse(_) => {}
            Form::Responses(form) => {
                let response = responses::response(answer, form, making);
                self.state().items.remember(namespace, form, &response);
            }
            Form::Messages(form) => {
                if let Some(turn) = &form.turn {
                    let content = anthropic::content(answer, form);
                    let id = visit.ids.answer(anthropic::ID_PREFIX);
                    let threads = &mut self.state().threads;
                    threads.hold(namespace, turn, id, content, making.now);
                }
            }
        }
    }

    fn send(&self, mut visit: Visit, rendered: Rendered, delivery: Delivery) -> Response {
        match rendered {
            Rendered::Events(events) => {
                let (format, id) = (visit.format, visit.ids.request());
                let error = |at| format.error_event(&Refusal::simulated(500), &id, at);
                self.record.answer(visit.number, 200);
                let is_framed = visit.route.as_ref().is_some_and(Route::is_bedrock);
                let (content_type, frame): (_, fn(Bytes) -> Bytes) = match (is_framed, format) {
                    (true, Format::Converse) => (aws::EVENT_STREAM, |event| aws::event(&event)),
                    (true, _) => (aws::EVENT_STREAM, |event| aws::frame(&event)),
                    (false, _) => ("text/event-stream", |event| event),
                };
                let mut response = self.headed(&visit, StatusCode::OK, content_type);
                let body = delivery::streamed(events, delivery, visit.attendance, error, frame);
                *response.body_mut() = body;
                response
            }
            Rendered::Whole(value) if delivery.cut_after.is_some() => {
                let whole = Bytes::from(value.to_string());
                self.record.answer(visit.number, 200);
                let mut response = self.headed(&visit, StatusCode::OK, "application/json");
                let length = HeaderValue::from(whole.len());
                response
                    .headers_mut()
                    .insert(header::CONTENT_LENGTH, length);
                visit.attendance.end();
                *response.body_mut() = delivery::cut_short(&whole, visit.attendance);
                response
            }
            Rendered::Whole(value) => {
                let mut text = value.to_string();
                if delivery.is_malformed {
                    text.truncate(text.floor_char_boundary(text.len() / 2));
                }
                self.whole(visit, StatusCode::OK, text)
            }
        }
    }

    fn count_tokens(&self, visit: Visit, body: &[u8]) -> Response {
        let read = self.admit(&visit, body).and_then(|value| {
            let state = self.state();
            let judge = self.judge(&visit, &state, self.clock.now());
            match visit.format {
                Format::Messages => wire::count_tokens(&value, &judge),
                format => format.read(&value, &judge),
            }
        });
        let read = read.and_then(|request| {
            self.known_model(&request.dialogue.model)?;
            Ok(request)
        });
        let counted = read.map(|request| match &request.prompt {
            Prompt::Anthropic(prompt) => prompt.tokens(),
            Prompt::OpenAi(prompt) => prompt.tokens(),
        });
        match counted {
            Ok(tokens) => {
                let body = match visit.format {
                    Format::Gemini => json!({"totalTokens": tokens}),
                    _ => json!({"input_tokens": tokens}),
                };
                self.whole(visit, StatusCode::OK, body.to_string())
            }
            Err(refusal) => self.refuse(visit, &refusal),
        }
    }

    fn refuse(&self, visit: Visit, refusal: &Refusal) -> Response {
        self.fail(visit, refusal, None)
    }

    fn fail(&self, visit: Visit, refusal: &Refusal, retry_after: Option<Duration>) -> Response {
        if refusal.is_violation {
            let violation = format!("{}: {}", visit.place, refusal.message);
            self.record.violate(violation);
        }
        let is_bedrock = visit.route.as_ref().is_some_and(Route::is_bedrock);
        let is_vertex = visit.route.as_ref().is_some_and(Route::is_vertex);
        let body = match refusal.status {
            _ if is_bedrock => json!({"message": refusal.message}),
            // Google's frontend refuses, not the model's own API.
            401 | 403 if is_vertex => Format::Gemini.error(refusal, &visit.ids.request()),
            _ => visit.format.error(refusal, &visit.ids.request()),
        };
        let status = StatusCode::from_u16(refusal.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = self.whole(visit, status, body.to_string());
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

    fn whole(&self, mut visit: Visit, status: StatusCode, body: String) -> Response {
        self.record.answer(visit.number, status.as_u16());
        visit.attendance.end();
        let mut response = self.headed(&visit, status, "application/json");
        *response.body_mut() = Body::from(body);
        response
    }

    fn headed(&self, visit: &Visit, status: StatusCode, content_type: &'static str) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        let is_bedrock = visit.route.as_ref().is_some_and(Route::is_bedrock);
        if let Ok(id) = HeaderValue::from_str(&visit.ids.request()) {
            let name = match is_bedrock {
                true => "x-amzn-requestid",
                false => visit.format.id_header(),
            };
            headers.insert(name, id);
        }
        match visit.format {
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
struct Continuing<'a> {
    house: &'a House,
    namespace: Digest,
    previous: String,
}

impl Drop for Continuing<'_> {
    fn drop(&mut self) {
        let threads = &mut self.house.state().threads;
        threads.release(self.namespace, &self.previous);
    }
}

/// Returns the format of a client: Anthropic's clients send a version header.
fn by_headers(headers: &HeaderMap) -> Format {
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
    Digest::of_parts(&[
        key(headers).unwrap_or_default().as_bytes(),
        part("openai-organization"),
        part("openai-project"),
    ])
}
