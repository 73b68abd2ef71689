//! Errors as the API reports them.

use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, is_about_length};

/// Parses the error in `{"type":"error","error":{"type":…,"message":…},"request_id":…}`.
pub(super) fn read(fields: &Map<String, Value>) -> Error {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let error = fields.get("error").unwrap_or(&Value::Null);
    let code = text(error.get("type"));
    let message = text(error.get("message"))
        .unwrap_or_else(|| "the provider reports an error without details".into());
    Error {
        request_id: text(fields.get("request_id")),
        kind: kind(code.as_deref().unwrap_or_default(), &message),
        code,
        ..Error::new(ErrorKind::Unavailable, message)
    }
}

/// Returns the kind of an error: <https://platform.claude.com/docs/en/api/errors>. An unknown error counts
/// as a failure of the provider.
fn kind(code: &str, message: &str) -> ErrorKind {
    match code {
        "authentication_error" | "permission_error" => ErrorKind::Unauthorized,
        "invalid_request_error" | "request_too_large" if is_about_length(code, message) => {
            ErrorKind::TooLong
        }
        "invalid_request_error" | "not_found_error" | "billing_error" => ErrorKind::Rejected,
        "rate_limit_error" => ErrorKind::Limited,
        "timeout_error" => ErrorKind::TimedOut,
        _ => ErrorKind::Unavailable,
    }
}
