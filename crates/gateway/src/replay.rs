//! Responses from answers of the engine.

use std::time::Duration;

use bytes::Bytes;
use cachalot_cache::BodyReader;
use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};

use crate::answer_form::AnswerForm;
use crate::body::{self, Body, BodyError};
use crate::recorded::{Recorded, RecordedHead};

/// Pace of a replayed answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Everything at once.
    AtOnce,
    /// With the pauses of the original.
    Original,
}

/// Returns the response for an answer that this request's run receives: all headers of the upstream. `reader` has
/// read the head.
pub(crate) fn of_own_run(
    status: StatusCode,
    headers: HeaderMap,
    reader: BodyReader,
) -> Response<Body> {
    let mut response = Response::new(rest(reader));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Returns the response for an answer that another request's run receives. `reader` has read the head.
pub(crate) fn of_shared_run(head: &RecordedHead, reader: BodyReader) -> Response<Body> {
    with_head(head, rest(reader))
}

/// Returns the response for a whole answer.
pub(crate) fn of_entry(recorded: Recorded, pace: Pace) -> Response<Body> {
    let Recorded { head, chunks, body } = recorded;
    let length = body.len();
    let body = match pace {
        Pace::AtOnce => body::full(body),
        Pace::Original => {
            let state = (chunks.into_iter(), body);
            body::stream(stream::unfold(state, |(mut chunks, mut body)| async move {
                let mark = chunks.next()?;
                tokio::time::sleep(Duration::from_millis(mark.after_ms.into())).await;
                let chunk = body.split_to(body.len().min(mark.bytes as usize));
                Some((Ok(chunk), (chunks, body)))
            }))
        }
    };
    let mut response = with_head(&head, body);
    response
        .headers_mut()
        .insert(header::CONTENT_LENGTH, length.into());
    response
}

/// Returns the response for a whole answer in another form than the stored one.
pub(crate) fn of_converted(recorded: &Recorded, form: AnswerForm, body: Bytes) -> Response<Body> {
    let length = body.len();
    let mut response = with_head(&recorded.head, body::full(body));
    let headers = response.headers_mut();
    let content_type = HeaderValue::from_static(form.content_type());
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CONTENT_LENGTH, length.into());
    response
}

fn with_head(head: &RecordedHead, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(head.status).unwrap_or(StatusCode::BAD_GATEWAY);
    for (name, value) in &head.headers {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

/// Returns the rest of an answer that is being received.
fn rest(reader: BodyReader) -> Body {
    body::stream(stream::unfold(reader, |mut reader| async move {
        let chunk = reader.next().await?;
        if chunk.is_err() {
            // An error ends the connection: first, what is buffered must reach the client, at least the head.
            tokio::task::yield_now().await;
        }
        Some((
            chunk.map_err(|failure| BodyError::from(failure.to_string())),
            reader,
        ))
    }))
}
