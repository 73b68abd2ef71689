//! `http_post`: posts events to a server.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_storage::{HttpClient, Url, masked};
use parking_lot::Mutex;
use strum::VariantArray as _;

use super::{ArgumentsError, Builtin, BuiltinDependencies, request};
use crate::dialect::HandlerCall;
use crate::input::Input;
use crate::output::{Fault, Output};
use crate::{Dialect, Event};

const NAME: &str = "http_post";

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of remembered failures.
const MAX_REMEMBERED_FAILURES: usize = 1000;

/// Posts a text, or the hook input, to a server. A failure never affects the turn.
pub(super) struct HttpPost {
    http: HttpClient,
    limit: Duration,
    /// The sessions and URLs whose failure was already reported to the user.
    reported_failures: Mutex<BTreeSet<(String, String)>>,
}

impl HttpPost {
    pub(super) fn new(dependencies: &BuiltinDependencies) -> Self {
        Self {
            http: dependencies.http.clone(),
            limit: TIMEOUT,
            reported_failures: Mutex::default(),
        }
    }

    /// Records the outcome of a request. Returns true if the failure must be reported: once per session
    /// and URL, and again after a success.
    fn is_new_failure(&self, input: &Input, url: &str, failed: bool) -> bool {
        let at = (input.session_id.clone(), url.to_owned());
        let mut reported_failures = self.reported_failures.lock();
        if !failed {
            reported_failures.remove(&at);
            return false;
        }
        if reported_failures.len() >= MAX_REMEMBERED_FAILURES {
            // Forgetting them costs no more than a repeated message. The list must not grow with each session of a long
            // run.
            reported_failures.clear();
        }
        reported_failures.insert(at)
    }
}

#[async_trait]
impl Builtin for HttpPost {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "Posts to a URL: the text of the second argument or, without one, the hook's input as JSON. The turn continues even if the request fails; a failure is reported once per session."
    }

    fn events(&self) -> &'static [Event] {
        Event::VARIANTS
    }

    fn check_arguments(&self, arguments: &[String]) -> Result<(), ArgumentsError> {
        PostArguments::read(arguments).map(|_| ())
    }

    fn fails_open(&self) -> bool {
        true
    }

    async fn run(&self, arguments: &[String], input: &Input) -> Result<Output, Fault> {
        let wanted = PostArguments::read(arguments)?;
        let (content_type, body) = wanted.body(input)?;
        let url = wanted.url;
        let said = request::post(&self.http, url, content_type, body, self.limit).await;
        let is_new = self.is_new_failure(input, url, said.is_err());
        Ok(Output {
            system_message: said
                .err()
                .filter(|_| is_new)
                .map(|wrong| format!("`{NAME}` at {}: {wrong}", input.event)),
            ..Output::default()
        })
    }
}

/// The parsed arguments.
struct PostArguments<'a> {
    url: &'a str,
    text: Option<&'a str>,
}

impl<'a> PostArguments<'a> {
    fn read(arguments: &'a [String]) -> Result<Self, ArgumentsError> {
        let (url, text) = match arguments {
            [url] => (url, None),
            [url, text] => (url, Some(text.as_str())),
            [] => {
                return Err(ArgumentsError(format!(
                    "`{NAME}` needs to know where to; write `args: [https://example.com/hook]`"
                )));
            }
            [_, _, more, ..] => {
                return Err(ArgumentsError(format!(
                    "`{NAME}` takes a URL and a text, but is given `{more}`, too; put the text in quotes"
                )));
            }
        };
        let is_web = Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
        if !is_web {
            return Err(ArgumentsError(format!(
                "`{}` is no URL that `{NAME}` can post to; write one that begins with https:// or http://",
                masked(url)
            )));
        }
        Ok(Self { url, text })
    }

    /// Returns the content type and the body of the request.
    fn body(&self, input: &Input) -> Result<(&'static str, Vec<u8>), Fault> {
        const JSON: &str = "application/json";
        Ok(match self.text {
            Some(text) if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() => {
                (JSON, text.as_bytes().to_vec())
            }
            Some(text) => ("text/plain; charset=utf-8", text.as_bytes().to_vec()),
            None => (
                JSON,
                Dialect::DockerAgent.write(handler_call(input.event), input)?,
            ),
        })
    }
}

/// The call for which the dialect writes the input.
fn handler_call(event: Event) -> HandlerCall<'static> {
    HandlerCall {
        event,
        event_name: event.name(),
        strict_output: false,
        in_background: false,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../../tests/unit/builtin/http_post.rs"]
mod tests;
