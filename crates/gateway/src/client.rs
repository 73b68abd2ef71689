//! The client of the upstreams: pooled connections, no redirects, nothing repeated.

use std::error::Error as _;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::body::Body;
use crate::error_body::ErrorBody;

/// Maximum time in which a connection is established.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which an unused connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// A client of upstreams. Clones share their connections.
#[derive(Clone)]
pub(crate) struct UpstreamClient {
    client: Client<HttpsConnector<HttpConnector>, Body>,
    timeout: Duration,
}

impl UpstreamClient {
    /// Creates a client that waits for at most `timeout` until a response begins.
    pub(crate) fn new(tls: rustls::ClientConfig, timeout: Duration) -> Self {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build(connector);
        Self { client, timeout }
    }

    /// Sends a request and waits for the head of the response.
    ///
    /// # Errors
    /// The response to the client, if the upstream does not answer.
    pub(crate) async fn send(
        &self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, ErrorBody> {
        let host = request
            .uri()
            .authority()
            .map_or(String::new(), ToString::to_string);
        match tokio::time::timeout(self.timeout, self.client.request(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => {
                let mut cause = error.to_string();
                let mut source = error.source();
                while let Some(deeper) = source {
                    cause = deeper.to_string();
                    source = deeper.source();
                }
                Err(ErrorBody::new(
                    StatusCode::BAD_GATEWAY,
                    "upstream_unreachable",
                    format!("no answer from {host}: {cause}"),
                ))
            }
            Err(_) => Err(ErrorBody::new(
                StatusCode::GATEWAY_TIMEOUT,
                "upstream_timeout",
                format!("no answer from {host} within {} s", self.timeout.as_secs()),
            )),
        }
    }
}
