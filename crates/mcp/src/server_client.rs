//! The client of one server: connected when needed, and reconnected after a loss.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex as SyncMutex;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientRequest, RequestId, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::connection::{McpConnection, NotificationHandler};
use super::error::{is_connection_lost, max_timeout_error, request_error, timeout_error};
use super::progress::ActiveCalls;
use super::{McpDependencies, McpError, McpSettings};

/// Backoff after a failed attempt to connect: the first pause, doubled after each failure, up to the maximum.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// The client of a server. When it is dropped, the program is killed with all processes that it started.
pub(super) struct ServerClient {
    pub(super) settings: McpSettings,
    pub(super) handler: NotificationHandler,
    state: Mutex<ConnectionState>,
    /// Counts the changes of the server's lists.
    pub(super) changed: watch::Sender<u64>,
    /// The lists at the last listing; `None` before the first one.
    listed: SyncMutex<Option<BTreeSet<String>>>,
}

#[derive(Default)]
struct ConnectionState {
    connection: Option<Arc<McpConnection>>,
    /// Number of consecutive failures to connect. `failed` is the last one, and the time of the next
    /// permitted attempt.
    failures: u32,
    failed: Option<(McpError, Instant)>,
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
    pub(super) fn new(settings: McpSettings, dependencies: McpDependencies) -> Self {
        let (announced, _) = watch::channel(0);
        let (changed, _) = watch::channel(0);
        Self {
            handler: NotificationHandler {
                server: settings.name.as_str().into(),
                dependencies,
                announced,
                calls: ActiveCalls::default(),
            },
            settings,
            state: Mutex::default(),
            changed,
            listed: SyncMutex::default(),
        }
    }

    /// Ends the connection, and waits until the program is gone. The next call reconnects.
    pub(super) async fn close(&self) {
        let connection = self.state.lock().await.connection.take();
        if let Some(connection) = connection.and_then(Arc::into_inner) {
            connection.close().await;
        }
    }

    /// Reports a warning about the server to the user.
    pub(super) fn warn(&self, what: &str) {
        let message = format!("the MCP server `{}` {what}", self.name());
        self.handler.dependencies.reporter.warning(&message);
    }

    /// Records the lists of the server, and returns the previous ones.
    pub(super) fn record_listing(&self, now: BTreeSet<String>) -> Option<BTreeSet<String>> {
        let mut listed = self.listed.lock();
        listed.replace(now)
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
        let limit = self.settings.timeout;
        match tokio::time::timeout(limit, question(connection.peer())).await {
            Ok(answered) => self.answered(&connection, answered).await,
            Err(_) => Err(timeout_error(self.name(), limit)),
        }
    }

    /// Sends a request on behalf of a tool, with the call timeout, which restarts at each progress
    /// notification, up to the maximum time. If the future is dropped, the server receives a cancellation.
    pub(super) async fn call(
        &self,
        tool: &str,
        request: ClientRequest,
    ) -> Result<ServerResult, McpError> {
        let connection = self.connection().await?;
        let limit = self.settings.timeout;
        let most = self.settings.max_timeout.max(limit);
        let options = PeerRequestOptions::with_timeout(limit)
            .reset_timeout_on_progress()
            .with_max_total_timeout(most);
        let peer = connection.peer();
        let answered = async {
            let asked = peer.send_cancellable_request(request, options).await?;
            let _going = (self.handler.calls).begin(asked.progress_token.clone(), tool);
            let mut abandoned = CancelOnDrop {
                peer: &peer,
                request: Some(asked.id.clone()),
            };
            let answered = asked.await_response().await;
            abandoned.request = None;
            answered
        };
        match answered.await {
            Err(ServiceError::Timeout { timeout }) => Err(match timeout == limit {
                true => timeout_error(self.name(), limit),
                false => max_timeout_error(self.name(), timeout),
            }),
            answered => self.answered(&connection, answered).await,
        }
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
        let limit = self.settings.startup_timeout;
        let opening = McpConnection::open(&self.settings, &self.handler);
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
