//! One connection to a server, from the handshake to its end.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ErrorCode, Implementation, ProgressNotificationParam,
    ProtocolVersion, SubscriptionFilter,
};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, NotificationContext, Peer,
    RoleClient, RunningService, serve_client_with_lifecycle,
};
use tokio::sync::OnceCell;

use super::announcements::Announcements;
use super::error::connect_error;
use super::exact_numbers;
use super::message_parser::MessageParser;
use super::progress::ActiveCalls;
use super::server_settings::McpTransport;
use super::stdio::{ServerExit, ServerProgram};
use super::{McpDependencies, McpError, McpSettings, http};

/// Maximum number of resources of a connection whose updates are announced.
const MAX_SUBSCRIPTIONS: usize = 1_000;

/// A connection. Dropping it ends the server if it is a program.
pub(super) struct McpConnection {
    running: RunningService<RoleClient, NotificationHandler>,
    end: Option<ServerExit>,
    /// Set when the server has answered anything but the handshake.
    answered: AtomicBool,
    /// The resources whose updates the server was asked to announce; set when it has answered.
    subscriptions: Mutex<HashMap<String, Arc<OnceCell<()>>>>,
    /// Set when the server has not answered such a request.
    has_no_subscriptions: AtomicBool,
}

/// Handles notifications of a server.
#[derive(Clone)]
pub(super) struct NotificationHandler {
    pub(super) server: Arc<str>,
    pub(super) dependencies: McpDependencies,
    /// Handles announcements that something changed, before the library sees them.
    pub(super) announcements: Announcements,
    pub(super) calls: ActiveCalls,
}

impl ClientHandler for NotificationHandler {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("cachalot", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), own)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        if let Some((tool, text)) = self.calls.next_report(&params) {
            let text = self.dependencies.secret_set.redact(&text);
            self.dependencies.reporter.progress(&tool, &text);
        }
    }

    // Removed from the newest protocol version; older servers still use it.
    #[allow(deprecated)]
    async fn on_logging_message(
        &self,
        params: rmcp::model::LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let shown = exact_numbers::shown(&params.data);
        let said = match params.data.as_str() {
            // A number may be kept as a text, and is shown without quotes.
            Some(text) if shown.starts_with('"') => text.to_owned(),
            _ => shown,
        };
        let level = serde_json::to_value(params.level).unwrap_or_default();
        let said = format!("[{}] {said}", level.as_str().unwrap_or("log"));
        let said = self.dependencies.secret_set.redact(&said);
        self.dependencies
            .reporter
            .server_output(&self.server, &said);
    }
}

impl McpConnection {
    /// Connects to servers of all protocol versions: with the handshake, or without it if the server does not
    /// support it any more.
    pub(super) async fn open(
        settings: &McpSettings,
        handler: &NotificationHandler,
    ) -> Result<Self, McpError> {
        match Self::attempt(settings, handler, ClientLifecycleMode::Initialize).await {
            Err((Some(ClientInitializeError::JsonRpcError(error)), _))
                if [
                    ErrorCode::METHOD_NOT_FOUND,
                    ErrorCode::UNSUPPORTED_PROTOCOL_VERSION,
                ]
                .contains(&error.code) =>
            {
                let modern = ClientLifecycleMode::Discover {
                    preferred_versions: vec![ProtocolVersion::LATEST],
                };
                Self::attempt(settings, handler, modern).await
            }
            attempted => attempted,
        }
        .map_err(|(_, error)| error)
    }

    async fn attempt(
        settings: &McpSettings,
        handler: &NotificationHandler,
        mode: ClientLifecycleMode,
    ) -> Result<Self, (Option<ClientInitializeError>, McpError)> {
        let dependencies = &handler.dependencies;
        let redacted = |error: McpError| error.redacted(&dependencies.secret_set);
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
                let served = serve_client_with_lifecycle(handler.clone(), transport, mode).await;
                (served, Some(end))
            }
            McpTransport::Http { url, headers } => {
                let limit = settings.limits.message_limit;
                let announcements = handler.announcements.clone();
                let message_parser =
                    MessageParser::new(&settings.name, limit, dependencies.clone(), announcements);
                let transport =
                    http::transport(&settings.name, url, headers, message_parser, dependencies)
                        .map_err(|error| (None, redacted(error)))?;
                let served = serve_client_with_lifecycle(handler.clone(), transport, mode).await;
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
        subscribe(running.peer());
        Ok(Self {
            running,
            end,
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

    /// Returns the subscription to updates of a resource, which the caller begins if it is not set; `None` if the
    /// server does not offer that. Newer protocol versions have no such request.
    pub(super) fn subscription(&self, uri: &str) -> Option<Arc<OnceCell<()>>> {
        let info = self.running.peer().peer_info();
        let offers = info.is_some_and(|info| {
            let resources = info.capabilities.resources.as_ref();
            info.protocol_version.has_initialize()
                && resources.is_some_and(|resources| resources.subscribe == Some(true))
        });
        if !offers || self.has_no_subscriptions.load(Ordering::Relaxed) {
            return None;
        }
        let mut subscriptions = self.subscriptions.lock();
        if let Some(known) = subscriptions.get(uri) {
            return Some(Arc::clone(known));
        }
        (subscriptions.len() < MAX_SUBSCRIPTIONS)
            .then(|| Arc::clone(subscriptions.entry(uri.to_owned()).or_default()))
    }

    /// Records that the server does not answer subscriptions.
    pub(super) fn end_subscriptions(&self) {
        self.has_no_subscriptions.store(true, Ordering::Relaxed);
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

/// Subscribes to notifications until the connection ends, if the protocol version requires a subscription.
fn subscribe(peer: &Peer<RoleClient>) {
    let asked_for = |version: &ProtocolVersion| !version.has_initialize();
    if !peer
        .peer_info()
        .is_some_and(|info| asked_for(&info.protocol_version))
    {
        return;
    }
    let peer = peer.clone();
    tokio::spawn(async move {
        let filter = SubscriptionFilter::builder()
            .tools_list_changed()
            .resources_list_changed()
            .prompts_list_changed()
            .build();
        // A server without notifications refuses the subscription, which is not an error.
        let Ok(mut announcements) = peer.listen(filter).await else {
            return;
        };
        // The parser of messages has handled them.
        while let Ok(Some(_)) = announcements.next().await {}
    });
}
