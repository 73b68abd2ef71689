//! A request to the server, and its answer.

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use http::{StatusCode, header};
use reqwest::Response;

use super::cursor::Cursor;
use super::endpoint::{EVENTS, Failure, JSON, Opening, SESSION_ID};
use super::event_stream::{event_stream, is_cut};
use super::refusal::Refusal;
use super::shared::Shared;
use crate::relay::calls::Begun;
use crate::relay::program::CONNECTION_CLOSED;
use crate::relay::{Frame, FrameKind, HttpAnswer, MAX_MESSAGE_BYTES, RequestContext};

/// Number of attempts without a message after which the cut stream of a request is given up.
const MAX_ATTEMPTS: u32 = 5;

/// A request to the server.
pub(super) struct RemoteCall<'a> {
    pub(super) shared: &'a Shared,
    pub(super) begun: &'a Begun,
    pub(super) context: &'a RequestContext,
}

impl RemoteCall<'_> {
    /// Sends the request, and passes on what the server answers.
    pub(super) async fn run(&self) {
        let (shared, number) = (self.shared, self.begun.number);
        let failure = match self.answer().await {
            Ok(()) => return,
            Err(failure) => failure,
        };
        let (error, is_lost) = match failure {
            Failure::Refused(response) => {
                let answer = response.http_answer();
                let is_lost = answer.is_some_and(may_be_of_gateway);
                let response = if is_lost {
                    (*response).with_unknown_effect()
                } else {
                    *response
                };
                shared.pass(response, Some(number)).await;
                return;
            }
            Failure::NotSent(why) => (
                format!("the MCP server `{}` cannot be reached: {why}", shared.name),
                false,
            ),
            Failure::Lost(why) => {
                // The rest of the stream may have had some.
                shared.note_loss();
                let error = format!(
                    "the MCP server `{}` did not answer: {why}; the effect of the call is unknown",
                    shared.name
                );
                (error, true)
            }
        };
        let Some((sender, id)) = shared.calls.take(number) else {
            return;
        };
        let answer = HttpAnswer {
            status: StatusCode::BAD_GATEWAY.as_u16(),
            ..HttpAnswer::default()
        };
        let response = Frame::error_response(&id, CONNECTION_CLOSED, &error);
        let response = response.with_http_answer(answer);
        sender.send(if is_lost {
            response.with_unknown_effect()
        } else {
            response
        });
    }

    async fn answer(&self) -> Result<(), Failure> {
        let (shared, begun) = (self.shared, self.begun);
        let is_modern = begun.request.protocol_version().is_some();
        let opens = begun.request.method() == "initialize";
        if opens {
            shared.forget_session();
        }
        let response = shared.post(&begun.request, self.context).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(self.refusal(response).await);
        }
        if opens {
            let mut session = shared.session.lock();
            session.is_open = true;
            session.headers.id = response.headers().get(SESSION_ID).cloned();
        }
        let kind = response.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.starts_with(EVENTS) {
            return self.events(response, !is_modern).await;
        }
        if kind.starts_with(JSON) {
            return self.json(response).await;
        }
        Err(Failure::Lost(match kind {
            "" => format!("HTTP {status} without a message"),
            kind => format!("HTTP {status} with the content type `{kind}`"),
        }))
    }

    /// Reads a body of messages: mostly one, but some servers write several, each on a line.
    async fn json(&self, response: Response) -> Result<(), Failure> {
        let lost = |why: String| Failure::Lost(why);
        let mut chunks = response.bytes_stream();
        let mut body: Vec<u8> = Vec::new();
        let mut is_answered = false;
        loop {
            let chunk = chunks
                .try_next()
                .await
                .map_err(|error| lost(cachalot_core::causes::root_cause(&error)))?;
            let Some(chunk) = chunk else { break };
            if chunk.len() > MAX_MESSAGE_BYTES - body.len() {
                let size = MAX_MESSAGE_BYTES >> 20;
                return Err(lost(format!("its message has more than {size} MiB")));
            }
            let has_line_end = memchr::memchr(b'\n', &chunk).is_some();
            body.extend_from_slice(&chunk);
            while has_line_end && let Some(end) = memchr::memchr(b'\n', &body) {
                let Ok(message) = Frame::parse(Bytes::copy_from_slice(&body[..end])) else {
                    break;
                };
                body.drain(..=end);
                is_answered |= self.receive(message).await;
            }
        }
        if !body.iter().all(u8::is_ascii_whitespace) {
            let message = Frame::parse(body.into())
                .map_err(|error| lost(format!("its answer is no message: {error}")))?;
            is_answered |= self.receive(message).await;
        }
        if is_answered {
            Ok(())
        } else {
            Err(lost("its answer ends without a response".to_owned()))
        }
    }

    /// Reads the events of an answer up to the response. A stream that is cut off before is resumed, if the revision of
    /// the protocol and the server support it.
    async fn events(&self, response: Response, is_resumable: bool) -> Result<(), Failure> {
        let mut cursor = Cursor::default();
        let mut events = event_stream(response);
        loop {
            let mut end = "its stream ended before the response".to_owned();
            while let Some(event) = events.next().await {
                let event = match event {
                    Ok(event) => event,
                    Err(error) => {
                        if !is_cut(&error) {
                            self.shared.note_loss();
                        }
                        end = cachalot_core::causes::root_cause(&error);
                        break;
                    }
                };
                cursor.note(&event);
                let Some(message) = self.shared.message(&event) else {
                    continue;
                };
                cursor.attempts = 0;
                if self.receive(message).await {
                    return Ok(());
                }
            }
            loop {
                if !is_resumable || cursor.id.is_none() || cursor.attempts >= MAX_ATTEMPTS {
                    return Err(Failure::Lost(end));
                }
                cursor.pause().await;
                match self.shared.open_stream(&cursor, self.context).await {
                    Opening::Open(resumed) => {
                        events = resumed;
                        break;
                    }
                    Opening::Absent => return Err(Failure::Lost(end)),
                    Opening::Failed => {}
                }
            }
        }
    }

    /// Passes on a message of the answer to a request. Returns true for the response.
    async fn receive(&self, message: Frame) -> bool {
        let (shared, begun) = (self.shared, self.begun);
        let own_id = begun.number.to_string();
        let is_own = message.kind() == FrameKind::Response && message.id() == Some(&own_id);
        if is_own {
            match begun.request.method() {
                "initialize" => shared.open(&message),
                "tools/list" => shared.endpoint.tool_headers.learn(&message),
                _ => {}
            }
        }
        shared.pass(message, Some(begun.number)).await;
        is_own
    }

    async fn refusal(&self, response: Response) -> Failure {
        let (shared, begun) = (self.shared, self.begun);
        let is_session_expired = response.status() == StatusCode::NOT_FOUND
            && begun.request.method() != "initialize"
            && begun.request.protocol_version().is_none()
            && shared.session.lock().headers.id.is_some();
        if is_session_expired {
            shared.forget_session();
        }
        let refusal = Refusal {
            server: &shared.name,
            id: begun.number,
            is_session_expired,
            is_anonymous: self.context.headers.is_empty()
                && !shared
                    .endpoint
                    .own_headers
                    .contains_key(header::AUTHORIZATION),
        };
        Failure::Refused(Box::new(refusal.into_frame(response).await))
    }
}

/// Returns true for a refusal that may come from a proxy in front of the server, so that the server may go on with the
/// call.
fn may_be_of_gateway(answer: &HttpAnswer) -> bool {
    // Gateways of the protocol, such as this one, have a message in these responses.
    matches!(answer.status, 502 | 504) || answer.status >= 500 && answer.body.is_some()
}
