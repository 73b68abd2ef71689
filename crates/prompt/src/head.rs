//! What a session says of itself.

use cachalot_core::{Digest, Millis, Spend};
use cachalot_model::routing::is_routed;
use cachalot_model::{Format, Parameters, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind};

/// The longest name of a session, in bytes.
const LONGEST_NAME: usize = 128;

/// The longest routing key that OpenAI takes, in characters.
const LONGEST_KEY: usize = 64;

/// What a session says of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Its name: 1 to 128 bytes without white space, control characters and `/`.
    pub id: String,
    /// The agent that talks.
    pub agent: String,
    /// What it is about.
    #[serde(default)]
    pub title: Option<String>,
    /// The directory that it works in.
    #[serde(default)]
    pub workspace: Option<String>,
    /// The provider's name.
    pub provider: String,
    /// The model's name as its provider knows it.
    pub model: String,
    /// The format in which it is sent.
    pub format: Format,
    /// Where it is sent, if it is not the provider's own address.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The session that it was forked from, or that delegated to it.
    #[serde(default)]
    pub parent: Option<String>,
    /// The session whose prefix it goes on with, if it is a fork that does: requests are routed as
    /// those of that one are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The routing key of its requests, derived from its tools and system text when it was created.
    /// Sessions without one are routed by the name of their [`Head::lineage`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
    /// When it was created; given by [`crate::Sessions`].
    #[serde(default)]
    pub created: Millis,
    /// Whatever else is to be kept with it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub notes: Map<String, Value>,
}

/// The session that a fork goes on with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Its name.
    pub session: String,
    /// When it was created.
    pub created: Millis,
}

impl Head {
    /// A head with nothing but what every session has.
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

    /// The session that the provider knows: its own origin, or this session itself. The origin of forks
    /// that go on with its prefix.
    #[must_use]
    pub fn lineage(&self) -> Origin {
        self.origin.clone().unwrap_or_else(|| Origin {
            session: self.id.clone(),
            created: self.created,
        })
    }

    /// The parameters of a request of this session: with a key that leads requests with the same
    /// prefix to the same machine, where the provider has such keys and the parameters name none.
    #[must_use]
    pub fn routed(&self, parameters: &Parameters) -> Parameters {
        let mut parameters = parameters.clone();
        if parameters.cache_key.is_none() && is_routed(&self.provider) {
            let id = self.origin.as_ref().map_or(&self.id, |it| &it.session);
            let of_session = || match id.len() {
                0..=LONGEST_KEY => id.clone(),
                _ => Digest::of(id.as_bytes()).to_hex(),
            };
            parameters.cache_key = Some(self.routing_key.clone().unwrap_or_else(of_session));
        }
        parameters
    }
}

/// What a session has used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Answers of models.
    pub answers: u64,
    /// Tokens.
    pub usage: Usage,
    /// Time and money.
    pub spent: Spend,
}

impl Totals {
    /// Returns true if the provider has ever reported that it kept the beginning of a request of this
    /// session, or read it.
    #[must_use]
    pub fn has_kept_prefix(&self) -> bool {
        self.usage.cache_read > 0 || self.usage.cache_write() > 0
    }

    /// Adds one answer of a model.
    pub fn count(&mut self, usage: Usage, spent: Spend) {
        self.answers += 1;
        self.usage += usage;
        self.spent += spent;
    }
}

/// Whether a session may be called so.
pub(crate) fn check_name(id: &str) -> Result<(), Error> {
    let wrong = |c: char| c.is_whitespace() || c.is_control() || c == '/';
    if !id.is_empty() && id.len() <= LONGEST_NAME && !id.contains(wrong) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::BadName,
        id,
        format!(
            "{id:.140?} is no name for a session: 1 to {LONGEST_NAME} bytes, without white space, \
             control characters and `/`"
        ),
    ))
}
