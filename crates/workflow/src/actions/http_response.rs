//! HTTP requests and their responses: sent, size-limited, checked by status, read as JSON or text.

use std::time::Duration;

use cachalot_core::secret::mask_credentials;
use cachalot_storage::HttpClient;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, StatusCode, Url};
use serde_json::Value;

use super::arguments::{CheckedArguments, excerpt};
use crate::exact_json;
use crate::{Failure, Runtime, destination};

/// The default timeout of a request, from connecting to the last byte.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum size of a body, in bytes.
const MAX_BODY_BYTES: u64 = 64 << 20;

/// The maximum bytes of an error response's body that are read for the message.
const MAX_ERROR_BODY_BYTES: u64 = 64 << 10;

/// Timeout and error kinds of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestLimits {
    /// The timeout, from connecting to the last byte.
    pub(super) timeout: Duration,
    /// The failure kind for the statuses 401 and 403.
    pub(super) unauthorized: &'static str,
}

impl RequestLimits {
    /// Returns the terms for URLs that the author wrote: 401 and 403 are treated like any other error
    /// status.
    pub(super) fn with_timeout(timeout: Duration) -> Self {
        Self {
            timeout,
            unauthorized: "http_error",
        }
    }
}

/// A complete response with a status below 400.
pub(super) struct HttpResponse {
    /// The URL of the response, safe to show in a message.
    pub(super) from: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

/// Parses a URL that `http.*` may request.
///
/// # Errors
/// If the text is not a URL, or has another scheme.
pub(super) fn web_url(
    given: &CheckedArguments<'_>,
    name: &str,
    text: &str,
) -> Result<Url, Failure> {
    let url = Url::parse(text.trim()).map_err(|error| {
        given.wrong(
            name,
            format_args!("is no URL ({error}): expected http:// or https://"),
        )
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(given.wrong(
            name,
            format_args!(
                "has the scheme `{}`: expected http or https (`file.read` reads other URIs)",
                url.scheme()
            ),
        ));
    }
    Ok(url)
}

/// Returns a request to a URL from the arguments, and the client that sends it; `allowed` are the hosts
/// that the call allows.
///
/// # Errors
/// `host_not_allowed` for a host that may not be requested: see [`destination`]. `configuration_error` if
/// the client cannot be set up (an invalid proxy variable).
pub(super) fn request(
    given: &CheckedArguments<'_>,
    runtime: &Runtime,
    method: Method,
    url: &Url,
    allowed: Option<&[Value]>,
) -> Result<(HttpClient, RequestBuilder), Failure> {
    let http = runtime.storage.http();
    let http = match destination::check(given.action(), runtime, url, allowed)? {
        Some(hosts) => http.redirecting_to(&hosts),
        None => http.clone(),
    };
    let builder = http.request(method, url.as_str());
    let builder = builder.map_err(|error| given.failure("configuration_error", error))?;
    Ok((http, builder))
}

/// Returns a request to a URL that comes from the configuration, not from an argument.
///
/// # Errors
/// `configuration_error` if the client cannot be set up.
pub(super) fn configured_request(
    given: &CheckedArguments<'_>,
    runtime: &Runtime,
    method: Method,
    url: &Url,
) -> Result<RequestBuilder, Failure> {
    let builder = runtime.storage.http().request(method, url.as_str());
    builder.map_err(|error| given.failure("configuration_error", error))
}

/// Returns a URL for messages: without user, password, query and fragment, which may contain credentials.
pub(super) fn display_url(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

/// Sends a request with `http` and reads the response, all within the timeout of `limits`.
///
/// # Errors
/// `timeout`, `connection_error`, `too_large`; `http_error` (or the kind in `limits`) for a status of 400
/// or above. Retryable where a retry may succeed.
pub(super) async fn fetch(
    given: &CheckedArguments<'_>,
    runtime: &Runtime,
    (http, request): (&HttpClient, RequestBuilder),
    url: &Url,
    limits: RequestLimits,
) -> Result<HttpResponse, Failure> {
    let from = display_url(url);
    let work = async {
        let response = http
            .send(request)
            .await
            .map_err(|error| send_failure(given, &from, &error))?;
        receive(given, runtime, response, &from, limits).await
    };
    match tokio::time::timeout(limits.timeout, work).await {
        Ok(reply) => reply,
        Err(_) => Err(given.transient(
            "timeout",
            format_args!(
                "{from} did not answer in full within {:?}; raise `timeout`",
                limits.timeout
            ),
        )),
    }
}

async fn receive(
    given: &CheckedArguments<'_>,
    runtime: &Runtime,
    response: reqwest::Response,
    from: &str,
    limits: RequestLimits,
) -> Result<HttpResponse, Failure> {
    let status = response.status();
    let headers = response.headers().clone();
    if status.is_client_error() || status.is_server_error() {
        let (body, _) = read(given, response, from, MAX_ERROR_BODY_BYTES)
            .await
            .unwrap_or_default();
        let kind = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => limits.unauthorized,
            _ => "http_error",
        };
        let message = status_message(given, runtime, from, status, &headers, &body);
        return Err(Failure {
            retryable: is_transient(status),
            ..Failure::new(kind, message)
        });
    }
    let (body, is_complete) = read(given, response, from, MAX_BODY_BYTES).await?;
    if !is_complete {
        return Err(given.failure(
            "too_large",
            format_args!("the response of {from} is larger than {MAX_BODY_BYTES} bytes"),
        ));
    }
    Ok(HttpResponse {
        from: from.to_owned(),
        headers,
        body,
    })
}

/// Reads at most `max_bytes` bytes of the body; the flag is true if that is all of it.
async fn read(
    given: &CheckedArguments<'_>,
    mut response: reqwest::Response,
    from: &str,
    max_bytes: u64,
) -> Result<(Vec<u8>, bool), Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| receive_failure(given, from, error))?
    {
        let remaining = usize::try_from(max_bytes).unwrap_or(usize::MAX) - body.len();
        if chunk.len() > remaining {
            body.extend_from_slice(&chunk[..remaining]);
            return Ok((body, false));
        }
        body.extend_from_slice(&chunk);
    }
    Ok((body, true))
}

/// Returns the failure for a request without a response.
fn send_failure(
    given: &CheckedArguments<'_>,
    from: &str,
    error: &cachalot_storage::Error,
) -> Failure {
    let source = error.source.as_deref();
    let cause = source.and_then(|cause| cause.downcast_ref::<reqwest::Error>());
    let kind = match cause.is_some_and(reqwest::Error::is_timeout) {
        true => "timeout",
        false => "connection_error",
    };
    let what = match cause {
        Some(cause) => causes(cause),
        None => error.message.clone(),
    };
    Failure {
        retryable: error.is_retryable(),
        ..given.failure(kind, format_args!("{from}: {what}"))
    }
}

/// Returns the failure for a request without a complete response.
fn receive_failure(given: &CheckedArguments<'_>, from: &str, error: reqwest::Error) -> Failure {
    let kind = if error.is_timeout() {
        "timeout"
    } else {
        "connection_error"
    };
    // A request that could not be built fails again on a retry.
    let retryable = !error.is_builder() && !error.is_redirect();
    let fault = given.failure(
        kind,
        format_args!("{from}: {}", causes(&error.without_url())),
    );
    Failure { retryable, ..fault }
}

/// Formats an error with its causes, without repeating any.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// Formats an error response: the status and the beginning of the body.
fn status_message(
    given: &CheckedArguments<'_>,
    runtime: &Runtime,
    from: &str,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> String {
    let mut message = format!("{}: {from} answered {status}", given.action());
    if let Some(after) = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok())
    {
        message.push_str(&format!(" (retry after {})", excerpt(after)));
    }
    let text = String::from_utf8_lossy(body);
    // Redacted before it is cut: a truncated secret would not be recognized.
    let text = runtime.secret_set.redact(&text);
    let text = excerpt(&mask_credentials(&text));
    if !text.is_empty() {
        message.push_str(": ");
        message.push_str(&text);
    }
    message
}

/// True if a retry may succeed.
fn is_transient(status: StatusCode) -> bool {
    status.is_server_error()
        || matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS
        )
}

impl HttpResponse {
    /// Returns the body according to its content type: JSON as its value (whole numbers beyond 64 bits as
    /// text), anything else as text; an empty body is the empty text.
    ///
    /// # Errors
    /// `parse_error` if the body is declared as JSON and is not, or is not text.
    pub(super) fn into_value(self, given: &CheckedArguments<'_>) -> Result<Value, Failure> {
        if self.is_json() && !self.body.is_empty() {
            self.json(given)
        } else {
            self.into_text(given).map(Value::String)
        }
    }

    /// Parses the body as JSON, independent of its content type.
    ///
    /// # Errors
    /// `parse_error`.
    pub(super) fn json(&self, given: &CheckedArguments<'_>) -> Result<Value, Failure> {
        let text = std::str::from_utf8(&self.body)
            .map_err(|error| self.parse_failure(given, "UTF-8", &error))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        exact_json::parse(text).map_err(|error| self.parse_failure(given, "JSON", &error))
    }

    fn into_text(mut self, given: &CheckedArguments<'_>) -> Result<String, Failure> {
        let charset = self
            .parameter("charset")
            .unwrap_or_else(|| "utf-8".to_owned());
        match charset.as_str() {
            "utf-8" | "utf8" | "us-ascii" | "ascii" => {
                String::from_utf8(std::mem::take(&mut self.body))
                    .map_err(|error| self.parse_failure(given, "text (UTF-8)", &error))
            }
            // Each byte is the code point with its number.
            "iso-8859-1" | "latin1" | "latin-1" => {
                Ok(self.body.iter().map(|byte| char::from(*byte)).collect())
            }
            other => Err(given.failure(
                "parse_error",
                format_args!(
                    "the response of {} is in the encoding `{}`, which is not read here",
                    self.from,
                    excerpt(other)
                ),
            )),
        }
    }

    fn parse_failure(
        &self,
        given: &CheckedArguments<'_>,
        expected: &str,
        error: &dyn std::fmt::Display,
    ) -> Failure {
        given.failure(
            "parse_error",
            format_args!("the response of {} is not {expected}: {error}", self.from),
        )
    }

    fn media_type(&self) -> Option<&str> {
        self.headers.get(CONTENT_TYPE)?.to_str().ok()
    }

    fn is_json(&self) -> bool {
        let essence = self
            .media_type()
            .and_then(|text| text.split(';').next())
            .unwrap_or("")
            .trim()
            .to_ascii_lowercase();
        essence == "application/json" || essence == "text/json" || essence.ends_with("+json")
    }

    /// Returns a parameter of the content type, in lower case.
    fn parameter(&self, name: &str) -> Option<String> {
        self.media_type()?.split(';').skip(1).find_map(|part| {
            let (key, value) = part.split_once('=')?;
            key.trim()
                .eq_ignore_ascii_case(name)
                .then(|| value.trim().trim_matches('"').to_ascii_lowercase())
        })
    }
}
