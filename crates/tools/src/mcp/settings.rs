//! Which server, and what it is trusted with.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use cachalot_core::{Seals, Secret};

use crate::builtin::shell::looks_like_a_credential;

/// An MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpSettings {
    /// What it is called here; part of the names of its tools.
    pub name: String,
    /// How it is reached.
    pub transport: Transport,
    /// How long a call may take, and how long from one progress notification to the next. Default 60 s.
    pub timeout: Duration,
    /// How long a call may take that goes on telling of its progress. Default 10 minutes; never less
    /// than `timeout`.
    pub max_timeout: Duration,
    /// The most bytes of a message of the server. Default 16 MiB.
    pub message_limit: usize,
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
            max_timeout: Duration::from_secs(600),
            message_limit: 16 << 20,
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

    /// What of it must never be shown: credentials. A value that says something else, or that is so
    /// short that it occurs everywhere, is none, or masking it would garble every answer.
    pub(super) fn to_learn(&self, seals: &Seals) -> Vec<&str> {
        match &self.transport {
            Transport::Stdio { environment, .. } => environment
                .iter()
                .map(|(name, value)| (name, value.expose().as_str()))
                .filter(|(name, value)| {
                    value.len() >= SHORTEST && looks_like_a_credential(name, value, seals)
                })
                .map(|(_, value)| value)
                .collect(),
            Transport::Http { headers, .. } => headers
                .iter()
                .map(|(name, value)| (name.to_ascii_lowercase(), without_scheme(value.expose())))
                .filter(|(name, value)| {
                    let said =
                        value.len() >= SHORTEST && looks_like_a_credential(name, value, seals);
                    said || (value.len() >= LONG && !says_something_else(name))
                })
                .map(|(_, value)| value)
                .collect(),
        }
    }
}

/// Shorter values are no credentials.
const SHORTEST: usize = 4;

/// From this length on, a header of the user's is taken as a credential whatever it is called.
const LONG: usize = 8;

/// The credentials of an `Authorization` header.
fn without_scheme(value: &str) -> &str {
    let value = value.trim();
    match value.split_once(' ') {
        Some((scheme, rest))
            if ["bearer", "basic", "token"]
                .iter()
                .any(|known| scheme.eq_ignore_ascii_case(known)) =>
        {
            rest.trim()
        }
        _ => value,
    }
}

/// Whether a header has a meaning of its own that is no secret.
fn says_something_else(name: &str) -> bool {
    ["accept", "content-", "user-agent", "origin", "referer"]
        .iter()
        .any(|known| name.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_learnt_and_other_values_are_not() {
        let secrets = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), Secret::new((*value).to_owned())))
                .collect::<BTreeMap<_, _>>()
        };
        let http = McpSettings::new(
            "x",
            Transport::Http {
                url: Secret::new("https://x/".to_owned()),
                headers: secrets(&[
                    ("Accept-Language", "en-GB, en-US"),
                    ("Authorization", "Bearer abc.def"),
                    ("X-Key", "long-enough"),
                    ("X-Version", "2"),
                ]),
            },
        );
        let seals = Seals::none();
        assert_eq!(http.to_learn(&seals), ["abc.def", "long-enough"]);
        let stdio = McpSettings::new(
            "x",
            Transport::Stdio {
                command: "x".to_owned(),
                arguments: Vec::new(),
                environment: secrets(&[
                    ("API_KEY", "abcdef"),
                    ("DEBUG", "everything"),
                    ("OLD_TOKEN", "1"),
                ]),
                directory: None,
            },
        );
        assert_eq!(stdio.to_learn(&seals), ["abcdef"]);
    }
}
