//! Parses the body of a request, within a limit for the number of its values.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use cachalot_core::canonical::CanonicalError;
use cachalot_core::json::values;
use serde_json::Value;

use crate::answer_form::form_members;
use crate::body_threads::{BodyThreads, LARGE};
use crate::endpoint::{Cacheability, Endpoint, Setting};
use crate::error_body::ErrorBody;
use crate::key_body::KeyBody;

/// Approximate size of a value in memory beside its text, with the name and the place of a member, in bytes.
const VALUE_BYTES: usize = 2 * size_of::<Value>() + 64;

/// A parsed body, and what is known of it. The judgments that only keys of the gateway need are made on demand, once.
pub(crate) struct ParsedBody {
    pub(crate) endpoint: Endpoint,
    /// Null for a body that is no JSON.
    pub(crate) value: Value,
    /// The members that select the form of the answer.
    pub(crate) form_members: Vec<&'static str>,
    /// The body for the key, or the reason why it has no canonical form.
    pub(crate) canonical: Result<KeyBody, CanonicalError>,
    /// The judgment of the request: may its answer be stored?
    pub(crate) cacheability: Cacheability,
    /// The unknown members that the judgment accepts.
    pub(crate) accepted: Arc<[String]>,
    object_reference: OnceLock<Option<String>>,
    extra_charge: OnceLock<Option<String>>,
}

impl ParsedBody {
    /// Parses a body. `accepted` are the unknown members at its top that the operator accepts. `held` is dropped when the text is parsed, even if the client has left before.
    ///
    /// # Errors
    /// The response to a client whose body has too many values.
    pub(crate) async fn parse(
        endpoint: Endpoint,
        text: Bytes,
        accepted: Arc<[String]>,
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
            Ok(Self::of(endpoint, &text, accepted))
        };
        if is_small {
            parse()
        } else {
            threads.run(held, parse).await?
        }
    }

    /// Parses a body whose values have been counted.
    pub(crate) fn of(endpoint: Endpoint, text: &Bytes, accepted: Arc<[String]>) -> Self {
        let value: Value = serde_json::from_slice(text).unwrap_or_default();
        let form_members = form_members(endpoint, &value);
        let object_reference = OnceLock::new();
        let find_reference = || {
            let found = object_reference
                .get_or_init(|| endpoint.object_reference(&value, Setting::Anywhere));
            found.clone()
        };
        Self {
            canonical: KeyBody::of_text(&form_members, text, &value, endpoint.members()),
            cacheability: endpoint.judge(&value, &accepted, find_reference),
            endpoint,
            accepted,
            form_members,
            value,
            object_reference,
            extra_charge: OnceLock::new(),
        }
    }

    /// Returns the name of a member that refers to an object at the provider.
    pub(crate) fn object_reference(&self) -> Option<&str> {
        let find = || {
            self.endpoint
                .object_reference(&self.value, Setting::Anywhere)
        };
        self.object_reference.get_or_init(find).as_deref()
    }

    /// Returns the reason why the cost of the request depends on more than its tokens.
    pub(crate) fn extra_charge(&self) -> Option<&str> {
        let find = || self.endpoint.extra_charge(&self.value);
        self.extra_charge.get_or_init(find).as_deref()
    }

    /// The approximate size of the parsed form of a text in memory, in bytes.
    pub(crate) fn weight(&self, text: &[u8]) -> usize {
        let canonical = self.canonical.as_ref();
        let canonical = canonical.map_or(0, KeyBody::size);
        text.len() + canonical + values(text) * VALUE_BYTES + size_of::<Self>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn too_many_values_are_refused_before_they_are_parsed() {
        let threads = BodyThreads::new();
        let parse = |text: &Bytes, maximum| {
            let accepted = Arc::default();
            ParsedBody::parse(
                Endpoint::chat(),
                text.clone(),
                accepted,
                maximum,
                &threads,
                (),
            )
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
