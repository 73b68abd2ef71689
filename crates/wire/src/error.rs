//! Errors of model calls.

use std::fmt;
use std::time::Duration;

/// Kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The key is missing, or the provider refuses it (401, 403).
    Unauthorized,
    /// The request is wrong (400, 404, 413, 422); repeating it fails again.
    Rejected,
    /// The conversation is longer than the model accepts, under any of the providers' codes for this.
    TooLong,
    /// Too many requests (429).
    Limited,
    /// The account has no credit or quota left (402, some 429 and 400); waiting does not help.
    OutOfCredit,
    /// The provider failed (5xx) or is overloaded.
    Unavailable,
    /// The provider cannot be reached.
    Unreachable,
    /// The provider did not answer in time.
    TimedOut,
    /// The answer ended before it was complete.
    CutOff,
    /// The answer cannot be parsed.
    Malformed,
    /// The configuration is wrong: an unknown provider, an invalid URL.
    Configuration,
    /// A budget is used up; no request was sent.
    OverBudget,
}

impl ErrorKind {
    /// Returns the stable name, as used in `retryable_errors` of a workflow and in JSON documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unauthorized => "unauthorized",
            Self::Rejected => "rejected",
            Self::TooLong => "too_long",
            Self::Limited => "rate_limited",
            Self::OutOfCredit => "out_of_credit",
            Self::Unavailable => "unavailable",
            Self::Unreachable => "connection_error",
            Self::TimedOut => "timeout",
            Self::CutOff => "cut_off",
            Self::Malformed => "malformed_answer",
            Self::Configuration => "configuration_error",
            Self::OverBudget => "over_budget",
        }
    }
}

/// A failed model call. Never contains a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Kind of failure.
    pub kind: ErrorKind,
    /// Name of the provider, if one was asked.
    pub provider: Option<String>,
    /// HTTP status, if there was a response.
    pub status: Option<u16>,
    /// The provider's id of the request, for its support.
    pub request_id: Option<String>,
    /// The provider's own type or code of the error.
    pub code: Option<String>,
    /// Description of the failure, in the provider's words if it sent any, and the remedy.
    pub message: String,
    /// Time that the provider asks to wait.
    pub retry_after: Option<Duration>,
}

impl Error {
    /// Creates an error from its kind and message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            provider: None,
            status: None,
            request_id: None,
            code: None,
            message: message.into(),
            retry_after: None,
        }
    }

    /// Adds to the message that a fallback failed as well, with its error.
    #[must_use]
    pub fn and_of_fallback(mut self, name: &str, error: &Self) -> Self {
        self.message = format!(
            "{}; the fallback `{name}` failed as well: {error}",
            self.message
        );
        self
    }

    /// Returns true if the same request may succeed when it is sent again, or to another model.
    #[must_use]
    pub fn retryable(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Limited
                | ErrorKind::Unavailable
                | ErrorKind::Unreachable
                | ErrorKind::TimedOut
                | ErrorKind::CutOff
        )
    }
}

/// Codes and types of providers that mean [`ErrorKind::TooLong`].
const TOO_LONG_CODES: [&str; 6] = [
    "context_length_exceeded",
    "string_above_max_length",
    "request_too_large",
    "exceed_context_size_error",
    "model_context_window_exceeded",
    "model_max_prompt_tokens_exceeded",
];

/// Texts in error messages that mean [`ErrorKind::TooLong`]; most providers have no code for it.
const TOO_LONG_WORDS: [&str; 13] = [
    "context length",
    "context window",
    "context size",
    "context limit",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "maximum prompt length",
    "exceeds the maximum number of tokens",
    "exceeded model token limit",
    "prompt token count",
    "too many tokens: ",
    "reduce the length of the messages",
];

/// Returns true if an error's code or message reports that a conversation is too long.
pub fn is_about_length(code: &str, message: &str) -> bool {
    let message = message.to_lowercase();
    TOO_LONG_CODES.contains(&code) || TOO_LONG_WORDS.iter().any(|words| message.contains(words))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(provider) = &self.provider {
            write!(f, "{provider}: ")?;
        }
        f.write_str(&self.message)?;
        let status = self.status.map(|status| format!("status {status}"));
        let id = self.request_id.as_ref().map(|id| format!("request {id}"));
        let known: Vec<String> = [status, self.code.clone(), id]
            .into_iter()
            .flatten()
            .collect();
        if known.is_empty() {
            return Ok(());
        }
        write!(f, " ({})", known.join(", "))
    }
}

impl std::error::Error for Error {}
