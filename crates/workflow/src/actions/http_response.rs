//! HTTP requests and their responses: sent, size-limited, checked by status, read as JSON or text.

use std::time::Duration;

use cachalot_storage::HttpClient;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::arguments::{CheckedArguments, excerpt};
use crate::{Failure, Runtime, destination, exact_json};

/// The default timeout of a request, from connecting to the last byte.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum size of a body, in bytes.
const MAX_BODY_BYTES: u64 = 64 << 20;

/// The maximum bytes of an error response's body that are read for the message.
const MAX_ERROR_BODY_BYTES: u64 = 64 << 10;

/// The call that makes a request, for messages.
struct Requester<'a> {
    given: &'a CheckedArguments<'a>,
    runtime: &'a Runtime,
    /// The URL, without user, password, query and fragment, which may contain credentials.
    from: String,
}

/// A request to a URL, and the client that sends it.
pub(super) struct HttpRequest<'a> {
    requester: Requester<'a>,
    http: HttpClient,
    /// The request; the caller completes it.
    pub(super) builder: RequestBuilder,
}

/// A complete response with a status below 400.
pub(super) struct HttpResponse<'a> {
    requester: Requester<'a>,
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
        if text.contains("${") {
            let what = "has `${…}`, which stands for a constant of `variables:` only; `{{ secrets.NAME }}` is an environment variable with `--secrets-env`";
            return given.wrong(name, what);
        }
        given.wrong(
            name,
            format_args!("is no URL ({error}): expected http:// or https://"),
        )
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        let what = format_args!(
            "has the scheme `{}`: expected http or https (`file.read` reads other URIs)",
            url.scheme()
        );
        return Err(given.wrong(name, what));
    }
    Ok(url)
}

/// Returns the client for a URL from the arguments; `allowed` are the hosts that the call allows.
///
/// # Errors
/// `host_not_allowed` for a host that may not be requested: see [`destination`].
pub(super) fn client(
    given: &CheckedArguments<'_>,
    runtime: &Runtime,
    url: &Url,
    allowed: Option<&[Value]>,
) -> Result<HttpClient, Failure> {
    let http = runtime.storage.http();
    Ok(
        match destination::check(given.action(), runtime, url, allowed)? {
            Some(hosts) => http.redirecting_to(&hosts),
            None => http.clone(),
        },
    )
}

impl<'a> HttpRequest<'a> {
    /// Creates a request. The caller checks a URL from the arguments: see [`client`].
    ///
    /// # Errors
    /// `configuration_error` if the client cannot be set up (an invalid proxy variable).
    pub(super) fn new(
        given: &'a CheckedArguments<'a>,
        runtime: &'a Runtime,
        http: HttpClient,
        method: Method,
        url: &Url,
    ) -> Result<Self, Failure> {
        let builder = http
            .request(method, url.as_str())
            .map_err(|error| given.failure("configuration_error", error))?;
        let requester = Requester {
            given,
            runtime,
            from: display_url(url),
        };
        Ok(Self {
            requester,
            http,
            builder,
        })
    }

    /// Sends the request and reads the response, all within the timeout. `unauthorized` is the failure kind
    /// for the statuses 401 and 403.
    ///
    /// # Errors
    /// `timeout`, `connection_error`, `too_large`; `http_error` for other statuses of 400 or above.
    /// Retryable where a retry may succeed.
    pub(super) async fn fetch(
        self,
        timeout: Duration,
        unauthorized: &'static str,
    ) -> Result<HttpResponse<'a>, Failure> {
        let Self {
            requester,
            http,
            builder,
        } = self;
        let work = async {
            let sent = http.send(builder).await;
            let response = sent.map_err(|error| requester.send_failure(&error))?;
            requester.receive(response, unauthorized).await
        };
        match tokio::time::timeout(timeout, work).await {
            Ok(reply) => reply.map(|(headers, body)| HttpResponse {
                requester,
                headers,
                body,
            }),
            Err(_) => Err(requester.given.transient(
                "timeout",
                format_args!(
                    "{} did not answer in full within {timeout:?}; raise `timeout`",
                    requester.from
                ),
            )),
        }
    }
}

fn display_url(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

impl Requester<'_> {
    async fn receive(
        &self,
        response: Response,
        unauthorized: &'static str,
    ) -> Result<(HeaderMap, Vec<u8>), Failure> {
        let status = response.status();
        let headers = response.headers().clone();
        if status.is_client_error() || status.is_server_error() {
            let read = self.read(response, MAX_ERROR_BODY_BYTES).await;
            // The status is known: a body that breaks off only makes the message shorter.
            let (body, _) = read.unwrap_or_default();
            let kind = match status {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => unauthorized,
                _ => "http_error",
            };
            return Err(Failure {
                retryable: is_transient(status),
                ..Failure::new(kind, self.status_message(status, &headers, &body))
            });
        }
        let (body, is_complete) = self.read(response, MAX_BODY_BYTES).await?;
        if !is_complete {
            let what = format_args!(
                "the response of {} is larger than {MAX_BODY_BYTES} bytes",
                self.from
            );
            return Err(self.given.failure("too_large", what));
        }
        Ok((headers, body))
    }

    /// Reads at most `max_bytes` bytes of the body; the flag is true if that is all of it.
    async fn read(
        &self,
        mut response: Response,
        max_bytes: u64,
    ) -> Result<(Vec<u8>, bool), Failure> {
        let mut body = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| self.receive_failure(error))?
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
    fn send_failure(&self, error: &cachalot_storage::Error) -> Failure {
        let source = error.source.as_deref();
        let cause = source.and_then(|cause| cause.downcast_ref::<reqwest::Error>());
        let what = match cause {
            Some(cause) => causes(cause),
            None => error.message.clone(),
        };
        let is_timeout = cause.is_some_and(reqwest::Error::is_timeout);
        self.connection_failure(is_timeout, &what, error.is_retryable())
    }

    /// Returns the failure for a request without a complete response.
    fn receive_failure(&self, error: reqwest::Error) -> Failure {
        // A request that could not be built fails again on a retry.
        let retryable = !error.is_builder() && !error.is_redirect();
        let is_timeout = error.is_timeout();
        self.connection_failure(is_timeout, &causes(&error.without_url()), retryable)
    }

    fn connection_failure(&self, is_timeout: bool, what: &str, retryable: bool) -> Failure {
        let kind = if is_timeout {
            "timeout"
        } else {
            "connection_error"
        };
        Failure {
            retryable,
            ..self
                .given
                .failure(kind, format_args!("{}: {what}", self.from))
        }
    }

    /// Formats an error response: the status and the beginning of the body.
    fn status_message(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> String {
        let action = self.given.action();
        let mut message = format!("{action}: {} answered {status}", self.from);
        if let Some(after) = headers
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
        {
            message.push_str(&format!(" (retry after {})", excerpt(after)));
        }
        let text = String::from_utf8_lossy(body);
        // Masked before it is cut: a truncated secret would not be recognized.
        let text = excerpt(&self.runtime.masked(&text));
        if !text.is_empty() {
            message.push_str(": ");
            message.push_str(&text);
        }
        message
    }
}

/// Formats an error with its causes, without repeating any.
fn causes(error: &dyn std::error::Error) -> String {
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

/// True if a retry may succeed.
fn is_transient(status: StatusCode) -> bool {
    status.is_server_error()
        || matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS
        )
}

impl HttpResponse<'_> {
    /// Returns the body according to its content type: JSON as its value (whole numbers beyond 64 bits as
    /// text), anything else as text; an empty body is the empty text.
    ///
    /// # Errors
    /// `parse_error` if the body is declared as JSON and is not, or is not text.
    pub(super) fn into_value(self) -> Result<Value, Failure> {
        if self.is_json() && !self.body.is_empty() {
            self.json()
        } else {
            self.into_text().map(Value::String)
        }
    }

    /// Decodes the body as the answer of a service, independent of its content type.
    ///
    /// # Errors
    /// `parse_error` if the body is not JSON; `kind` if it is not what the service answers.
    pub(super) fn decode<T: DeserializeOwned>(
        &self,
        service: &str,
        kind: &'static str,
    ) -> Result<T, Failure> {
        serde_json::from_value(self.json()?).map_err(|error| {
            let Requester { given, from, .. } = &self.requester;
            given.failure(
                kind,
                format_args!("{from} did not answer as {service} does: {error}"),
            )
        })
    }

    /// Parses the body as JSON, independent of its content type.
    fn json(&self) -> Result<Value, Failure> {
        let text =
            std::str::from_utf8(&self.body).map_err(|error| self.parse_failure("UTF-8", &error))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        exact_json::parse(text).map_err(|error| self.parse_failure("JSON", &error))
    }

    fn into_text(mut self) -> Result<String, Failure> {
        let charset = self.parameter("charset");
        match charset.as_deref().unwrap_or("utf-8") {
            "utf-8" | "utf8" | "us-ascii" | "ascii" => {
                String::from_utf8(std::mem::take(&mut self.body))
                    .map_err(|error| self.parse_failure("text (UTF-8)", &error))
            }
            // Each byte is the code point with its number.
            "iso-8859-1" | "latin1" | "latin-1" => {
                Ok(self.body.iter().map(|byte| char::from(*byte)).collect())
            }
            other => {
                let Requester { given, from, .. } = &self.requester;
                let encoding = excerpt(other);
                Err(given.failure(
                    "parse_error",
                    format_args!(
                        "the response of {from} is in the encoding `{encoding}`, which is not read here"
                    ),
                ))
            }
        }
    }

    fn parse_failure(&self, expected: &str, error: &dyn std::fmt::Display) -> Failure {
        let Requester { given, from, .. } = &self.requester;
        given.failure(
            "parse_error",
            format_args!("the response of {from} is not {expected}: {error}"),
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
