//! The spans of requests to an upstream: each from its sending until the end of its answer.

use std::sync::Arc;
use std::time::Instant;

use cachalot_core::Spend;
use cachalot_model::StopReason;
use http::{Response, StatusCode};
use parking_lot::Mutex;

use super::observed_body::{BodyEnd, observed};
use super::request_span::{INCOMPLETE, RequestSpan};
use super::span::{Attributes, SpanId, SpanKind};
use super::trace_context::{Ending, TraceContext, random};
use crate::answer::AnswerReport;
use crate::body::Body;
use crate::error_body::ErrorBody;
use crate::upstream::Upstream;

/// The span of the current request to an upstream; nothing if it is not traced. Dropping it ends it: the request is
/// abandoned.
pub(crate) struct UpstreamSpan(Option<Traced>);

struct Traced {
    context: Arc<TraceContext>,
    upstream: Arc<Upstream>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The request that is in progress.
    current: Option<Current>,
    /// Number of requests that were sent before it.
    sent: u64,
}

struct Current {
    id: SpanId,
    start: Instant,
    status: Option<StatusCode>,
}

impl UpstreamSpan {
    /// Returns the span of requests that are not traced.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Creates the spans of the requests to `upstream` that `request` causes.
    pub(crate) fn new(request: &RequestSpan, upstream: &Arc<Upstream>) -> Self {
        Self(request.context().map(|context| Traced {
            context: Arc::clone(context),
            upstream: Arc::clone(upstream),
            state: Mutex::default(),
        }))
    }

    /// Begins the span of a request that is being sent.
    pub(crate) fn begin(&self) {
        let Some(traced) = &self.0 else { return };
        let Some(id) = random() else { return };
        traced.state.lock().current = Some(Current {
            id,
            start: Instant::now(),
            status: None,
        });
    }

    /// Records the head of the answer. Without one, the span ends.
    pub(crate) fn answer<B>(&self, answer: &Result<Response<B>, ErrorBody>) {
        let Some(traced) = &self.0 else { return };
        match answer {
            Ok(response) => {
                if let Some(current) = &mut traced.state.lock().current {
                    current.status = Some(response.status());
                }
            }
            Err(error) => self.end(error.code, |_| {}),
        }
    }

    /// Ends the span of a request whose answer was read to its end.
    pub(crate) fn finish(&self, report: &AnswerReport, charged: Spend, unpriced: Option<&str>) {
        self.end("", |attributes| {
            attributes.text(
                "gen_ai.response.model",
                report.model.as_deref().unwrap_or_default(),
            );
            if let Some(stop) = &report.stop {
                attributes.texts("gen_ai.response.finish_reasons", &[finish_reason(stop)]);
            }
            if let Some(reason) = unpriced {
                attributes.text("cachalot.unpriced", reason);
            }
            let Some(usage) = &report.usage else { return };
            attributes.integer("gen_ai.usage.input_tokens", usage.total_input());
            attributes.integer("gen_ai.usage.output_tokens", usage.output);
            for (name, tokens) in [
                ("gen_ai.usage.cache_read.input_tokens", usage.cache_read),
                (
                    "gen_ai.usage.cache_creation.input_tokens",
                    usage.cache_write(),
                ),
                ("gen_ai.usage.reasoning.output_tokens", usage.reasoning),
            ] {
                if tokens > 0 {
                    attributes.integer(name, tokens);
                }
            }
            if unpriced.is_none() {
                attributes.number("cachalot.paid_dollars", charged.cost.dollars());
            }
        });
    }

    /// Ends the span of a request whose answer is not read.
    pub(crate) fn close(&self) {
        self.end("", |_| {});
    }

    /// Ends the span of a request whose answer was not received to its end.
    pub(crate) fn cut_off(&self) {
        self.end(INCOMPLETE, |_| {});
    }

    /// Returns the response with a body that ends the span.
    pub(crate) fn until_end(self, response: Response<Body>) -> Response<Body> {
        if self.0.is_none() {
            return response;
        }
        observed(response, move |end| match end {
            BodyEnd::Complete => self.close(),
            BodyEnd::Failed | BodyEnd::Left => self.cut_off(),
        })
    }

    fn end(&self, error: &str, add: impl FnOnce(&mut Attributes)) {
        let Some(traced) = &self.0 else { return };
        // The attempt is taken under the lock, so that its span ends once.
        let (current, sent) = {
            let mut state = traced.state.lock();
            let Some(current) = state.current.take() else {
                return;
            };
            state.sent += 1;
            (current, state.sent - 1)
        };
        let mut attributes = traced.context.attributes();
        attributes.text("server.address", traced.upstream.host());
        attributes.integer("server.port", traced.upstream.port().into());
        attributes.text("cachalot.upstream", traced.upstream.name());
        if sent > 0 {
            attributes.integer("http.request.resend_count", sent);
        }
        let mut error = error.to_owned();
        if let Some(status) = current.status {
            attributes.integer("http.response.status_code", status.as_u16().into());
            if error.is_empty() && (status.is_client_error() || status.is_server_error()) {
                status.as_str().clone_into(&mut error);
            }
        }
        add(&mut attributes);
        attributes.text("error.type", &error);
        traced.context.end(Ending {
            id: current.id,
            parent: Some(traced.context.request),
            kind: SpanKind::Client,
            start: current.start,
            attributes,
            has_failed: !error.is_empty(),
        });
    }
}

impl Drop for UpstreamSpan {
    fn drop(&mut self) {
        self.cut_off();
    }
}

/// Returns the reason in the words of the conventions, or in those of the provider if they have none.
fn finish_reason(stop: &StopReason) -> &str {
    match stop {
        StopReason::End | StopReason::StopText => "stop",
        StopReason::ToolUse => "tool_call",
        StopReason::Length => "length",
        StopReason::Refusal => "content_filter",
        StopReason::Other(reason) => reason,
    }
}
