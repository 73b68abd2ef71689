//! Sends requests, reads answers, and retries.
//!
//! Retried, at most [`ModelSettings::retries`](crate::ModelSettings::retries) times:
//! - temporary failures to deliver the request;
//! - the statuses 408, 409, 429 and 5xx, and Bedrock's 424 for a model that failed; the header
//!   `x-should-retry` overrides the status;
//! - errors that a provider reports with a success status or in a stream (overloaded, rate limited,
//!   failed).
//!
//! Not retried:
//! - a connection that breaks after the first byte of a successful answer;
//! - anything after the first [`Delta`];
//! - an answer that did not begin before the deadline, because the provider may charge for it;
//! - an exhausted quota, and a conversation that is too long;
//! - a server that asks to wait for more than a minute.
//!
//! A rate limit is retried as long as the sum of its pauses is at most
//! [`ModelSettings::rate_limit_wait`](crate::ModelSettings::rate_limit_wait), however often.
//!
//! Before each retry the client waits as long as the server asks for, or else with exponential backoff.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use cachalot_storage::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use cachalot_storage::{Method, RequestBuilder, Response, StatusCode};
use tokio::time::{Instant, timeout, timeout_at};
use url::Url;

use super::header;
use super::key::ProviderKey;
use super::resolved_model::ResolvedModel;
use super::retry_pause::{RateLimitPause, Retries};
use crate::error::{Error, ErrorKind};
use crate::wire::embeddings::{self, Embeddings};
use crate::{Delta, Reply};

mod answer;
mod attempt_failure;
mod provider_error;

use attempt_failure::{AttemptFailure, ErrorFactory};

/// Mode of delivery that is requested for an answer: as a stream or whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryMode {
    Stream,
    Whole,
}

/// Sends a body, with retries, and returns the answer or the error of the last attempt.
pub(crate) async fn exchange(
    model: &ResolvedModel,
    body: Bytes,
    mode: DeliveryMode,
    on: &mut (dyn FnMut(Delta) + Send),
) -> Result<Reply, Error> {
    let mut retries = Retries::default();
    let is_shown = AtomicBool::new(false);
    let mut on = |delta: Delta| {
        is_shown.store(true, Ordering::Relaxed);
        on(delta);
    };
    loop {
        let attempt_failure =
            match limited(model, attempt(model, body.clone(), mode, &mut on)).await {
                Ok(reply) => return Ok(reply),
                Err(attempt_failure) => attempt_failure,
            };
        // The answer of a second attempt would follow the shown part of the first one.
        let is_final = is_shown.load(Ordering::Relaxed);
        pause(model, attempt_failure, &mut retries, is_final).await?;
    }
}

/// Requests the vectors of texts, with retries.
pub(crate) async fn embed(model: &ResolvedModel, texts: &[String]) -> Result<Embeddings, Error> {
    let url = embeddings::url(&model.base);
    let body = embeddings::body(&model.parameters.model, texts, &model.parameters.extra);
    let mut retries = Retries::default();
    loop {
        let tried = embeddings_attempt(model, &url, body.clone(), texts.len());
        match limited(model, tried).await {
            Ok(found) => return Ok(found),
            Err(attempt_failure) => pause(model, attempt_failure, &mut retries, false).await?,
        }
    }
}

async fn embeddings_attempt(
    model: &ResolvedModel,
    url: &Url,
    body: Bytes,
    count: usize,
) -> Result<Embeddings, AttemptFailure> {
    let mut error_factory = ErrorFactory::new(model);
    let (response, deadline) = send(&mut error_factory, body, url, DeliveryMode::Whole).await?;
    let body = answer::json(&error_factory, response, deadline).await?;
    embeddings::answer(&body, count).map_err(|error| error_factory.reported(error))
}

/// Ends an attempt after the limit of one.
async fn limited<T>(
    model: &ResolvedModel,
    tried: impl Future<Output = Result<T, AttemptFailure>>,
) -> Result<T, AttemptFailure> {
    match model.time.total {
        None => tried.await,
        Some(limit) => timeout(limit, tried)
            .await
            .unwrap_or_else(|_| Err(ErrorFactory::new(model).attempt_timed_out(limit))),
    }
}

/// Waits before the next attempt.
///
/// # Errors
/// The error of the last attempt, if there is no next one.
async fn pause(
    model: &ResolvedModel,
    attempt_failure: AttemptFailure,
    retries: &mut Retries,
    is_final: bool,
) -> Result<(), Error> {
    let error = &attempt_failure.error;
    let pause = if attempt_failure.retryable && !is_final {
        retries.pause(error, model.retries, &*model.pauses)
    } else {
        None
    };
    let Some(pause) = pause else {
        let reason = retries.reason(error, model.retries);
        return Err(attempt_failure.because(&reason));
    };
    if model.retries.wait_for(error) {
        model.pauses.announce(&RateLimitPause {
            provider: &model.provider,
            model: &model.parameters.model,
            time: pause,
            limit: model.retries.rate_limit_wait,
        });
    }
    model.pauses.pause(pause).await;
    Ok(())
}

async fn attempt(
    model: &ResolvedModel,
    body: Bytes,
    mode: DeliveryMode,
    on: &mut (dyn FnMut(Delta) + Send),
) -> Result<Reply, AttemptFailure> {
    let mut error_factory = ErrorFactory::new(model);
    let url = match mode {
        DeliveryMode::Stream => &model.stream_url,
        DeliveryMode::Whole => &model.url,
    };
    let (response, deadline) = send(&mut error_factory, body, url, mode).await?;
    answer::read(&error_factory, response, mode, deadline, on).await
}

/// Sends a body; returns the successful response and the deadline of its first byte.
async fn send(
    error_factory: &mut ErrorFactory<'_>,
    body: Bytes,
    url: &Url,
    mode: DeliveryMode,
) -> Result<(Response, Instant), AttemptFailure> {
    let model = error_factory.model;
    let request = request(model, body, url, mode).await;
    let request = request.map_err(|error| {
        let error = error_factory.with_details(error);
        let retryable = error.retryable();
        AttemptFailure::new(error, retryable)
    })?;
    let deadline = Instant::now() + model.time.first_byte;
    let response = match timeout_at(deadline, model.http.send(request)).await {
        Err(_) => return Err(error_factory.no_first_byte()),
        Ok(Err(error)) => return Err(error_factory.not_delivered(&error)),
        Ok(Ok(response)) => response,
    };
    error_factory.answered(&response);
    if !response.status().is_success() {
        if response.status() == StatusCode::UNAUTHORIZED
            && let Some(credentials) = &model.credentials
        {
            // The next request then gets a new token, in place of one that was revoked before its end.
            credentials.expire();
        }
        return Err(refusal(error_factory, response).await);
    }
    Ok((response, deadline))
}

async fn request(
    model: &ResolvedModel,
    body: Bytes,
    url: &Url,
    mode: DeliveryMode,
) -> Result<RequestBuilder, Error> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(
        ACCEPT,
        HeaderValue::from_static(match mode {
            DeliveryMode::Stream => "text/event-stream",
            DeliveryMode::Whole => "application/json",
        }),
    );
    if let ProviderKey::Present { variable, secret } = &model.key
        && !model.authorizes_itself()
    {
        let text = if model.key_header == cachalot_storage::header::AUTHORIZATION {
            format!("Bearer {}", secret.expose())
        } else {
            secret.expose().clone()
        };
        let mut value = HeaderValue::from_str(&text).map_err(|_| {
            Error::new(
                ErrorKind::Unauthorized,
                format!("the environment variable {variable} holds no key: there are line ends or control characters in it"),
            )
        })?;
        // Debug output of the request omits the key.
        value.set_sensitive(true);
        headers.insert(model.key_header.clone(), value);
    }
    for header in &model.headers {
        let newest = if header.is_usual_version && model.has_versions_of_anthropic() {
            header::newest_version(&body)
        } else {
            None
        };
        if let Some(value) = newest.or_else(|| header.header_value()) {
            headers.append(header.name.clone(), value);
        }
    }
    if model.cloud.is_none() {
        add_betas(&mut headers, &model.wire.betas(&body));
    }
    // After the other headers: a signature covers the content type.
    if let Some(credentials) = &model.credentials
        && !model.authorizes_itself()
    {
        let clock = &*model.clock;
        let authorized = credentials.authorize(&mut headers, url, &body, &model.http, clock);
        authorized.await?;
    }
    let request = model
        .http
        .request(Method::POST, url.as_str())
        .map_err(|error| Error::new(ErrorKind::Configuration, error.message))?;
    Ok(request.headers(headers).body(body))
}

/// Adds values to the header `anthropic-beta`, after those that are configured.
fn add_betas(headers: &mut HeaderMap, betas: &[&str]) {
    if betas.is_empty() {
        return;
    }
    let name = HeaderName::from_static("anthropic-beta");
    let configured = headers.get_all(&name).iter();
    let configured: Vec<&str> = configured.filter_map(|value| value.to_str().ok()).collect();
    let is_missing = |beta: &&&str| !configured.iter().any(|value| value.contains(**beta));
    let missing = betas.iter().filter(is_missing).copied();
    let all: Vec<&str> = configured.iter().copied().chain(missing).collect();
    let all = all.join(",");
    if let Ok(value) = HeaderValue::from_str(&all) {
        headers.insert(name, value);
    }
}

/// Reads the error that the provider answered with.
async fn refusal(error_factory: &ErrorFactory<'_>, response: Response) -> AttemptFailure {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    // A body that cannot be read is ignored: the status suffices.
    let body = answer::excerpt(response, error_factory.idle()).await;
    error_factory.refused(status, &headers, &body)
}
