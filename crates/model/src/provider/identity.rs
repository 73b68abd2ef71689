//! The parts of a model's configuration that change its answers.

use cachalot_core::{DigestKey, Secret, SecretSet};
use cachalot_storage::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use super::cloud::Cloud;
use super::configuration;
use super::key::{self, ProviderKey};
use super::model::ResolvedModel;
use super::settings::ModelSettings;
use crate::Format;
use crate::error::Error;

/// The version of the Messages API whose rules the wire format follows.
const ANTHROPIC_VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// Headers whose values are public; every other value may be a secret.
const PUBLIC_HEADERS: [&str; 8] = [
    "anthropic-beta",
    "anthropic-version",
    "http-referer",
    "openai-beta",
    "openai-organization",
    "openai-project",
    "user-agent",
    "x-title",
];

/// An additional header of every request.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    pub(crate) name: HeaderName,
    pub(crate) value: Secret<String>,
}

impl Header {
    /// Returns true if its value may be a secret.
    pub(crate) fn is_secret(&self) -> bool {
        !PUBLIC_HEADERS.contains(&self.name.as_str())
    }

    /// Returns the value to send; a possible secret is marked as sensitive, so that it is not logged.
    pub(crate) fn header_value(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(self.value.expose()).ok()?;
        value.set_sensitive(self.is_secret());
        Some(value)
    }
}

/// Returns the configured headers and those that the format requires.
pub(super) fn headers(
    settings: &ModelSettings,
    format: Format,
    cloud: Option<Cloud>,
) -> Result<Vec<Header>, Error> {
    let mut headers = Vec::with_capacity(settings.headers.len() + 1);
    for (name, value) in &settings.headers {
        let header = HeaderName::try_from(name.as_str()).map(|name| Header {
            name,
            value: value.clone(),
        });
        match header {
            Ok(header) if header.header_value().is_some() => headers.push(header),
            _ => {
                return Err(configuration(format!(
                    "the header `{name}` cannot be sent: check its name, and take line ends and control characters out of its value"
                )));
            }
        }
    }
    let (name, value) = ANTHROPIC_VERSION;
    let is_said = headers.iter().any(|header| header.name.as_str() == name);
    // On a cloud platform, the version is in the body.
    if format == Format::Messages && cloud.is_none() && !is_said {
        headers.push(Header {
            name: HeaderName::from_static(name),
            value: Secret::new(value.to_owned()),
        });
    }
    Ok(headers)
}

impl ResolvedModel {
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
            let value = match header.is_secret() {
                true => json!({ "digest": digest(header.value.expose()) }),
                false => Value::from(header.value.expose().as_str()),
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
