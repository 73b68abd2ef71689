//! One connection to a server, from the handshake to its end.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::SubscriptionFilter;
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, Peer, RoleClient, RunningService,
    serve_client_with_lifecycle,
};
use tokio::sync::OnceCell;

use super::announcement::Announcement;
use super::announcements::Announcements;
use super::era::{Era, EraEntry, EraMemory};
use super::error::connect_error;
use super::message_handler::MessageHandler;
use super::message_parser::MessageParser;
use super::probe::{LateDiscovery, ProbingTransport};
use super::server_settings::McpTransport;
use super::start::Start;
use super::stdio::{ServerExit, ServerProgram};
use super::{McpError, McpSettings, http, raw_message};

/// Maximum number of resources of a connection whose updates are announced.
const MAX_SUBSCRIPTIONS: usize = 1_000;

/// The same of newer protocol versions, where each one is a stream of its own.
const MAX_STREAMS: usize = 64;

/// Pause before the client listens again to a server whose stream of announcements has ended: the first one, doubled
/// each time, up to the maximum.
const FIRST_LISTEN_PAUSE: Duration = Duration::from_secs(1);
const MAX_LISTEN_PAUSE: Duration = Duration::from_secs(60);

/// Maximum number of attempts to connect: with a remembered era, with the probe, and without it.
const MAX_ATTEMPTS: u32 = 3;

/// A connection. Dropping it ends the server if it is a program.
pub(super) struct McpConnection {
    running: RunningService<RoleClient, MessageHandler>,
    end: Option<ServerExit>,
    /// Set while the server announces changes of its lists.
    announces: Arc<AtomicBool>,
    /// Set when the server has answered anything but the handshake.
    answered: AtomicBool,
    /// The resources whose updates the server was asked to announce; set when it has answered.
    subscriptions: Mutex<HashMap<String, Arc<OnceCell<()>>>>,
    /// Set when the server has not answered such a request.
    has_no_subscriptions: AtomicBool,
}

impl McpConnection {
    /// Connects to servers of all protocol versions. A server whose era is not known is probed; if that fails in a
    /// way that only older servers do, it is connected once more with the handshake.
    pub(super) async fn open(
        settings: &McpSettings,
        handler: &MessageHandler,
        eras: &EraMemory,
    ) -> Result<Self, McpError> {
        let era = eras.entry(settings, &handler.dependencies.secret_set);
        let mut start = Start::for_known(era.known().map(|known| known.era));
        let mut attempts = 0;
        loop {
            let late = LateDiscovery::default();
            let attempted = Self::attempt(settings, handler, start, &late).await;
            attempts += 1;
            let (cause, error) = match attempted {
                Ok(connection) => {
                    connection.remember_era(&era, start, &late);
                    return Ok(connection);
                }
                Err(failure) => failure,
            };
            let next = cause.and_then(|cause| start.after(&cause, &late));
            match next.filter(|_| attempts < MAX_ATTEMPTS) {
                Some(next) => start = next,
                None => return Err(error),
            }
            if era.known().is_some() {
                era.forget();
            }
        }
    }

    /// Remembers the era of the connected server.
    fn remember_era(&self, era: &EraEntry, start: Start, late: &LateDiscovery) {
        let Some(info) = self.running.peer().peer_info() else {
            return;
        };
        let version = info.server_info.as_ref().map(|own| own.version.as_str());
        if !info.protocol_version.has_initialize() || late.has_come() {
            era.remember(Era::Modern, version);
        } else if start == Start::Initialize && era.known().is_some() {
            era.check_version(version);
        } else {
            era.remember(Era::Legacy, version);
        }
    }

    async fn attempt(
        settings: &McpSettings,
        handler: &MessageHandler,
        start: Start,
        late: &LateDiscovery,
    ) -> Result<Self, (Option<ClientInitializeError>, McpError)> {
        let dependencies = &handler.dependencies;
        let redacted = |error: McpError| error.redacted(&dependencies.secret_set);
        let limit = start.probe_limit(settings);
        let (running, end) = match &settings.transport {
            McpTransport::Stdio {
                command,
                arguments,
                environment,
                directory,
            } => {
                let own = &dependencies.directory;
                let program = ServerProgram {
                    server: &settings.name,
                    command,
                    arguments,
                    environment,
                    directory: directory
                        .as_ref()
                        .map_or_else(|| own.clone(), |named| own.join(named)),
                    message_limit: settings.limits.message_limit,
                };
                let (transport, end) = program
                    .start(dependencies, handler.announcements.of_new_program())
                    .await
                    .map_err(|error| (None, redacted(error)))?;
                let transport = ProbingTransport::new(transport, limit, late.clone());
                let served =
                    serve_client_with_lifecycle(handler.clone(), transport, start.mode()).await;
                (served, Some(end))
            }
            McpTransport::Http { url, headers } => {
                let message_limit = settings.limits.message_limit;
                let announcements = handler.announcements.clone();
                let message_parser = MessageParser::new(
                    &settings.name,
                    message_limit,
                    dependencies.clone(),
                    announcements,
                );
                let authorization = handler.authorization.clone();
                let transport = http::transport(
                    &settings.name,
                    url,
                    headers,
                    message_parser,
                    authorization,
                    dependencies,
                )
                .map_err(|error| (None, redacted(error)))?;
                let transport = ProbingTransport::new(transport, limit, late.clone());
                let served =
                    serve_client_with_lifecycle(handler.clone(), transport, start.mode()).await;
                (served, None)
            }
        };
        let running = running.map_err(|error| {
            let ended = end
                .as_ref()
                .map_or_else(String::new, ServerExit::describe_exit);
            let why =
                McpError::transient(&settings.name, format!("{}{ended}", connect_error(&error)));
            (Some(error), redacted(why))
        })?;
        running
            .peer()
            .set_response_cache_config(ClientCacheConfig::disabled())
            .await;
        let announces = Arc::new(AtomicBool::new(false));
        let announcements = handler.announcements.clone();
        listen(running.peer(), announcements, Arc::clone(&announces));
        Ok(Self {
            running,
            end,
            announces,
            answered: AtomicBool::new(false),
            subscriptions: Mutex::default(),
            has_no_subscriptions: AtomicBool::new(false),
        })
    }

    pub(super) fn peer(&self) -> Peer<RoleClient> {
        self.running.peer().clone()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.running.peer().is_transport_closed() || self.running.is_closed()
    }

    /// Records that the server answered.
    pub(super) fn note_answer(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// True if the server announces changes of its lists.
    pub(super) fn announces_lists(&self) -> bool {
        self.announces.load(Ordering::Relaxed)
    }

    /// True if the protocol version has no handshake.
    pub(super) fn is_modern(&self) -> bool {
        let info = self.running.peer().peer_info();
        info.is_some_and(|info| !info.protocol_version.has_initialize())
    }

    /// Returns the subscription to updates of a resource, which the caller begins if it is not set; `None` if the
    /// server does not offer that.
    pub(super) fn subscription(&self, uri: &str) -> Option<Arc<OnceCell<()>>> {
        let info = self.running.peer().peer_info();
        let offers = info.is_some_and(|info| {
            let resources = info.capabilities.resources.as_ref();
            resources.is_some_and(|resources| resources.subscribe == Some(true))
        });
        if !offers || self.has_no_subscriptions.load(Ordering::Relaxed) {
            return None;
        }
        let maximum = if self.is_modern() {
            MAX_STREAMS
        } else {
            MAX_SUBSCRIPTIONS
        };
        let mut subscriptions = self.subscriptions.lock();
        if let Some(known) = subscriptions.get(uri) {
            return Some(Arc::clone(known));
        }
        (subscriptions.len() < maximum)
            .then(|| Arc::clone(subscriptions.entry(uri.to_owned()).or_default()))
    }

    /// Forgets a subscription that has ended: the next read begins it again.
    pub(super) fn forget_subscription(&self, uri: &str) {
        self.subscriptions.lock().remove(uri);
    }

    /// Records that the server does not answer subscriptions.
    pub(super) fn end_subscriptions(&self) {
        self.has_no_subscriptions.store(true, Ordering::Relaxed);
    }

    /// True if calls of tools can be tasks, by the protocol version of 2025-11-25.
    pub(super) fn offers_tasks(&self) -> bool {
        let info = self.running.peer().peer_info();
        info.is_some_and(|info| {
            info.protocol_version.has_initialize() && raw_message::offers_tasks(info.meta.as_ref())
        })
    }

    /// The exit status of the program, if it has ended, and its last lines on stderr.
    pub(super) fn describe_exit(&self) -> String {
        self.end
            .as_ref()
            .map_or_else(String::new, ServerExit::describe_exit)
    }

    /// Ends the connection, and waits until the program is gone.
    pub(super) async fn close(self) {
        // A panic of the task also ends the connection.
        let _ = self.running.cancel().await;
    }
}

/// Listens to announcements of changed lists until the connection ends, if the protocol version requires that the client
/// asks for them, and the server makes any. Sets `announces` while it does.
fn listen(peer: &Peer<RoleClient>, announcements: Announcements, announces: Arc<AtomicBool>) {
    let Some(info) = peer.peer_info() else {
        return;
    };
    if info.protocol_version.has_initialize() {
        announces.store(true, Ordering::Relaxed);
        return;
    }
    let filter = SubscriptionFilter::builder()
        .tools_list_changed()
        .resources_list_changed()
        .prompts_list_changed()
        .build()
        .supported_by(&info.capabilities);
    if filter == SubscriptionFilter::default() {
        return;
    }
    let peer = peer.clone();
    tokio::spawn(async move {
        let mut pause = FIRST_LISTEN_PAUSE;
        // A server without notifications refuses the subscription, which is not an error.
        while let Ok(mut listening) = peer.listen(filter.clone()).await {
            if pause > FIRST_LISTEN_PAUSE {
                // Changes in between were not announced.
                announcements.handle(&Announcement::Unreadable);
            }
            announces.store(*listening.acknowledged() == filter, Ordering::Relaxed);
            // The parser of messages has handled them.
            while let Ok(Some(_)) = listening.next().await {}
            announces.store(false, Ordering::Relaxed);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_LISTEN_PAUSE);
        }
    });
}
