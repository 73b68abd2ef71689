//! Traces for OpenTelemetry: the spans of requests.
//!
//! | module | content |
//! |---|---|
//! | `traceparent` | the parent of a request's span, from the header of the client |
//! | `request_span` | the span of a request |
//! | `upstream_span` | the spans of the requests to upstreams that it causes |
//! | `span` | a finished span and its attributes |
//! | `queue` | the spans that wait for the `exporter` |
//!
//! Spans contain no contents, no credentials and no queries. Without a collector, a request is not traced.

mod observed_body;
pub(crate) mod queue;
pub(crate) mod request_span;
pub(crate) mod span;
mod trace_context;
mod traceparent;
pub(crate) mod upstream_span;
