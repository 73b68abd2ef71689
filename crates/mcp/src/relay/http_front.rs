//! The side of the relay that clients are connected to by streamable HTTP.

mod response;
mod session;
mod stream;
mod validation;

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cachalot_storage::PageGuard;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OnceCell, Semaphore, watch};

use self::response::{Body, empty, json, refusal};
use self::session::ClientSession;
use super::connection::{Connection, Connector};
use super::program::CONNECTION_CLOSED;
use super::report::{CallObserver, CallTimer};
use super::{Frame, FrameError, FrameKind, MAX_MESSAGE_BYTES, RequestContext};

/// The path of the endpoint.
const PATH: &str = "/mcp";

/// Time after which a response starts as a stream, although the server has sent nothing: clients do not wait for headers
/// as long as for messages.
const FIRST_MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for the headers of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum time for a server to open a session. Long, because some are downloaded at their first start.
const INITIALIZE_TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum number of sessions, each of which may be a program.
const MAX_SESSIONS: usize = 256;

/// Time after which a session ends that no client uses.
const MAX_IDLE: Duration = Duration::from_secs(30 * 60);

/// Interval of the search for such sessions.
const IDLE_CHECK: Duration = Duration::from_secs(60);

/// Maximum time for the end of all sessions.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(6);

/// The first revision whose clients know events without a message.
const PRIMED_SINCE: &str = "2025-11-25";

const SESSION_ID: &str = "mcp-session-id";

/// JSON-RPC error codes.
const PARSE_ERROR: i64 = -32_700;
const INVALID_REQUEST: i64 = -32_600;
const METHOD_NOT_FOUND: i64 = -32_601;
const SESSION_NOT_FOUND: i64 = -32_001;

/// Options of the listener.
pub struct HttpFrontOptions {
    /// The address to listen on.
    pub address: SocketAddr,
    /// Names by which clients may address the proxy, in addition to its address and `localhost`.
    pub allowed_hosts: Vec<String>,
    /// Opens connections to the server.
    pub connector: Arc<dyn Connector>,
    /// Receives a report of each call.
    pub observe: Option<CallObserver>,
}

/// A running listener. Dropping it ends it without waiting.
pub struct HttpFront {
    address: SocketAddr,
    handler: Arc<Handler>,
    stop: watch::Sender<bool>,
    /// Closed when the listener and all connections have ended.
    ended: watch::Receiver<()>,
}

struct Handler {
    guard: PageGuard,
    connector: Arc<dyn Connector>,
    observe: Option<CallObserver>,
    /// The connection of requests that belong to no session.
    shared: OnceCell<Connection>,
    /// One for each session, from before its server is started.
    permits: Arc<Semaphore>,
    sessions: Mutex<HashMap<Arc<str>, Arc<ClientSession>>>,
}

impl HttpFront {
    /// Starts to listen.
    ///
    /// # Errors
    /// If the address cannot be used.
    pub async fn start(options: HttpFrontOptions) -> io::Result<Self> {
        let listener = TcpListener::bind(options.address).await?;
        let address = listener.local_addr()?;
        let handler = Arc::new(Handler {
            guard: PageGuard::new(address, &options.allowed_hosts),
            connector: options.connector,
            observe: options.observe,
            shared: OnceCell::new(),
            permits: Arc::new(Semaphore::new(MAX_SESSIONS)),
            sessions: Mutex::default(),
        });
        let (stop, stopping) = watch::channel(false);
        let (open, ended) = watch::channel(());
        tokio::spawn(accept(
            listener,
            Arc::clone(&handler),
            stopping.clone(),
            Arc::new(open),
        ));
        tokio::spawn(end_idle(Arc::downgrade(&handler), stopping));
        Ok(Self {
            address,
            handler,
            stop,
            ended,
        })
    }

    /// Returns the address that clients use.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL that clients use.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Ends all sessions and connections in order, within a limited time.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        let sessions = std::mem::take(&mut *self.handler.sessions.lock());
        let shared = self.handler.shared.get().cloned();
        let closing = async {
            let shared = async {
                if let Some(shared) = shared {
                    shared.closer.close().await;
                }
            };
            let sessions =
                futures_util::future::join_all(sessions.values().map(|session| session.close()));
            futures_util::future::join(shared, sessions).await;
            while self.ended.changed().await.is_ok() {}
        };
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, closing).await;
    }
}

impl Drop for HttpFront {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// Ends sessions whose clients are gone.
async fn end_idle(handler: std::sync::Weak<Handler>, mut stopping: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(IDLE_CHECK) => {}
            _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
        }
        let Some(handler) = handler.upgrade() else {
            return;
        };
        let mut idle = Vec::new();
        handler.sessions.lock().retain(|_, session| {
            let is_idle = session.idle() >= MAX_IDLE;
            if is_idle {
                idle.push(Arc::clone(session));
            }
            !is_idle
        });
        for session in idle {
            session.close().await;
        }
    }
}

/// Accepts connections until the proxy stops. Each connection holds a copy of `open`.
async fn accept(
    listener: TcpListener,
    handler: Arc<Handler>,
    mut stopping: watch::Receiver<bool>,
    open: Arc<watch::Sender<()>>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
        };
        let Ok((stream, _)) = accepted else {
            // For example no free file descriptor: connections that end will make room.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (handler, stopping, open) = (Arc::clone(&handler), stopping.clone(), Arc::clone(&open));
        tokio::spawn(async move {
            serve(stream, handler, stopping).await;
            drop(open);
        });
    }
}

async fn serve(stream: TcpStream, handler: Arc<Handler>, mut stopping: watch::Receiver<bool>) {
    // Events are small and must not be delayed; a failure only delays them.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let handler = Arc::clone(&handler);
        async move { Ok::<_, Infallible>(handler.handle(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        // An error means that the client has left or sent no HTTP.
        _ = connection.as_mut() => return,
        _ = stopping.wait_for(|is_stopping| *is_stopping) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

impl Handler {
    async fn handle(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        if let Err(why) = self.guard.check(&head.uri, &head.headers) {
            return refusal(
                StatusCode::FORBIDDEN,
                None,
                INVALID_REQUEST,
                &why.to_string(),
            );
        }
        if head.uri.path().trim_end_matches('/') != PATH {
            let why = format!("the endpoint of this proxy is {PATH}");
            return refusal(StatusCode::NOT_FOUND, None, INVALID_REQUEST, &why);
        }
        match head.method {
            Method::POST => self.post(&head.headers, body).await,
            Method::GET => self.get(&head.headers),
            Method::DELETE => self.delete(&head.headers),
            _ => not_allowed(),
        }
    }

    async fn post(self: &Arc<Self>, headers: &HeaderMap, body: Incoming) -> Response<Body> {
        if !accepts(headers, "application/json") || !accepts(headers, "text/event-stream") {
            let why = "the client has to accept application/json and text/event-stream";
            return refusal(StatusCode::NOT_ACCEPTABLE, None, INVALID_REQUEST, why);
        }
        let kind = headers.get(header::CONTENT_TYPE);
        if kind.is_none_or(|kind| !kind.as_bytes().starts_with(b"application/json")) {
            let why = "the content type has to be application/json";
            return refusal(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                None,
                INVALID_REQUEST,
                why,
            );
        }
        let message = match read(body).await {
            Ok(message) => message,
            Err(refused) => return refused,
        };
        let context = |session: Option<Arc<str>>| RequestContext {
            session,
            headers: Arc::new(passed(headers)),
        };
        if validation::is_modern(&message, headers) {
            return self.modern(message, headers, context(None)).await;
        }
        if message.method() == "initialize" && message.kind() == FrameKind::Request {
            return self.initialize(message, headers).await;
        }
        let Some(id) = headers.get(SESSION_ID) else {
            if self.connector.allows_requests_without_session() {
                return self.without_session(message, context(None), false).await;
            }
            let why = "the header Mcp-Session-Id is missing; a session starts with `initialize`";
            return refusal(StatusCode::BAD_REQUEST, message.id(), INVALID_REQUEST, why);
        };
        let Some(session) = self.session(id) else {
            return unknown_session(message.id());
        };
        let context = context(Some(Arc::clone(&session.id)));
        if message.kind() != FrameKind::Request {
            let _activity = session.activity();
            session.connection.upstream.notify(message, context).await;
            return empty(StatusCode::ACCEPTED);
        }
        self.in_session(&session, message, context, headers).await
    }

    /// Passes on a message of a revision without sessions.
    async fn modern(
        &self,
        message: Frame,
        headers: &HeaderMap,
        context: RequestContext,
    ) -> Response<Body> {
        if message.kind() == FrameKind::Request
            && let Err((code, why)) = validation::check(&message, headers)
        {
            return refusal(StatusCode::BAD_REQUEST, message.id(), code, &why);
        }
        self.without_session(message, context, true).await
    }

    async fn without_session(
        &self,
        message: Frame,
        context: RequestContext,
        is_modern: bool,
    ) -> Response<Body> {
        let connection = match self.shared().await {
            Ok(connection) => connection,
            Err(why) => return unavailable(message.id(), &why),
        };
        if message.kind() != FrameKind::Request {
            // All clients without sessions share the connection, and an id alone does not say whose request it is. They
            // cancel by closing the response.
            if message.method() != "notifications/cancelled" {
                connection.upstream.notify(message, context).await;
            }
            return empty(StatusCode::ACCEPTED);
        }
        let mut observed = self.observed(&message);
        let mut exchange = connection.upstream.request(message, context).await;
        let first = tokio::time::timeout(FIRST_MESSAGE_TIMEOUT, exchange.next()).await;
        match first {
            Ok(Some(message)) if message.kind() == FrameKind::Response => {
                let answer = response::answer(&message, status(&message, is_modern));
                if let Some((observe, timer)) = observed.take() {
                    observe(timer.report(&message));
                }
                answer
            }
            // Cancelled.
            Ok(None) => empty(StatusCode::ACCEPTED),
            Ok(Some(message)) => response::bound(Some(message), exchange),
            Err(_) => response::bound(None, exchange),
        }
    }

    /// Opens a session.
    async fn initialize(self: &Arc<Self>, message: Frame, headers: &HeaderMap) -> Response<Body> {
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            let why = format!("there are {MAX_SESSIONS} sessions already");
            return unavailable(message.id(), &why);
        };
        let mut random = [0; 16];
        if let Err(error) = getrandom::fill(&mut random) {
            return unavailable(message.id(), &format!("no random numbers: {error}"));
        }
        let id: Arc<str> = hex::encode(random).into();
        let connection = match self.connector.connect(Some(Arc::clone(&id))).await {
            Ok(connection) => connection,
            Err(why) => return unavailable(message.id(), &why),
        };
        let session = ClientSession::new(Arc::clone(&id), connection, permit);
        let context = RequestContext {
            session: Some(Arc::clone(&id)),
            headers: Arc::new(passed(headers)),
        };
        let observed = self.observed(&message);
        // In a task of its own, so that the server ends in order also if the client has left meanwhile.
        let handler = Arc::clone(self);
        let opening = tokio::spawn(async move {
            let mut exchange = session.connection.upstream.request(message, context).await;
            let answering = async {
                while let Some(message) = exchange.next().await {
                    if message.kind() == FrameKind::Response {
                        return Some(message);
                    }
                }
                None
            };
            let answered = tokio::time::timeout(INITIALIZE_TIMEOUT, answering).await;
            let Some(response) = answered.ok().flatten() else {
                session.close().await;
                return unavailable(None, "the server did not answer");
            };
            if let Some((observe, timer)) = observed {
                observe(timer.report(&response));
            }
            if response.error().is_some() {
                let answer = response::answer(&response, StatusCode::OK);
                session.close().await;
                return answer;
            }
            let mut answer = json(StatusCode::OK, &response);
            if let Ok(value) = HeaderValue::try_from(&*session.id) {
                answer.headers_mut().insert(SESSION_ID, value);
            }
            handler
                .sessions
                .lock()
                .insert(Arc::clone(&session.id), session);
            answer
        });
        opening
            .await
            .unwrap_or_else(|_| empty(StatusCode::INTERNAL_SERVER_ERROR))
    }

    async fn in_session(
        &self,
        session: &Arc<ClientSession>,
        message: Frame,
        context: RequestContext,
        headers: &HeaderMap,
    ) -> Response<Body> {
        let observed = self.observed(&message);
        let exchange = session.connection.upstream.request(message, context).await;
        let stream = session.stream(exchange, observed);
        let first = tokio::time::timeout(FIRST_MESSAGE_TIMEOUT, stream.first()).await;
        match first {
            Ok(Some(message)) if message.kind() == FrameKind::Response => {
                session.forget(stream.number);
                let status = message.http_answer().map(|answer| answer.status);
                if status == Some(StatusCode::NOT_FOUND.as_u16()) {
                    // The server has ended the session.
                    self.sessions.lock().remove(&session.id);
                    let session = Arc::clone(session);
                    tokio::spawn(async move { session.close().await });
                }
                response::answer(&message, StatusCode::OK)
            }
            Ok(None) => {
                session.forget(stream.number);
                empty(StatusCode::ACCEPTED)
            }
            _ => {
                let version = headers.get("mcp-protocol-version");
                let is_primed =
                    version.is_some_and(|version| version.as_bytes() >= PRIMED_SINCE.as_bytes());
                match stream.read(0) {
                    Some(reader) => response::resumable(reader, is_primed, session.activity()),
                    None => empty(StatusCode::INTERNAL_SERVER_ERROR),
                }
            }
        }
    }

    fn get(&self, headers: &HeaderMap) -> Response<Body> {
        if !accepts(headers, "text/event-stream") {
            let why = "the client has to accept text/event-stream";
            return refusal(StatusCode::NOT_ACCEPTABLE, None, INVALID_REQUEST, why);
        }
        // Revisions without sessions have no such stream.
        let Some(id) = headers.get(SESSION_ID) else {
            return not_allowed();
        };
        let Some(session) = self.session(id) else {
            return unknown_session(None);
        };
        let activity = session.activity();
        let last = headers.get("last-event-id");
        if let Some(last) = last.and_then(|last| last.to_str().ok()) {
            return match session.resume(last) {
                Some(reader) => response::resumable(reader, false, activity),
                None => {
                    let why = "the events after this one are no longer there";
                    refusal(StatusCode::BAD_REQUEST, None, INVALID_REQUEST, why)
                }
            };
        }
        match session.read_unattached() {
            Some(reader) => response::resumable(reader, false, activity),
            None => {
                let why = "the session has such a stream already";
                refusal(StatusCode::CONFLICT, None, INVALID_REQUEST, why)
            }
        }
    }

    fn delete(&self, headers: &HeaderMap) -> Response<Body> {
        let Some(id) = headers.get(SESSION_ID) else {
            return not_allowed();
        };
        let session = id.to_str().ok();
        let session = session.and_then(|id| self.sessions.lock().remove(id));
        match session {
            None => unknown_session(None),
            Some(session) => {
                tokio::spawn(async move { session.close().await });
                empty(StatusCode::OK)
            }
        }
    }

    fn session(&self, id: &HeaderValue) -> Option<Arc<ClientSession>> {
        self.sessions.lock().get(id.to_str().ok()?).cloned()
    }

    fn observed(&self, request: &Frame) -> Option<(CallObserver, CallTimer)> {
        let observe = self.observe.clone()?;
        Some((observe, CallTimer::start(request)))
    }

    /// Returns the connection of requests that belong to no session.
    async fn shared(&self) -> Result<Connection, String> {
        let connection = self.shared.get_or_try_init(|| async {
            let connection = self.connector.connect(None).await?;
            if let Some(mut unattached) = connection.upstream.take_unattached() {
                let upstream = Arc::downgrade(&connection.upstream);
                // No client could receive them. A request is refused, so that the server does not wait.
                tokio::spawn(async move {
                    while let Some(message) = unattached.recv().await {
                        let (Some(id), Some(upstream)) = (message.id(), upstream.upgrade()) else {
                            continue;
                        };
                        let why = "there is no session, and so no client to ask";
                        let refused = Frame::error_response(id, METHOD_NOT_FOUND, why);
                        upstream.notify(refused, RequestContext::default()).await;
                    }
                });
            }
            Ok(connection)
        });
        connection.await.cloned()
    }
}

/// Returns the status of a response, for revisions that give errors a status of their own.
fn status(response: &Frame, is_modern: bool) -> StatusCode {
    let code = response.error_code().filter(|_| is_modern);
    match code {
        Some(METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        // Header mismatch, missing capability, unsupported version.
        Some(-32_022..=-32_020) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// Reads the message of a request.
async fn read(body: Incoming) -> Result<Frame, Response<Body>> {
    let body = Limited::new(body, MAX_MESSAGE_BYTES).collect().await;
    let bytes: Bytes = match body {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            let why = format!("the message has more than {} MiB", MAX_MESSAGE_BYTES >> 20);
            return Err(refusal(
                StatusCode::PAYLOAD_TOO_LARGE,
                None,
                INVALID_REQUEST,
                &why,
            ));
        }
        Err(_) => return Err(empty(StatusCode::BAD_REQUEST)),
    };
    Frame::parse(bytes).map_err(|error| {
        let code = match error {
            FrameError::NotJson(_) | FrameError::NotUtf8(_) => PARSE_ERROR,
            _ => INVALID_REQUEST,
        };
        refusal(StatusCode::BAD_REQUEST, None, code, &error.to_string())
    })
}

/// Returns the headers of a request by their names; several values of one are joined.
fn passed(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut passed: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in headers {
        let Ok(value) = value.to_str() else { continue };
        passed
            .entry(name.as_str().to_owned())
            .and_modify(|known| {
                known.push_str(", ");
                known.push_str(value);
            })
            .or_insert_with(|| value.to_owned());
    }
    passed
}

/// Returns true if a client accepts a content type. One that names none accepts all.
fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let (group, _) = kind.split_once('/').unwrap_or((kind, ""));
    let mut named = headers.get_all(header::ACCEPT).iter().peekable();
    if named.peek().is_none() {
        return true;
    }
    named
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|range| range.split(';').next().unwrap_or_default().trim())
        .any(|range| {
            range.eq_ignore_ascii_case(kind) || range == "*/*" || range == format!("{group}/*")
        })
}

fn not_allowed() -> Response<Body> {
    let why = "no session is named, and revisions without sessions only use POST";
    let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, None, CONNECTION_CLOSED, why);
    let allowed = HeaderValue::from_static("GET, POST, DELETE");
    response.headers_mut().insert(header::ALLOW, allowed);
    response
}

fn unknown_session(id: Option<&str>) -> Response<Body> {
    let why = "there is no such session; start a new one with `initialize`";
    refusal(StatusCode::NOT_FOUND, id, SESSION_NOT_FOUND, why)
}

fn unavailable(id: Option<&str>, why: &str) -> Response<Body> {
    refusal(StatusCode::BAD_GATEWAY, id, CONNECTION_CLOSED, why)
}
