//! The metadata of a session.

use cachalot_core::{Digest, Millis, Spend};
use cachalot_model::routing::is_routed;
use cachalot_model::{Format, Parameters, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind};

/// Maximum length of a session name, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// Maximum length of OpenAI's routing key, in characters.
const MAX_ROUTING_KEY_CHARS: usize = 64;

/// The metadata of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionHead {
    /// The name: 1 to 128 bytes without white space, control characters and `/`.
    pub id: String,
    /// The agent.
    pub agent: String,
    /// The title.
    #[serde(default)]
    pub title: Option<String>,
    /// The working directory.
    #[serde(default)]
    pub workspace: Option<String>,
    /// The provider's name.
    pub provider: String,
    /// The model name, as its provider knows it.
    pub model: String,
    /// The wire format.
    pub format: Format,
    /// The base URL, if it differs from the provider's default.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The session that this one was forked from, or that delegated to it.
    #[serde(default)]
    pub parent: Option<String>,
    /// The session whose prefix a fork continues: requests of both are routed in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The routing key of its requests, derived from its tools and system text when it was created.
    /// Without one, requests are routed by the name of their [`SessionHead::lineage`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
    /// The time of creation; set by [`crate::Sessions`].
    #[serde(default)]
    pub created: Millis,
    /// Additional data of the caller.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub notes: Map<String, Value>,
}

/// The session that a fork continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Its name.
    pub session: String,
    /// Its time of creation.
    pub created: Millis,
}

impl SessionHead {
    /// Creates a head with the required fields only.
    pub fn new(
        id: impl Into<String>,
        agent: impl Into<String>,
        provider: impl Into<String>,
        model: impl Into<String>,
        format: Format,
    ) -> Self {
        Self {
            id: id.into(),
            agent: agent.into(),
            title: None,
            workspace: None,
            provider: provider.into(),
            model: model.into(),
            format,
            base_url: None,
            parent: None,
            origin: None,
            routing_key: None,
            created: 0,
            notes: Map::new(),
        }
    }

    /// The session that the provider's cache knows: the origin of a fork that continues a prefix, or
    /// else this session itself.
    #[must_use]
    pub fn lineage(&self) -> Origin {
        self.origin.clone().unwrap_or_else(|| Origin {
            session: self.id.clone(),
            created: self.created,
        })
    }

    /// Returns the parameters of a request of this session. Adds a routing key, which routes requests
    /// with the same prefix to the same machine, if the provider supports it and the parameters contain
    /// none.
    #[must_use]
    pub fn routed(&self, parameters: &Parameters) -> Parameters {
        let mut parameters = parameters.clone();
        if parameters.cache_key.is_none() && is_routed(&self.provider) {
            let id = self
                .origin
                .as_ref()
                .map_or(&self.id, |origin| &origin.session);
            let of_session = || match id.len() {
                0..=MAX_ROUTING_KEY_CHARS => id.clone(),
                _ => Digest::sha256(id.as_bytes()).to_hex(),
            };
            parameters.cache_key = Some(self.routing_key.clone().unwrap_or_else(of_session));
        }
        parameters
    }
}

/// The usage of a session so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionTotals {
    /// The number of model answers.
    pub answers: u64,
    /// The tokens.
    pub usage: Usage,
    /// The time and the cost.
    pub spent: Spend,
}

impl SessionTotals {
    /// True if the provider has ever reported a cache read or a cache write for this session.
    #[must_use]
    pub fn provider_keeps_prefix(&self) -> bool {
        self.usage.cache_read > 0 || self.usage.cache_write() > 0
    }

    /// Adds one model answer.
    pub fn count(&mut self, usage: Usage, spent: Spend) {
        self.answers += 1;
        self.usage += usage;
        self.spent += spent;
    }
}

/// Checks the syntax of a session name.
pub(crate) fn check_name(id: &str) -> Result<(), Error> {
    let wrong = |c: char| c.is_whitespace() || c.is_control() || c == '/';
    if !id.is_empty() && id.len() <= MAX_NAME_BYTES && !id.contains(wrong) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::BadName,
        id,
        format!(
            "{id:.140?} is no name for a session: 1 to {MAX_NAME_BYTES} bytes, without white space, \
             control characters and `/`"
        ),
    ))
}
