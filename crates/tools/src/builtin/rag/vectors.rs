//! Vectors of texts: requested from an embedding model once, and then read from the cache.

use std::sync::Arc;

use bytes::Bytes;
use cachalot_cache::{
    BeginResult, Cache, CacheMode, Call, CallKind, Failure, HitPolicy, Policy, RunPolicy,
    RunResult, Scope, SingleFlight, Ticket,
};
use cachalot_core::{Canonical, Digest, Spend};
use cachalot_model::{Error, Meter, Model};
use serde_json::json;

/// The name of the calls in keys and in the ledger.
const NAME: &str = "rag.embed";

/// The version of inputs and stored vectors: when it is raised, older ones are never found.
const FORMAT_VERSION: u32 = 1;

/// The characters of a token, for reservations of a budget.
const CHARACTERS_PER_TOKEN: usize = 3;

/// An embedding model with its cache and its budget.
pub struct Embedder {
    /// The embedding model.
    pub model: Model,
    /// Keeps the vectors.
    pub cache: Cache,
    /// The caching mode of the command line.
    pub mode: CacheMode,
    /// The callers that share vectors.
    pub scope: Scope,
    /// Counts what the vectors cost.
    pub meter: Meter,
    /// The length that the vectors must have.
    pub dimensions: Option<usize>,
}

impl Embedder {
    /// Returns one vector for each text: from the cache, or from one request.
    ///
    /// # Errors
    /// A message: the model failed, the budget is used up, or the cache is frozen and has no vectors.
    pub(super) async fn vectors(
        &self,
        texts: &[String],
        session: Option<Arc<str>>,
    ) -> Result<Vec<Vec<f32>>, String> {
        let input = self.input(texts);
        let call = Call {
            kind: CallKind::Tool,
            scope: &self.scope,
            name: NAME,
            input: &input,
        };
        let mut policy = Policy {
            hit: HitPolicy {
                mode: self.mode,
                session,
                ..HitPolicy::default()
            },
            run: RunPolicy {
                join: SingleFlight::Process,
                ..RunPolicy::default()
            },
        };
        loop {
            match self.cache.begin(&call, &policy).await {
                Err(miss) => return Err(miss.to_string()),
                Ok(BeginResult::Run(ticket)) => return self.request(texts, ticket).await,
                // The policy permits no stale entries.
                Ok(BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. }) => {
                    let stored = outcome.body.whole().await;
                    let decoded = stored.ok().and_then(|bytes| decode(&bytes, texts.len()));
                    match decoded {
                        Some(vectors) => return Ok(vectors),
                        None if self.mode == CacheMode::Frozen => {
                            return Err("frozen: the stored vectors cannot be read".to_owned());
                        }
                        // Vectors that cannot be decoded have to be replaced, and a run that failed is not shared.
                        None => {
                            policy.hit.mode = CacheMode::Refresh;
                            policy.run.join = SingleFlight::Off;
                        }
                    }
                }
            }
        }
    }

    /// Returns the input of a call. The texts are in it as digests: the ledger keeps inputs.
    fn input(&self, texts: &[String]) -> Canonical {
        let digests = texts
            .iter()
            .map(|text| Digest::sha256(text.as_bytes()).to_hex());
        let digests: Vec<String> = digests.collect();
        Canonical::value(&json!({
            "format": FORMAT_VERSION,
            "model": self.model.identity(),
            "dimensions": self.dimensions,
            "texts": digests,
        }))
    }

    async fn request(&self, texts: &[String], ticket: Ticket) -> Result<Vec<Vec<f32>>, String> {
        match self.paid(texts, &ticket).await {
            Ok((vectors, spent)) => {
                let product = RunResult::storable(encode(&vectors), spent);
                ticket.finish(product).await;
                Ok(vectors)
            }
            Err(error) => {
                let message = error.to_string();
                ticket.fail(Failure::new(error)).await;
                Err(message)
            }
        }
    }

    async fn paid(
        &self,
        texts: &[String],
        ticket: &Ticket,
    ) -> Result<(Vec<Vec<f32>>, Spend), Error> {
        let characters: usize = texts.iter().map(String::len).sum();
        let tokens = (characters / CHARACTERS_PER_TOKEN) as u64;
        let _reserved = self.meter.reserve(&self.model, tokens)?;
        let embeddings = self.model.embed(texts).await?;
        let usage = embeddings.usage;
        let cost = usage.map_or(cachalot_core::Cost::UNPRICED, |usage| {
            self.model.cost(&usage)
        });
        self.meter.record(usage.as_ref(), cost);
        let spent = Spend {
            input_tokens: usage.unwrap_or_default().total_input(),
            cost,
            ..Spend::for_call(ticket.elapsed())
        };
        let found = embeddings.vectors.first().map_or(0, Vec::len);
        if let Some(wanted) = self.dimensions.filter(|wanted| *wanted != found) {
            // It was paid for nevertheless.
            ticket.charge(spent);
            let message = format!(
                "{}/{} gives vectors of {found} numbers, and not of {wanted}: correct `vector_dimensions`",
                self.model.provider(),
                self.model.name()
            );
            return Err(Error::new(
                cachalot_model::ErrorKind::Configuration,
                message,
            ));
        }
        Ok((embeddings.vectors, spent))
    }
}

/// Encodes vectors: their numbers one after the other, in little-endian order.
fn encode(vectors: &[Vec<f32>]) -> Bytes {
    let numbers = vectors.iter().flatten();
    numbers.flat_map(|number| number.to_le_bytes()).collect()
}

/// Decodes `count` vectors of equal length.
fn decode(bytes: &[u8], count: usize) -> Option<Vec<Vec<f32>>> {
    let (numbers, rest) = bytes.as_chunks::<4>();
    let length = numbers.len().checked_div(count)?;
    if !rest.is_empty() || length == 0 || length * count != numbers.len() {
        return None;
    }
    let vector = |numbers: &[[u8; 4]]| numbers.iter().copied().map(f32::from_le_bytes).collect();
    Some(numbers.chunks(length).map(vector).collect())
}

/// Returns the cosine of the angle between two vectors; 0 for vectors of different lengths, and for one without a
/// direction.
pub(super) fn similarity(one: &[f32], other: &[f32]) -> f64 {
    if one.len() != other.len() {
        return 0.0;
    }
    let dot = |one: &[f32], other: &[f32]| -> f64 {
        let products = one.iter().zip(other);
        products.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let lengths = (dot(one, one) * dot(other, other)).sqrt();
    if lengths > 0.0 {
        dot(one, other) / lengths
    } else {
        0.0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn stored_vectors_are_read_back() {
        let vectors = vec![vec![1.0, -0.5, 3.25], vec![0.0, 1e-9, 7.0]];
        let bytes = encode(&vectors);
        assert_eq!(decode(&bytes, 2).unwrap(), vectors);
        for (bytes, count) in [(&bytes[..], 0), (&bytes, 4), (&bytes[1..], 2), (&[], 1)] {
            assert_eq!(decode(bytes, count), None, "{count}");
        }
    }

    #[test]
    fn similarity_is_the_cosine() {
        assert!((similarity(&[1.0, 1.0], &[2.0, 2.0]) - 1.0).abs() < 1e-9);
        assert!(similarity(&[1.0, 0.0], &[0.0, 2.0]).abs() < 1e-9);
        assert_eq!(similarity(&[0.0, 0.0], &[1.0, 1.0]), 0.0);
        assert_eq!(similarity(&[1.0], &[1.0, 1.0]), 0.0);
    }
}
