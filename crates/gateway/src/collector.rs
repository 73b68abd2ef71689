//! The server that receives spans.

use http::{HeaderValue, Uri};

/// A collector of spans.
#[derive(Debug)]
pub(crate) struct Collector {
    /// URL of its endpoint for traces.
    pub(crate) traces: Uri,
    /// `Authorization` of requests to it.
    pub(crate) authorization: Option<HeaderValue>,
    /// Name of the service to which the spans belong.
    pub(crate) service_name: String,
}
