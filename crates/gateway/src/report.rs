//! Reports about requests, for the terminal and for statistics.

use std::time::Duration;

use cachalot_core::Spend;

/// A report about one request, made when its response begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestReport {
    /// HTTP method.
    pub method: String,
    /// Path, without the query, which may contain credentials.
    pub path: String,
    /// Name of the upstream; empty if the request has none.
    pub upstream: String,
    /// `chat`, `responses`, `embeddings`, `messages`, `count_tokens`, `gemini`, `models` or `other`.
    pub endpoint: &'static str,
    /// The requested model; empty if there is none.
    pub model: String,
    /// HTTP status of the response.
    pub status: u16,
    /// `hit`, `coalesced`, `miss`, `bypass`, `passed` or `refused`.
    pub answered: &'static str,
    /// The reason why it was no hit.
    pub reason: Option<String>,
    /// Time until the response began.
    pub elapsed: Duration,
    /// The cost that a hit saved.
    pub saved: Spend,
}
