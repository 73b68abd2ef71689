//! The side of the relay that a client is connected to by standard input and output.

mod input;
mod output;
mod unanswered;

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::RequestId;

use self::input::ClientInput;
use self::output::{ClientOutput, SystemStream};
use self::unanswered::Unanswered;
use super::connection::Connection;
use super::report::{CallObserver, CallTimer};
use super::{Frame, FrameKind, MAX_MESSAGE_BYTES, RequestContext};
use crate::line_reader::{LineRead, LineReader};

/// Maximum time for which the responses to a client are awaited that has closed its end.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The session of the one client of a process.
const SESSION: &str = "stdio";

/// JSON-RPC error codes.
const PARSE_ERROR: i64 = -32_700;
const INVALID_REQUEST: i64 = -32_600;

/// Passes messages between the client at standard input and output, and a connection.
pub struct StdioFront {
    /// The connection to the server.
    pub connection: Connection,
    /// Receives a report of each call.
    pub observe: Option<CallObserver>,
}

impl StdioFront {
    /// Returns the session of the client, for [`super::Connector::connect`].
    #[must_use]
    pub fn session() -> Arc<str> {
        SESSION.into()
    }

    /// Passes messages on until the client closes its end or `stop` completes, then ends the connection in order. The
    /// requests of a client that has closed its end are answered before, for up to 30 seconds.
    pub async fn run(
        self,
        input: impl SystemStream,
        output: impl SystemStream,
        stop: impl Future<Output = ()>,
    ) {
        let (Ok(input), Ok((out, writer))) =
            (ClientInput::new(&input), ClientOutput::start(&output))
        else {
            return;
        };
        let mut lines = LineReader::new(input, MAX_MESSAGE_BYTES);
        if let Some(mut unattached) = self.connection.upstream.take_unattached() {
            let out = out.clone();
            tokio::spawn(async move {
                while let Some(message) = unattached.recv().await {
                    if !out.send(message.on_one_line()).await {
                        return;
                    }
                }
            });
        }
        let context = RequestContext {
            session: Some(Self::session()),
            ..RequestContext::default()
        };
        let unanswered = Unanswered::default();
        let passing = async {
            while let Ok(line) = lines.next().await {
                let is_last = line.is_none();
                let parsed = match line {
                    Some(LineRead::TooLong(id)) => Some(Err(too_long(id.as_ref()))),
                    // The last message need not end its line.
                    Some(LineRead::Whole) | None => parse(lines.take_line()),
                };
                match parsed {
                    Some(Ok(message)) => self.pass(message, &context, &out, &unanswered).await,
                    Some(Err(refusal)) => drop(out.send(refusal.bytes().clone()).await),
                    None => {}
                }
                if is_last {
                    break;
                }
            }
            // A server may start slowly, or work long.
            let _ = tokio::time::timeout(RESPONSE_TIMEOUT, unanswered.answered()).await;
        };
        // A server that reads nothing must not keep the proxy from ending.
        tokio::select! {
            () = passing => {}
            () = stop => {}
            // The client reads nothing more.
            () = out.closed() => {}
        }
        self.connection.closer.close().await;
        // Responses may have arrived meanwhile; requests that have none hold a copy of the sender.
        let Self { connection, .. } = self;
        drop((out, connection));
        let _ = tokio::time::timeout(
            Duration::from_millis(250),
            tokio::task::spawn_blocking(move || writer.join()),
        )
        .await;
    }

    async fn pass(
        &self,
        message: Frame,
        context: &RequestContext,
        out: &ClientOutput,
        unanswered: &Unanswered,
    ) {
        let upstream = &self.connection.upstream;
        if message.kind() != FrameKind::Request {
            unanswered.note_cancelled(&message);
            upstream.notify(message, context.clone()).await;
            return;
        }
        let observed = self
            .observe
            .clone()
            .map(|observe| (observe, CallTimer::start(&message)));
        let entry = unanswered.enter(&message);
        // Awaited here, so that messages reach the server in their order.
        let mut exchange = upstream.request(message, context.clone()).await;
        let out = out.clone();
        tokio::spawn(async move {
            let (mut observed, _entry) = (observed, entry);
            while let Some(message) = exchange.next().await {
                if !out.send(message.on_one_line()).await {
                    return;
                }
                if message.kind() == FrameKind::Response
                    && let Some((observe, timer)) = observed.take()
                {
                    observe(timer.report(&message));
                }
            }
        });
    }
}

/// Parses a line; `None` for an empty one.
///
/// # Errors
/// The response to a line that is no message.
fn parse(line: Vec<u8>) -> Option<Result<Frame, Frame>> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return None;
    }
    Some(Frame::parse(line.into()).map_err(|error| {
        let code = if matches!(error, super::FrameError::NotJson(_)) {
            PARSE_ERROR
        } else {
            INVALID_REQUEST
        };
        Frame::error_response("null", code, &error.to_string())
    }))
}

/// The response to a message that is too long.
fn too_long(id: Option<&RequestId>) -> Frame {
    let id = id.and_then(|id| serde_json::to_string(id).ok());
    let why = format!("the message has more than {} MiB", MAX_MESSAGE_BYTES >> 20);
    Frame::error_response(id.as_deref().unwrap_or("null"), INVALID_REQUEST, &why)
}
