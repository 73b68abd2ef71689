//! Reads answers. A server may send a whole answer or a stream, regardless of the mode requested.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cachalot_storage::Response;
use cachalot_storage::header::CONTENT_TYPE;
use serde::de::IgnoredAny;
use tokio::time::{Instant, timeout, timeout_at};

use super::attempt_failure::{AttemptFailure, ErrorFactory};
use super::{DeliveryMode, provider_error};
use crate::error::{Error, ErrorKind};
use crate::wire::sse::Event;
use crate::wire::{event_stream, sse};
use crate::{Block, Delta, Reply};

/// Size limits of an answer, in bytes. A stream may be longer, since its events repeat data.
const MAX_BODY_BYTES: usize = 64 << 20;
const MAX_STREAM_BYTES: usize = 1 << 30;

/// Maximum number of bytes that are read of an error's body.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// Time to wait for the end of the response after the last event, so that the connection can be reused.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(50);

/// Reads a successful answer. `deadline` applies to its first byte.
pub(super) async fn read(
    error_factory: &ErrorFactory<'_>,
    response: Response,
    mode: DeliveryMode,
    deadline: Instant,
    on: &mut (dyn FnMut(Delta) + Send),
) -> Result<Reply, AttemptFailure> {
    let status = response.status().as_u16();
    let content_type = response.headers().get(CONTENT_TYPE);
    let is_framed =
        content_type.is_some_and(|content_type| content_type == event_stream::CONTENT_TYPE);
    let mut body = Body {
        error_factory,
        response,
        read: 0,
        deadline: Some(deadline),
    };
    if is_framed {
        return body
            .stream(Bytes::new(), Decoder::Frames(Box::default()), on)
            .await;
    }
    // The first byte identifies the kind of answer more reliably than the content type: no line of an event
    // stream begins like JSON or a web page.
    let mut start = BytesMut::new();
    let first = loop {
        if let Some(byte) = start.iter().find(|byte| !byte.is_ascii_whitespace()) {
            break Some(*byte);
        }
        match body.next().await? {
            Some(chunk) if start.len() < MAX_ERROR_BYTES => start.extend_from_slice(&chunk),
            Some(_) => return Err(error_factory.malformed("nothing but white space", b"")),
            None => break None,
        }
    };
    let start = start.freeze();
    match first {
        None => Err(error_factory.cut_off("there was nothing in it", true)),
        Some(b'{' | b'[' | b'"') => {
            let whole = body.whole(start).await?;
            let reply = parse_reply(error_factory, status, &whole)?;
            if mode == DeliveryMode::Stream {
                deltas(&reply, on);
            }
            Ok(reply)
        }
        Some(b'<') => {
            let page = body.whole(start).await?;
            Err(error_factory.malformed("a web page, not an answer", &page))
        }
        Some(_) => body.stream(start, Decoder::Sse(Box::default()), on).await,
    }
}

/// Reads a successful answer that is one JSON document. `deadline` applies to its first byte.
pub(super) async fn json(
    error_factory: &ErrorFactory<'_>,
    response: Response,
    deadline: Instant,
) -> Result<Bytes, AttemptFailure> {
    let status = response.status().as_u16();
    let body = Body {
        error_factory,
        response,
        read: 0,
        deadline: Some(deadline),
    };
    let body = body.whole(Bytes::new()).await?;
    check_json(error_factory, status, &body)?;
    Ok(body)
}

/// Returns the beginning of an error's body, as much as can be read.
pub(super) async fn excerpt(mut response: Response, idle: Duration) -> Bytes {
    let mut body = BytesMut::new();
    while let Ok(Ok(Some(chunk))) = timeout(idle, response.chunk()).await {
        let room = MAX_ERROR_BYTES.saturating_sub(body.len());
        body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        if chunk.len() >= room {
            break;
        }
    }
    body.freeze()
}

/// Decoder of a stream, chosen by its content type.
enum Decoder {
    Sse(Box<sse::Decoder>),
    Frames(Box<event_stream::Decoder>),
}

impl Decoder {
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, Error> {
        match self {
            Self::Sse(decoder) => decoder.push(bytes),
            Self::Frames(decoder) => decoder.push(bytes),
        }
    }

    /// Returns the error that ended the stream after the events that were returned last.
    fn check(&self) -> Result<(), Error> {
        match self {
            Self::Sse(_) => Ok(()),
            Self::Frames(decoder) => decoder.check(),
        }
    }
}

struct Body<'a> {
    error_factory: &'a ErrorFactory<'a>,
    response: Response,
    read: usize,
    /// Deadline of the first byte; `None` once it has arrived.
    deadline: Option<Instant>,
}

impl Body<'_> {
    /// Returns the next bytes; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, AttemptFailure> {
        let begun = self.deadline.is_none();
        let waited = match self.deadline {
            Some(deadline) => timeout_at(deadline, self.response.chunk()).await,
            None => timeout(self.error_factory.idle(), self.response.chunk()).await,
        };
        match waited {
            Err(_) if begun => Err(self.error_factory.idle_timed_out()),
            Err(_) => Err(self.error_factory.no_first_byte()),
            Ok(Err(error)) => {
                let cause = root_cause(&error);
                let why = match self.read {
                    0 => format!("the connection broke ({cause})"),
                    read => format!("the connection broke after {read} bytes ({cause})"),
                };
                Err(self.error_factory.cut_off(&why, begun))
            }
            Ok(Ok(chunk)) => {
                if let Some(chunk) = &chunk
                    && !chunk.is_empty()
                {
                    self.deadline = None;
                    self.read += chunk.len();
                }
                Ok(chunk)
            }
        }
    }

    /// Reads the whole body.
    async fn whole(mut self, start: Bytes) -> Result<Bytes, AttemptFailure> {
        let mut whole = BytesMut::from(start);
        while let Some(chunk) = self.next().await? {
            if whole.len() + chunk.len() > MAX_BODY_BYTES {
                return Err(self.too_long(MAX_BODY_BYTES));
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.freeze())
    }

    /// Reads the events of a stream to the last one.
    async fn stream(
        mut self,
        start: Bytes,
        mut decoder: Decoder,
        on: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Reply, AttemptFailure> {
        let error_factory = self.error_factory;
        let undone = |error: Error| error_factory.reported(error);
        let mut reader = crate::wire::for_format(error_factory.model.format).reader();
        let mut chunk = Some(start);
        while let Some(bytes) = chunk {
            for event in decoder.push(&bytes).map_err(undone)? {
                for delta in reader.event(&event).map_err(undone)? {
                    on(delta);
                }
            }
            if reader.complete() {
                // A response that is dropped before its end closes its connection.
                self.await_close().await;
                break;
            }
            // After the events: those before the error may have completed the answer.
            decoder.check().map_err(undone)?;
            if self.read > MAX_STREAM_BYTES {
                return Err(self.too_long(MAX_STREAM_BYTES));
            }
            chunk = self.next().await?;
        }
        reader.finish().map_err(undone)
    }

    async fn await_close(&mut self) {
        let end = Instant::now() + CLOSE_TIMEOUT;
        while let Ok(Ok(Some(_))) = timeout_at(end, self.response.chunk()).await {}
    }

    fn too_long(&self, longest: usize) -> AttemptFailure {
        self.error_factory.last(
            ErrorKind::Malformed,
            format!(
                "the answer is longer than {longest} bytes; what answers at `{}` is no API of a model",
                self.error_factory.model.shown
            ),
        )
    }
}

/// Parses a whole answer.
fn parse_reply(
    error_factory: &ErrorFactory<'_>,
    status: u16,
    body: &[u8],
) -> Result<Reply, AttemptFailure> {
    check_json(error_factory, status, body)?;
    crate::wire::for_format(error_factory.model.format)
        .reply(body)
        .map_err(|error| error_factory.reported(error))
}

/// Fails unless the body is JSON and reports no error.
fn check_json(
    error_factory: &ErrorFactory<'_>,
    status: u16,
    body: &[u8],
) -> Result<(), AttemptFailure> {
    if let Err(error) = serde_json::from_slice::<IgnoredAny>(body) {
        return Err(if error.is_eof() {
            let why = format!("the JSON of {} bytes has no end", body.len());
            error_factory.cut_off(&why, true)
        } else {
            error_factory.malformed(&format!("an answer that is not JSON ({error})"), body)
        });
    }
    // The search costs little, and spares most answers a second parse.
    if memchr::memmem::find(body, b"\"error\"").is_some()
        && let Ok(value) = serde_json::from_slice(body)
        && provider_error::is_error(&value)
    {
        return Err(error_factory.error_inside(status, &value));
    }
    Ok(())
}

/// Emits a whole answer as the deltas of a stream.
fn deltas(reply: &Reply, on: &mut (dyn FnMut(Delta) + Send)) {
    let mut calls = 0;
    for block in &reply.message.content {
        match block {
            Block::Text { text, .. } if !text.is_empty() => on(Delta::Text(text.clone())),
            Block::Reasoning(reasoning) if !reasoning.text.is_empty() => {
                on(Delta::Reasoning(reasoning.text.clone()));
            }
            Block::ToolUse(call) => {
                on(Delta::ToolUse {
                    index: calls,
                    id: call.id.clone(),
                    name: call.name.clone(),
                });
                on(Delta::Arguments {
                    index: calls,
                    text: call.arguments.clone(),
                });
                calls += 1;
            }
            _ => {}
        }
    }
}

/// Returns the text of the innermost cause; the outer ones only say "error decoding response body".
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
