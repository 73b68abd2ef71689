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
//! Before each retry the client waits as long as the server asks for, or else with exponential backoff.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use cachalot_storage::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use cachalot_storage::{Method, RequestBuilder, Response, StatusCode};
use tokio::time::{Instant, timeout, timeout_at};

use super::header;
use super::key::ProviderKey;
use super::resolved_model::ResolvedModel;
use super::retry_pause;
use crate::error::{Error, ErrorKind};
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
    let mut tries: u32 = 1;
    let is_shown = AtomicBool::new(false);
    let mut on = |delta: Delta| {
        is_shown.store(true, Ordering::Relaxed);
        on(delta);
    };
    loop {
        let tried = attempt(model, body.clone(), mode, &mut on);
        let ended = match model.time.total {
            None => tried.await,
            Some(limit) => timeout(limit, tried)
                .await
                .unwrap_or_else(|_| Err(ErrorFactory::new(model).attempt_timed_out(limit))),
        };
        let attempt_failure = match ended {
            Ok(reply) => return Ok(reply),
            Err(attempt_failure) => attempt_failure,
        };
        let pause = if attempt_failure.retryable
            // The answer of a second attempt would follow the shown part of the first one.
            && !is_shown.load(Ordering::Relaxed)
            && tries <= model.retries
        {
            retry_pause::pause_before_retry(&attempt_failure.error, tries, &*model.pauses)
        } else {
            None
        };
        let Some(pause) = pause else {
            return Err(attempt_failure.after(tries));
        };
        model.pauses.pause(pause).await;
        tries += 1;
    }
}

async fn attempt(
    model: &ResolvedModel,
    body: Bytes,
    mode: DeliveryMode,
    on: &mut (dyn FnMut(Delta) + Send),
) -> Result<Reply, AttemptFailure> {
    let mut error_factory = ErrorFactory::new(model);
    let request = request(model, body, mode).await;
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
        return Err(refusal(&error_factory, response).await);
    }
    answer::read(&error_factory, response, mode, deadline, on).await
}

async fn request(
    model: &ResolvedModel,
    body: Bytes,
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
    let url = match mode {
        DeliveryMode::Stream => &model.stream_url,
        DeliveryMode::Whole => &model.url,
    };
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
