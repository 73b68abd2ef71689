//! Errors of the gateway itself, in the form that the client's library expects.

use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use crate::body::{Body, full};
use crate::endpoint::Endpoint;

/// An error response of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ErrorBody {
    pub(crate) status: StatusCode,
    /// A stable name: `upstream_unreachable`.
    pub(crate) code: &'static str,
    /// Cause and remedy.
    pub(crate) message: String,
}

impl ErrorBody {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
        }
    }

    /// Returns the response, with the error in the form of the endpoint's provider.
    pub(crate) fn response(&self, endpoint: Endpoint) -> Response<Body> {
        let body = self.json(endpoint).to_string();
        let mut response = Response::new(full(body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        // The official libraries repeat requests that fail with a status of 500 and above.
        if !self.status.is_server_error() || self.status == StatusCode::GATEWAY_TIMEOUT {
            headers.insert("x-should-retry", HeaderValue::from_static("false"));
        }
        response
    }

    fn json(&self, endpoint: Endpoint) -> Value {
        let message = format!("cachalot: {}", self.message);
        match endpoint {
            Endpoint::Messages | Endpoint::CountTokens => json!({
                "type": "error",
                "error": {"type": self.code, "message": message},
            }),
            Endpoint::Gemini => json!({
                "error": {"code": self.status.as_u16(), "message": message, "status": self.code},
            }),
            _ => json!({
                "error": {"message": message, "type": "gateway_error", "param": null, "code": self.code},
            }),
        }
    }
}
