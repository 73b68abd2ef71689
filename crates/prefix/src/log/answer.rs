//! Parsing of answers in logs.

use serde_json::{Map, Value};

use crate::diagnosis::ProviderVerdict;

/// Maximum nesting of an answer: in an envelope within an envelope.
const MAX_DEPTH: u32 = 2;

/// Members that may contain an answer or its usage.
const INNER: [&str; 3] = ["body", "response", "message"];

/// The known facts about an answer.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// The usage as written in the log.
    pub(super) usage: Option<Value>,
    /// True if it is an error.
    pub(super) failed: bool,
    /// The ID of the answer.
    pub(super) id: Option<String>,
    /// The provider's comparison of the request with an earlier one, if it named one.
    pub(super) verdict: Option<ProviderVerdict>,
}

impl Answer {
    /// Parses an object, the text of one, an envelope around one, or a stream of events.
    pub(super) fn read(response: &[u8]) -> Self {
        serde_json::from_slice(response).map_or_else(
            |_| Self::default(),
            |value| Self::from_value(value, MAX_DEPTH),
        )
    }

    fn from_value(response: Value, depth: u32) -> Self {
        let mut object = match response {
            Value::Object(object) => object,
            Value::String(text) => {
                return match serde_json::from_str(&text) {
                    Ok(value) if depth > 0 => Self::from_value(value, depth - 1),
                    _ => Self::of_events(&text),
                };
            }
            _ => return Self::default(),
        };
        let failed = is_error(&object);
        let usage = object.shift_remove("usage");
        let id = object.get("id").and_then(Value::as_str);
        let id = id.map(str::to_owned);
        let verdict = ProviderVerdict::read(&object);
        if usage.is_some() || depth == 0 {
            return Self {
                usage,
                failed,
                id,
                verdict,
            };
        }
        let mut inner = INNER.iter().filter_map(|name| object.shift_remove(*name));
        let inner = inner
            .next()
            .map_or_else(Self::default, |inner| Self::from_value(inner, depth - 1));
        Self {
            failed: failed || inner.failed,
            id: inner.id.or(id),
            verdict: inner.verdict.or(verdict),
            ..inner
        }
    }

    /// Parses server-sent events; later events override the usage of earlier ones.
    fn of_events(text: &str) -> Self {
        let mut usage = Map::new();
        let (mut id, mut verdict) = (None, None);
        let events = text.lines().filter_map(|line| line.strip_prefix("data:"));
        for event in events.filter(|event| event.contains("\"usage\"")) {
            let Ok(event) =
                serde_json::from_str(event).map(|event| Self::from_value(event, MAX_DEPTH))
            else {
                continue;
            };
            // Anthropic sends the comparison in the first event, OpenAI in the last.
            id = id.or(event.id);
            verdict = event.verdict.or(verdict);
            if let Some(Value::Object(members)) = event.usage {
                usage.extend(members.into_iter().filter(|(_, value)| !value.is_null()));
            }
        }
        Self {
            usage: (!usage.is_empty()).then_some(Value::Object(usage)),
            failed: false,
            id,
            verdict,
        }
    }
}

/// True if an object is an error, by its status or by its `error` member.
fn is_error(object: &Map<String, Value>) -> bool {
    let status = ["status", "status_code"].iter();
    let mut status = status.filter_map(|name| object.get(*name)?.as_u64());
    let error = object.get("error").is_some_and(|error| !error.is_null());
    error || status.any(|status| status >= 400)
}
