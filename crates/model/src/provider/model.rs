//! One model, resolved and ready.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use cachalot_core::{Clock, Cost, DigestKey};
use cachalot_storage::HttpClient;
use cachalot_storage::header::HeaderName;
use serde_json::Value;
use url::Url;

use super::address;
use super::cloud::{Cloud, Credentials};
use super::identity::Header;
use super::key::{self, Key};
use super::settings::Timeouts;
use crate::catalog::{Capabilities, Limits, Price};
use crate::client::{self, Pauses};
use crate::comparison::Comparison;
use crate::error::{Error, ErrorKind};
use crate::routing::RequestRates;
use crate::wire::Wire;
use crate::{Delta, Format, Marking, MediaLimits, Parameters, Reply, Usage};

/// A model, resolved and ready to be asked. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Model {
    shared: Arc<Resolved>,
}

/// All that is known of a model.
#[derive(Clone)]
pub(crate) struct Resolved {
    pub(crate) provider: String,
    /// The base URL.
    pub(crate) base: Url,
    /// True if that is an address of the provider itself (or named by its environment variable), or of
    /// this machine.
    pub(crate) is_direct: bool,
    /// The base URL as it may be shown.
    pub(crate) shown: String,
    /// Where requests go that ask for a whole answer.
    pub(crate) url: Url,
    /// Where requests go that ask for a stream.
    pub(crate) stream_url: Url,
    pub(crate) format: Format,
    /// The format in keys: the configured one, or the one of the provider's servers. Not the one that
    /// was chosen by what the model accepts, so that keys outlive that choice.
    pub(crate) keyed_format: Format,
    /// True if `format` is configured.
    pub(crate) is_format_fixed: bool,
    /// The provider under which the model is in the catalog.
    pub(crate) catalog_provider: String,
    pub(crate) capabilities: Capabilities,
    /// True if Chat Completions refuses requests with tools, with the configured effort.
    pub(crate) refuses_tools_in_chat: bool,
    pub(crate) key: Key,
    pub(crate) key_header: HeaderName,
    pub(crate) headers: Vec<Header>,
    pub(crate) parameters: Parameters,
    pub(crate) limits: Limits,
    /// How the provider takes cache markers.
    pub(crate) marking: &'static Marking,
    /// Images and texts that the provider takes.
    pub(crate) media: &'static MediaLimits,
    pub(crate) price: Option<Price>,
    pub(crate) time: TimeLimits,
    pub(crate) retries: u32,
    /// Whether a try that exceeded `timeouts.total` is repeated, although it may be charged: only if
    /// `retries` is configured.
    pub(crate) repeats_timeouts: bool,
    pub(crate) http: HttpClient,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) pauses: Arc<dyn Pauses>,
    pub(crate) rates: Arc<RequestRates>,
    pub(crate) digests: Arc<OnceLock<DigestKey>>,
    /// The cloud platform that serves the model.
    pub(crate) cloud: Option<Cloud>,
    /// Credentials that authorize each request, in place of a key.
    pub(crate) credentials: Option<Credentials>,
    /// Models to ask in its place, by the names under which they are configured.
    pub(crate) fallbacks: Vec<(String, Model)>,
}

/// How long is waited for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeLimits {
    pub(crate) connect: Duration,
    pub(crate) first_byte: Duration,
    pub(crate) idle: Duration,
    pub(crate) total: Option<Duration>,
}

impl TimeLimits {
    pub(super) fn of(said: &Timeouts) -> Self {
        // A usual limit does not end a try that may take longer.
        let least = said
            .total
            .map_or(Duration::ZERO, |total| total + Duration::from_secs(1));
        let usual = |seconds| Duration::from_secs(seconds).max(least);
        Self {
            connect: said.connect.unwrap_or(Duration::from_secs(10)),
            first_byte: said.first_byte.unwrap_or_else(|| usual(600)),
            idle: said.idle.unwrap_or_else(|| usual(120)),
            total: said.total,
        }
    }
}

impl Resolved {
    /// How often a request is sent again, unless said.
    pub(super) const RETRIES: u32 = 2;

    /// Whether the headers carry credentials of their own, so that no key is added.
    pub(crate) fn authorizes_itself(&self) -> bool {
        self.headers
            .iter()
            .any(|header| header.name == self.key_header)
    }
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
    pub(super) fn of(resolved: Resolved) -> Self {
        Self {
            shared: Arc::new(resolved),
        }
    }

    /// The provider's name.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.shared.provider
    }

    /// The model's name as the provider knows it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.parameters.model
    }

    /// The rules of its format, with cache markers where the provider takes some.
    #[must_use]
    pub fn wire(&self) -> &'static dyn Wire {
        let Resolved {
            format,
            marking,
            capabilities,
            cloud,
            ..
        } = &*self.shared;
        match format {
            Format::Messages => crate::wire::anthropic::on(*cloud, capabilities),
            Format::Gemini => crate::wire::gemini::for_model(self.name()),
            format => crate::wire::for_model(*format, marking, capabilities),
        }
    }

    /// The rules of the format that keys are made of, if that is not the format in which the model is
    /// asked: `format` is not configured, and the model's capabilities decided.
    #[must_use]
    pub fn keyed_wire(&self) -> Option<&'static dyn Wire> {
        let format = self.shared.keyed_format;
        if format == self.shared.format {
            return None;
        }
        let marking = Marking::find(&self.shared.catalog_provider, self.name(), format);
        Some(crate::wire::marked(format, marking))
    }

    /// The requests of the last minute, of all models of these [`Models`](super::Models).
    #[must_use]
    pub fn rates(&self) -> &RequestRates {
        &self.shared.rates
    }

    /// The requests that the model accepts, by the catalog.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        &self.shared.capabilities
    }

    /// Returns the model for requests with tools, or without.
    ///
    /// Models that refuse tools with an effort in Chat Completions are asked in the Responses format.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`]: the model refuses tools in the format that is configured.
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

    /// Returns the model in the format of a stored session, whose requests are continued byte for byte:
    /// this model if `format` is configured, or if the stored format is not another one of OpenAI's two
    /// that the model accepts.
    #[must_use]
    pub fn continuing(&self, stored: Format) -> Self {
        let is_openai = |format| matches!(format, Format::Chat | Format::Responses);
        let keeps = !self.shared.is_format_fixed
            && stored != self.shared.format
            && is_openai(stored)
            && is_openai(self.shared.format)
            && self.shared.capabilities.takes(stored) != Some(false);
        match keeps {
            true => self.in_format(stored),
            false => self.clone(),
        }
    }

    /// The same model in the other one of OpenAI's formats.
    fn in_format(&self, format: Format) -> Self {
        let shared = &self.shared;
        let provider = &shared.catalog_provider;
        let path = crate::wire::of(format).path();
        let url = address::endpoint(&shared.base, format, path);
        Self::of(Resolved {
            url: url.clone(),
            stream_url: url,
            marking: Marking::find(provider, self.name(), format),
            media: MediaLimits::find(provider, format),
            format,
            ..(**shared).clone()
        })
    }

    /// Returns how its provider is asked to compare a request with an earlier one; `None` if it does not
    /// compare, or if a `base_url` of the file leads elsewhere.
    #[must_use]
    pub fn comparison(&self) -> Option<Comparison> {
        let Resolved {
            provider,
            format,
            marking,
            is_direct,
            ..
        } = &*self.shared;
        Comparison::find(provider, *format, marking).filter(|_| *is_direct)
    }

    /// How its provider takes cache markers.
    #[must_use]
    pub fn marking(&self) -> &'static Marking {
        self.shared.marking
    }

    /// Returns the limits of its provider on images and texts.
    #[must_use]
    pub fn media(&self) -> &'static MediaLimits {
        self.shared.media
    }

    /// Where the provider is, fit to be shown: what is secret in it is masked.
    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.shared.shown
    }

    /// What the configuration says of a request; the model's name is set.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.shared.parameters
    }

    /// The same model with other parameters. Its name stays: limits and price are of this model.
    #[must_use]
    pub fn with_parameters(&self, parameters: Parameters) -> Self {
        Self::of(Resolved {
            parameters: Parameters {
                model: self.name().to_owned(),
                ..parameters
            },
            ..(*self.shared).clone()
        })
    }

    /// Returns the models to ask, in this order, when this one fails with an error that
    /// [may pass](Error::retryable) and before anything of its answer was shown; with the names under
    /// which they are configured. No part of [`Model::identity`]: the model that answers is the one
    /// whose answer it is. A fallback has none itself.
    pub fn fallbacks(&self) -> impl ExactSizeIterator<Item = (&str, &Self)> {
        let fallbacks = self.shared.fallbacks.iter();
        fallbacks.map(|(name, model)| (name.as_str(), model))
    }

    pub(super) fn with_fallbacks(self, fallbacks: Vec<(String, Self)>) -> Self {
        if fallbacks.is_empty() {
            return self;
        }
        Self::of(Resolved {
            fallbacks,
            ..(*self.shared).clone()
        })
    }

    /// Whether requests to both go to the same model at the same place.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        let of = |model: &Self| {
            let Resolved {
                provider,
                base,
                format,
                ..
            } = &*model.shared;
            (provider.clone(), base.clone(), *format)
        };
        self.name() == other.name() && of(self) == of(other)
    }

    /// Returns whether requests to both carry the same key. Providers cache apart for each account.
    #[must_use]
    pub fn has_same_key_as(&self, other: &Self) -> bool {
        match (&self.shared.key, &other.shared.key) {
            (Key::Given { secret: one, .. }, Key::Given { secret: other, .. }) => {
                one.expose() == other.expose()
            }
            (Key::Missing(one), Key::Missing(other)) => one == other,
            (Key::None { .. }, Key::None { .. }) => true,
            _ => false,
        }
    }

    /// How much it takes.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// What it costs; `None` if nobody knows.
    #[must_use]
    pub fn price(&self) -> Option<&Price> {
        self.shared.price.as_ref()
    }

    /// What it has spared that the provider read input from its own cache: what the answer would have
    /// cost otherwise, less what it cost.
    #[must_use]
    pub fn spared(&self, usage: &Usage) -> Cost {
        let unread = Usage {
            uncached_input: usage.uncached_input.saturating_add(usage.cache_read),
            cache_read: 0,
            ..*usage
        };
        let (whole, paid) = (self.cost(&unread), self.cost(usage));
        Cost::of_picodollars(whole.picodollars.saturating_sub(paid.picodollars))
    }

    /// What an answer cost: [`Cost::UNPRICED`] if nobody knows the price, never 0 for that reason.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Cost {
        match &self.shared.price {
            Some(price) => price.of(usage),
            None => Cost::UNPRICED,
        }
    }

    /// What an answer cost: as of [`Model::cost`], and unpriced if it does not say what it used.
    #[must_use]
    pub fn cost_of(&self, reply: &Reply) -> Cost {
        reply
            .usage
            .as_ref()
            .map_or(Cost::UNPRICED, |usage| self.cost(usage))
    }

    /// What of the configuration changes an answer, for keys: the provider, the base URL, the format,
    /// the parameters and the headers. Not the key, on which answers do not depend; not time limits,
    /// retries and prices.
    ///
    /// Values of headers may be secrets, and different values may mean different answers. So those of
    /// headers that are meant to be seen (`anthropic-beta`, `openai-organization`, …) stand there as
    /// they are, all others as HMAC-SHA-256 under the key given to
    /// [`Models::digesting_under`](super::Models::digesting_under), which lets nobody test guesses.
    /// Without such a key they are digested under one that ends with these [`Models`](super::Models):
    /// then no other process ever finds anything under the identity. The same goes for secrets in the
    /// query of a base URL.
    #[must_use]
    pub fn identity(&self) -> Value {
        self.shared.identity()
    }

    /// Whether it can be asked, as far as can be known without asking.
    ///
    /// # Errors
    /// [`ErrorKind::Unauthorized`]: the key's environment variable is not set; it is named.
    pub fn ready(&self) -> Result<(), Error> {
        match &self.shared.key {
            Key::Missing(variable) if !self.shared.authorizes_itself() => {
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

    /// Sends a body and gives the whole answer. What can be tried again is tried again.
    ///
    /// # Errors
    /// What went wrong with the last try; see [`ErrorKind`].
    pub async fn ask(&self, body: Bytes) -> Result<Reply, Error> {
        self.ready()?;
        client::exchange(&self.shared, body, client::Mode::Whole, &mut |_| {}).await
    }

    /// Sends a body that asks for a stream; the pieces come through `on`, the whole at the end. What
    /// can be tried again is tried again until the first byte of an answer has come. Dropping the
    /// future closes the connection.
    ///
    /// A provider that answers in one piece although a stream was asked for is understood.
    ///
    /// # Errors
    /// What went wrong with the last try; see [`ErrorKind`]. Pieces may have come through `on` before.
    pub async fn stream(
        &self,
        body: Bytes,
        on: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Reply, Error> {
        self.ready()?;
        client::exchange(&self.shared, body, client::Mode::Stream, on).await
    }
}
