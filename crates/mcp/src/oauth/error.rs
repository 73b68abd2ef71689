//! Errors of logins.

use cachalot_core::text::head;
use rmcp::transport::auth::AuthError;

/// Maximum number of characters that are shown of a text of a server.
const MAX_SHOWN_CHARS: usize = 300;

/// Error kinds of logins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OauthErrorKind {
    /// The user has to log in, or to log in again.
    LoginRequired,
    /// An argument is invalid.
    Invalid,
    /// The server or the authorization server publishes metadata that cannot be used.
    Metadata,
    /// The authorization server or the user refused.
    Refused,
    /// A server did not answer.
    Unavailable,
    /// No answer of the browser in time.
    TimedOut,
    /// The file of logins cannot be read or written.
    File,
}

/// An error of a login, or of the use of its tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OauthError {
    /// The kind of error.
    pub kind: OauthErrorKind,
    /// The problem and the remedy; contains no secret.
    pub message: String,
}

impl OauthError {
    pub(super) fn new(kind: OauthErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// Converts an error of the library. `cause` is the last failure of the HTTP client, which the library does not
    /// keep.
    pub(super) fn of_library(error: &AuthError, cause: Option<&str>) -> Self {
        let kind = match error {
            AuthError::DiscoveryRequestFailed { .. } | AuthError::HttpError(_) => {
                OauthErrorKind::Unavailable
            }
            AuthError::TokenRefreshFailed(_) if cause.is_some() => OauthErrorKind::Unavailable,
            AuthError::TokenExchangeFailed(_) if cause.is_some() => OauthErrorKind::Unavailable,
            AuthError::TokenExchangeFailed(_)
            | AuthError::TokenRefreshFailed(_)
            | AuthError::TokenRefreshRejected(_)
            | AuthError::RegistrationFailed(_)
            | AuthError::AuthorizationRequired => OauthErrorKind::Refused,
            _ => OauthErrorKind::Metadata,
        };
        let mut message = shown(&error.to_string());
        if let Some(cause) = cause {
            message = format!("{message}: {}", shown(cause));
        }
        Self::new(kind, message)
    }
}

/// Returns the beginning of a text of a server, without control characters.
pub(super) fn shown(text: &str) -> String {
    let text: String = text
        .chars()
        .filter(|character| !character.is_control())
        .collect();
    head(text.trim(), MAX_SHOWN_CHARS).to_owned()
}
