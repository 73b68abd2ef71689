//! A server and its lists.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use cachalot_tools::WorkspaceSandbox;
use tokio::sync::watch;

use super::catalog;
use super::listing::ServerListing;
use super::server_client::{ServerClient, ServerState};
use super::{EraMemory, McpDependencies, McpError, McpSettings};

/// Maximum number of times that the lists are requested in a row because they change meanwhile.
const MAX_LISTINGS: u32 = 3;

/// Announcements within this time are handled as one.
const ANNOUNCEMENT_DEBOUNCE: Duration = Duration::from_millis(50);

/// An MCP server. Its tools keep it alive. When the last of them and every clone of this is dropped, the
/// program is killed with all processes that it started.
#[derive(Clone)]
pub struct McpServer(Arc<ServerClient>);

impl McpServer {
    /// Creates a server without connecting. Adds its secrets to those to be masked. Its era is remembered in `eras`.
    #[must_use]
    pub fn new(settings: McpSettings, dependencies: McpDependencies, eras: EraMemory) -> Self {
        for secret in settings.credentials_to_mask(&dependencies.secret_set) {
            dependencies.secret_set.learn(secret);
        }
        Self(Arc::new(ServerClient::new(settings, dependencies, eras)))
    }

    /// The name of the server.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// The configuration of the server.
    #[must_use]
    pub fn settings(&self) -> &McpSettings {
        &self.0.settings
    }

    /// The state of the server; it is not asked.
    #[must_use]
    pub fn state(&self) -> ServerState {
        self.0.state()
    }

    /// The sandbox of the server, if it is a program that runs in one.
    pub(crate) fn sandbox(&self) -> &Option<WorkspaceSandbox> {
        &self.0.handler.dependencies.sandbox
    }

    /// Returns a counter that changes when the server has other tools, resources or prompts than at the last
    /// [`McpServer::list`]. After an announcement, the lists are requested and compared first.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// True if these are the lists of the server, as far as it has announced.
    pub(crate) fn still_lists(&self, fingerprint: &BTreeSet<String>) -> bool {
        self.0.still_lists(fingerprint)
    }

    /// Requests the current lists. Connects if needed.
    ///
    /// # Errors
    /// If the server cannot be started or reached, or does not list its tools. A failure to list its
    /// resources or prompts is only a warning.
    pub async fn list(&self) -> Result<ServerListing, McpError> {
        // Before the lists are requested: an announcement in between is not missed.
        let mut announced = self.0.handler.announcements.changed_lists().subscribe();
        let mut catalog;
        let mut version;
        let mut listings = 0;
        // Some servers change their tools while they are being listed.
        loop {
            version = *announced.borrow_and_update();
            catalog = catalog::list_all(&self.0).await?;
            listings += 1;
            if listings == MAX_LISTINGS || !announced.has_changed().unwrap_or(false) {
                break;
            }
        }
        if self
            .0
            .record_listing(
                catalog::fingerprint(&catalog.tools),
                version,
                catalog.fresh_until,
            )
            .is_none()
        {
            tokio::spawn(watch_announcements(Arc::downgrade(&self.0), announced));
        }
        Ok(ServerListing::new(Arc::clone(&self.0), catalog))
    }

    /// Ends the connection, and waits until the program is gone. The next call reconnects.
    pub async fn close(&self) {
        self.0.close().await;
    }
}

/// Requests the lists after each announcement, and reports only lists that differ from the last ones,
/// regardless of their order. Ends with the server.
async fn watch_announcements(server: Weak<ServerClient>, mut announced: watch::Receiver<u64>) {
    while announced.changed().await.is_ok() {
        // Servers that register several tools announce each of them.
        tokio::time::sleep(ANNOUNCEMENT_DEBOUNCE).await;
        let version = *announced.borrow_and_update();
        let Some(server) = server.upgrade() else {
            return;
        };
        let Ok(catalog) = catalog::list_all(&server).await else {
            continue;
        };
        let now = catalog::fingerprint(&catalog.tools);
        if server
            .record_listing(now.clone(), version, catalog.fresh_until)
            .is_some_and(|before| before != now)
        {
            server
                .handler
                .dependencies
                .reporter
                .list_changed(server.name());
            server.changed.send_modify(|count| *count += 1);
        }
    }
}
