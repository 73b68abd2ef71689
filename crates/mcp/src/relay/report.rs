//! Reports of the calls that a relay has passed on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{CacheAccount, Frame};

/// The member of a result's `_meta` that marks an answer of the cache.
pub(crate) const CACHE_MARK: &str = "dev.cachalot/cache";

/// A call that was answered.
#[derive(Debug, Clone)]
pub struct CallReport {
    /// The method.
    pub method: String,
    /// The tool, prompt or resource of the call, if it has one.
    pub subject: Option<String>,
    /// The time from the request to the response.
    pub elapsed: Duration,
    /// True for a response with an error.
    pub is_error: bool,
    /// The mark of the cache in the result, as JSON.
    pub cache: Option<String>,
    /// The account of a cache that did not answer.
    pub account: Option<Arc<CacheAccount>>,
}

/// Receives reports.
pub type CallObserver = Arc<dyn Fn(CallReport) + Send + Sync>;

/// A call that is not answered yet.
pub(super) struct CallTimer {
    method: String,
    subject: Option<String>,
    start: Instant,
}

impl CallTimer {
    pub(super) fn start(request: &Frame) -> Self {
        Self {
            method: request.method().to_owned(),
            subject: subject(request),
            start: Instant::now(),
        }
    }

    pub(super) fn report(self, response: &Frame) -> CallReport {
        CallReport {
            method: self.method,
            subject: self.subject,
            elapsed: self.start.elapsed(),
            is_error: response.error().is_some(),
            cache: response.result_meta(CACHE_MARK).map(str::to_owned),
            account: response.cache_account().cloned(),
        }
    }
}

/// Returns what a request is about: the name of a tool or prompt, the URI of a resource, the id of a task.
pub(super) fn subject(request: &Frame) -> Option<String> {
    let member = match request.method() {
        "tools/call" | "prompts/get" => "name",
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => "uri",
        method if method.starts_with("tasks/") => "taskId",
        _ => return None,
    };
    request.text_param(member)
}
