//! Event streams of AWS (`application/vnd.amazon.eventstream`), the streaming format of Bedrock.
//!
//! `aws-smithy-eventstream` parses the frames; this module converts them to events and errors.

use aws_smithy_eventstream::frame::{DecodedFrame, MessageFrameDecoder};
use aws_smithy_types::event_stream::Message;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use serde_json::Value;

use super::sse::Event;
use crate::error::{Error, ErrorKind};

/// The content type of such a stream.
pub const CONTENT_TYPE: &str = "application/vnd.amazon.eventstream";

/// Maximum size of a frame in bytes: 16 MiB, as in AWS's own clients.
const MAX_FRAME_BYTES: usize = 16 << 20;

/// The type of events whose payload wraps an event of the model's own format.
const CHUNK: &str = "chunk";

/// Incremental decoder of a stream.
#[derive(Debug, Default)]
pub struct Decoder {
    frames: MessageFrameDecoder,
    buffer: BytesMut,
    /// Error that ended the stream after the events that were returned last.
    failed: Option<Error>,
}

impl Decoder {
    /// Appends bytes and returns the events that they complete. An error after some of these events is
    /// returned by [`Decoder::check`] and by the next call.
    ///
    /// An event has the name of its `:event-type` and its payload as data. A `chunk` of `InvokeModel` has
    /// no name, and its data is the wrapped event.
    ///
    /// # Errors
    /// [`ErrorKind::Malformed`]: this is not an event stream. Otherwise the error that the provider reports
    /// in the stream, with its type as code.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, Error> {
        self.check()?;
        self.buffer.extend_from_slice(bytes);
        let mut events = Vec::new();
        loop {
            match self.next() {
                Ok(Some(event)) => events.extend(event),
                Ok(None) => return Ok(events),
                Err(error) if events.is_empty() => return Err(error),
                Err(error) => {
                    self.failed = Some(error);
                    return Ok(events);
                }
            }
        }
    }

    /// Returns the error that ended the stream, if there was one.
    ///
    /// # Errors
    /// Those of [`Decoder::push`].
    pub fn check(&self) -> Result<(), Error> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Returns the next frame: its event, or `None` inside if the frame contains none. Returns `None` if
    /// the frame is incomplete.
    fn next(&mut self) -> Result<Option<Option<Event>>, Error> {
        let frame = self.frames.decode_frame(&mut self.buffer);
        match frame.map_err(|error| malformed(&error.to_string()))? {
            DecodedFrame::Complete(message) => event(&message).map(Some),
            DecodedFrame::Incomplete if self.buffer.len() > MAX_FRAME_BYTES => {
                Err(malformed("a frame is longer than 16 MiB"))
            }
            DecodedFrame::Incomplete => Ok(None),
        }
    }
}

fn malformed(what: &str) -> Error {
    Error::new(
        ErrorKind::Malformed,
        format!("the event stream cannot be read: {what}; check `base_url`"),
    )
}

fn event(message: &Message) -> Result<Option<Event>, Error> {
    let header = |name: &str| {
        let mut headers = message.headers().iter();
        let header = headers.find(|header| header.name().as_str() == name)?;
        let text = header.value().as_string().ok()?;
        Some(text.as_str())
    };
    let value = || serde_json::from_slice::<Value>(message.payload()).unwrap_or_default();
    match header(":message-type") {
        Some("event") if header(":event-type") == Some(CHUNK) => {
            let value = value();
            let bytes = value.get("bytes").and_then(Value::as_str);
            let data = bytes
                .and_then(|bytes| STANDARD.decode(bytes).ok())
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .ok_or_else(|| malformed("a chunk holds no text in base64"))?;
            Ok(Some(Event {
                name: String::new(),
                data,
            }))
        }
        Some("event") => {
            let data = String::from_utf8(message.payload().to_vec());
            Ok(Some(Event {
                name: header(":event-type").unwrap_or_default().to_owned(),
                data: data.map_err(|_| malformed("an event holds no text"))?,
            }))
        }
        Some("exception" | "error") => {
            let code = header(":exception-type").or(header(":error-code"));
            let code = code.unwrap_or("exception").to_owned();
            let value = value();
            let said = value.get("message").and_then(Value::as_str);
            let said = said.or(header(":error-message"));
            Err(Error {
                code: Some(code.clone()),
                ..Error::new(
                    kind(&code),
                    said.unwrap_or("the provider reports an error and gives no reason"),
                )
            })
        }
        _ => Ok(None),
    }
}

/// Returns the kind of an exception:
/// <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ResponseStream.html>.
fn kind(code: &str) -> ErrorKind {
    match code {
        "throttlingException" => ErrorKind::Limited,
        "validationException" => ErrorKind::Rejected,
        "modelTimeoutException" => ErrorKind::TimedOut,
        _ => ErrorKind::Unavailable,
    }
}
