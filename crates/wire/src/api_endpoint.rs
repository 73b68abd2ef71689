//! Endpoints of APIs, as their clients call them.

use serde::Deserialize;

/// The result that requests of an endpoint ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// An answer of a model.
    Answer,
    /// Vectors.
    Embed,
    /// The number of tokens of a request for an answer.
    CountTokens,
    /// A shorter form of a conversation, which only the provider can read.
    Compact,
}

/// An endpoint of an API.
#[derive(Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiEndpoint {
    /// The name in keys, statistics and reports, which must not change.
    pub name: String,
    /// The result that its requests ask for.
    pub operation: Operation,
    /// Its paths; what begins with a colon is the end of a path.
    pub paths: Vec<String>,
    /// The name of the operation in the semantic conventions of OpenTelemetry.
    pub convention: String,
}

impl ApiEndpoint {
    /// Returns true if the endpoint has a path.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        let mut paths = self.paths.iter();
        paths.any(|known| {
            if known.starts_with(':') {
                path.ends_with(known.as_str())
            } else {
                path == known
            }
        })
    }
}
