//! Failures of an attempt: an error message for the user, without secrets, and the decision to retry.

use std::borrow::Cow;
use std::time::Duration;

use cachalot_core::secret::{MASK, mask_credentials};
use cachalot_core::text::{head, truncate, word_list};
use cachalot_storage::header::HeaderMap;
use cachalot_storage::{ErrorKind as StorageErrorKind, Response};

use super::provider_error::ProviderError;
use crate::error::{Error, ErrorKind, is_about_length};
use crate::provider::credentials::Credentials;
use crate::provider::key::ProviderKey;
use crate::provider::resolved_model::ResolvedModel;
use crate::provider::retry_pause;

/// Error codes that mean that no credit or quota is left.
const NO_CREDIT: [&str; 5] = [
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_error",
    "insufficient_balance",
    "exceeded_current_quota_error",
];

/// A failed attempt.
#[derive(Debug)]
pub(super) struct AttemptFailure {
    pub(super) error: Box<Error>,
    /// True if the attempt may be retried.
    pub(super) retryable: bool,
}

impl AttemptFailure {
    pub(super) fn new(error: Error, retryable: bool) -> Self {
        Self {
            error: Box::new(error),
            retryable,
        }
    }

    /// Converts the failure to an error, whose message ends with the reason for the end of the retries.
    pub(super) fn because(self, reason: &str) -> Error {
        let mut error = *self.error;
        error.message.push_str(reason);
        error
    }
}

/// Creates the errors of one request to a model.
pub(super) struct ErrorFactory<'a> {
    pub(super) model: &'a ResolvedModel,
    request_id: Option<String>,
}

impl<'a> ErrorFactory<'a> {
    pub(super) fn new(model: &'a ResolvedModel) -> Self {
        Self {
            model,
            request_id: None,
        }
    }

    /// Remembers the provider's id of the request.
    pub(super) fn answered(&mut self, response: &Response) {
        const NAMES: [&str; 6] = word_list(
            "x-request-id request-id apim-request-id x-amzn-requestid x-generation-id cf-ray",
        );
        self.request_id = NAMES
            .iter()
            .find_map(|name| response.headers().get(*name)?.to_str().ok())
            .map(short_id);
    }

    /// Maximum time to wait for the next byte.
    pub(super) fn idle(&self) -> Duration {
        self.model.time.idle
    }

    /// Adds the known details to an error and masks secrets in it.
    pub(super) fn with_details(&self, mut error: Error) -> Error {
        error.message = self.without_secrets(&error.message).into_owned();
        let code = error.code.as_deref();
        error.code = code.map(|code| self.without_secrets(code).into_owned());
        let provider = &mut error.provider;
        provider.get_or_insert_with(|| self.model.provider.clone());
        error.request_id = error.request_id.or_else(|| self.request_id.clone());
        let code = error.code.as_deref().unwrap_or_default();
        if NO_CREDIT.contains(&code) {
            error.kind = ErrorKind::OutOfCredit;
        }
        error
    }

    pub(super) fn error(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        self.with_details(Error::new(kind, message))
    }

    /// Creates a failure that is not retried, because a retry cannot help or could be charged twice.
    pub(super) fn last(&self, kind: ErrorKind, message: impl Into<String>) -> AttemptFailure {
        AttemptFailure::new(self.error(kind, message), false)
    }

    /// Nothing arrived before the deadline of the first byte.
    pub(super) fn no_first_byte(&self) -> AttemptFailure {
        let limit = self.model.time.first_byte;
        self.last(
            ErrorKind::TimedOut,
            format!(
                "`{}` did not begin to answer within {limit:?}; it may still charge for the request. Raise `timeouts.first_byte` if that is usual",
                self.model.shown
            ),
        )
    }

    /// The response was not complete within the limit of one try.
    pub(super) fn attempt_timed_out(&self, limit: Duration) -> AttemptFailure {
        let error = self.error(
            ErrorKind::TimedOut,
            format!(
                "`{}` did not answer in full within {limit:?}; it may still charge for the request. Raise `timeout` of the call or `timeouts.total` if that is usual",
                self.model.shown
            ),
        );
        AttemptFailure::new(error, self.model.repeats_timeouts)
    }

    /// Nothing more arrived within the idle timeout.
    pub(super) fn idle_timed_out(&self) -> AttemptFailure {
        let limit = self.model.time.idle;
        self.last(
            ErrorKind::TimedOut,
            format!(
                "`{}` fell silent in the middle of its answer for {limit:?}; raise `timeouts.idle` if that is usual",
                self.model.shown
            ),
        )
    }

    /// The request got no response, not even its headers.
    pub(super) fn not_delivered(&self, error: &cachalot_storage::Error) -> AttemptFailure {
        let cause = error
            .source
            .as_ref()
            .and_then(|cause| cause.downcast_ref::<reqwest::Error>());
        let is = |what: fn(&reqwest::Error) -> bool| cause.is_some_and(what);
        if is(reqwest::Error::is_redirect) {
            return self.last(
                ErrorKind::Configuration,
                format!(
                    "`{}` redirects elsewhere, and no key follows a redirect; write the address that it redirects to as `base_url`",
                    self.model.shown
                ),
            );
        }
        if is(reqwest::Error::is_timeout) && is(reqwest::Error::is_connect) {
            let limit = self.model.time.connect;
            let message = format!(
                "no connection to `{}` within {limit:?} (`timeouts.connect`); check the address, the network and the proxy",
                self.model.shown
            );
            return AttemptFailure::new(self.error(ErrorKind::TimedOut, message), true);
        }
        if is(reqwest::Error::is_timeout) {
            return self.no_first_byte();
        }
        let kind = match error.kind {
            StorageErrorKind::Invalid => ErrorKind::Configuration,
            _ => ErrorKind::Unreachable,
        };
        AttemptFailure::new(
            self.error(kind, error.message.clone()),
            error.is_retryable(),
        )
    }

    /// The answer broke off. `begun` is true if at least one byte of it had arrived.
    pub(super) fn cut_off(&self, why: &str, begun: bool) -> AttemptFailure {
        let message = format!("the answer ended before it was complete: {why}; try again");
        AttemptFailure::new(self.error(ErrorKind::CutOff, message), !begun)
    }

    /// The answer is not in the format of such an API.
    pub(super) fn malformed(&self, what: &str, body: &[u8]) -> AttemptFailure {
        let text = String::from_utf8_lossy(body.get(..4096).unwrap_or(body));
        // Secrets are masked before the text is truncated, so that no part of one remains.
        let text = self.without_secrets(text.trim());
        let excerpt = truncate(&text, 160);
        self.last(
            ErrorKind::Malformed,
            format!(
                "`{}` gave {what}: `{}`; check `base_url` and `format`",
                self.model.shown,
                excerpt.replace(char::is_control, " ")
            ),
        )
    }

    /// The provider answered with an error status.
    pub(super) fn refused(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> AttemptFailure {
        let header = |name: &str| headers.get(name)?.to_str().ok();
        // Secrets are masked before anything is truncated, so that no part of one remains.
        let mut provider_error =
            ProviderError::read(self.without_own(&String::from_utf8_lossy(body)).as_bytes());
        // AWS names the error in a header: `ThrottlingException:http://…`.
        let named = header("x-amzn-errortype");
        if provider_error.code.is_none()
            && let Some(name) = named.and_then(|name| name.split(':').next())
        {
            provider_error.code = Some(name.to_owned());
        }
        let mut error = self.provider_error(status, &provider_error);
        error.retry_after = retry_pause::requested_pause(headers, self.model.clock.now());
        let by_status = matches!(status, 408 | 409 | 429 | 500..=599)
            || (status == 424 && error.kind == ErrorKind::Unavailable);
        let is_hopeless = matches!(error.kind, ErrorKind::OutOfCredit | ErrorKind::TooLong)
            || error.kind == ErrorKind::Limited && outlasts_waits(&provider_error);
        let is_retryable = match header("x-should-retry") {
            Some("true") => true,
            Some("false") => false,
            _ => by_status,
        };
        // Even if the server asks for it: a retry fails in the same way.
        let retryable = is_retryable && !is_hopeless;
        AttemptFailure::new(error, retryable)
    }

    /// A response with a success status contains an error.
    pub(super) fn error_inside(&self, status: u16, value: &serde_json::Value) -> AttemptFailure {
        let provider_error = ProviderError::from_value(value);
        let meant = provider_error
            .status
            .or_else(|| status_of(provider_error.code.as_deref()?));
        let mut error = self.provider_error(meant.unwrap_or(500), &provider_error);
        error.status = provider_error.status.or(Some(status));
        self.reported(error)
    }

    /// An error that a provider reports with a success status, in a whole answer or in a stream. A retry
    /// may help if the provider is overloaded, limits the rate, timed out or failed.
    pub(super) fn reported(&self, error: Error) -> AttemptFailure {
        let error = self.with_details(error);
        let passes = matches!(
            error.kind,
            ErrorKind::Limited | ErrorKind::Unavailable | ErrorKind::TimedOut
        );
        AttemptFailure::new(error, passes)
    }

    fn provider_error(&self, status: u16, provider_error: &ProviderError) -> Error {
        let kind = kind(status, provider_error);
        let words = match &provider_error.message {
            Some(message) => message.trim_end_matches(['.', ' ']).to_owned(),
            None => "the provider gave no reason".to_owned(),
        };
        let remedy = match kind {
            ErrorKind::Unauthorized if self.model.credentials.is_some() => {
                self.model.cloud.map(|cloud| cloud.refused().to_owned())
            }
            ErrorKind::Unauthorized => Some(self.model.key.remedy()),
            ErrorKind::TooLong => {
                Some("shorten the conversation, or take a model with a longer context".into())
            }
            ErrorKind::OutOfCredit => Some("add credit to the account, or raise its limit".into()),
            ErrorKind::Limited => Some("try again later".into()),
            ErrorKind::Unavailable => Some("the provider failed; try again later".into()),
            _ if status == 404 => Some("check the model's name and `base_url`".into()),
            _ => None,
        };
        let message = match remedy {
            Some(remedy) => format!("{words}; {remedy}"),
            None => words,
        };
        let mut error = self.error(kind, message);
        error.status = Some(status);
        let code = provider_error.code.as_deref();
        error.code = code.map(|code| self.without_secrets(code).into_owned());
        let theirs = || provider_error.request_id.as_deref().map(short_id);
        error.request_id = self.request_id.clone().or_else(theirs);
        error
    }

    /// Masks the key, the secret headers and everything that looks like a credential.
    fn without_secrets<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let shown = self.without_own(text);
        let masked = match mask_credentials(&shown) {
            Cow::Borrowed(_) => None,
            Cow::Owned(masked) => Some(masked),
        };
        masked.map_or(shown, Cow::Owned)
    }

    /// Masks the key and the secret headers, and their prefixes where a text was truncated in the middle of
    /// one.
    fn without_own<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut shown = Cow::Borrowed(text);
        let mut hide = |secret: &str, shortest: usize| {
            // Masking short words would make every message unreadable.
            if secret.len() < shortest {
                return;
            }
            if shown.contains(secret) {
                shown = Cow::Owned(shown.replace(secret, MASK));
            }
            let cut = prefixes(secret, shortest)
                .map(|beginning| format!("{beginning}…"))
                .find(|beginning| shown.contains(beginning.as_str()));
            if let Some(cut) = cut {
                shown = Cow::Owned(shown.replace(&cut, &format!("{MASK}…")));
            }
        };
        if let ProviderKey::Present { secret, .. } = &self.model.key {
            hide(secret.expose(), 4);
        }
        let credentials = self.model.credentials.iter();
        for secret in credentials.flat_map(Credentials::secrets) {
            hide(&secret, 4);
        }
        let headers = self.model.headers.iter();
        for header in headers.filter(|header| header.is_secret()) {
            let value = header.value.expose();
            hide(value, 8);
            for scheme in ["Bearer ", "Basic "] {
                hide(value.strip_prefix(scheme).unwrap_or_default(), 4);
            }
        }
        shown
    }
}

/// Returns the prefixes of a secret, the longest first.
fn prefixes(secret: &str, shortest: usize) -> impl Iterator<Item = &str> {
    (shortest..secret.len())
        .rev()
        .filter_map(|length| secret.get(..length))
}

/// Truncates the id of a request to 200 characters.
fn short_id(id: &str) -> String {
    head(id, 200).to_owned()
}

/// Returns the HTTP status that corresponds to a provider's type or code of an error. Anthropic's types:
/// <https://platform.claude.com/docs/en/api/errors>.
fn status_of(code: &str) -> Option<u16> {
    Some(match code {
        "invalid_request_error" => 400,
        "authentication_error" | "invalid_api_key" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" | "model_not_found" => 404,
        "request_too_large" => 413,
        "rate_limit" | "rate_limit_error" | "rate_limit_exceeded" => 429,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => return None,
    })
}

/// True for limits that no wait of minutes outlasts, as OpenAI and Gemini name them: those per day, and those of a minute
/// that the request alone exceeds.
fn outlasts_waits(provider_error: &ProviderError) -> bool {
    let message = provider_error.message.as_deref().unwrap_or_default();
    ["per day", "PerDay", "must be reduced"]
        .iter()
        .any(|words| message.contains(words))
}

/// Derives the kind of a failure from its status and the provider's error.
fn kind(status: u16, provider_error: &ProviderError) -> ErrorKind {
    let code = provider_error.code.as_deref().unwrap_or_default();
    let message = provider_error.message.as_deref().unwrap_or_default();
    let message = message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|words| message.contains(words));
    if status == 402
        || NO_CREDIT.contains(&code)
        || says(&["credit balance is too low", "insufficient balance"])
    {
        return ErrorKind::OutOfCredit;
    }
    // Gemini reports this with status 400.
    if says(&["api key not valid", "api key expired"]) {
        return ErrorKind::Unauthorized;
    }
    match status {
        400 | 413 | 422 | 500 if is_about_length(code, &message) => ErrorKind::TooLong,
        401 | 403 | 407 => ErrorKind::Unauthorized,
        408 => ErrorKind::TimedOut,
        429 => ErrorKind::Limited,
        409 | 500..=599 => ErrorKind::Unavailable,
        // Bedrock reports a model that failed with this status.
        424 if code.starts_with("Model") => ErrorKind::Unavailable,
        300..=399 => ErrorKind::Configuration,
        _ => ErrorKind::Rejected,
    }
}
