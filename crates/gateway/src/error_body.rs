//! Errors of the gateway itself, in the form that the client's library expects.

use std::time::Duration;

use cachalot_model::wire::{self, FormatWire};
use cachalot_storage::PageRefusal;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::Value;

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
    /// Time after which the same request may succeed.
    pub(crate) retry_after: Option<Duration>,
}

/// The code of an error of a request that only the cache may answer, and cannot.
pub(crate) const NOT_CACHED: &str = "not_cached";

/// Time up to which the official libraries wait before they repeat a request.
const SHORT_WAIT: Duration = Duration::from_secs(60);

/// The form of errors at paths of no format.
static OF_OTHERS: FormatWire = wire::CHAT;

impl From<PageRefusal> for ErrorBody {
    fn from(refusal: PageRefusal) -> Self {
        let code = match refusal {
            PageRefusal::Host(_) => "host_not_allowed",
            PageRefusal::Origin(_) | PageRefusal::Site => "origin_not_allowed",
        };
        Self::forbidden(code, refusal.to_string())
    }
}

impl ErrorBody {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            retry_after: None,
        }
    }

    /// Returns an error of a malformed request.
    pub(crate) fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// Returns an error of a request without a valid credential.
    pub(crate) fn unauthorized(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, code, message)
    }

    /// Returns an error of a request that is not permitted.
    pub(crate) fn forbidden(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, message)
    }

    /// Returns an error of a request for something that does not exist.
    pub(crate) fn not_found(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, message)
    }

    /// Returns an error of a request that is too large.
    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message)
    }

    /// Returns an error of a gateway that cannot answer for the time being.
    pub(crate) fn unavailable(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message)
    }

    /// Sets the time after which the same request may succeed.
    pub(crate) fn retry_after(self, time: Duration) -> Self {
        Self {
            retry_after: Some(time),
            ..self
        }
    }

    /// Answers a request that only the cache may answer so that no client repeats it. Measured with ten clients on
    /// 2026-11-30: after 504, most repeat it for half a minute and longer; after 400, all end at once and show the text.
    pub(crate) fn end_client(&mut self) {
        if self.code == NOT_CACHED {
            self.status = StatusCode::BAD_REQUEST;
        }
    }

    /// Returns true if the upstream did not answer: another one may.
    pub(crate) fn is_of_upstream(&self) -> bool {
        self.code.starts_with("upstream_") && self.status.is_server_error()
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
        if self.status == StatusCode::UPGRADE_REQUIRED {
            // The protocol that is offered (RFC 9110, section 15.5.22).
            headers.insert(header::UPGRADE, HeaderValue::from_static("HTTP/1.1"));
        }
        if let Some(time) = self.retry_after {
            // Rounded up: a request at the given time must succeed.
            let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        // The official libraries repeat requests that fail with a status of 429, 500 and above.
        let helps = match self.retry_after {
            Some(time) => time <= SHORT_WAIT,
            None => self.status.is_server_error() && self.status != StatusCode::GATEWAY_TIMEOUT,
        };
        if !helps {
            headers.insert("x-should-retry", HeaderValue::from_static("false"));
        }
        response
    }

    fn json(&self, endpoint: Endpoint) -> Value {
        let message = format!("cachalot: {}", self.message);
        let wire = endpoint.wire().unwrap_or(&*OF_OTHERS);
        wire.gateway_error(self.status.as_u16(), self.code, &message)
    }
}
