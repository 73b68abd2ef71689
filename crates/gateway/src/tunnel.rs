//! Connections that change their protocol, such as WebSockets: passed on in both directions.

use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::sync::OwnedSemaphorePermit;

use crate::body::{self, Body};
use crate::cache_status;
use crate::client::UpstreamClient;
use crate::error_body::ErrorBody;
use crate::route::Route;
use crate::telemetry::upstream_span::UpstreamSpan;
use crate::upstream::Upstream;

/// Returns true if the request asks for a WebSocket. Other protocols are not offered: the header is then one of the
/// connection that is not passed on, and the request is answered as it is.
pub(crate) fn is_asked_for(request: &Request<Incoming>) -> bool {
    let headers = request.headers();
    let is = |name: http::HeaderName, wanted: &str| {
        let values = headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let mut parts = values.flat_map(|value| value.split(','));
        parts.any(|part| part.trim().eq_ignore_ascii_case(wanted))
    };
    request.method() == http::Method::GET
        && is(header::CONNECTION, "upgrade")
        && is(header::UPGRADE, "websocket")
        && !headers.contains_key(header::TRANSFER_ENCODING)
        && headers
            .get(header::CONTENT_LENGTH)
            .is_none_or(|length| length == "0")
}

/// Returns true if the client can send the same requests by POST, one by one.
pub(crate) fn has_post(route: &Route) -> bool {
    route.path.ends_with("/responses")
}

/// Returns the response to a client that has to send its requests by POST: clients of Responses do so at once, and try
/// again first after any other refusal.
pub(crate) fn refusal() -> ErrorBody {
    ErrorBody::new(
        StatusCode::UPGRADE_REQUIRED,
        "websocket_not_offered",
        "no WebSocket is offered here: send each request by POST",
    )
}

/// The reason why the answer is not stored.
pub(crate) const REASON: &str = "a WebSocket is passed through";

/// Asks the upstream for the protocol, and connects both sides if it agrees. `upstream_request` has the headers that
/// are passed on.
pub(crate) async fn open(
    client: &UpstreamClient,
    upstream: &Upstream,
    mut client_request: Request<Incoming>,
    mut upstream_request: Request<Body>,
    permit: OwnedSemaphorePermit,
    span: UpstreamSpan,
) -> Result<Response<Body>, ErrorBody> {
    let headers = upstream_request.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    let mut answer = client.send_once(upstream, upstream_request, &span).await?;
    span.close();
    let is_agreed = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
    let mut headers = crate::header::for_client(answer.headers(), false);
    if is_agreed {
        for name in [header::UPGRADE, header::CONNECTION] {
            if let Some(value) = answer.headers().get(&name) {
                headers.insert(name, value.clone());
            }
        }
    }
    headers.append(cache_status::HEADER, cache_status::of_pass(REASON));
    let status = answer.status();
    let body = if !is_agreed {
        body::passed(answer.into_body())
    } else {
        let to_client = hyper::upgrade::on(&mut client_request);
        let to_upstream = hyper::upgrade::on(&mut answer);
        tokio::spawn(async move {
            if let (Ok(client), Ok(upstream)) = tokio::join!(to_client, to_upstream) {
                let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
                // An error means that one side has left.
                let _ = tokio::io::copy_bidirectional(&mut client, &mut upstream).await;
            }
            // Held as long as the connection: permits bound the number of tunnels.
            drop(permit);
        });
        body::full("")
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}
