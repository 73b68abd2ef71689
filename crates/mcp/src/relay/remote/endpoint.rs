//! The endpoint of a server: how HTTP requests to it are made.

use cachalot_core::Secret;
use cachalot_storage::GuardedClient;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use reqwest::Response;

use super::cursor::Cursor;
use super::event_stream::{Events, event_stream};
use super::headers::{PROTOCOL_VERSION, header_text, is_passed};
use super::session::SessionHeaders;
use super::tool_headers::ToolHeaders;
use crate::relay::report::subject;
use crate::relay::{Frame, RequestContext};

/// The header with the ID of a session.
pub(super) const SESSION_ID: &str = "mcp-session-id";

/// The content type of one message.
pub(super) const JSON: &str = "application/json";
/// The content type of a stream.
pub(super) const EVENTS: &str = "text/event-stream";

/// The endpoint of a server.
pub(super) struct Endpoint {
    pub(super) url: Secret<String>,
    /// Headers of the settings, in every request.
    pub(super) own_headers: HeaderMap,
    pub(super) http: GuardedClient,
    /// Headers that tools ask for.
    pub(super) tool_headers: ToolHeaders,
}

/// The outcome of an attempt to open a stream with GET.
pub(super) enum Opening {
    Open(Events),
    /// The server has no such stream, or no longer the session.
    Absent,
    /// Another attempt may succeed.
    Failed,
}

/// A failure to get the response to a request.
pub(super) enum Failure {
    /// No request was sent, as far as is known.
    NotSent(String),
    /// The request was sent, and its effect is unknown.
    Lost(String),
    /// The server has refused the request with an HTTP response.
    Refused(Box<Frame>),
}

impl Endpoint {
    /// Posts a message.
    pub(super) async fn post(
        &self,
        message: &Frame,
        session: SessionHeaders,
        context: &RequestContext,
    ) -> Result<Response, Failure> {
        let version = message.protocol_version();
        let mut mirrored = HeaderMap::new();
        if let Some(version) = version {
            let version = serde_json::from_str::<String>(version).unwrap_or_default();
            let name = subject(message);
            let fields = [
                (PROTOCOL_VERSION, Some(version)),
                ("mcp-method", Some(message.method().to_owned())),
                ("mcp-name", name),
            ];
            let fields = fields
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), header_text(&value?))));
            for (name, value) in fields.chain(self.tool_headers.of(message)) {
                let (Ok(name), Ok(value)) =
                    (HeaderName::try_from(name), HeaderValue::try_from(value))
                else {
                    continue;
                };
                if !context.headers.contains_key(name.as_str()) || !is_passed(name.as_str()) {
                    mirrored.insert(name, value);
                }
            }
        }
        let session = if message.method() == "initialize" || version.is_some() {
            SessionHeaders::default()
        } else {
            session
        };
        self.send(Method::POST, &session, context, |request| {
            request
                .header(header::ACCEPT, format!("{JSON}, {EVENTS}"))
                .header(header::CONTENT_TYPE, JSON)
                .headers(mirrored)
                .body(message.bytes().clone())
        })
        .await
    }

    /// Opens a stream with GET, from the place up to which an earlier one was read.
    pub(super) async fn open_stream(
        &self,
        cursor: &Cursor,
        session: &SessionHeaders,
        context: &RequestContext,
    ) -> Opening {
        let id = match &cursor.id {
            Some(id) => HeaderValue::try_from(id.as_str()).ok(),
            None => None,
        };
        let sent = self
            .send(Method::GET, session, context, |request| {
                let request = request.header(header::ACCEPT, EVENTS);
                match id {
                    Some(id) => request.header("last-event-id", id),
                    None => request,
                }
            })
            .await;
        let Ok(response) = sent else {
            return Opening::Failed;
        };
        let status = response.status();
        if matches!(
            status,
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED
        ) {
            return Opening::Absent;
        }
        let kind = response.headers().get(header::CONTENT_TYPE);
        let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(EVENTS.as_bytes()));
        if status.is_success() && is_stream {
            Opening::Open(event_stream(response))
        } else {
            Opening::Failed
        }
    }

    /// Sends a request with the headers of the session, the client and the settings.
    pub(super) async fn send(
        &self,
        method: Method,
        session: &SessionHeaders,
        context: &RequestContext,
        complete: impl FnOnce(reqwest::RequestBuilder) -> reqwest::RequestBuilder,
    ) -> Result<Response, Failure> {
        let request = self
            .http
            .request(method, self.url.expose())
            .map_err(|error| Failure::NotSent(error.to_string()))?;
        let mut headers = HeaderMap::new();
        for (name, value) in context.headers.iter().filter(|(name, _)| is_passed(name)) {
            if let (Ok(name), Ok(value)) = (
                HeaderName::try_from(name.as_str()),
                HeaderValue::try_from(value.as_str()),
            ) {
                headers.insert(name, value);
            }
        }
        if let Some(id) = &session.id {
            headers.insert(HeaderName::from_static(SESSION_ID), id.clone());
        }
        if let Some(version) = &session.version {
            let name = HeaderName::from_static(PROTOCOL_VERSION);
            headers.entry(name).or_insert_with(|| version.clone());
        }
        // Those of the settings replace those of the client.
        headers.extend(self.own_headers.clone());
        let request = complete(request.headers(headers));
        self.http.send(request).await.map_err(|error| {
            let why = error.to_string();
            if error.is_broken_exchange() {
                Failure::Lost(why)
            } else {
                Failure::NotSent(why)
            }
        })
    }
}
