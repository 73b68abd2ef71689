//! The client of one server: connected when needed, and reconnected after a loss.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex as SyncMutex;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientRequest, ErrorCode, RequestId,
    ServerResult, SubscribeRequestParams, SubscriptionFilter,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::announcement::Announcement;
use super::announcements::Announcements;
use super::connection::McpConnection;
use super::era::EraMemory;
use super::error::{is_connection_lost, max_timeout_error, request_error, timeout_error};
use super::message_handler::MessageHandler;
use super::progress::{ActiveCalls, TimeLeft};
use super::respondents::Respondents;
use super::server_domains::ServerDomains;
use super::server_settings::McpTransport;
use super::{McpDependencies, McpError, McpSettings, elicitation};

/// Backoff after a failed attempt to connect: the first pause, doubled after each failure, up to the maximum.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// Maximum time to wait until a server acknowledges a stream of updates.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(5);

/// The time after which a call looks again whether the server still waits for an answer.
const PAUSE_CHECK: Duration = Duration::from_secs(1);

/// The maximum number of warnings that are remembered.
const MAX_WARNINGS: usize = 1_000;

/// The client of a server. When it is dropped, the program is killed with all processes that it started.
pub(super) struct ServerClient {
    pub(super) settings: McpSettings,
    pub(super) handler: MessageHandler,
    eras: EraMemory,
    state: Mutex<ConnectionState>,
    /// Counts the changes of the server's lists.
    pub(super) changed: watch::Sender<u64>,
    /// The lists at the last listing, and the number of announced changes before it; `None` before the first
    /// one.
    listed: SyncMutex<Option<Listed>>,
    /// The warnings about what the server lists, which are reported once.
    warned: SyncMutex<BTreeSet<String>>,
}

/// The lists of a server at a listing.
struct Listed {
    lists: BTreeSet<String>,
    /// The number of announced changes before it.
    announced: u64,
    /// The time until which they hold without a word of the server; `None`: until it announces a change.
    fresh_until: Option<Instant>,
}

/// The answer to a call.
pub(super) struct CallAnswer {
    pub(super) result: ServerResult,
    /// True if the server has asked the client anything during the call.
    pub(super) was_asked: bool,
    /// True if the server has refused the call until the user has opened addresses (2025-11-25): the result then
    /// requires them, and the same call is to be repeated.
    pub(super) was_refused: bool,
}

#[derive(Default)]
struct ConnectionState {
    connection: Option<Arc<McpConnection>>,
    /// Number of consecutive failures to connect. `failed` is the last one, and the time of the next
    /// permitted attempt.
    failures: u32,
    failed: Option<(McpError, Instant)>,
}

/// The state of a server, as it is known without asking it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    /// It is connected.
    Connected,
    /// It is being connected.
    Connecting,
    /// There was no need to connect it yet, or it was lost. The next call connects it.
    NotConnected,
    /// The last attempt to connect it has failed, with this message.
    Failed(String),
}

impl ConnectionState {
    fn fail(&mut self, error: &McpError) {
        let pause = INITIAL_BACKOFF
            .saturating_mul(2_u32.saturating_pow(self.failures))
            .min(MAX_BACKOFF);
        self.failures = self.failures.saturating_add(1);
        self.failed = Some((error.clone(), Instant::now() + pause));
    }
}

impl ServerClient {
    /// Creates a client without connecting.
    pub(super) fn new(
        settings: McpSettings,
        dependencies: McpDependencies,
        eras: EraMemory,
    ) -> Self {
        let (changed, _) = watch::channel(0);
        let domains = ServerDomains::new(&settings);
        Self {
            handler: MessageHandler {
                server: settings.name.as_str().into(),
                announcements: Announcements::new(domains, dependencies.write_notifier.clone()),
                root: settings
                    .is_on_this_machine()
                    .then(|| dependencies.directory.clone()),
                authorization: settings.authorization(&dependencies),
                dependencies,
                calls: ActiveCalls::default(),
            },
            settings,
            eras,
            state: Mutex::default(),
            changed,
            listed: SyncMutex::default(),
            warned: SyncMutex::default(),
        }
    }

    /// Returns the state of the server.
    pub(super) fn state(&self) -> ServerState {
        // Locked while connecting.
        let Ok(state) = self.state.try_lock() else {
            return ServerState::Connecting;
        };
        match (&state.connection, &state.failed) {
            (Some(connection), _) if !connection.is_closed() => ServerState::Connected,
            (_, Some((error, _))) => ServerState::Failed(error.message.clone()),
            _ => ServerState::NotConnected,
        }
    }

    /// Ends the connection, and waits until the program is gone. The next call reconnects.
    pub(super) async fn close(&self) {
        let connection = self.state.lock().await.connection.take();
        // Calls that are under way hold the connection, too: it ends with the last of them then.
        if let Some(connection) = connection.and_then(Arc::into_inner) {
            connection.close().await;
        }
    }

    /// Reports a warning about the server to the user.
    pub(super) fn warn(&self, what: &str) {
        let message = format!("the MCP server `{}` {what}", self.name());
        self.handler.dependencies.reporter.warning(&message);
    }

    /// Reports a warning about something that the server lists, once.
    pub(super) fn warn_once(&self, what: &str) {
        let is_new = {
            let mut warned = self.warned.lock();
            if warned.len() >= MAX_WARNINGS {
                warned.clear();
            }
            warned.insert(what.to_owned())
        };
        if is_new {
            self.warn(what);
        }
    }

    /// Records the lists of the server, with the number of announced changes before they were requested, and
    /// returns the previous ones. `fresh_until` is the time until which they hold if the server announces no change.
    pub(super) fn record_listing(
        &self,
        lists: BTreeSet<String>,
        announced: u64,
        fresh_until: Option<Instant>,
    ) -> Option<BTreeSet<String>> {
        let listed = Listed {
            lists,
            announced,
            fresh_until,
        };
        let before = self.listed.lock().replace(listed);
        before.map(|listed| listed.lists)
    }

    /// True if these are the lists of the server: no change was announced since the last listing, its lifetime is not
    /// over, and it had the same ones.
    pub(super) fn still_lists(&self, fingerprint: &BTreeSet<String>) -> bool {
        let announced = *self.handler.announcements.changed_lists().borrow();
        let listed = self.listed.lock();
        let Some(listed) = listed.as_ref() else {
            return false;
        };
        let is_fresh = listed
            .fresh_until
            .is_none_or(|until| Instant::now() < until);
        is_fresh && listed.announced == announced && listed.lists == *fingerprint
    }

    /// Sends a request with the call timeout. If the future is dropped, the server receives a cancellation.
    pub(super) async fn ask<T, W>(
        &self,
        question: impl FnOnce(Peer<RoleClient>) -> W,
    ) -> Result<T, McpError>
    where
        W: Future<Output = Result<T, ServiceError>>,
    {
        let connection = self.connection().await?;
        let limit = self.settings.limits.timeout;
        match tokio::time::timeout(limit, question(connection.peer())).await {
            Ok(answered) => self.answered(&connection, answered).await,
            Err(_) => Err(timeout_error(self.name(), limit)),
        }
    }

    /// Sends a request on behalf of a tool, with the call timeout, which restarts at each progress
    /// notification, up to the maximum time. The time in which `respondents` answer does not count. If the future
    /// is dropped, the server receives a cancellation.
    pub(super) async fn call(
        &self,
        tool: &str,
        request: ClientRequest,
        respondents: &Respondents,
    ) -> Result<CallAnswer, McpError> {
        let connection = self.connection().await?;
        // Only a server that was reached over HTTP reads the headers.
        let again =
            matches!(self.settings.transport, McpTransport::Http { .. }).then(|| request.clone());
        let answered = self
            .call_on(&connection, tool, request, respondents)
            .await?;
        let answered = match (answered, again) {
            (Err(ServiceError::McpError(error)), Some(request))
                if error.code == ErrorCode::HEADER_MISMATCH =>
            {
                // Headers of arguments are known from the list of tools, which this connection may not have seen, or
                // which has changed. The server has refused the call before it did anything.
                self.ask(|peer| async move { peer.list_all_tools().await })
                    .await?;
                self.call_on(&connection, tool, request, respondents)
                    .await?
            }
            (answered, _) => answered,
        };
        let answered = answered.or_else(|error| match elicitation::required(&error) {
            Some(required) => Ok(CallAnswer {
                result: ServerResult::InputRequiredResult(required),
                was_asked: true,
                was_refused: true,
            }),
            None => Err(error),
        });
        self.answered(&connection, answered).await
    }

    /// Sends a request like [`ServerClient::call`], on this connection.
    async fn call_on(
        &self,
        connection: &McpConnection,
        tool: &str,
        request: ClientRequest,
        respondents: &Respondents,
    ) -> Result<Result<CallAnswer, ServiceError>, McpError> {
        let limit = self.settings.limits.timeout;
        let maximum = self.settings.limits.max_timeout.max(limit);
        let peer = connection.peer();
        let options = PeerRequestOptions::no_options();
        let mut asked = match peer.send_cancellable_request(request, options).await {
            Ok(asked) => asked,
            Err(error) => return Ok(Err(error)),
        };
        let token = asked.progress_token.clone();
        let registration = self.handler.calls.begin(token, tool, respondents.clone());
        let mut abandoned = CancelOnDrop {
            peer: &peer,
            request: Some(asked.id.clone()),
        };
        let answered = loop {
            let until = match registration.time_left(limit, maximum) {
                TimeLeft::Until(until) => until,
                TimeLeft::Paused => Instant::now() + PAUSE_CHECK,
                TimeLeft::NoProgress => return Err(timeout_error(self.name(), limit)),
                TimeLeft::Over => return Err(max_timeout_error(self.name(), maximum)),
            };
            if let Ok(answered) = tokio::time::timeout_at(until, &mut asked.rx).await {
                break answered.unwrap_or(Err(ServiceError::TransportClosed));
            }
        };
        abandoned.request = None;
        let was_asked = registration.was_asked();
        Ok(answered.map(|result| CallAnswer {
            result,
            was_asked,
            was_refused: false,
        }))
    }

    /// Asks the server to announce updates of a resource, once per connection, if it offers that. A refusal
    /// is no error: the lifetime of the resource then is all that limits it.
    pub(super) async fn subscribe(&self, uri: &str) {
        if let Ok(connection) = self.connection().await {
            self.subscribe_on(&connection, uri).await;
        }
    }

    /// Subscribes like [`ServerClient::subscribe`], on this connection. Returns when the server has answered, also
    /// if another call has asked it.
    pub(super) async fn subscribe_on(&self, connection: &Arc<McpConnection>, uri: &str) {
        let Some(subscription) = connection.subscription(uri) else {
            return;
        };
        let begin = async {
            let is_answered = if connection.is_modern() {
                self.listen_to(connection, uri).await
            } else {
                self.request_updates(uri).await
            };
            // Not asked again about any resource, if it does not answer.
            if !is_answered {
                connection.end_subscriptions();
            }
        };
        subscription.get_or_init(|| begin).await;
    }

    /// Subscribes in the way of older protocol versions. Returns false if the server does not answer.
    #[expect(deprecated, reason = "older protocol versions have no other way")]
    async fn request_updates(&self, uri: &str) -> bool {
        let params = SubscribeRequestParams::new(uri);
        let asked = self.ask(|peer| async move { peer.subscribe(params).await });
        !asked.await.is_err_and(|error| error.retry)
    }

    /// Subscribes in the way of newer protocol versions: by a stream, which is read until it ends. Returns false if the
    /// server does not answer.
    async fn listen_to(&self, connection: &Arc<McpConnection>, uri: &str) -> bool {
        let filter = SubscriptionFilter::builder()
            .resource_subscription(uri)
            .build();
        let limit = self.settings.limits.timeout.min(LISTEN_TIMEOUT);
        let peer = connection.peer();
        let Ok(begun) = tokio::time::timeout(limit, peer.listen(filter)).await else {
            return false;
        };
        // A refusal is an answer.
        let Ok(mut listening) = begun else {
            return true;
        };
        let (connection, uri) = (Arc::downgrade(connection), uri.to_owned());
        let announcements = self.handler.announcements.clone();
        tokio::spawn(async move {
            // The parser of messages has handled them.
            while let Ok(Some(_)) = listening.next().await {}
            if let Some(connection) = connection.upgrade() {
                connection.forget_subscription(&uri);
            }
            // Later updates are not announced.
            announcements.handle(&Announcement::Resource(uri));
        });
        true
    }

    /// Returns the connection if there is one; opens none.
    pub(super) async fn open_connection(&self) -> Option<Arc<McpConnection>> {
        let state = self.state.lock().await;
        let open = state.connection.as_ref();
        open.filter(|connection| !connection.is_closed()).cloned()
    }

    /// Records that a server answered, or converts the error.
    async fn answered<T>(
        &self,
        connection: &Arc<McpConnection>,
        answered: Result<T, ServiceError>,
    ) -> Result<T, McpError> {
        let error = match answered {
            Err(error) => error,
            Ok(answer) => {
                connection.note_answer();
                return Ok(answer);
            }
        };
        let secret_set = &self.handler.dependencies.secret_set;
        let mut fault = request_error(self.name(), &error);
        if !is_connection_lost(&error) {
            connection.note_answer();
            return Err(fault.redacted(secret_set));
        }
        fault.message.push_str(&connection.describe_exit());
        let fault = fault.redacted(secret_set);
        self.drop_connection(connection, &fault).await;
        Err(fault)
    }

    /// Returns the connection; opens one if there is none and the backoff after the last failure is over.
    pub(super) async fn connection(&self) -> Result<Arc<McpConnection>, McpError> {
        // Held while connecting: concurrent callers wait for one attempt.
        let mut state = self.state.lock().await;
        if let Some(connection) = &state.connection {
            if !connection.is_closed() {
                return Ok(Arc::clone(connection));
            }
            state.connection = None;
        }
        if let Some((error, until)) = &state.failed
            && let Some(left) = until
                .checked_duration_since(Instant::now())
                .filter(|left| !left.is_zero())
        {
            let mut error = error.clone();
            error.message.push_str(&format!(
                "; it is not tried again for {} seconds",
                left.as_secs() + 1
            ));
            return Err(error);
        }
        match self.connect().await {
            Ok(connection) => {
                let connection = Arc::new(connection);
                // `failures` stays until the server has answered something: one that accepts connections and ends must
                // not be started again without pauses.
                state.failed = None;
                state.connection = Some(Arc::clone(&connection));
                Ok(connection)
            }
            Err(error) => {
                state.fail(&error);
                Err(error)
            }
        }
    }

    async fn connect(&self) -> Result<McpConnection, McpError> {
        let limit = self.settings.limits.startup_timeout;
        let opening = McpConnection::open(&self.settings, &self.handler, &self.eras);
        tokio::time::timeout(limit, opening).await.unwrap_or_else(|_| {
            Err(McpError::transient(
                self.name(),
                format!(
                    "was not ready within {} seconds; raise its `startup_timeout` if it needs longer",
                    limit.as_secs_f64()
                ),
            ))
        })
    }

    /// Drops a lost connection, unless it has been replaced. If it never answered anything, it counts as a
    /// failed attempt to connect.
    async fn drop_connection(&self, lost: &Arc<McpConnection>, why: &McpError) {
        let mut state = self.state.lock().await;
        let is_current = |current: &Arc<McpConnection>| Arc::ptr_eq(current, lost);
        if !state.connection.as_ref().is_some_and(is_current) {
            return;
        }
        state.connection = None;
        if lost.has_answered() {
            state.failures = 0;
        } else {
            state.fail(why);
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.settings.name
    }
}

/// Cancels a request if it is dropped before the answer.
struct CancelOnDrop<'a> {
    peer: &'a Peer<RoleClient>,
    request: Option<RequestId>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let Some(request) = self.request.take() else {
            return;
        };
        let (Ok(runtime), peer) = (tokio::runtime::Handle::try_current(), self.peer.clone()) else {
            return;
        };
        runtime.spawn(async move {
            let why = Some("the caller was canceled".to_owned());
            let cancelled = CancelledNotificationParam::new(Some(request), why);
            let cancelled = CancelledNotification::new(cancelled);
            // The server may have ended meanwhile.
            let _ = peer.send_notification(cancelled.into()).await;
        });
    }
}
