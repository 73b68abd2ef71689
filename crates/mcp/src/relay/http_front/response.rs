//! HTTP responses to clients.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::body::Frame as BodyFrame;

use super::session::Active;
use super::stream::EventReader;
use crate::relay::{Exchange, Frame, HttpAnswer};

/// The interval of comments in a silent stream, which keep connections open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Returns a response with an empty body.
pub(super) fn empty(status: StatusCode) -> Response<Body> {
    with_body(status, None, Empty::new().boxed_unsync())
}

/// Returns a response with a message.
pub(super) fn json(status: StatusCode, message: &Frame) -> Response<Body> {
    let body = Full::new(message.bytes().clone()).boxed_unsync();
    with_body(status, Some("application/json"), body)
}

/// Returns a refusal: an error of JSON-RPC.
pub(super) fn refusal(
    status: StatusCode,
    id: Option<&str>,
    code: i64,
    why: &str,
) -> Response<Body> {
    json(
        status,
        &Frame::error_response(id.unwrap_or("null"), code, why),
    )
}

/// Returns the response to a request: with the status and the headers of the server's response, if it was a refusal.
pub(super) fn answer(message: &Frame, status: StatusCode) -> Response<Body> {
    let Some(answer) = message.http_answer() else {
        return json(status, message);
    };
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let HttpAnswer { headers, body, .. } = answer;
    let mut response = match body {
        Some(body) => with_body(status, None, Full::new(body.clone()).boxed_unsync()),
        None => json(status, message),
    };
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (
            HeaderName::try_from(name.as_str()),
            HeaderValue::from_bytes(value),
        ) {
            response.headers_mut().append(name, value);
        }
    }
    if body.is_none() {
        let kind = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    response
}

/// Returns a stream of events that can be resumed. It starts with an event without a message, if the client knows those.
pub(super) fn resumable(reader: EventReader, is_primed: bool, activity: Active) -> Response<Body> {
    let number = reader.stream_number();
    let primer = is_primed.then(|| Bytes::from(format!("id: {number}-0\nretry: 1000\ndata: \n\n")));
    // A session with an open stream is in use.
    let events = stream::unfold(
        (reader, activity),
        move |(mut reader, activity)| async move {
            let chunks = match tokio::time::timeout(KEEP_ALIVE, reader.next()).await {
                Ok(Some((event, message))) => chunks(Some(format!("{number}-{event}")), &message),
                Ok(None) => return None,
                Err(_) => comment(),
            };
            Some((chunks, (reader, activity)))
        },
    );
    events_response(stream::iter(primer).chain(events.flat_map(stream::iter)))
}

/// Returns the stream of a request that ends with the client's connection.
pub(super) fn bound(first: Option<Frame>, exchange: Exchange) -> Response<Body> {
    let first = first
        .map(|message| chunks(None, &message))
        .unwrap_or_default();
    let events = stream::unfold(exchange, |mut exchange| async move {
        let chunks = match tokio::time::timeout(KEEP_ALIVE, exchange.next()).await {
            Ok(Some(message)) => chunks(None, &message),
            Ok(None) => return None,
            Err(_) => comment(),
        };
        Some((chunks, exchange))
    });
    events_response(stream::iter(first).chain(events.flat_map(stream::iter)))
}

/// Returns the parts of an event. The message is not copied.
fn chunks(id: Option<String>, message: &Frame) -> Vec<Bytes> {
    let head = match id {
        Some(id) => format!("event: message\nid: {id}\ndata: "),
        None => "event: message\ndata: ".to_owned(),
    };
    let line = message.on_one_line();
    if line.len() < 16 << 10 {
        let parts: [&[u8]; 3] = [head.as_bytes(), &line, b"\n\n"];
        return vec![parts.concat().into()];
    }
    vec![head.into(), line, Bytes::from_static(b"\n\n")]
}

fn comment() -> Vec<Bytes> {
    vec![Bytes::from_static(b":\n\n")]
}

fn events_response(events: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    let body = StreamBody::new(events.map(|chunk| Ok(BodyFrame::data(chunk)))).boxed_unsync();
    let mut response = with_body(StatusCode::OK, Some("text/event-stream"), body);
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn with_body(status: StatusCode, kind: Option<&'static str>, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    if let Some(kind) = kind {
        let kind = HeaderValue::from_static(kind);
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    response
}
