//! The parts that the spans of one request share.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use http::Method;

use super::queue::SpanQueue;
use super::span::{Attributes, Span, SpanId, SpanKind, TraceId};
use crate::api::Api;
use crate::collector::Collector;
use crate::endpoint::Endpoint;

/// The parts that the spans of one request share.
pub(super) struct TraceContext {
    pub(super) queue: SpanQueue,
    pub(super) collector: Arc<Collector>,
    pub(super) trace: TraceId,
    /// The request's own span.
    pub(super) request: SpanId,
    /// Arrival of the request.
    pub(super) start: Instant,
    /// The same, in nanoseconds since the Unix epoch.
    pub(super) start_nanos: u64,
    pub(super) method: &'static str,
    /// `gen_ai.operation.name`; `None` if no model is asked for.
    pub(super) operation: Option<&'static str>,
    /// `gen_ai.provider.name`.
    pub(super) provider: &'static str,
    /// The requested model, once it is known.
    pub(super) model: OnceLock<String>,
}

/// A span that ends now.
pub(super) struct Ending {
    pub(super) id: SpanId,
    pub(super) parent: Option<SpanId>,
    pub(super) kind: SpanKind,
    pub(super) start: Instant,
    pub(super) attributes: Attributes,
    pub(super) has_failed: bool,
}

impl TraceContext {
    /// Returns the attributes that all spans of the request have.
    pub(super) fn attributes(&self) -> Attributes {
        let mut attributes = Attributes::default();
        attributes.text("http.request.method", self.method);
        if let Some(operation) = self.operation {
            attributes.text("gen_ai.operation.name", operation);
            attributes.text("gen_ai.provider.name", self.provider);
            attributes.text("gen_ai.request.model", self.model());
        }
        attributes
    }

    /// Queues a span that ends now.
    pub(super) fn end(&self, ending: Ending) {
        let Ending {
            id,
            parent,
            kind,
            start,
            attributes,
            has_failed,
        } = ending;
        let span = Span {
            trace: self.trace,
            id,
            parent,
            has_remote_parent: kind == SpanKind::Server && parent.is_some(),
            name: self.name(),
            kind,
            start: self.nanos(start),
            end: self.nanos(Instant::now()),
            attributes,
            has_failed,
        };
        self.queue.push(Arc::clone(&self.collector), span);
    }

    fn model(&self) -> &str {
        self.model.get().map_or("", String::as_str)
    }

    /// The operation and the model, as the conventions for generative AI demand; the method if no model is asked for.
    fn name(&self) -> String {
        match (self.operation, self.model()) {
            (None, _) if self.method == OTHER_METHOD => "HTTP".to_owned(),
            (None, _) => self.method.to_owned(),
            (Some(operation), "") => operation.to_owned(),
            (Some(operation), model) => format!("{operation} {model}"),
        }
    }

    /// Returns the nanoseconds since the Unix epoch. Within a trace, only the monotonic clock counts.
    fn nanos(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.start).as_nanos();
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        self.start_nanos.saturating_add(since)
    }
}

/// Returns a random identifier; `None` if the system gives no random numbers.
pub(super) fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).ok()?;
    // Zero is not valid.
    bytes.iter().any(|byte| *byte != 0).then_some(bytes)
}

/// `http.request.method` of a method that is not known.
const OTHER_METHOD: &str = "_OTHER";

/// Returns the method, if it is a known one.
pub(super) fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::CONNECT => "CONNECT",
        Method::OPTIONS => "OPTIONS",
        Method::TRACE => "TRACE",
        Method::PATCH => "PATCH",
        _ => OTHER_METHOD,
    }
}

/// Returns the name of the operation: a well-known one of the conventions if there is one.
pub(super) fn operation(endpoint: Endpoint) -> Option<&'static str> {
    match endpoint {
        Endpoint::Api(_, api) => Some(api.convention.as_str()),
        Endpoint::Models | Endpoint::Other => None,
    }
}

/// Returns the well-known name of the provider of an API.
pub(super) fn provider(api: Api) -> &'static str {
    match api {
        Api::OpenAi => "openai",
        Api::Anthropic => "anthropic",
        Api::Gemini => "gcp.gemini",
    }
}
