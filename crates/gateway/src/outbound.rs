//! Requests to upstreams.

use std::sync::Arc;

use bytes::Bytes;
use cachalot_model::wire;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};

use crate::body::{self, Body};
use crate::call::without_credentials;
use crate::endpoint::Endpoint;
use crate::error_body::ErrorBody;
use crate::header;
use crate::route::Route;
use crate::settings::Caller;
use crate::upstream::Upstream;

/// A request to an upstream, which can be sent again.
#[derive(Debug, Clone)]
pub(crate) struct Outbound {
    pub(crate) upstream: Arc<Upstream>,
    head: OutboundHead,
    body: Bytes,
}

/// The head of a request to an upstream.
#[derive(Debug, Clone)]
pub(crate) struct OutboundHead {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
}

impl OutboundHead {
    /// Creates the head: that of the client's request (`parts`), to the path of its route, with the credential of the
    /// operator if the client has a key of the gateway.
    ///
    /// # Errors
    /// The response to a client that may not reach the upstream, or whose path is malformed.
    pub(crate) fn new(
        upstream: &Upstream,
        caller: &Caller,
        route: &Route,
        parts: &Parts,
    ) -> Result<Self, ErrorBody> {
        let credential = match caller.credential(upstream)? {
            None => None,
            Some(credential) => {
                let (name, before) = upstream.header.parts();
                let value = HeaderValue::from_str(&format!("{before}{}", credential.expose()));
                let mut value = value.map_err(|_| {
                    ErrorBody::new(
                        StatusCode::INTERNAL_SERVER_ERROR,
                        "malformed_credential",
                        format!("the credential of `{}` is no header value", upstream.name()),
                    )
                })?;
                // Keeps the value out of debug output.
                value.set_sensitive(true);
                Some((name, value))
            }
        };
        // Beside a credential of the operator, none of the client is sent, also not in the query.
        let kept = match credential {
            Some(_) => without_credentials(parts.uri.query()),
            None => parts.uri.query().map(str::to_owned),
        };
        let uri = upstream.uri(route.api, &route.path, kept.as_deref());
        Ok(Self {
            method: parts.method.clone(),
            uri: uri
                .map_err(|error| ErrorBody::bad_request("malformed_path", error.to_string()))?,
            headers: header::for_upstream(&parts.headers, credential),
        })
    }

    /// Returns the request with a body.
    pub(crate) fn with(self, body: Body) -> Request<Body> {
        let mut request = Request::new(body);
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.headers_mut() = self.headers;
        request
    }
}

impl Outbound {
    /// Creates a request; its body may differ from the client's.
    pub(crate) fn new(upstream: Arc<Upstream>, mut head: OutboundHead, body: Bytes) -> Self {
        if let Some(length) = head.headers.get_mut(http::header::CONTENT_LENGTH) {
            *length = HeaderValue::from(body.len());
        }
        Self {
            upstream,
            head,
            body,
        }
    }

    /// Returns the request that renews the prefix of this one to a model.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(crate) fn renewal(&self, endpoint: Endpoint, model: &str) -> Result<Self, &'static str> {
        let wire = endpoint
            .wire()
            .ok_or("the endpoint is of no known format")?;
        let body = wire::renewal(wire, model, &self.body)?;
        let mut head = self.head.clone();
        // The answer to this request is none to that.
        head.headers.remove("idempotency-key");
        Ok(Self::new(Arc::clone(&self.upstream), head, body))
    }

    /// Returns the body.
    pub(crate) fn body(&self) -> &Bytes {
        &self.body
    }

    /// Returns the request.
    pub(crate) fn request(&self) -> Request<Body> {
        self.head.clone().with(body::full(self.body.clone()))
    }
}
