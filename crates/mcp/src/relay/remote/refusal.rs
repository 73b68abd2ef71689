//! The response to a request that the server has refused with an HTTP response.

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use http::{HeaderName, StatusCode, header};
use reqwest::Response;

use crate::relay::program::CONNECTION_CLOSED;
use crate::relay::{Frame, FrameKind, HttpAnswer};

/// Maximum number of bytes that are read of the body of an error response.
const MAX_ERROR_BODY_BYTES: usize = 1 << 20;

/// Maximum number of characters of such a body that are shown.
const MAX_SHOWN_CHARS: usize = 300;

/// Headers of a refusal that the client has to see.
const PASSED_BACK: [HeaderName; 3] = [
    header::WWW_AUTHENTICATE,
    header::RETRY_AFTER,
    header::CONTENT_TYPE,
];

/// An HTTP response that refuses a request.
pub(super) struct Refusal<'a> {
    /// The name of the server in messages.
    pub(super) server: &'a str,
    /// The id of the request.
    pub(super) id: u64,
    /// True if the server no longer knows the session of the request.
    pub(super) is_session_expired: bool,
    /// True if the request had no credentials.
    pub(super) is_anonymous: bool,
}

impl Refusal<'_> {
    /// Makes the response to the request.
    pub(super) async fn into_frame(self, response: Response) -> Frame {
        let status = response.status();
        let headers = response.headers().clone();
        let mut body = Vec::new();
        let mut chunks = response.bytes_stream();
        while let Ok(Some(chunk)) = chunks.try_next().await {
            let room = MAX_ERROR_BODY_BYTES.saturating_sub(body.len());
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        }
        let body = Bytes::from(body);
        let id = self.id.to_string();
        let message = Frame::parse(body.clone())
            .ok()
            .filter(|message| message.kind() == FrameKind::Response);
        let passed_back = PASSED_BACK.iter().filter_map(|name| {
            let value = headers.get(name)?;
            Some((name.as_str().to_owned(), value.as_bytes().to_vec()))
        });
        let answer = HttpAnswer {
            status: status.as_u16(),
            headers: passed_back.collect(),
            body: message.is_none().then_some(body.clone()),
        };
        let response = match message {
            // The server may not know the id, or leave it out.
            Some(message) if message.id().is_some() => message.with_ids(Some(&id), None),
            Some(message) => match (message.error(), message.result()) {
                (Some(error), _) => Frame::raw_error_response(&id, error),
                (None, result) => Frame::response(&id, result.unwrap_or("{}")),
            },
            None => {
                let text = String::from_utf8_lossy(&body);
                let text: String = text.trim().chars().take(MAX_SHOWN_CHARS).collect();
                let mut why = format!("the MCP server `{}` answered HTTP {status}", self.server);
                if self.is_session_expired {
                    why.push_str(": the session has expired; start a new one with `initialize`");
                } else if status == StatusCode::UNAUTHORIZED && self.is_anonymous {
                    why.push_str(
                        ": it wants credentials; log in with `cachalot mcp login` and its URL",
                    );
                }
                if !text.is_empty() {
                    why.push_str(&format!(": {text}"));
                }
                Frame::error_response(&id, CONNECTION_CLOSED, &why)
            }
        };
        response.with_http_answer(answer)
    }
}
