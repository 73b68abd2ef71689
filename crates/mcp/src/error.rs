//! Errors of servers, with messages for the model and the user.

use std::time::Duration;

use cachalot_core::SecretSet;
use cachalot_core::causes::root_cause;
use cachalot_core::secret::mask_credentials;
use rmcp::service::{ClientInitializeError, ServiceError};

use super::challenge;
use super::exact_numbers;
use super::message_parser::LOCAL_ERROR;

/// The error of a server that cannot be used, or did not answer a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the MCP server `{server}` {message}")]
#[non_exhaustive]
pub struct McpError {
    /// The name of the server.
    pub server: String,
    /// The problem and the remedy; contains no secret.
    pub message: String,
    /// True if a retry may succeed.
    pub retry: bool,
}

impl McpError {
    pub(super) fn new(server: &str, message: impl Into<String>) -> Self {
        Self {
            server: server.to_owned(),
            message: message.into(),
            retry: false,
        }
    }

    pub(super) fn transient(server: &str, message: impl Into<String>) -> Self {
        Self {
            retry: true,
            ..Self::new(server, message)
        }
    }

    /// Adds what to do.
    pub(super) fn with_hint(self, hint: &str) -> Self {
        Self {
            message: format!("{}; {hint}", self.message),
            ..self
        }
    }

    /// Masks secrets in the message.
    pub(super) fn redacted(self, secret_set: &SecretSet) -> Self {
        let masked = mask_credentials(&self.message).into_owned();
        Self {
            message: secret_set.redact(&masked).into_owned(),
            ..self
        }
    }
}

/// The reason why a connection could not be opened.
pub(super) fn connect_error(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) => "ended before it was ready".to_owned(),
        ClientInitializeError::JsonRpcError(error) if error.code == LOCAL_ERROR => {
            error.message.to_string()
        }
        ClientInitializeError::JsonRpcError(error) => {
            format!("refused to begin: {} ({})", error.message, error.code.0)
        }
        ClientInitializeError::NoCompatibleProtocolVersion {
            server_supported, ..
        } => {
            let versions: Vec<&str> = server_supported.iter().map(|v| v.as_str()).collect();
            format!(
                "speaks no version of the protocol that is known here, but {}",
                versions.join(", ")
            )
        }
        ClientInitializeError::TransportError { error, .. } => {
            if let Some(challenge) = challenge::describe(error.error.as_ref()) {
                return challenge;
            }
            let reason = root_cause(error.error.as_ref());
            let remedy = match reason.to_ascii_lowercase() {
                reason
                    if reason.contains("auth required")
                        || reports(&reason, "401")
                        || reports(&reason, "403") =>
                {
                    "; give valid credentials in `headers`, or log in with `cachalot mcp login URL`"
                }
                reason if reason.contains("redirect") => "; give the address that it redirects to",
                reason if reports(&reason, "404") => "; check its address",
                _ => "; check its address, and whether it runs",
            };
            format!("cannot be reached: {reason}{remedy}")
        }
        other => format!("violated the protocol: {other}"),
    }
}

/// True if a reason contains a status code as a word of its own: a port may have the same digits.
pub(super) fn reports(reason: &str, status: &str) -> bool {
    reason
        .split(|character: char| !character.is_ascii_alphanumeric() && character != ':')
        .any(|word| word.trim_end_matches(':') == status)
}

/// True if the connection cannot be used any more.
pub(super) fn is_connection_lost(error: &ServiceError) -> bool {
    matches!(
        error,
        ServiceError::TransportClosed | ServiceError::TransportSend(_)
    )
}

/// The error of a request without an answer, with the remedy.
pub(super) fn request_error(server: &str, error: &ServiceError) -> McpError {
    match error {
        ServiceError::McpError(error) if error.code == LOCAL_ERROR => {
            McpError::new(server, error.message.to_string())
        }
        ServiceError::McpError(error) => {
            let data = error.data.as_ref().map_or_else(String::new, |data| {
                format!(" {}", exact_numbers::shown(data))
            });
            McpError::new(
                server,
                format!("refused: {} ({}){data}", error.message, error.code.0),
            )
        }
        ServiceError::TransportClosed => McpError::transient(
            server,
            "ended before it answered; whether the call took effect is not known. It is started again with the next call",
        ),
        ServiceError::TransportSend(error) => match challenge::describe(error.error.as_ref()) {
            Some(challenge) => McpError::new(server, challenge),
            None => McpError::transient(
                server,
                format!(
                    "could not be talked to: {}; whether the call took effect is not known. It is connected to again with the next call",
                    root_cause(error.error.as_ref())
                ),
            ),
        },
        ServiceError::Cancelled { reason } => McpError::transient(
            server,
            format!(
                "cancelled the call{}",
                reason
                    .as_ref()
                    .map_or_else(String::new, |reason| format!(": {reason}"))
            ),
        ),
        ServiceError::UnexpectedResponse => McpError::new(
            server,
            "violated the protocol; this is a fault of the server",
        ),
        other => McpError::new(server, format!("did not answer: {other}")),
    }
}

/// The error of a request that timed out; the server has received a cancellation.
pub(super) fn timeout_error(server: &str, after: Duration) -> McpError {
    McpError::transient(
        server,
        format!(
            "did not answer within {} seconds and was canceled; request less, or raise its `timeout`",
            after.as_secs_f64()
        ),
    )
}

/// The error of a request that exceeded the maximum time in spite of progress notifications.
pub(super) fn max_timeout_error(server: &str, after: Duration) -> McpError {
    McpError::transient(
        server,
        format!(
            "was still at work after {} seconds and was canceled; request less, or raise its `max_timeout`",
            after.as_secs_f64()
        ),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::parse_messages;

    #[test]
    fn data_of_an_error_keeps_its_numbers() {
        let text = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no","data":{"n":12345678901234567890123}}}"#;
        let message = parse_messages(format!("{text}\n").as_bytes(), 1_000).remove(0);
        let error = serde_json::from_value(message["error"].clone()).unwrap();
        let shown = request_error("x", &ServiceError::McpError(error)).to_string();
        assert!(
            shown.ends_with(r#" (-1) {"n":12345678901234567890123}"#),
            "{shown}"
        );
    }
}
