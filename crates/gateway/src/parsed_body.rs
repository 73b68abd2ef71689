//! Parses the body of a request, within a limit for the number of its values.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use cachalot_core::Digest;
use cachalot_core::canonical::CanonicalError;
use cachalot_core::json::values;
use serde_json::Value;

use crate::answer_form::form_members;
use crate::body_threads::{BodyThreads, LARGE};
use crate::endpoint::{Cacheability, Endpoint, Setting};
use crate::error_body::ErrorBody;
use crate::key_body::KeyBody;
use crate::pieces::{self, Judging, MIN_BODY, PieceBody, PieceIndex, Split};

/// Approximate size of a value in memory beside its text, with the name and the place of a member, in bytes.
const VALUE_BYTES: usize = 2 * size_of::<Value>() + 64;

/// A parsed body, and what is known of it. The judgments that only keys of the gateway need are made on demand, once.
pub(crate) struct ParsedBody {
    pub(crate) endpoint: Endpoint,
    /// The value of the body, null for one that is no JSON. In a body with pieces, the lists of them lack those that all
    /// judgments pass over, and long texts of the others are shortened.
    pub(crate) outline: Value,
    /// The pieces, if they were recognized.
    pub(crate) pieces: Option<Pieces>,
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

/// The pieces of a body.
pub(crate) struct Pieces {
    pub(crate) body: Arc<PieceBody>,
    text: Bytes,
    /// The value of the whole text, once somebody needs it.
    whole: OnceLock<Value>,
    /// True if a part is no text; `None` if nobody had asked for the price.
    has_media: Option<bool>,
}

/// The parts of a gateway that parse bodies.
#[derive(Clone, Copy)]
pub(crate) struct BodyParser<'a> {
    pub(crate) endpoint: Endpoint,
    /// The client, whose pieces are known.
    pub(crate) client: &'a str,
    /// The unknown members at the top of a body that the operator accepts.
    pub(crate) accepted: &'a Arc<[String]>,
    /// True if the maximum price will be asked for.
    pub(crate) with_price: bool,
    pub(crate) max_values: usize,
    pub(crate) index: &'a PieceIndex,
    pub(crate) threads: &'a BodyThreads,
}

impl BodyParser<'_> {
    /// Parses a body. `held` is dropped when the text is parsed, even if the client has left before.
    ///
    /// # Errors
    /// The response to a client whose body has too many values.
    pub(crate) async fn parse(
        &self,
        text: Bytes,
        held: impl Send + 'static,
    ) -> Result<ParsedBody, ErrorBody> {
        let Self {
            endpoint,
            accepted,
            with_price,
            max_values,
            ..
        } = *self;
        let split = self.split(&text);
        let new_bytes = split.as_ref().map_or(text.len(), |split| split.new_bytes);
        let accepted = Arc::clone(accepted);
        let parse = move || {
            if let Some(split) = split {
                if split.values > max_values {
                    return Err(too_many(max_values));
                }
                let parsed = ParsedBody::of_pieces(endpoint, &split, &accepted, with_price);
                if let Some(parsed) = parsed {
                    return Ok(parsed);
                }
            }
            // A text has no more values than bytes.
            if text.len() > max_values && values(&text) > max_values {
                return Err(too_many(max_values));
            }
            Ok(ParsedBody::of(endpoint, &text, accepted))
        };
        let parsed = if new_bytes < LARGE {
            parse()
        } else {
            self.threads.run(held, parse).await?
        }?;
        if let Some(pieces) = &parsed.pieces {
            self.index.keep(self.client, endpoint, &pieces.body);
        }
        Ok(parsed)
    }

    fn split(&self, text: &Bytes) -> Option<Split> {
        if text.len() < MIN_BODY {
            return None;
        }
        let recent = self.index.recent(self.client, self.endpoint);
        Split::read(text, &recent)
    }
}

fn too_many(max_values: usize) -> ErrorBody {
    ErrorBody::too_large(format!("the body has more than {max_values} JSON values"))
}

impl ParsedBody {
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
            outline: value,
            pieces: None,
            object_reference,
            extra_charge: OnceLock::new(),
        }
    }

    /// Parses what is new in a body; `None` if only the whole text can be judged.
    pub(crate) fn of_pieces(
        endpoint: Endpoint,
        split: &Split,
        accepted: &Arc<[String]>,
        with_price: bool,
    ) -> Option<Self> {
        let judging = Judging {
            endpoint,
            accepted,
            with_price,
        };
        let judged = pieces::judge(split, &judging)?;
        let object_reference = judged.object_reference.map(OnceLock::from);
        Some(Self {
            endpoint,
            outline: judged.outline,
            pieces: Some(Pieces {
                body: Arc::new(judged.body),
                text: split.text.clone(),
                whole: OnceLock::new(),
                has_media: judged.has_media,
            }),
            form_members: judged.form_members,
            canonical: Ok(judged.canonical),
            cacheability: judged.cacheability,
            accepted: Arc::clone(accepted),
            object_reference: object_reference.unwrap_or_default(),
            extra_charge: OnceLock::new(),
        })
    }

    /// Returns the value of the whole body.
    pub(crate) fn value(&self) -> &Value {
        match &self.pieces {
            None => &self.outline,
            Some(pieces) => {
                let parse = || serde_json::from_slice(&pieces.text).unwrap_or_default();
                pieces.whole.get_or_init(parse)
            }
        }
    }

    /// Returns the digest of the beginning of the conversation.
    pub(crate) fn beginning(&self) -> Option<Digest> {
        let of_outline = || self.endpoint.beginning(&self.outline);
        let Some(pieces) = &self.pieces else {
            return of_outline();
        };
        // The first items up to the message by which a conversation is recognized.
        let inputs = &self.endpoint.members()?.inputs;
        let Some((name, items)) = inputs.first().and_then(|name| pieces.body.items(name)) else {
            return of_outline();
        };
        let mut values = items.map(|bytes| serde_json::from_slice(bytes).unwrap_or_default());
        values.find_map(|item: Value| {
            let alone = Value::from_iter([(name, Value::from(vec![item]))]);
            self.endpoint.beginning(&alone)
        })
    }

    /// Returns a value of the body by which its price is judged, but for [`ParsedBody::has_media`].
    pub(crate) fn priced(&self) -> &Value {
        match &self.pieces {
            Some(pieces) if pieces.has_media.is_none() => self.value(),
            _ => &self.outline,
        }
    }

    /// Returns true if a part of the request is no text.
    pub(crate) fn has_media(&self) -> bool {
        let known = self.pieces.as_ref().and_then(|pieces| pieces.has_media);
        known.unwrap_or_else(|| self.endpoint.has_media(self.value()))
    }

    /// Returns the name of a member that refers to an object at the provider.
    pub(crate) fn object_reference(&self) -> Option<&str> {
        let find = || {
            self.endpoint
                .object_reference(&self.outline, Setting::Anywhere)
        };
        self.object_reference.get_or_init(find).as_deref()
    }

    /// Returns the reason why the cost of the request depends on more than its tokens.
    pub(crate) fn extra_charge(&self) -> Option<&str> {
        let find = || self.endpoint.extra_charge(self.priced());
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
        let (threads, index) = (BodyThreads::new(), PieceIndex::default());
        let accepted = Arc::default();
        let parse = |text: &Bytes, max_values| {
            let (text, threads, index, accepted) = (text.clone(), &threads, &index, &accepted);
            async move {
                let parser = BodyParser {
                    endpoint: Endpoint::chat(),
                    client: "client",
                    accepted,
                    with_price: false,
                    max_values,
                    index,
                    threads,
                };
                parser.parse(text, ()).await
            }
        };
        let text = Bytes::from(format!("[{}]", "[],".repeat(100)));
        assert!(parse(&text, 50).await.is_err());
        let malformed = parse(&text, 500).await;
        assert!(
            malformed.is_ok_and(|parsed| parsed.canonical.is_err() && parsed.outline.is_null())
        );
        let large = Bytes::from(format!(r#"{{"a": "{}"}}"#, "x".repeat(2 * LARGE)));
        assert!(parse(&large, 1).await.is_err());
        let large = parse(&large, 500).await;
        assert!(large.is_ok_and(|parsed| parsed.canonical.is_ok() && parsed.outline.is_object()));
    }
}
