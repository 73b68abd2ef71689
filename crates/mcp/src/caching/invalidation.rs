//! The domains of the answers of a server, and what raises their epochs.
//!
//! | domain | raised by |
//! |---|---|
//! | `BASE` | every announcement of the server |
//! | `BASE:calls` | a call that may change anything, at its start and at its end |
//! | `BASE:server` | a new process of the server, or one that ended in the middle of a call |
//! | `BASE:tools`, `:prompts`, `:resources` | `list_changed` of that list |
//! | `BASE:resource:XXXX` | `resources/updated` of a resource, or of one below it |

use cachalot_cache::{Cache, Domain, WriteGuard};
use cachalot_operation::domains::EngineLifetime;

use super::methods::Hinted;
use crate::announcement::Announcement;
use crate::server_domains::ServerDomains;
use crate::tool_names::ToolSourceKind;

/// The URI that stands for all resources.
const ALL_RESOURCES: &str = "*";

/// Names and raises the domains of a server.
pub(super) struct Invalidation {
    cache: Cache,
    domains: ServerDomains,
    calls: String,
    server: String,
}

impl Invalidation {
    pub(super) fn new(cache: Cache, base: &str) -> Self {
        Self {
            cache,
            domains: ServerDomains::with_base(base.to_owned()),
            calls: format!("{base}:calls"),
            server: format!("{base}:server"),
        }
    }

    /// Returns the domains of the answers of a tool that depends on these resources.
    pub(super) fn of_tool(&self, resources: &[String]) -> Vec<Domain> {
        let mut domains = vec![self.calls(), self.server()];
        for uri in resources {
            if uri == ALL_RESOURCES {
                domains.push(Domain::new(self.domains.base()));
            } else {
                let joined = self.domains.joined(ToolSourceKind::Resource, uri);
                domains.extend(joined.for_engine(EngineLifetime::Persistent));
            }
        }
        domains.sort();
        domains.dedup();
        domains
    }

    /// Returns the domains of the answer to a method with hints; `uri` is that of a resource.
    pub(super) fn of_hinted(&self, method: Hinted, uri: &str) -> Vec<Domain> {
        let joined = |kind, id: &str| {
            let joined = self.domains.joined(kind, id);
            joined.for_engine(EngineLifetime::Persistent)
        };
        let mut domains = vec![self.server()];
        match method {
            Hinted::Discover => domains.push(Domain::new(self.domains.base())),
            Hinted::Tools => domains.extend(joined(ToolSourceKind::Tool, "")),
            Hinted::Prompts => domains.extend(joined(ToolSourceKind::Prompt, "")),
            Hinted::Resources | Hinted::Templates => {
                domains.push(self.calls());
                domains.extend(joined(ToolSourceKind::Resource, ""));
            }
            Hinted::Read => {
                domains.push(self.calls());
                domains.extend(joined(ToolSourceKind::Resource, uri));
            }
        }
        domains
    }

    /// Begins a call that may change anything.
    pub(super) async fn begin_write(&self) -> WriteGuard {
        self.cache.write_guard(&[self.calls()]).await
    }

    /// Expires what an announcement of the server names, at once in this process.
    pub(super) fn announce(&self, announcement: &Announcement) {
        let raised = self.domains.raised(announcement);
        self.raise(&raised.for_engine(EngineLifetime::Persistent));
    }

    /// Expires all answers of the server.
    pub(super) fn restarted(&self) {
        self.raise(&[self.server()]);
    }

    /// Expires all answers that a call could have changed.
    pub(super) fn changed(&self) {
        self.raise(&[self.calls()]);
    }

    fn raise(&self, domains: &[Domain]) {
        let guard = self.cache.announce(domains);
        tokio::spawn(async move {
            // A fault has been reported as a warning, and is retried.
            let _ = guard.finish().await;
        });
    }

    fn calls(&self) -> Domain {
        Domain::new(self.calls.as_str())
    }

    fn server(&self) -> Domain {
        Domain::new(self.server.as_str())
    }
}

/// Ends a write.
pub(super) async fn end(guard: Option<WriteGuard>) {
    if let Some(guard) = guard {
        // A fault has been reported as a warning, and is retried.
        let _ = guard.finish().await;
    }
}
