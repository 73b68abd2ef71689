//! Which server, and what it is trusted with.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use cachalot_core::Secret;

/// An MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpSettings {
    /// What it is called here; part of the names of its tools.
    pub name: String,
    /// How it is reached.
    pub transport: Transport,
    /// How long a call may take. Default 60 s.
    pub timeout: Duration,
    /// How long it may take to be ready. Default 60 s.
    pub startup_timeout: Duration,
    /// Whether nothing goes without it. Default no: then it is a warning that it does not start.
    pub required: bool,
    /// About how many bytes of text an answer may have; of more, the beginning is given. Default
    /// 100,000.
    pub output_limit: usize,
    /// Its resources. Default: taken, no lifetime.
    pub resources: Offer,
    /// Its prompts. Default: taken, no lifetime.
    pub prompts: Offer,
    /// What is believed of tools whose names match a pattern; the first that matches counts. A tool
    /// that the server calls destructive is never believed to be read-only.
    pub trust: Vec<(String, Trust)>,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// A program that is started, and talked to through its standard input and output.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        arguments: Vec<String>,
        /// Its own environment variables.
        environment: BTreeMap<String, Secret<String>>,
        /// Where it runs, relative to [`super::McpSurroundings::directory`].
        directory: Option<PathBuf>,
    },
    /// Streamable HTTP.
    Http {
        /// The address; may hold a credential.
        url: Secret<String>,
        /// Sent with every request.
        headers: BTreeMap<String, Secret<String>>,
    },
}

/// What is made of resources, or of prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Whether they become tools.
    pub taken: bool,
    /// For how long what they give may be served again. `None`: for as long as the server says, and
    /// not at all if it says nothing.
    pub lifetime: Option<Duration>,
}

impl Default for Offer {
    fn default() -> Self {
        Self {
            taken: true,
            lifetime: None,
        }
    }
}

/// What is believed of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Trust {
    /// That it changes nothing.
    pub read_only: bool,
    /// For how long what it gives may be served again, if it changes nothing.
    pub lifetime: Option<Duration>,
}

impl McpSettings {
    /// A server with the defaults.
    #[must_use]
    pub fn new(name: impl Into<String>, transport: Transport) -> Self {
        Self {
            name: name.into(),
            transport,
            timeout: Duration::from_secs(60),
            startup_timeout: Duration::from_secs(60),
            required: false,
            output_limit: 100_000,
            resources: Offer::default(),
            prompts: Offer::default(),
            trust: Vec::new(),
        }
    }

    /// Every secret that it is given, with its name.
    pub(super) fn secrets(&self) -> Vec<(&str, &Secret<String>)> {
        match &self.transport {
            Transport::Stdio { environment, .. } => {
                let named = environment.iter();
                named.map(|(name, value)| (name.as_str(), value)).collect()
            }
            Transport::Http { url, headers } => {
                let named = headers.iter().map(|(name, value)| (name.as_str(), value));
                std::iter::once(("url", url)).chain(named).collect()
            }
        }
    }
}
