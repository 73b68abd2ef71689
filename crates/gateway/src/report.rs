//! Reports about requests, for the terminal and for statistics.

use std::time::Duration;

use cachalot_cache::Key;
use cachalot_core::Spend;

use crate::error_body::ErrorBody;

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
    /// Name of the key of the gateway that the client presented.
    pub key: Option<String>,
    /// HTTP status of the response.
    pub status: u16,
    /// `hit`, `stale`, `coalesced`, `miss`, `bypass`, `passed` or `refused`.
    pub answered: &'static str,
    /// Code of the gateway's own error, such as `budget_used_up`; empty if there is none.
    pub error: &'static str,
    /// The reason why it was no hit.
    pub reason: Option<String>,
    /// Time until the response began.
    pub elapsed: Duration,
    /// The cost that a hit saved.
    pub saved: Spend,
}

impl RequestReport {
    /// Writes the report to the debug log, without the path, which is text of the client.
    pub(crate) fn log(&self, key: Option<Key>) {
        tracing::debug!(
            method = self.method.as_str(),
            endpoint = self.endpoint,
            upstream = self.upstream.as_str(),
            model = self.model.as_str(),
            client = self.key.as_deref().unwrap_or_default(),
            status = self.status,
            outcome = self.answered,
            error = self.error,
            key = %key.map(|key| format!("{:.10}", key.to_string())).unwrap_or_default(),
            microseconds = self.elapsed.as_micros() as u64,
            "a response began"
        );
    }

    /// Records an error of the gateway itself.
    pub(crate) fn refuse(&mut self, error: &ErrorBody) {
        self.error = error.code;
        self.reason = Some(error.message.clone());
    }
}
