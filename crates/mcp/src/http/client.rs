//! The HTTP client for a server: bounds its answers by the server's limit, and passes them to [`MessageParser`]
//! before the protocol library parses them.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, future};
use http::{HeaderName, HeaderValue, StatusCode, header};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use crate::message_parser::MessageParser;
use crate::oauth::{Attempts, Bearer, OauthError, Refusal, ServerAuthorization};

/// Maximum number of bytes that are read of the body of an error response.
const MAX_ERROR_BODY_BYTES: usize = 64 << 10;

/// Maximum number of characters of such a body that are shown.
const MAX_SHOWN_CHARS: usize = 500;

type HttpError = StreamableHttpError<reqwest::Error>;
type Events = BoxStream<'static, Result<Sse, SseError>>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// A client. Clones share connections.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    message_parser: MessageParser,
    /// The login of the user, unless the settings give credentials.
    authorization: Option<ServerAuthorization>,
}

impl Client {
    pub(super) fn new(
        http: reqwest::Client,
        message_parser: MessageParser,
        authorization: Option<ServerAuthorization>,
    ) -> Self {
        Self {
            http,
            message_parser,
            authorization,
        }
    }

    /// Returns the token of the user's login.
    async fn bearer(&self) -> Result<Option<Bearer>, HttpError> {
        match &self.authorization {
            Some(authorization) => authorization.bearer().await.map_err(login_error),
            None => Ok(None),
        }
    }

    /// Returns true if a refused request is to be sent again, with the current token.
    async fn recovers(
        &self,
        response: &reqwest::Response,
        sent: Option<&Bearer>,
        attempts: &mut Attempts,
    ) -> Result<bool, HttpError> {
        let status = response.status();
        let is_refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let Some(authorization) = self.authorization.as_ref().filter(|_| is_refused) else {
            return Ok(false);
        };
        let refusal = Refusal {
            status: status.as_u16(),
            headers: response.headers(),
        };
        let recovered = authorization.recover(&refusal, sent, attempts).await;
        recovered.map_err(login_error)
    }

    /// Returns the events of the answer to request `id`. A message that is too large ends them, with an error
    /// for the request.
    fn events(
        &self,
        body: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
        id: Option<RequestId>,
    ) -> Events {
        let size = Some(EventSize::new(self.message_parser.limit));
        let bounded = body.scan(size, |size, chunk| {
            // Nothing is read after a message that is too large.
            let Some(mut counted) = size.take() else {
                return future::ready(None);
            };
            future::ready(Some(match chunk {
                Err(error) => Err(io::Error::other(error)),
                Ok(chunk) if counted.fits(&chunk) => {
                    *size = Some(counted);
                    Ok(chunk)
                }
                Ok(_) => Err(io::Error::from(io::ErrorKind::FileTooLarge)),
            }))
        });
        let message_parser = self.message_parser.clone();
        let mut id = Some(id);
        SseStream::from_bytes_stream(bounded)
            .filter_map(move |event| {
                let event = match event {
                    Ok(event) => read(&message_parser, event).map(Ok),
                    Err(error) if is_too_large(&error) => {
                        let told = message_parser.too_large(id.take().flatten());
                        told.map(|message| Ok(event_of(&message)))
                    }
                    Err(error) => Some(Err(error)),
                };
                future::ready(event)
            })
            .boxed()
    }
}

/// Wraps the error of a login, which `challenge` finds.
fn login_error(error: OauthError) -> HttpError {
    StreamableHttpError::Io(io::Error::other(error))
}

/// Handles an error response: returns the protocol error if the body contains one.
async fn failure(
    response: reqwest::Response,
    message: &ClientJsonRpcMessage,
    id: Option<RequestId>,
    has_session: bool,
) -> Result<StreamableHttpPostResponse, HttpError> {
    let status = response.status();
    let later = response.headers().get(header::RETRY_AFTER);
    let later = later
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    let is_refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let is_passing = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    let body = match status {
        StatusCode::TOO_MANY_REQUESTS => None,
        _ => body(response, MAX_ERROR_BODY_BYTES).await.ok().flatten(),
    };
    let body = body.unwrap_or_default();
    let told = match serde_json::from_slice(&body) {
        Ok(ServerJsonRpcMessage::Error(error)) if !is_refused => Some(error.error),
        _ => None,
    };
    let text = String::from_utf8_lossy(&body);
    let text: String = text.trim().chars().take(MAX_SHOWN_CHARS).collect();
    let is_discovery = matches!(
        message,
        ClientJsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::DiscoverRequest(_))
    );
    // A server without discovery may report that in its own way.
    let told = told.or_else(|| {
        let says_no = is_discovery && status.is_client_error() && !is_refused && !has_session;
        says_no.then(|| ErrorData::invalid_request(format!("HTTP {status}: {text}"), None))
    });
    match told {
        // The error may lack the ID of the request.
        Some(error) => Ok(StreamableHttpPostResponse::Json(
            ServerJsonRpcMessage::error(error, id),
            None,
        )),
        None if is_passing => Err(HttpStatusError::new(status.as_u16(), later).into()),
        None => Err(StreamableHttpError::UnexpectedServerResponse(
            format!("HTTP {status}: {text}").into(),
        )),
    }
}

/// Reads the body of a response; `None` if it is longer than `limit`.
async fn body(response: reqwest::Response, limit: usize) -> Result<Option<Vec<u8>>, HttpError> {
    let stated = response.content_length();
    if stated.is_some_and(|length| length > limit as u64) {
        return Ok(None);
    }
    let mut chunks = response.bytes_stream();
    let mut body = Vec::new();
    while let Some(chunk) = chunks.try_next().await? {
        if chunk.len() > limit - body.len() {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// Converts an event for the library; `None` if it is to be ignored.
fn read(message_parser: &MessageParser, event: Sse) -> Option<Sse> {
    let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
    let Some(data) = event.data.as_deref().filter(|_| is_message) else {
        return Some(event);
    };
    let message = message_parser.read(data.as_bytes());
    Some(Sse {
        // The ID of the event is kept: the stream resumes there after an interruption.
        data: message.and_then(|message| serde_json::to_string(&message).ok()),
        ..event
    })
}

fn event_of(message: &ServerJsonRpcMessage) -> Sse {
    Sse {
        data: serde_json::to_string(message).ok(),
        ..Sse::default()
    }
}

fn is_too_large(error: &SseError) -> bool {
    let SseError::Body(cause) = error else {
        return false;
    };
    cause
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::FileTooLarge)
}

/// Counts the bytes of an event that are buffered until its end.
pub(crate) struct EventSize {
    limit: usize,
    kept: usize,
    line: usize,
}

impl EventSize {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            // Allows for field names and line ends.
            limit: limit.saturating_add(1_024),
            kept: 0,
            line: 0,
        }
    }

    pub(crate) fn fits(&mut self, chunk: &[u8]) -> bool {
        for byte in chunk {
            match byte {
                b'\n' if self.line == 0 => self.kept = 0,
                b'\n' => {
                    self.kept += self.line;
                    self.line = 0;
                }
                b'\r' => {}
                _ => self.line += 1,
            }
            if self.kept + self.line > self.limit {
                return false;
            }
        }
        true
    }
}

impl StreamableHttpClient for Client {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let id = match &message {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let accepted = format!("{EVENT_STREAM_MIME_TYPE}, {JSON_MIME_TYPE}");
        let has_session = session.is_some();
        let mut attempts = Attempts::default();
        let response = loop {
            let bearer = self.bearer().await?;
            let mut request = self.http.post(&*uri).header(header::ACCEPT, &accepted);
            if let Some(token) = bearer.as_ref().map(|bearer| bearer.token.expose()) {
                request = request.bearer_auth(token);
            } else if let Some(token) = &token {
                request = request.bearer_auth(token);
            }
            for (name, value) in &headers {
                request = request.header(name, value);
            }
            if let Some(session) = &session {
                request = request.header(HEADER_SESSION_ID, &**session);
            }
            let response = request.json(&message).send().await?;
            if !self
                .recovers(&response, bearer.as_ref(), &mut attempts)
                .await?
            {
                break response;
            }
        };
        let status = response.status();
        let text_of = |name: &str| {
            let value = response.headers().get(name)?.to_str().ok()?;
            Some(value.to_owned())
        };
        let (kind, session, challenge) = (
            text_of("content-type").unwrap_or_default(),
            text_of(HEADER_SESSION_ID),
            text_of("www-authenticate"),
        );
        match (status, challenge) {
            (StatusCode::UNAUTHORIZED, Some(challenge)) => {
                let required = AuthRequiredError::new(challenge);
                return Err(StreamableHttpError::AuthRequired(required));
            }
            (StatusCode::FORBIDDEN, Some(challenge)) => {
                let required = InsufficientScopeError::new(challenge, None);
                return Err(StreamableHttpError::InsufficientScope(required));
            }
            (StatusCode::ACCEPTED | StatusCode::NO_CONTENT, _) => {
                return Ok(StreamableHttpPostResponse::Accepted);
            }
            // By the protocol, a server answers 404 for a session that it has ended.
            (StatusCode::NOT_FOUND, _) if has_session => {
                return Err(StreamableHttpError::SessionExpired);
            }
            _ => {}
        }
        if !status.is_success() {
            return failure(response, &message, id, has_session).await;
        }
        if kind.starts_with(EVENT_STREAM_MIME_TYPE) {
            let events = self.events(response.bytes_stream(), id);
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        if !kind.starts_with(JSON_MIME_TYPE) {
            // A notification has no answer.
            return match id {
                None => Ok(StreamableHttpPostResponse::Accepted),
                Some(_) => {
                    let kind = Some(kind).filter(|kind| !kind.is_empty());
                    Err(StreamableHttpError::UnexpectedContentType(kind))
                }
            };
        }
        let read = match body(response, self.message_parser.limit).await? {
            Some(body) => self.message_parser.read(&body),
            None => self.message_parser.too_large(id.clone()),
        };
        match (read, id) {
            (Some(message), _) => Ok(StreamableHttpPostResponse::Json(message, session)),
            (None, None) => Ok(StreamableHttpPostResponse::Accepted),
            (None, Some(_)) => {
                let why = "the answer is no message of the protocol";
                Err(StreamableHttpError::UnexpectedServerResponse(why.into()))
            }
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), HttpError> {
        let bearer = self.bearer().await?;
        let token = bearer.map(|bearer| bearer.token.expose().clone());
        StreamableHttpClient::delete_session(
            &self.http,
            uri,
            session_id,
            token.or(auth_header),
            custom_headers,
        )
        .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<Events, HttpError> {
        let bearer = self.bearer().await?;
        let token = bearer.map(|bearer| bearer.token.expose().clone());
        let events = self
            .http
            .get_stream_with_max_sse_event_size(
                uri,
                session_id,
                last_event_id,
                token.or(auth_header),
                custom_headers,
                self.message_parser.limit,
            )
            .await?;
        let message_parser = self.message_parser.clone();
        let read = events.map(move |event| event.map(|event| read(&message_parser, event)));
        Ok(read
            .filter_map(|event| future::ready(event.transpose()))
            .boxed())
    }
}
