//! The span of a request: from its arrival until its response was handed over to the connection.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use cachalot_cache::Key;
use cachalot_core::Millis;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;

use super::observed_body::{BodyEnd, observed};
use super::queue::SpanQueue;
use super::span::{Attributes, SpanId, SpanKind};
use super::trace_context::{Ending, TraceContext, method, operation, provider, random};
use super::traceparent::RemoteParent;
use crate::body::Body;
use crate::collector::Collector;
use crate::report::RequestReport;
use crate::route::Route;

/// Number of digits of the key that identify a call to `cachalot why`.
const KEY_DIGITS: usize = 10;

/// The span of a request; nothing if the request is not traced. Dropping it ends it: the client has left.
pub(crate) struct RequestSpan(Option<OpenSpan>);

struct OpenSpan {
    context: Arc<TraceContext>,
    parent: Option<SpanId>,
    path: String,
}

impl RequestSpan {
    /// Returns the span of a request that is not traced.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Begins the span of a request that arrived at `start`, if there is a collector. Not traced: a request whose
    /// client says that it does not record its own spans.
    pub(crate) fn begin(
        queue: &SpanQueue,
        collector: Option<&Arc<Collector>>,
        route: &Route,
        request: &Request<Incoming>,
        start: Instant,
        now: Millis,
    ) -> Self {
        let Some(collector) = collector else {
            return Self(None);
        };
        let parent = RemoteParent::from_headers(request.headers());
        if parent.is_some_and(|parent| !parent.is_sampled) {
            return Self(None);
        }
        let trace = parent.map(|parent| parent.trace).or_else(random);
        let (Some(trace), Some(id)) = (trace, random()) else {
            return Self(None);
        };
        let now = u64::try_from(now).unwrap_or(0).saturating_mul(1_000_000);
        let elapsed = u64::try_from(start.elapsed().as_nanos()).unwrap_or(0);
        let context = TraceContext {
            queue: queue.clone(),
            collector: Arc::clone(collector),
            trace,
            request: id,
            start,
            start_nanos: now.saturating_sub(elapsed),
            method: method(request.method()),
            operation: operation(route.endpoint),
            provider: provider(route.api),
            model: OnceLock::new(),
        };
        Self(Some(OpenSpan {
            context: Arc::new(context),
            parent: parent.map(|parent| parent.span),
            path: request.uri().path().to_owned(),
        }))
    }

    /// Sets the requested model.
    pub(crate) fn set_model(&self, model: &str) {
        if let Some(open) = &self.0 {
            let _ = open.context.model.set(model.to_owned());
        }
    }

    pub(super) fn context(&self) -> Option<&Arc<TraceContext>> {
        self.0.as_ref().map(|open| &open.context)
    }

    /// Returns the response with a body that ends the span.
    pub(crate) fn finish(
        mut self,
        response: Response<Body>,
        report: &RequestReport,
        key: Option<Key>,
    ) -> Response<Body> {
        let Some(open) = self.0.take() else {
            return response;
        };
        let status = response.status();
        let mut attributes = open.attributes();
        attributes.integer("http.response.status_code", status.as_u16().into());
        attributes.text("cachalot.outcome", report.answered);
        attributes.text("cachalot.upstream", &report.upstream);
        attributes.text("cachalot.client", report.key.as_deref().unwrap_or_default());
        if let Some(key) = key {
            attributes.text("cachalot.key", &key.to_string()[..KEY_DIGITS]);
        }
        // Messages of refusals may quote headers of the client.
        if report.error.is_empty() {
            let reason = report.reason.as_deref().unwrap_or_default();
            attributes.text("cachalot.reason", reason);
        }
        if !report.saved.is_free() && report.saved.cost.unpriced == 0 {
            attributes.number("cachalot.saved_dollars", report.saved.cost.dollars());
        }
        let error = match report.error {
            "" if status.is_server_error() => status.as_str().to_owned(),
            error => error.to_owned(),
        };
        attributes.text("error.type", &error);
        let has_body = report.method != "HEAD" && status != StatusCode::SWITCHING_PROTOCOLS;
        observed(response, move |end| {
            let mut has_failed = status.is_server_error();
            match end {
                BodyEnd::Complete => {}
                BodyEnd::Failed => {
                    has_failed = true;
                    if error.is_empty() {
                        attributes.text("error.type", INCOMPLETE);
                    }
                }
                BodyEnd::Left if has_body => attributes.flag(LEFT),
                BodyEnd::Left => {}
            }
            open.end(attributes, has_failed);
        })
    }
}

/// `error.type` of an answer that was not received to its end.
pub(super) const INCOMPLETE: &str = "incomplete_answer";

/// The attribute of a request whose client left before the end of its answer.
const LEFT: &str = "cachalot.client_left";

impl OpenSpan {
    fn attributes(&self) -> Attributes {
        let mut attributes = self.context.attributes();
        attributes.text("url.path", &self.path);
        attributes
    }

    fn end(self, attributes: Attributes, has_failed: bool) {
        self.context.end(Ending {
            id: self.context.request,
            parent: self.parent,
            kind: SpanKind::Server,
            start: self.context.start,
            attributes,
            has_failed,
        });
    }
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        if let Some(open) = self.0.take() {
            let mut attributes = open.attributes();
            attributes.flag(LEFT);
            open.end(attributes, false);
        }
    }
}
