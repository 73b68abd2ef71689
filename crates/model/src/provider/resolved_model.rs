//! State of a resolved model: address, credentials, parameters and limits.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cachalot_core::{Clock, DigestKey, SecretSet};
use cachalot_storage::HttpClient;
use cachalot_storage::header::HeaderName;
use serde_json::{Map, Value, json};
use url::Url;

use super::configuration;
use super::credentials::Credentials;
use super::header::Header;
use super::key::{self, ProviderKey};
use super::retry_pause::{RetryLimits, RetryPauses};
use super::settings::Timeouts;
use crate::catalog::{Catalog, ModelLimits};
use crate::cloud::Cloud;
use crate::error::Error;
use crate::routing::RequestRates;
use crate::wire::{ApiOwner, FormatWire};
use crate::{Capabilities, Format, MarkerRules, MediaLimits, Parameters, Price, address};

/// State of a resolved model.
#[derive(Clone)]
pub(crate) struct ResolvedModel {
    pub(crate) provider: String,
    /// Base URL.
    pub(crate) base: Url,
    /// True if `base` is an address of the provider itself (or that of its environment variable), or of
    /// this machine.
    pub(crate) is_direct: bool,
    /// Base URL with secrets masked.
    pub(crate) shown: String,
    /// Endpoint for whole answers.
    pub(crate) url: Url,
    /// Endpoint for streams.
    pub(crate) stream_url: Url,
    pub(crate) format: Format,
    pub(crate) wire: FormatWire,
    /// Format in keys: the configured format, or that of the provider's servers. Independent of a choice by
    /// the model's capabilities, so that keys survive a change of that choice.
    pub(crate) keyed_format: Format,
    /// True if `format` is configured.
    pub(crate) is_format_fixed: bool,
    /// Prices of all models: another one than the model may have answered.
    pub(crate) catalog: Catalog,
    /// Name of the provider under which the catalog lists the model.
    pub(crate) catalog_provider: String,
    /// The provider whose own API answers.
    pub(crate) api_owner: ApiOwner,
    pub(crate) capabilities: Capabilities,
    /// True if Chat Completions refuses requests with tools, with the configured effort.
    pub(crate) refuses_tools_in_chat: bool,
    pub(crate) key: ProviderKey,
    pub(crate) key_header: HeaderName,
    pub(crate) headers: Vec<Header>,
    pub(crate) parameters: Parameters,
    pub(crate) limits: ModelLimits,
    /// Rules of the provider for cache markers.
    pub(crate) marker_rules: &'static MarkerRules,
    /// Limits of the provider on images and texts.
    pub(crate) media: &'static MediaLimits,
    pub(crate) price: Option<Price>,
    /// The host of the API, which may change the listed price; `None` if `cost` is configured.
    pub(crate) priced_host: Option<String>,
    pub(crate) time: TimeLimits,
    pub(super) retries: RetryLimits,
    /// Set when an attempt that exceeded `timeouts.total` is retried although it may be charged: only if
    /// `retries` is configured.
    pub(crate) repeats_timeouts: bool,
    pub(crate) http: HttpClient,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) pauses: Arc<dyn RetryPauses>,
    pub(crate) rates: Arc<RequestRates>,
    pub(crate) digests: Arc<OnceLock<DigestKey>>,
    /// Cloud platform that serves the model.
    pub(crate) cloud: Option<Cloud>,
    /// Credentials that authorize each request, instead of a key.
    pub(crate) credentials: Option<Credentials>,
}

/// Timeouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeLimits {
    pub(crate) connect: Duration,
    pub(crate) first_byte: Duration,
    pub(crate) idle: Duration,
    pub(crate) total: Option<Duration>,
}

impl TimeLimits {
    pub(super) fn new(said: &Timeouts) -> Self {
        // A usual limit does not end a try that may take longer.
        let minimum = said
            .total
            .map_or(Duration::ZERO, |total| total + Duration::from_secs(1));
        let usual = |seconds| Duration::from_secs(seconds).max(minimum);
        Self {
            connect: said.connect.unwrap_or(Duration::from_secs(10)),
            first_byte: said.first_byte.unwrap_or_else(|| usual(600)),
            idle: said.idle.unwrap_or_else(|| usual(120)),
            total: said.total,
        }
    }
}

impl ResolvedModel {
    /// Default number of retries.
    pub(super) const RETRIES: u32 = 2;

    /// Default of the maximum time that a request waits for rate limits. Most limits are per minute.
    pub(super) const RATE_LIMIT_WAIT: Duration = Duration::from_secs(300);

    /// Returns true if the configured headers contain credentials, so that no key is added.
    pub(crate) fn authorizes_itself(&self) -> bool {
        self.headers
            .iter()
            .any(|header| header.name == self.key_header)
    }

    /// Returns true if the server knows all versions of Anthropic's API: Anthropic's own server, or one on this machine,
    /// which passes them on or does not judge them.
    pub(crate) fn has_versions_of_anthropic(&self) -> bool {
        let is_local = self.catalog_provider == "anthropic" && address::is_loopback(&self.base);
        self.cloud.is_none() && (self.api_owner == ApiOwner::Anthropic || is_local)
    }

    /// Registers the key of the requests as a secret in `secret_set`.
    pub(super) fn register_secrets(&self, secret_set: &SecretSet) {
        if let ProviderKey::Present { secret, .. } = &self.key {
            key::register_secrets(secret.expose(), secret_set);
        }
        if let Some(credentials) = &self.credentials {
            credentials.register_secrets(secret_set);
        }
        // A configured header may replace the key.
        let standing = self
            .headers
            .iter()
            .filter(|header| header.name == self.key_header);
        standing.for_each(|header| key::register_secrets(header.value.expose(), secret_set));
    }

    /// Creates a key for the digests of secrets, if there are secrets and no key yet.
    pub(super) fn prepare_digests(&self) -> Result<(), Error> {
        let has_secrets =
            self.shown != self.base.as_str() || self.headers.iter().any(Header::is_secret);
        if has_secrets && self.digests.get().is_none() {
            let key = DigestKey::ephemeral().map_err(|error| {
                configuration(format!(
                    "the machine has no randomness to keep headers secret with: {error}"
                ))
            })?;
            // Another thread may have set one first.
            let _ = self.digests.set(key);
        }
        Ok(())
    }

    /// See [`super::Model::identity`].
    pub(super) fn identity(&self) -> Value {
        let digest = |text: &str| match self.digests.get() {
            Some(key) => Value::from(key.digest(text.as_bytes()).to_hex()),
            None => Value::Null,
        };
        let mut headers: Map<String, Value> = Map::new();
        let mut sorted: Vec<&Header> = self.headers.iter().collect();
        sorted.sort_by(|one, other| one.name.as_str().cmp(other.name.as_str()));
        for header in sorted {
            let value = if header.is_secret() {
                json!({ "digest": digest(header.value.expose()) })
            } else {
                Value::from(header.value.expose().as_str())
            };
            headers.insert(header.name.as_str().to_owned(), value);
        }
        let mut identity = json!({
            "provider": self.provider,
            "base_url": self.shown,
            "format": self.keyed_format,
            "parameters": self.parameters,
            "headers": headers,
        });
        if self.shown != self.base.as_str() {
            identity["base_url_digest"] = digest(self.base.as_str());
        }
        identity
    }
}
