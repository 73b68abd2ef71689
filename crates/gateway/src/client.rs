//! The client of the upstreams: pooled connections, no redirects, repetitions only before an answer begins.

use std::time::{Duration, Instant};

use cachalot_core::causes::root_cause;
use http::{HeaderMap, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self, Client};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::body::Body;
use crate::error_body::ErrorBody;
use crate::outbound::Outbound;
use crate::proxy_connector::ProxyConnector;
use crate::telemetry::upstream_span::UpstreamSpan;
use crate::upstream::Upstream;

/// Maximum time in which a connection is established.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which an unused connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// A client of upstreams. Clones share their connections.
#[derive(Clone)]
pub(crate) struct UpstreamClient {
    client: Client<HttpsConnector<ProxyConnector>, Body>,
    timeout: Duration,
}

impl UpstreamClient {
    /// Creates a client that waits for at most `timeout` until a response begins.
    pub(crate) fn new(tls: rustls::ClientConfig, proxies: Matcher, timeout: Duration) -> Self {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(ProxyConnector::new(connector, proxies));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build(connector);
        Self { client, timeout }
    }

    /// Sends a request and waits for the head of the response. A request that fails before that is repeated as often as
    /// the upstream's configuration says.
    ///
    /// # Errors
    /// The response to the client, if the upstream does not answer.
    pub(crate) async fn send(
        &self,
        outbound: &Outbound,
        span: &UpstreamSpan,
    ) -> Result<Response<Incoming>, ErrorBody> {
        let upstream = &outbound.upstream;
        for attempt in 0..upstream.retries {
            let request = outbound.request();
            let answer = self.send_once(upstream, request, span).await;
            let wait = match &answer {
                Ok(response) if !has_failed(response.status()) => None,
                Ok(response) => wait_for(response.headers(), attempt),
                // Only if nothing was sent: the provider may charge for a request that it has received.
                Err(error) => (error.code == UNREACHABLE).then(|| pause(attempt)),
            };
            match wait {
                Some(wait) => {
                    tracing::debug!(
                        upstream = upstream.name(),
                        attempt = attempt + 1,
                        milliseconds = wait.as_millis() as u64,
                        "the request failed before its answer began, and is repeated after a pause"
                    );
                    span.close();
                    tokio::time::sleep(wait).await;
                }
                None => return answer,
            }
        }
        self.send_once(upstream, outbound.request(), span).await
    }

    /// Sends a request once. `span` ends if there is no answer.
    ///
    /// # Errors
    /// The response to the client, if the upstream does not answer.
    pub(crate) async fn send_once(
        &self,
        upstream: &Upstream,
        request: Request<Body>,
        span: &UpstreamSpan,
    ) -> Result<Response<Incoming>, ErrorBody> {
        let rule = upstream.breaker_rule.as_ref();
        if !upstream.breaker.admits(rule, Instant::now()) {
            tracing::debug!(upstream = upstream.name(), "left out after failures");
            let message = format!(
                "the upstream `{}` is left out after failures",
                upstream.name()
            );
            let error = ErrorBody::unavailable(PAUSED, message);
            return Err(error.retry_after(rule.map_or(Duration::ZERO, |rule| rule.pause)));
        }
        span.begin();
        let answer = self.request(upstream, request).await;
        span.answer(&answer);
        match &answer {
            Ok(response) => tracing::debug!(
                upstream = upstream.name(),
                status = response.status().as_u16(),
                "the upstream answered"
            ),
            Err(error) => tracing::debug!(
                upstream = upstream.name(),
                error = error.code,
                "the upstream did not answer"
            ),
        }
        // Only errors of the server count, not refusals of one request.
        let is_failure = match &answer {
            Ok(response) => response.status().is_server_error(),
            Err(_) => true,
        };
        let now = Instant::now();
        let was_left_out = upstream.breaker.is_paused();
        upstream.breaker.record(rule, is_failure, now);
        match (was_left_out, upstream.breaker.is_paused()) {
            (false, true) => {
                tracing::info!(upstream = upstream.name(), "left out from now on");
            }
            (true, false) => {
                tracing::info!(upstream = upstream.name(), "asked again from now on");
            }
            _ => {}
        }
        answer
    }

    /// Sends a request to a server that is no upstream.
    ///
    /// # Errors
    /// There is no answer.
    pub(crate) async fn request_other(
        &self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, legacy::Error> {
        self.client.request(request).await
    }

    async fn request(
        &self,
        upstream: &Upstream,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, ErrorBody> {
        let host = upstream.authority();
        let timeout = upstream.timeout.unwrap_or(self.timeout);
        match tokio::time::timeout(timeout, self.client.request(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => {
                // A server that was reached may have received the request.
                let code = if error.is_connect() {
                    UNREACHABLE
                } else {
                    "upstream_disconnected"
                };
                let message = format!("no answer from {host}: {}", root_cause(&error));
                Err(ErrorBody::new(StatusCode::BAD_GATEWAY, code, message))
            }
            Err(_) => Err(ErrorBody::new(
                StatusCode::GATEWAY_TIMEOUT,
                "upstream_timeout",
                format!("no answer from {host} within {} s", timeout.as_secs()),
            )),
        }
    }
}

/// The code of an error of an upstream that is left out.
pub(crate) const PAUSED: &str = "upstream_paused";
/// The code of an error before which nothing was sent.
pub(crate) const UNREACHABLE: &str = "upstream_unreachable";
/// Status of an overloaded server of Anthropic.
const OVERLOADED: u16 = 529;

/// Returns true for the status of an answer in place of which another attempt may get one.
pub(crate) fn has_failed(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 500 | 502 | 503 | 504 | OVERLOADED)
}

/// The maximum time for which a repetition waits.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Returns the time until the next attempt; `None` if the upstream asks for a longer one.
fn wait_for(headers: &HeaderMap, attempt: u32) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER);
    let Some(seconds) = seconds.and_then(|value| value.to_str().ok()?.trim().parse().ok()) else {
        return Some(pause(attempt));
    };
    let asked = Duration::from_secs(seconds);
    (asked <= LONGEST_WAIT).then_some(asked)
}

fn pause(attempt: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(attempt);
    (Duration::from_millis(250) * doubled).min(LONGEST_WAIT)
}
