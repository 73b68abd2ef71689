//! Parses the body of a request, within a limit for the number of its values.

use bytes::Bytes;
use cachalot_core::Canonical;
use serde_json::Value;

use crate::answer_form::form_members;
use crate::body_threads::{BodyThreads, LARGE};
use crate::call;
use crate::endpoint::Endpoint;
use crate::error_body::ErrorBody;

/// Approximate size of a value in memory beside its text, with the name and the place of a member, in bytes.
const VALUE_BYTES: usize = 2 * size_of::<Value>() + 64;

/// A parsed body.
pub(crate) struct ParsedBody {
    /// Null for a body that is no JSON.
    pub(crate) value: Value,
    /// The members that select the form of the answer.
    pub(crate) form_members: &'static [&'static str],
    /// The body for the key, or the reason why it has no canonical form.
    pub(crate) canonical: Result<Canonical, String>,
}

impl ParsedBody {
    /// Parses a body. `held` is dropped when the text is parsed, even if the client has left before.
    ///
    /// # Errors
    /// The response to a client whose body has too many values.
    pub(crate) async fn parse(
        endpoint: Endpoint,
        text: Bytes,
        max_values: usize,
        threads: &BodyThreads,
        held: impl Send + 'static,
    ) -> Result<Self, ErrorBody> {
        let is_small = text.len() < LARGE;
        let parse = move || {
            // A text has no more values than bytes.
            if text.len() > max_values && values(&text) > max_values {
                return Err(ErrorBody::too_large(format!(
                    "the body has more than {max_values} JSON values"
                )));
            }
            Ok(Self::of(endpoint, &text))
        };
        match is_small {
            true => parse(),
            false => threads.run(held, parse).await?,
        }
    }

    /// Parses a body whose values have been counted.
    pub(crate) fn of(endpoint: Endpoint, text: &Bytes) -> Self {
        let value: Value = serde_json::from_slice(text).unwrap_or_default();
        let form_members = form_members(endpoint, &value);
        Self {
            canonical: call::canonical(form_members, text),
            form_members,
            value,
        }
    }

    /// The approximate size of the parsed form of a text in memory, in bytes.
    pub(crate) fn weight(&self, text: &[u8]) -> usize {
        let canonical = self.canonical.as_ref();
        let canonical = canonical.map_or(0, |canonical| canonical.as_bytes().len());
        text.len() + canonical + values(text) * VALUE_BYTES + size_of::<Self>()
    }
}

/// Returns the number of values of a JSON text, one too many for each empty list and object.
fn values(text: &[u8]) -> usize {
    let (mut count, mut in_string, mut is_escaped) = (1, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_strings() {
        for (text, count) in [
            ("1", 1),
            (r#""a,[{\",[""#, 1),
            ("[1,2]", 3),
            (r#"{"a": [], "b": {"c": 1}}"#, 5),
        ] {
            assert_eq!(values(text.as_bytes()), count, "{text}");
        }
    }

    #[tokio::test]
    async fn too_many_values_are_refused_before_they_are_parsed() {
        let threads = BodyThreads::new();
        let parse = |text: &Bytes, most| {
            ParsedBody::parse(Endpoint::Chat, text.clone(), most, &threads, ())
        };
        let text = Bytes::from(format!("[{}]", "[],".repeat(100)));
        assert!(parse(&text, 50).await.is_err());
        let malformed = parse(&text, 500).await;
        assert!(malformed.is_ok_and(|parsed| parsed.canonical.is_err() && parsed.value.is_null()));
        let large = Bytes::from(format!(r#"{{"a": "{}"}}"#, "x".repeat(2 * LARGE)));
        let large = parse(&large, 500).await;
        assert!(large.is_ok_and(|parsed| parsed.canonical.is_ok() && parsed.value.is_object()));
    }
}
