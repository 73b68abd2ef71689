//! Computes the tokens that requests read from and write to the providers' prompt caches: for the server,
//! and for callers without a server.

use std::fmt;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use cachalot_core::{Digest, Millis};
use serde_json::Value;

use crate::accounting::{self, Rules};
use crate::answer::InputTokens;
use crate::ids;
use crate::wire::anthropic::Threads;
use crate::wire::gemini::CachedContents;
use crate::wire::interactions::StoredInteractions;
use crate::wire::responses::StoredItems;
use crate::wire::{ApiError, Format, Prompt, ValidationContext};

/// The caches of both providers.
#[derive(Default)]
pub(crate) struct PromptCaches {
    anthropic: accounting::anthropic::ProviderCache,
    openai: accounting::openai::ProviderCache,
}

/// Token counts of a request; its cache writes take effect when its response begins.
pub(crate) enum Charge {
    Anthropic(accounting::anthropic::Charge),
    OpenAi(accounting::openai::Charge),
}

impl Charge {
    /// Raises the cached tokens to at least `tokens`, which are cached explicitly.
    pub(crate) fn with_cached(mut self, tokens: u64) -> Self {
        if let Self::OpenAi(charge) = &mut self {
            let usage = &mut charge.usage;
            usage.cached = usage.cached.max(tokens).min(usage.total);
        }
        self
    }
}

impl PromptCaches {
    /// Computes the charge of a prompt at the time `at`. If one route gets more than `most` requests a
    /// minute, the excess goes to the next machine.
    pub(crate) fn charge(
        &mut self,
        prompt: &Prompt,
        rules: &Rules,
        max_output: Option<u64>,
        at: Millis,
    ) -> Charge {
        match prompt {
            Prompt::Anthropic(prompt) => Charge::Anthropic(accounting::anthropic::charge(
                prompt,
                &rules.anthropic,
                &self.anthropic,
                at,
            )),
            Prompt::OpenAi(prompt) => {
                let machine = self.openai.route(prompt, max_output, at);
                Charge::OpenAi(accounting::openai::charge(
                    prompt,
                    &rules.openai,
                    &self.openai,
                    machine,
                    at,
                ))
            }
        }
    }

    /// Applies the cache writes of a request, when its response begins.
    pub(crate) fn begin(&mut self, charge: &Charge) {
        match charge {
            Charge::Anthropic(charge) => self.anthropic.begin(charge),
            Charge::OpenAi(charge) => self.openai.begin(charge),
        }
    }
}

impl From<&Charge> for InputTokens {
    fn from(charge: &Charge) -> Self {
        match charge {
            Charge::Anthropic(charge) => Self {
                uncached: charge.usage.uncached,
                read: charge.usage.read,
                written: charge.usage.written_5m,
                written_1h: charge.usage.written_1h,
                written_12h: 0,
            },
            Charge::OpenAi(charge) => Self {
                uncached: charge.usage.total - charge.usage.cached - charge.usage.written,
                read: charge.usage.cached,
                written: charge.usage.written,
                ..Self::default()
            },
        }
    }
}

/// A request that the provider would refuse, with the provider's error message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRequest(pub String);

impl fmt::Display for RefusedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RefusedRequest {}

impl From<ApiError> for RefusedRequest {
    fn from(refusal: ApiError) -> Self {
        Self(refusal.message)
    }
}

/// Replaces the signatures and encrypted contents of reasoning by the simulator's own. Those of a real
/// provider cannot be verified here, and no price depends on them.
fn replace_signatures(body: &mut Value) {
    for items in ["input", "messages"] {
        let items = body.get_mut(items).and_then(Value::as_array_mut);
        for item in items.into_iter().flatten() {
            let sealed = item.get("encrypted_content").and_then(Value::as_str);
            // An encrypted content is twice as long as its text: halving the text keeps the length.
            let sealed = sealed.map(|text| &text[..text.floor_char_boundary(text.len() / 2)]);
            if let Some(sealed) = sealed.map(ids::encrypted) {
                item["encrypted_content"] = sealed.into();
            }
            let blocks = item.get_mut("content").and_then(Value::as_array_mut);
            for block in blocks.into_iter().flatten() {
                let thought = block.get("thinking").and_then(Value::as_str);
                if let Some(signature) = thought.map(ids::signature) {
                    block["signature"] = signature.into();
                }
                let reasoning = block.pointer_mut("/reasoningContent/reasoningText");
                if let Some(reasoning) = reasoning
                    && let Some(text) = reasoning.get("text").and_then(Value::as_str)
                {
                    reasoning["signature"] = ids::signature(text).into();
                }
            }
        }
    }
}

/// Validates the body of a request as the server does, except for references to earlier requests: for tests
/// whose server is not the simulator. `is_beta`: the request has the header `anthropic-beta`. Signatures
/// and encrypted reasoning are accepted unchecked.
///
/// # Errors
/// The provider would refuse the request.
pub fn check_request(format: Format, is_beta: bool, body: &[u8]) -> Result<(), RefusedRequest> {
    let mut headers = version();
    if is_beta {
        headers.insert("anthropic-beta", HeaderValue::from_static("any"));
    }
    let value = read(body)?;
    let validation = ValidationContext {
        headers: &headers,
        rules: &Rules::published(),
        namespace: Digest::sha256(&[]),
        accepts_unknown: false,
        by_model: true,
        items: &StoredItems::default(),
        threads: &Threads::default(),
        cached_contents: &CachedContents::default(),
        interactions: &StoredInteractions::default(),
        now: 0,
    };
    format.read(&value, &validation)?;
    Ok(())
}

/// Parses a body, with signatures of the simulator.
fn read(body: &[u8]) -> Result<Value, RefusedRequest> {
    let mut value = serde_json::from_slice(body)
        .map_err(|error| RefusedRequest(format!("the body is not JSON: {error}")))?;
    replace_signatures(&mut value);
    Ok(value)
}

/// Returns the header that Anthropic's clients send with every request.
fn version() -> HeaderMap {
    let name = HeaderName::from_static("anthropic-version");
    HeaderMap::from_iter([(name, HeaderValue::from_static("2023-06-01"))])
}

/// Computes the token counts of consecutive requests like the server, but without one: with the same
/// parsers, the same rules, and caches that are initially empty. All requests belong to one organization.
pub struct Accountant {
    rules: Rules,
    /// Headers that Anthropic's clients send with every request.
    headers: HeaderMap,
    prompt_caches: PromptCaches,
    items: StoredItems,
}

impl Accountant {
    /// Creates an accountant with these rules and empty caches.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            headers: version(),
            prompt_caches: PromptCaches::default(),
            items: StoredItems::default(),
        }
    }

    /// Computes the token counts of a request with this body that begins at `at`. Its response begins
    /// before the next request is sent, so the next request can read its cache writes. Each `namespace` has
    /// a separate cache. Unknown fields are accepted.
    ///
    /// # Errors
    /// The provider would refuse the request; the caches are not changed.
    pub fn account(
        &mut self,
        format: Format,
        body: &[u8],
        at: Millis,
        namespace: Digest,
    ) -> Result<InputTokens, RefusedRequest> {
        let value = read(body)?;
        // Requests that continue a thread or an interaction, or name a cached content, contain only the new
        // part: they are refused.
        let (threads, contents) = (Threads::default(), CachedContents::default());
        let interactions = StoredInteractions::default();
        let validation = ValidationContext {
            headers: &self.headers,
            rules: &self.rules,
            namespace,
            accepts_unknown: true,
            by_model: false,
            items: &self.items,
            threads: &threads,
            cached_contents: &contents,
            interactions: &interactions,
            now: at,
        };
        let request = format.read(&value, &validation)?;
        let charge = self
            .prompt_caches
            .charge(&request.prompt, &self.rules, None, at);
        self.prompt_caches.begin(&charge);
        Ok(InputTokens::from(&charge).with_long_writes(request.long_writes))
    }
}
