//! Handlers that are servers: input in the body of a POST request, output in the response body.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use cachalot_core::Problem;
use cachalot_core::secret::{MASK, mask_credentials};
use cachalot_core::text::{head, one_line};
use cachalot_storage::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use cachalot_storage::{HttpClient, Method, Response, StatusCode, Url, masked};
use futures_util::TryStreamExt as _;

use super::expand::{self, Spelling};
use super::{Handler, MAX_OUTPUT_BYTES, within};
use crate::definition::HookEntry;
use crate::dependencies::HookDependencies;
use crate::dialect::HandlerResponse;
use crate::input::Input;
use crate::output::{Fault, Output};

/// Limits for the body of an error response: bytes to read, and characters to show.
const MAX_READ_BYTES: usize = 4 << 10;
const MAX_EXCERPT_CHARS: usize = 300;

struct HttpHandler {
    url: String,
    /// Header names, and values before variables are expanded.
    headers: Vec<(HeaderName, String)>,
    entry: HookEntry,
    http: HttpClient,
    environment: Arc<BTreeMap<String, String>>,
}

pub(super) fn create(
    url: &str,
    headers: &BTreeMap<String, String>,
    entry: &HookEntry,
    dependencies: &HookDependencies,
) -> Result<Arc<dyn Handler>, Problem> {
    check(url)?;
    let mut named = Vec::with_capacity(headers.len());
    for (name, text) in headers {
        let name = HeaderName::try_from(name).map_err(|_| {
            Problem::new("bad-value", format!("`{name}` is no name of a header"))
                .help("letters, digits and `-`, such as `Authorization`")
        })?;
        named.push((name, text.clone()));
    }
    Ok(Arc::new(HttpHandler {
        url: url.to_owned(),
        headers: named,
        entry: entry.clone(),
        http: dependencies.http.clone(),
        environment: Arc::clone(&dependencies.environment),
    }))
}

fn check(url: &str) -> Result<(), Problem> {
    let wrong = |why: String| {
        let shown = masked(url);
        Problem::new("bad-value", format!("`{shown}` is no address: {why}"))
            .help("an address begins with `https://` or `http://`")
    };
    let parsed = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
    match parsed.scheme() {
        "http" | "https" => Ok(()),
        other => Err(wrong(format!("`{other}` cannot be asked"))),
    }
}

#[async_trait]
impl Handler for HttpHandler {
    async fn handle(&self, input: &Input) -> Result<Output, Fault> {
        let has_begun = AtomicBool::new(false);
        let asking = self.ask(input, &has_begun);
        within(self.entry.definition.timeout, &has_begun, asking).await
    }

    fn applies_timeout(&self) -> bool {
        true
    }
}

impl HttpHandler {
    /// Sends the input and reads the response. Sets `has_begun` when a response has begun that may deny.
    async fn ask(&self, input: &Input, has_begun: &AtomicBool) -> Result<Output, Fault> {
        let (headers, secrets) = self.headers()?;
        let told = self.entry.dialect.write(&self.entry, input)?;
        let request = self
            .http
            .request(Method::POST, &self.url)
            .map_err(|error| Fault::new(error.message))?;
        let response = self
            .http
            .send(request.headers(headers).body(told))
            .await
            .map_err(|error| Fault {
                // A server that refuses a large request may close the connection before it has answered.
                may_deny: error.is_broken_exchange(),
                ..Fault::new(error.message)
            })?;
        let status = response.status();
        if !status.is_success() {
            return Err(self.refused(status, response, &secrets).await);
        }
        // From here on, a timeout may cut off a denial.
        has_begun.store(true, Ordering::Relaxed);
        let body = cachalot_storage::body(response, MAX_OUTPUT_BYTES as u64)
            .await
            .map_err(|error| Fault::of_cut_output(error.message))?;
        let ended = HandlerResponse {
            stdout: body.into(),
            ..HandlerResponse::default()
        };
        self.entry.dialect.read(&self.entry, input, &ended)
    }

    /// Returns the headers to send, and the values of the variables in them.
    fn headers(&self) -> Result<(HeaderMap, Vec<&str>), Fault> {
        let mut secrets = Vec::new();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, text) in &self.headers {
            let what = format!("the header `{name}`");
            let value = expand::expand(text, Spelling::Braced, |variable| {
                let value = expand::set(&self.environment, variable, &what)?;
                secrets.push(value);
                Ok(value)
            })?;
            let mut value = HeaderValue::try_from(value).map_err(|_| {
                Fault::new(format!(
                    "{what} cannot be sent: there are line ends or control characters in it"
                ))
            })?;
            // The value may hold a secret: debug output of the headers then omits it.
            value.set_sensitive(true);
            headers.insert(name.clone(), value);
        }
        Ok((headers, secrets))
    }

    /// The failure for an error response.
    async fn refused(&self, status: StatusCode, response: Response, secrets: &[&str]) -> Fault {
        let excerpt = excerpt(response, secrets).await;
        let shown = masked(&self.url);
        let message = if excerpt.is_empty() {
            format!("`{shown}` answered {status}")
        } else {
            format!("`{shown}` answered {status}: {excerpt}")
        };
        Fault {
            // A guard that does not accept the size of a call has not judged it.
            may_deny: status == StatusCode::PAYLOAD_TOO_LARGE,
            ..Fault::new(message)
        }
    }
}

/// The beginning of a body as one line, with secrets masked.
async fn excerpt(response: Response, secrets: &[&str]) -> String {
    let mut bytes = Vec::new();
    let mut chunks = cachalot_storage::chunks(response);
    // Read errors are ignored: the status is reported anyway.
    while let Ok(Some(chunk)) = chunks.try_next().await {
        bytes.extend_from_slice(&chunk[..chunk.len().min(MAX_READ_BYTES - bytes.len())]);
        if bytes.len() == MAX_READ_BYTES {
            break;
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut text = mask_credentials(&text).into_owned();
    for secret in secrets.iter().filter(|secret| !secret.trim().is_empty()) {
        text = text.replace(secret, MASK);
    }
    head(&one_line(&text), MAX_EXCERPT_CHARS).to_owned()
}
