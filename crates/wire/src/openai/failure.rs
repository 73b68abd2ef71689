//! Errors that servers report inside an answer, and invalid answers.

use cachalot_core::text::truncate;
use serde_json::Value;

use super::{Object, text_of};
use crate::error::{Error, ErrorKind, is_about_length};

/// Maximum length of a server's text in an error message, in characters.
const MAX_EXCERPT_CHARS: usize = 300;

/// Creates the error of an invalid answer.
pub(crate) fn malformed(what: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Malformed,
        format!(
            "the answer makes no sense: {what}; check that the base URL leads to an API of this format"
        ),
    )
}

/// Parses a JSON object.
pub(crate) fn parse(text: &[u8], what: &str) -> Result<Object, Error> {
    match serde_json::from_slice(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(malformed(format_args!(
            "{what} is not a JSON object: {}",
            excerpt(&String::from_utf8_lossy(text))
        ))),
        Err(error) => Err(malformed(format_args!(
            "{what} is not JSON ({error}): {}",
            excerpt(&String::from_utf8_lossy(text))
        ))),
    }
}

/// Parses an error that a server reports as `{"message", "type", "code", "param"}`, or as a plain text.
/// OpenRouter's `code` is an HTTP status, and the upstream provider's error is in `metadata.raw`.
pub(crate) fn provider_error(reported: &Value) -> Error {
    let empty = Object::new();
    let fields = reported.as_object().unwrap_or(&empty);
    let status = ["code", "status"]
        .iter()
        .filter_map(|name| status_of(fields.get(*name)?))
        .find(|status| (400..600).contains(status));
    let code = text_of(fields, "code")
        .or_else(|| text_of(fields, "type"))
        .filter(|code| code.parse::<u16>().is_err());

    let mut message = reported
        .as_str()
        .or_else(|| text_of(fields, "message"))
        .map_or_else(|| excerpt(&reported.to_string()), excerpt);
    let metadata = fields.get("metadata");
    if let Some(raw) = metadata.and_then(|metadata| metadata.get("raw")) {
        let raw = raw.as_str().map_or_else(|| raw.to_string(), str::to_owned);
        message = format!("{message}: {}", excerpt(&raw));
    }
    let named = [code, text_of(fields, "type")];
    let named = named.into_iter().flatten().find_map(kind_from_code);
    // An unknown error counts as a failure of the provider.
    let by_status = || status.map_or(ErrorKind::Unavailable, kind_from_status);
    let mut kind = named.unwrap_or_else(by_status);
    if kind == ErrorKind::Rejected && is_about_length(code.unwrap_or_default(), &message) {
        kind = ErrorKind::TooLong;
    }
    Error {
        status,
        code: code.map(str::to_owned),
        ..Error::new(kind, message)
    }
}

fn status_of(value: &Value) -> Option<u16> {
    match value {
        Value::Number(number) => number.as_u64().and_then(|status| status.try_into().ok()),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn kind_from_code(name: &str) -> Option<ErrorKind> {
    Some(match name {
        too_long if is_about_length(too_long, "") => ErrorKind::TooLong,
        "invalid_api_key" | "authentication_error" | "permission_error" | "permission_denied" => {
            ErrorKind::Unauthorized
        }
        "insufficient_quota" | "insufficient_balance" | "billing_hard_limit_reached" => {
            ErrorKind::OutOfCredit
        }
        "rate_limit" | "rate_limit_exceeded" | "rate_limit_error" | "tokens" | "requests" => {
            ErrorKind::Limited
        }
        "server_error"
        | "internal_error"
        | "internal_server_error"
        | "api_error"
        | "overloaded_error"
        | "server_is_overloaded"
        | "slow_down" => ErrorKind::Unavailable,
        "timeout" | "request_timeout" => ErrorKind::TimedOut,
        "invalid_request_error"
        | "invalid_prompt"
        | "content_filter"
        | "model_not_found"
        | "not_found_error" => ErrorKind::Rejected,
        image if image.contains("image") => ErrorKind::Rejected,
        _ => return None,
    })
}

const fn kind_from_status(status: u16) -> ErrorKind {
    match status {
        401 | 403 => ErrorKind::Unauthorized,
        402 => ErrorKind::OutOfCredit,
        429 => ErrorKind::Limited,
        408 => ErrorKind::TimedOut,
        400..500 => ErrorKind::Rejected,
        _ => ErrorKind::Unavailable,
    }
}

fn excerpt(text: &str) -> String {
    truncate(text.trim(), MAX_EXCERPT_CHARS).into_owned()
}
