//! Keys that the gateway gives to its clients: who presents one, and what it may reach.

use std::sync::Arc;

use cachalot_core::config::Named;
use cachalot_core::{Digest, Secret};
use cachalot_store::glob_matches;
use http::HeaderMap;

use crate::call::credential_parameters;
use crate::config::KeyConfig;
use crate::credentials::{HEADERS, PROTOCOL, without_scheme};
use crate::error_body::ErrorBody;
use crate::rate::RateLimit;
use crate::upstream::Upstream;

/// The beginning of all keys that `cachalot serve --new-key` makes: a client that presents an unknown one is refused,
/// so that no key of the gateway is sent to an upstream.
pub(crate) const PREFIX: &str = "cachalot-";

/// A key, and the requests of the last minute.
#[derive(Debug)]
pub(crate) struct VirtualKey {
    pub(crate) name: String,
    pub(crate) config: KeyConfig,
    pub(crate) rate: Arc<RateLimit>,
}

/// A new key and its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// The key, for the client.
    pub key: String,
    /// Its digest, for the configuration file.
    pub digest: String,
}

impl NewKey {
    /// Makes a key from 32 random bytes.
    #[must_use]
    pub fn from_random(bytes: &[u8; 32]) -> Self {
        let key = format!("{PREFIX}{}", hex::encode(bytes));
        Self {
            digest: Digest::sha256(key.as_bytes()).to_hex(),
            key,
        }
    }
}

/// Returns the credentials of a request, without their schemes.
pub(crate) fn presented<'a>(
    headers: &'a HeaderMap,
    query: Option<&'a str>,
) -> impl Iterator<Item = &'a str> {
    let names = HEADERS.iter().map(|(name, _)| *name);
    // A page has no other header for a key.
    let names = names.chain([PROTOCOL.0]);
    let values = names.flat_map(|name| headers.get_all(name));
    let values = values.filter_map(|value| value.to_str().ok());
    let values = values.map(without_scheme);
    values.chain(credential_parameters(query))
}

impl VirtualKey {
    pub(crate) fn new(named: Named<KeyConfig>) -> Self {
        let Named {
            name,
            value: config,
        } = named;
        Self {
            name,
            rate: Arc::new(RateLimit::new(
                config.requests_per_minute,
                config.tokens_per_minute,
            )),
            config,
        }
    }

    /// Returns true for the same key with the same limits per minute.
    pub(crate) fn has_limits_of(&self, other: &Self) -> bool {
        let of = |key: &KeyConfig| (key.digest, key.requests_per_minute, key.tokens_per_minute);
        of(&self.config) == of(&other.config)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the operator's credential for an upstream.
    ///
    /// # Errors
    /// The response to a client that may not reach the upstream.
    pub(crate) fn credential<'u>(
        &self,
        upstream: &'u Upstream,
    ) -> Result<&'u Secret<String>, ErrorBody> {
        let allowed = &self.config.upstreams;
        let is_allowed = allowed.is_empty() || allowed.iter().any(|name| name == upstream.name());
        let credential = upstream.credential.as_deref().filter(|_| is_allowed);
        credential.ok_or_else(|| {
            ErrorBody::forbidden(
                "upstream_not_allowed",
                format!("the key does not reach the upstream `{}`", upstream.name()),
            )
        })
    }

    /// Checks that the key may use the model.
    ///
    /// # Errors
    /// The response to the client.
    pub(crate) fn check_model(&self, model: &str) -> Result<(), ErrorBody> {
        let patterns = &self.config.models;
        if patterns.is_empty() || patterns.iter().any(|pattern| glob_matches(pattern, model)) {
            Ok(())
        } else {
            Err(ErrorBody::forbidden(
                "model_not_allowed",
                format!("the key may not use the model `{model}`"),
            ))
        }
    }

    /// Returns the tenant under which answers are stored: the key's own, or a scope that it shares.
    ///
    /// # Errors
    /// The response to a client that names a scope which the key does not have.
    pub(crate) fn tenant(&self, scope: Option<&str>) -> Result<String, ErrorBody> {
        match scope {
            None => Ok(format!("key:{}", self.name())),
            Some(scope) if self.config.scopes.iter().any(|own| own == scope) => {
                Ok(format!("scope:{scope}"))
            }
            Some(scope) => Err(ErrorBody::forbidden(
                "scope_not_allowed",
                format!("the key does not share answers in the scope `{scope}`"),
            )),
        }
    }
}
