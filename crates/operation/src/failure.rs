//! The failure of an operation.

/// The failure of an operation. Its text may contain secrets until the run loop or `cache.wrap` masks them, which
/// happens before it is reported or set in the state.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The failure kind, a stable identifier: `not_found`, `validation_error`, `http_error`, `timeout`,
    /// …
    pub kind: &'static str,
    /// The message: what failed, on what, and what to do.
    pub message: String,
    /// Set when the same call may succeed if repeated. `on_error: retry` retries only these failures
    /// unless `retryable_errors` is set.
    pub retryable: bool,
    /// Set when an alternative of the call may run instead: an external service or program failed, and
    /// none of its output has been shown.
    pub allows_alternatives: bool,
}

impl Failure {
    /// Creates a permanent failure; a retry cannot help.
    pub fn new(kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retryable: false,
            allows_alternatives: false,
        }
    }

    /// Creates a transient failure; a retry may help.
    pub fn transient(kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retryable: true,
            allows_alternatives: false,
        }
    }

    /// Adds the message of an alternative that failed as well. Kind and retryability stay those of the
    /// first call, because a permanent failure of the alternative does not make the first call's
    /// failure permanent.
    #[must_use]
    pub fn with_alternative(self, alternative: Self) -> Self {
        Self {
            message: format!("{}; in its place, {}", self.message, alternative.message),
            ..self
        }
    }
}
