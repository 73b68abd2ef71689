//! Endpoints of APIs, as their clients call them.

use serde::Deserialize;
use serde_json::Value;

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
    /// JSON Pointers to the result in a whole answer, of which it has one. Empty for answers of a model.
    #[serde(default)]
    pub results: Vec<String>,
    /// The member with the vector, in the result or in each of its items.
    pub vector: Option<String>,
    /// The JSON Pointer to the number of tokens that are charged, in the answer to a request for vectors.
    pub tokens: Option<String>,
}

impl ApiEndpoint {
    /// Returns true if a document has the result that requests of this endpoint ask for. Answers of models are judged by
    /// their formats.
    #[must_use]
    pub fn is_answered_by(&self, document: &Value) -> bool {
        let mut results = self.results.iter();
        let Some(result) = results.find_map(|pointer| document.pointer(pointer)) else {
            return false;
        };
        let vector = self.vector.as_deref().unwrap_or_default();
        let has_vector = |item: &Value| item.get(vector).is_some_and(|vector| !vector.is_null());
        match (self.operation, result) {
            (Operation::Answer, _) => false,
            (Operation::CountTokens, count) => count.is_u64(),
            (Operation::Compact, output) => output.is_array(),
            (Operation::Embed, Value::Array(items)) => {
                !items.is_empty() && items.iter().all(has_vector)
            }
            (Operation::Embed, item) => has_vector(item),
        }
    }

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
