//! A server: connected to when it is needed, and again when it was lost.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex as StdMutex, PoisonError, Weak};
use std::time::Duration;

use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientRequest, RequestId, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::catalogue::{self, Catalogue};
use super::connection::{Connection, Handler};
use super::fault::{is_lost, too_long, too_slow, unanswered};
use super::offers::Listing;
use super::progress::Calls;
use super::{McpError, McpSettings, McpSurroundings};

/// After a failed attempt to connect, the next is made no sooner than after this, each time twice as
/// long, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What a server offers is asked for so often if it changes meanwhile.
const LISTINGS: u32 = 3;

/// Announcements that follow each other so soon are one.
const ANNOUNCED_TOGETHER: Duration = Duration::from_millis(50);

/// An MCP server. Its tools keep it alive; when the last of them and every clone of this is gone, a
/// program is ended with all that it started.
#[derive(Clone)]
pub struct McpServer {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) settings: McpSettings,
    pub(super) handler: Handler,
    state: Mutex<State>,
    /// Counts the changes of what the server offers.
    changed: watch::Sender<u64>,
    /// What the server offered when it was last listed; `None` before the first listing.
    listed: StdMutex<Option<BTreeSet<String>>>,
}

#[derive(Default)]
struct State {
    connection: Option<Arc<Connection>>,
    /// How often in a row connecting failed, why the last time, and when it may be tried again.
    failures: u32,
    failed: Option<(McpError, Instant)>,
}

impl State {
    fn fail(&mut self, error: &McpError) {
        let pause = FIRST_PAUSE
            .saturating_mul(2_u32.saturating_pow(self.failures))
            .min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        self.failed = Some((error.clone(), Instant::now() + pause));
    }
}

impl McpServer {
    /// A server that nothing is done with yet. Its secrets are learnt.
    #[must_use]
    pub fn new(settings: McpSettings, surroundings: McpSurroundings) -> Self {
        for secret in settings.to_learn(&surroundings.seals) {
            surroundings.seals.learn(secret);
        }
        let (announced, _) = watch::channel(0);
        let (changed, _) = watch::channel(0);
        Self {
            shared: Arc::new(Shared {
                handler: Handler {
                    server: settings.name.as_str().into(),
                    surroundings,
                    announced,
                    calls: Calls::default(),
                },
                settings,
                state: Mutex::default(),
                changed,
                listed: StdMutex::default(),
            }),
        }
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.settings.name
    }

    /// Tells the user something about it.
    pub(super) fn warn(&self, what: &str) {
        let message = format!("the MCP server `{}` {what}", self.name());
        self.shared.handler.surroundings.reporter.warning(&message);
    }

    /// How it was configured.
    #[must_use]
    pub fn settings(&self) -> &McpSettings {
        &self.shared.settings
    }

    /// Changes when the server offers other tools, resources or prompts than at the last
    /// [`McpServer::list`]. An announcement alone is no change: the server is asked again first.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    /// What it offers now. Connects if need be.
    ///
    /// # Errors
    /// It cannot be started or reached, or does not tell its tools. That it does not tell its resources
    /// or prompts is a warning.
    pub async fn list(&self) -> Result<Listing, McpError> {
        let mut announced = self.shared.handler.announced.subscribe();
        let mut catalogue: Catalogue;
        let mut listings = 0;
        // Some servers put their tools together while they are asked for them.
        loop {
            announced.mark_unchanged();
            catalogue = catalogue::of(&self.shared).await?;
            listings += 1;
            if listings == LISTINGS || !announced.has_changed().unwrap_or(false) {
                break;
            }
        }
        if self.shared.note_listed(catalogue.fingerprint()).is_none() {
            tokio::spawn(watch_announcements(Arc::downgrade(&self.shared), announced));
        }
        Ok(Listing::new(self.clone(), catalogue))
    }

    /// Ends the connection, and waits until the program is gone. The next call makes a new one.
    pub async fn close(&self) {
        let connection = self.shared.state.lock().await.connection.take();
        if let Some(connection) = connection.and_then(Arc::into_inner) {
            connection.close().await;
        }
    }
}

/// Asks a server again after each announcement, and reports only lists that differ from the last, in
/// whatever order the server writes them. Ends with the server.
async fn watch_announcements(server: Weak<Shared>, mut announced: watch::Receiver<u64>) {
    while announced.changed().await.is_ok() {
        // Servers that register several tools announce each of them.
        tokio::time::sleep(ANNOUNCED_TOGETHER).await;
        announced.mark_unchanged();
        let Some(server) = server.upgrade() else {
            return;
        };
        let Ok(catalogue) = catalogue::of(&server).await else {
            continue;
        };
        let now = catalogue.fingerprint();
        if server
            .note_listed(now.clone())
            .is_some_and(|before| before != now)
        {
            server
                .handler
                .surroundings
                .reporter
                .list_changed(server.name());
            server.changed.send_modify(|count| *count += 1);
        }
    }
}

impl Shared {
    /// Notes what the server offers, and returns what it offered before.
    fn note_listed(&self, now: BTreeSet<String>) -> Option<BTreeSet<String>> {
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        listed.replace(now)
    }

    /// Asks the server something, within the time that a call may take. If the future is dropped, the
    /// server is told that nobody waits any more.
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
            Err(_) => Err(too_slow(self.name(), limit)),
        }
    }

    /// Has the server do something for a tool, within the time that a call may take: each progress
    /// notification begins that time anew, up to the longest. If the future is dropped, the server is
    /// told that nobody waits any more.
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
            let mut abandoned = Abandoned {
                peer: &peer,
                request: Some(asked.id.clone()),
            };
            let answered = asked.await_response().await;
            abandoned.request = None;
            answered
        };
        match answered.await {
            Err(ServiceError::Timeout { timeout }) => Err(match timeout == limit {
                true => too_slow(self.name(), limit),
                false => too_long(self.name(), timeout),
            }),
            answered => self.answered(&connection, answered).await,
        }
    }

    /// Notes that a server answered, or why it did not.
    async fn answered<T>(
        &self,
        connection: &Arc<Connection>,
        answered: Result<T, ServiceError>,
    ) -> Result<T, McpError> {
        let error = match answered {
            Err(error) => error,
            Ok(answer) => {
                connection.note_answer();
                return Ok(answer);
            }
        };
        let seals = &self.handler.surroundings.seals;
        let mut fault = unanswered(self.name(), &error);
        if !is_lost(&error) {
            connection.note_answer();
            return Err(fault.redacted(seals));
        }
        fault.message.push_str(&connection.explained());
        let fault = fault.redacted(seals);
        self.lose(connection, &fault).await;
        Err(fault)
    }

    /// The connection; made if there is none, and if the last failure is long enough ago.
    pub(super) async fn connection(&self) -> Result<Arc<Connection>, McpError> {
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

    async fn connect(&self) -> Result<Connection, McpError> {
        let limit = self.settings.startup_timeout;
        let opening = Connection::open(&self.settings, &self.handler);
        tokio::time::timeout(limit, opening).await.unwrap_or_else(|_| {
            Err(McpError::passing(
                self.name(),
                format!(
                    "was not ready within {} seconds; raise its `startup_timeout` if it needs longer",
                    limit.as_secs_f64()
                ),
            ))
        })
    }

    /// Forgets a connection that is of no use any more, unless somebody has made a new one. If it
    /// never answered anything, that is as bad as if it had not come about.
    async fn lose(&self, lost: &Arc<Connection>, why: &McpError) {
        let mut state = self.state.lock().await;
        let is_current = |current: &Arc<Connection>| Arc::ptr_eq(current, lost);
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

/// A request that nobody waits for any more if this is dropped before it was answered.
struct Abandoned<'a> {
    peer: &'a Peer<RoleClient>,
    request: Option<RequestId>,
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        let Some(request) = self.request.take() else {
            return;
        };
        let (Ok(runtime), peer) = (tokio::runtime::Handle::try_current(), self.peer.clone()) else {
            return;
        };
        runtime.spawn(async move {
            let why = Some("nobody waits for it any more".to_owned());
            let cancelled = CancelledNotificationParam::new(Some(request), why);
            let cancelled = CancelledNotification::new(cancelled);
            // It may have ended meanwhile.
            let _ = peer.send_notification(cancelled.into()).await;
        });
    }
}
