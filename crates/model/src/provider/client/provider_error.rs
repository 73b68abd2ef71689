//! Parses error bodies in the shapes that providers use.

use cachalot_core::text;
use serde_json::Value;

/// Maximum length of the provider's message that is shown, in characters.
const MAX_MESSAGE_CHARS: usize = 600;

/// Error as reported by a provider. Secrets are not masked yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ProviderError {
    /// Message.
    pub(super) message: Option<String>,
    /// Error code, or else the error type.
    pub(super) code: Option<String>,
    /// Status that a gateway passes on.
    pub(super) status: Option<u16>,
    /// The provider's id of the request.
    pub(super) request_id: Option<String>,
}

impl ProviderError {
    /// Parses the body of an error: JSON of any provider, text, or a web page.
    pub(super) fn read(body: &[u8]) -> Self {
        if let Ok(value) = serde_json::from_slice::<Value>(body) {
            return Self::from_value(&value);
        }
        let text = String::from_utf8_lossy(body);
        let text = if text.trim_start().starts_with('<') {
            page_text(&text)
        } else {
            text.into_owned()
        };
        Self {
            message: one_line(&text),
            ..Self::default()
        }
    }

    /// Parses an error in JSON:
    /// - OpenAI and compatible servers: `{"error": {"message", "type", "code"}}`; Google puts a list around
    ///   it;
    /// - Anthropic: `{"type": "error", "error": {"type", "message"}, "request_id"}`;
    /// - OpenRouter: the first shape, with the upstream provider's error in `metadata.raw`;
    /// - Ollama: `{"error": "…"}`; vLLM: `{"detail": …}`; Mistral: `{"message", "type", "code"}`.
    pub(super) fn from_value(value: &Value) -> Self {
        let outer = match value {
            // Google puts a list around an error.
            Value::Array(items) => items.first().unwrap_or(value),
            _ => value,
        };
        let inner = match outer.get("error") {
            Some(inner @ Value::Object(_)) => inner,
            _ => outer,
        };
        let text = |value: &Value, key: &str| match value.get(key) {
            Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
            _ => None,
        };
        let detail = match outer.get("detail").or_else(|| inner.get("message")) {
            Some(Value::String(_)) | None => None,
            Some(value) => one_line(&value.to_string()),
        };
        let message = text(inner, "message")
            .or_else(|| text(outer, "error"))
            .or_else(|| text(outer, "detail"))
            .or_else(|| text(outer, "message"))
            .and_then(|text| one_line(&text))
            .or(detail)
            .or_else(|| one_line(value.as_str().unwrap_or_default()));
        let message = match upstream_error(inner) {
            Some(raw) => one_line(&format!("{}: {raw}", message.unwrap_or_default())),
            None => message,
        };
        // A code that only repeats the status carries no information.
        let code = text(inner, "code")
            .filter(|code| code.parse::<u16>().is_err())
            .or_else(|| text(inner, "type"))
            .or_else(|| text(inner, "status"));
        let status = inner
            .get("code")
            .and_then(|code| match code {
                Value::String(text) => text.parse().ok(),
                code => code.as_u64(),
            })
            .and_then(|code| u16::try_from(code).ok())
            .filter(|code| (400..600).contains(code));
        Self {
            message,
            code,
            status,
            request_id: text(outer, "request_id"),
        }
    }
}

/// Returns the error of the provider behind a gateway.
fn upstream_error(error: &Value) -> Option<String> {
    let raw = error.get("metadata")?.get("raw")?;
    match raw {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Returns true if a body with a success status contains an error, as some gateways send it.
pub(super) fn is_error(value: &Value) -> bool {
    let Some(fields) = value.as_object() else {
        return false;
    };
    let is_answer = ["choices", "content", "output", "candidates"]
        .iter()
        .any(|field| fields.get(*field).is_some_and(|field| !field.is_null()));
    let has_error = fields.get("error").is_some_and(|error| !error.is_null());
    has_error && !is_answer
}

/// Returns a text on one line, truncated to [`MAX_MESSAGE_CHARS`] characters; `None` if it is empty.
pub(super) fn one_line(text: &str) -> Option<String> {
    let line = text::one_line(text);
    (!line.is_empty()).then(|| text::truncate(&line, MAX_MESSAGE_CHARS).into_owned())
}

/// Returns the title of a web page, or else its text.
fn page_text(html: &str) -> String {
    let lower = html.to_ascii_lowercase();
    if let Some(start) = lower
        .find("<title")
        .and_then(|at| Some(at + lower[at..].find('>')? + 1))
        && let Some(length) = lower[start..].find("</title")
        && !html[start..start + length].trim().is_empty()
    {
        return format!("a web page, `{}`", html[start..start + length].trim());
    }
    let mut text = String::new();
    for piece in html.split('<') {
        text.push(' ');
        text.push_str(piece.split_once('>').map_or(piece, |(_, text)| text));
    }
    format!("a web page: {}", text.trim())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../../../tests/unit/provider/client/provider_error.rs"]
mod tests;
