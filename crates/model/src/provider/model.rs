//! A resolved model.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use cachalot_core::Cost;
use serde_json::Value;

use super::accepted;
use super::client;
use super::key::{self, ProviderKey};
use super::resolved_model::ResolvedModel;
use super::server_tools;
use crate::Price;
use crate::catalog::ModelLimits;
use crate::error::{Error, ErrorKind};
use crate::routing::RequestRates;
use crate::wire::embeddings::Embeddings;
use crate::wire::{FormatWire, Wire, for_format, requested_terms};
use crate::{AcceptedToolChanges, Capabilities, Charge, ComparisonParameter};
use crate::{Delta, Format, MarkerRules, MediaLimits, Parameters, Reply, Usage};
use crate::{Terms, Unpriced, price};

/// The parameter by which a provider changes a conversation before it reads it.
const CONTEXT_MANAGEMENT: &str = "context_management";

/// A resolved model that can be called. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Model {
    shared: Arc<ResolvedModel>,
    /// Fallback models, by the names under which they are configured.
    fallbacks: Arc<[(String, Self)]>,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("provider", &self.provider())
            .field("name", &self.name())
            .field("base_url", &self.base_url())
            .field("format", &self.shared.format)
            .finish_non_exhaustive()
    }
}

impl Model {
    pub(super) fn new(resolved: ResolvedModel) -> Self {
        Self {
            shared: Arc::new(resolved),
            fallbacks: Arc::default(),
        }
    }

    /// Returns the model with another state and the same fallbacks.
    fn with_state(&self, resolved: ResolvedModel) -> Self {
        Self {
            shared: Arc::new(resolved),
            fallbacks: Arc::clone(&self.fallbacks),
        }
    }

    /// Returns the provider's name.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.shared.provider
    }

    /// Returns the model's name at its provider.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.parameters.model
    }

    /// Returns the wire format of the model, with cache markers if the provider accepts them.
    #[must_use]
    pub fn wire(&self) -> &dyn Wire {
        &*self.shared.wire
    }

    /// Returns the wire format of the keys, if it differs from the format of the requests: `format` is not
    /// configured, and the model's capabilities decided.
    #[must_use]
    pub fn keyed_wire(&self) -> Option<FormatWire> {
        let format = self.shared.keyed_format;
        if format == self.shared.format {
            return None;
        }
        let marker_rules = MarkerRules::find(&self.shared.catalog_provider, self.name(), format);
        Some(FormatWire::marked(format, marker_rules))
    }

    /// Returns the requests of the last minute, shared by all models of these [`Models`](super::Models).
    #[must_use]
    pub fn rates(&self) -> &RequestRates {
        &self.shared.rates
    }

    /// Returns the model's capabilities from the catalog.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        &self.shared.capabilities
    }

    /// Returns the model for requests with or without tools.
    ///
    /// Models that refuse tools with an effort in Chat Completions are called in the Responses format.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`]: the model refuses tools in the configured format.
    pub fn for_tools(&self, has_tools: bool) -> Result<Self, Error> {
        let refused =
            has_tools && self.shared.format == Format::Chat && self.shared.refuses_tools_in_chat;
        if !refused {
            return Ok(self.clone());
        }
        if self.shared.is_format_fixed {
            let message = format!(
                "{}/{} takes no tools together with a reasoning effort in Chat Completions: write `format: responses`, or `reasoning_effort: none`",
                self.provider(),
                self.name()
            );
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        Ok(self.in_format(Format::Responses))
    }

    /// Returns the model in the format of a stored session, whose requests are continued byte for byte.
    /// Returns this model if `format` is configured, or unless the stored format is the other one of
    /// OpenAI's two and the model accepts it.
    #[must_use]
    pub fn continuing(&self, stored: Format) -> Self {
        let is_openai = |format| matches!(format, Format::Chat | Format::Responses);
        let keeps = !self.shared.is_format_fixed
            && stored != self.shared.format
            && is_openai(stored)
            && is_openai(self.shared.format)
            && self.shared.capabilities.takes(stored) != Some(false);
        if keeps {
            self.in_format(stored)
        } else {
            self.clone()
        }
    }

    /// Returns the same model in the other one of OpenAI's formats.
    fn in_format(&self, format: Format) -> Self {
        let shared = &self.shared;
        let provider = &shared.catalog_provider;
        let url = for_format(format).url(&shared.base, self.name(), false);
        let mut parameters = shared.parameters.clone();
        accepted::adapt(
            &mut parameters,
            shared.api_owner,
            format,
            &shared.capabilities,
        );
        if for_format(format).compaction(None).is_none() {
            parameters.extra.shift_remove(CONTEXT_MANAGEMENT);
        }
        let marker_rules = MarkerRules::find(provider, self.name(), format);
        self.with_state(ResolvedModel {
            parameters,
            url: url.clone(),
            stream_url: url,
            wire: FormatWire::marked(format, marker_rules),
            marker_rules,
            media: MediaLimits::find(provider, format),
            format,
            ..(**shared).clone()
        })
    }

    /// Returns the parameter by which its provider compares a request with an earlier one; `None` if it
    /// does not compare, or if the address is neither the provider's own nor this machine.
    #[must_use]
    pub fn comparison(&self) -> Option<ComparisonParameter> {
        let model = &*self.shared;
        let found = ComparisonParameter::find(&model.provider, model.format, model.marker_rules);
        found.filter(|_| model.is_direct)
    }

    /// Returns the same model, whose provider summarizes conversations that fill more than this part of the context
    /// window; a `context_management` of the user stays. `None` if the provider has no such parameter in this format, or
    /// the address is neither its own nor this machine.
    #[must_use]
    pub fn compacting_above(&self, part: f64) -> Option<Self> {
        let model = &*self.shared;
        let is_known = ["anthropic", "openai"].contains(&model.catalog_provider.as_str());
        if !is_known || !model.is_direct || model.cloud.is_some() {
            return None;
        }
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of a number of tokens, which a float can count"
        )]
        let tokens = |window: u64| (window as f64 * part.clamp(0.0, 1.0)) as u64;
        let value = self.wire().compaction(model.limits.context.map(tokens))?;
        let mut parameters = model.parameters.clone();
        let extra = &mut parameters.extra;
        extra.entry(CONTEXT_MANAGEMENT).or_insert(value);
        Some(self.with_parameters(parameters))
    }

    /// Returns true if requests let the provider summarize the conversation.
    #[must_use]
    pub fn is_compacting(&self) -> bool {
        // The types of these entries begin so in both formats.
        let value = self.parameters().extra.get(CONTEXT_MANAGEMENT);
        value.is_some_and(|value| value.to_string().contains(r#""type":"compact"#))
    }

    /// Returns the changes of tools that the model accepts within a conversation; `None` if it accepts none, or if the
    /// address is neither the provider's own nor this machine.
    #[must_use]
    pub fn tool_changes(&self) -> Option<AcceptedToolChanges> {
        let found = self.wire().tool_changes(self.provider(), self.name());
        found.filter(|_| self.shared.is_direct)
    }

    /// Returns true if the model is known to accept another effort within a conversation, and the address is the
    /// provider's own or this machine.
    #[must_use]
    pub fn accepts_effort_changes(&self) -> bool {
        let model = &*self.shared;
        model.is_direct
            && self
                .wire()
                .accepts_effort_changes(&model.provider, self.name())
    }

    /// Returns the provider's rules for cache markers.
    #[must_use]
    pub fn marker_rules(&self) -> &'static MarkerRules {
        self.shared.marker_rules
    }

    /// Returns the provider's limits on images and texts.
    #[must_use]
    pub fn media(&self) -> &'static MediaLimits {
        self.shared.media
    }

    /// Returns the base URL with secrets masked.
    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.shared.shown
    }

    /// Returns the configured parameters of requests; the model's name is set.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.shared.parameters
    }

    /// Returns the same model with other parameters. The model's name is kept, because limits and price
    /// belong to it.
    #[must_use]
    pub fn with_parameters(&self, parameters: Parameters) -> Self {
        self.with_state(ResolvedModel {
            parameters: Parameters {
                model: self.name().to_owned(),
                ..parameters
            },
            ..(*self.shared).clone()
        })
    }

    /// Returns the fallbacks with the names under which they are configured. They are called in this order
    /// when this model fails with a [retryable error](Error::retryable) before any part of its answer was
    /// shown. They are not part of [`Model::identity`]: an answer belongs to the model that produced it. A
    /// fallback has no fallbacks.
    pub fn fallbacks(&self) -> impl ExactSizeIterator<Item = (&str, &Self)> {
        let fallbacks = self.fallbacks.iter();
        fallbacks.map(|(name, model)| (name.as_str(), model))
    }

    /// Returns the configured options by which the provider may run tools by itself, such as `mcp_servers`
    /// and `web_search_options`; sorted. Unknown options count, unless they are numbers, `false` or null.
    ///
    /// A model that searches with every answer without an option for it (Perplexity's) is not recognized.
    #[must_use]
    pub fn server_tools(&self) -> Vec<String> {
        let mut found = server_tools::options(self.name(), &self.parameters().extra);
        // A fallback may answer in place of this model.
        for (fallback, model) in self.fallbacks() {
            let of_fallback = model.server_tools().into_iter();
            found.extend(of_fallback.map(|option| format!("fallback {fallback}: {option}")));
        }
        found.sort();
        found
    }

    pub(super) fn with_fallbacks(self, fallbacks: Vec<(String, Self)>) -> Self {
        if fallbacks.is_empty() {
            return self;
        }
        Self {
            fallbacks: fallbacks.into(),
            ..self
        }
    }

    /// Returns true if requests to both go to the same model, address and format.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        let (own, theirs) = (&*self.shared, &*other.shared);
        self.name() == other.name()
            && own.provider == theirs.provider
            && own.base == theirs.base
            && own.format == theirs.format
    }

    /// Returns whether requests to both carry the same key. Providers keep a separate cache for each
    /// account.
    #[must_use]
    pub fn has_same_key_as(&self, other: &Self) -> bool {
        match (&self.shared.key, &other.shared.key) {
            (
                ProviderKey::Present { secret: one, .. },
                ProviderKey::Present { secret: other, .. },
            ) => one.expose() == other.expose(),
            (ProviderKey::Missing(one), ProviderKey::Missing(other)) => one == other,
            (ProviderKey::None { .. }, ProviderKey::None { .. }) => true,
            _ => false,
        }
    }

    /// Returns the model's limits.
    #[must_use]
    pub fn limits(&self) -> &ModelLimits {
        &self.shared.limits
    }

    /// Returns the model's price; `None` if unknown.
    #[must_use]
    pub fn price(&self) -> Option<&Price> {
        self.shared.price.as_ref()
    }

    /// Returns the savings by the provider's prompt cache: the cost of the answer with no input read from
    /// the cache, less its actual cost.
    #[must_use]
    pub fn saved_cost(&self, reply: &Reply) -> Cost {
        let Some(usage) = reply.usage else {
            return Cost::default();
        };
        let unread = Usage {
            uncached_input: usage.uncached_input.saturating_add(usage.cache_read),
            cache_read: 0,
            ..usage
        };
        let terms = self.terms(reply, self.parameters());
        let [whole, paid] = [unread, usage].map(|usage| self.price_of(&usage, &terms));
        match (whole, paid) {
            (Ok(whole), Ok(paid)) => {
                Cost::from_picodollars(whole.picodollars.saturating_sub(paid.picodollars))
            }
            _ => Cost::default(),
        }
    }

    /// Returns the cost of tokens at the standard terms; [`Cost::UNPRICED`], never 0, if the price is unknown.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Cost {
        let terms = self.own_terms();
        self.price_of(usage, &terms).unwrap_or(Cost::UNPRICED)
    }

    /// Like [`Model::charge`]; the cost alone, unpriced if a part of it is not known.
    #[must_use]
    pub fn cost_of(&self, reply: &Reply) -> Cost {
        self.charge(reply, self.parameters()).cost()
    }

    /// Returns the tokens and the price of an answer to a request with these parameters: by the tier, geography and
    /// speed of the answer, or of the request if the answer names none.
    #[must_use]
    pub fn charge(&self, reply: &Reply, sent: &Parameters) -> Charge {
        let terms = self.terms(reply, sent);
        let at = self.shared.clock.now();
        let usages = self.wire().usages(reply);
        Charge::new(&usages, &terms, at, |other| match other {
            None => (self.name(), self.price()),
            Some(name) => (name, self.listed_price(name)),
        })
    }

    fn terms(&self, reply: &Reply, sent: &Parameters) -> Terms {
        let of_answer = self.wire().terms(reply);
        of_answer
            .or(requested_terms(&sent.extra))
            .or(self.own_terms())
    }

    /// Returns the terms of every answer at this address.
    fn own_terms(&self) -> Terms {
        Terms {
            host: self.shared.priced_host.clone(),
            ..Terms::default()
        }
    }

    fn price_of(&self, usage: &Usage, terms: &Terms) -> Result<Cost, Unpriced> {
        let at = self.shared.clock.now();
        price(usage, self.name(), self.price(), at, terms)
    }

    /// Returns the price of another model of the same provider.
    fn listed_price(&self, name: &str) -> Option<&Price> {
        let catalog = &self.shared.catalog;
        let listed = catalog.find(&self.shared.catalog_provider, name);
        let listed = listed.or_else(|| catalog.find_by_name(name))?;
        listed.price.as_ref()
    }

    /// Returns the part of the configuration that changes answers, for keys: the provider, the base URL,
    /// the format, the parameters and the headers. The API key, timeouts, retries and prices are not
    /// included, because answers do not depend on them.
    ///
    /// Header values may be secrets, and different values may mean different answers. Values of public
    /// headers (`anthropic-beta`, `openai-organization`, …) are included in clear text, all others as
    /// HMAC-SHA-256 under the key given to [`Models::with_digest_key`](super::Models::with_digest_key),
    /// which prevents guessing. If no key was given, they are digested under an ephemeral key of these
    /// [`Models`](super::Models); no other process can then find an entry under the identity. The same
    /// applies to secrets in the query of a base URL.
    #[must_use]
    pub fn identity(&self) -> Value {
        self.shared.identity()
    }

    /// Checks that the model can be called, without sending a request.
    ///
    /// # Errors
    /// [`ErrorKind::Unauthorized`]: the key's environment variable, which the message names, is not set.
    pub fn ready(&self) -> Result<(), Error> {
        match &self.shared.key {
            ProviderKey::Unset(variable) => {
                let mut error = Error::new(ErrorKind::Configuration, key::unset(variable));
                error.provider = Some(self.shared.provider.clone());
                Err(error)
            }
            ProviderKey::Missing(variable) if !self.shared.authorizes_itself() => {
                let missing = match self.shared.cloud {
                    Some(cloud) => cloud.missing().to_owned(),
                    None => key::missing(variable),
                };
                let mut error = Error::new(ErrorKind::Unauthorized, missing);
                error.provider = Some(self.shared.provider.clone());
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Returns the vectors of texts, with an embedding model of a server with OpenAI's Embeddings. Retries failures that
    /// may be retried.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`]: the format of the model has no embeddings. Otherwise the error of the last attempt;
    /// see [`ErrorKind`].
    pub async fn embed(&self, texts: &[String]) -> Result<Embeddings, Error> {
        self.ready()?;
        if !matches!(self.shared.format, Format::Chat | Format::Responses) {
            let message = format!(
                "{}/{} makes no embeddings in the format of its provider: take a model of a server with OpenAI's API, such as `openai/text-embedding-3-small`",
                self.provider(),
                self.name()
            );
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        client::embed(&self.shared, texts).await
    }

    /// Sends a body and returns the whole answer. Retries failures that may be retried.
    ///
    /// # Errors
    /// The error of the last attempt; see [`ErrorKind`].
    pub async fn ask(&self, body: Bytes) -> Result<Reply, Error> {
        self.ready()?;
        client::exchange(&self.shared, body, client::DeliveryMode::Whole, &mut |_| {}).await
    }

    /// Asks this model, and after [retryable errors](Error::retryable) its fallbacks, one after the other. `body` renders
    /// the request for a model; an error of it counts as one of the model. Returns the model that answered.
    ///
    /// # Errors
    /// The error of this model, with those of the fallbacks.
    pub async fn ask_or_fallback(
        &self,
        body: impl Fn(&Self) -> Result<Bytes, Error>,
    ) -> Result<(&Self, Reply), Error> {
        let ask = async |model: &Self| model.ask(body(model)?).await;
        let mut error = match ask(self).await {
            Ok(reply) => return Ok((self, reply)),
            Err(error) if !error.retryable() => return Err(error),
            Err(error) => error,
        };
        for (name, fallback) in self.fallbacks() {
            match ask(fallback).await {
                Ok(reply) => return Ok((fallback, reply)),
                Err(of_fallback) => error = error.and_of_fallback(name, &of_fallback),
            }
        }
        Err(error)
    }

    /// Sends a body that asks for a stream. Deltas are passed to `on`; the whole answer is returned at the
    /// end. Failures that may be retried are retried until the first byte of an answer has arrived.
    /// Dropping the future closes the connection.
    ///
    /// A provider that sends a whole answer instead of a stream is supported.
    ///
    /// # Errors
    /// The error of the last attempt; see [`ErrorKind`]. `on` may have received deltas before.
    pub async fn stream(
        &self,
        body: Bytes,
        on: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Reply, Error> {
        self.ready()?;
        client::exchange(&self.shared, body, client::DeliveryMode::Stream, on).await
    }
}
