//! The tool cache: a layer over the registry, transparent to the turn loop, that never pays for the same call
//! twice and never serves a stale result.
//!
//! The layer converts a tool call into a call of the engine, and the tool's declarations into a policy: the
//! domains that the call joins, and the time and conditions under which its result may be replayed. The
//! engine does everything else: time to live, single-flight, validation, bounds, accounting.

mod cacheability;
mod counters;
mod defaults;
mod deliveries;
mod force;
mod perform;
mod sessions;
mod settings;
mod stored_result;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_cache::{Cache, CacheMode, Ledger};
use cachalot_core::{Clock, SecretSet};
use cachalot_model::ToolDefinition;

use crate::registry::{Registry, RegistryError, schedule};
use crate::toolbox::{BatchContext, PreparedCall, ToolCall, ToolCallResult, Toolbox};
use cachalot_operation::{Arguments, Tool};

pub use cachalot_operation::WriteNotifier;
pub use cachalot_operation::domains::EngineLifetime;
pub use cachalot_operation::write_notifier::EngineRegistration;
pub use counters::{CacheStats, Counters};
pub use settings::{RepeatDelivery, ToolCacheScope, ToolCacheSettings};

use cacheability::ToolProfile;
use sessions::SessionCaches;

/// Dependencies of the tool cache, which would otherwise be global.
pub struct CachedToolsOptions {
    /// The settings.
    pub settings: ToolCacheSettings,
    /// The caching mode of the command line, which overrides the settings.
    pub mode: CacheMode,
    /// The ledger that accounts for calls.
    pub ledger: Ledger,
    /// The clock for expiry.
    pub clock: Arc<dyn Clock>,
    /// Secrets: a result that contains one is not stored.
    pub secret_set: Arc<SecretSet>,
    /// Receives log messages of one sentence each: the statistics of a session that ends, and faults.
    pub log: Arc<dyn Fn(&str) + Send + Sync>,
    /// The engine over a store that outlives sessions. It stores results that several sessions share, and is
    /// notified of the writes of tools in any case.
    pub persistent: Option<Cache>,
    /// The user on whose behalf the calls are made.
    pub user: String,
    /// The registry of engines to notify of writes, shared by all code in this process that works on the same
    /// files.
    pub write_notifier: WriteNotifier,
}

struct CachedToolsInner {
    options: CachedToolsOptions,
    sessions: SessionCaches,
    /// Notifies the persistent engine of writes.
    _registration: Option<EngineRegistration>,
}

/// A toolbox that answers repeated calls of read-only tools from cached results, for as long as the tool
/// would return the same. Off by default; then it is like the registry itself, except that it announces
/// writes to the other engines. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct CachedTools {
    shared: Arc<CachedToolsInner>,
    /// The tools as shown to models: with `force` where it has an effect.
    shown: Registry,
    profiles: Arc<HashMap<String, ToolProfile>>,
}

impl CachedTools {
    /// Creates a layer over a registry.
    ///
    /// # Errors
    /// If a tool's schema cannot take the additional argument; otherwise none that the registry did not have.
    pub fn new(registry: &Registry, options: CachedToolsOptions) -> Result<Self, RegistryError> {
        let narrowed = match options.settings.scope {
            ToolCacheScope::Session => None,
            _ if options.persistent.is_none() => {
                Some("there is no store that would keep them longer")
            }
            // An empty user name would share results between unknown users.
            ToolCacheScope::User if options.user.trim().is_empty() => Some("the user is unknown"),
            ToolCacheScope::Workspace | ToolCacheScope::User => None,
        };
        if let Some(why) = narrowed.filter(|_| options.settings.enabled) {
            (options.log)(&format!(
                "tool results are kept for their session only: {why}"
            ));
        }
        let register = |engine| {
            let write_notifier = &options.write_notifier;
            write_notifier.register(engine, EngineLifetime::Persistent)
        };
        let shared = Arc::new(CachedToolsInner {
            _registration: options.persistent.as_ref().map(register),
            options,
            sessions: SessionCaches::default(),
        });
        let this = Self::over(shared, registry)?;
        this.warn_of_lifetimes();
        Ok(this)
    }

    /// Creates the same layer over other tools, after an MCP server has changed its list. Cached results
    /// stay.
    ///
    /// # Errors
    /// The errors of [`CachedTools::new`].
    pub fn with_registry(&self, registry: &Registry) -> Result<Self, RegistryError> {
        Self::over(Arc::clone(&self.shared), registry)
    }

    fn over(shared: Arc<CachedToolsInner>, registry: &Registry) -> Result<Self, RegistryError> {
        let profiles: HashMap<String, ToolProfile> = registry
            .tools()
            .map(|tool| {
                let profile = ToolProfile::new(tool, &shared.options.settings.ttl);
                (tool.metadata().name.to_string(), profile)
            })
            .collect();
        let forceable = |tool: &Arc<dyn Tool>| {
            profiles
                .get(&*tool.metadata().name)
                .is_some_and(|profile| profile.takes_force)
        };
        let shown = if shared.options.settings.enabled && registry.tools().any(forceable) {
            let tools = registry.tools().map(|tool| -> Arc<dyn Tool> {
                if forceable(tool) {
                    Arc::new(force::ForceArgumentTool::new(tool))
                } else {
                    Arc::clone(tool)
                }
            });
            Registry::new(tools.collect())?
        } else {
            registry.clone()
        };
        Ok(Self {
            shared,
            shown,
            profiles: Arc::new(profiles),
        })
    }

    /// Warns of configured lifetimes without effect, which would otherwise go unnoticed.
    fn warn_of_lifetimes(&self) {
        if !self.shared.options.settings.enabled {
            return;
        }
        for tool in self.shared.options.settings.ttl.keys() {
            match self.profiles.get(tool).map(|profile| profile.cacheability) {
                Some(cacheability::Cacheability::Never(why)) => {
                    (self.shared.options.log)(&format!(
                        "`cacheToolResultsTtl` names `{tool}`, whose results are never kept: {why}"
                    ))
                }
                Some(_) => {}
                None => (self.shared.options.log)(&format!(
                    "`cacheToolResultsTtl` names `{tool}`, and there is no such tool (yet)"
                )),
            }
        }
    }

    /// Returns the tools, in the order of their definitions.
    pub fn tools(&self) -> impl ExactSizeIterator<Item = &Arc<dyn Tool>> {
        self.shown.tools()
    }

    /// Returns the cache statistics of a session, since it began or was last cleared.
    #[must_use]
    pub fn cache_stats(&self, session: &str) -> CacheStats {
        self.shared.sessions.stats(session)
    }

    /// Returns detailed statistics by tool.
    #[must_use]
    pub fn counters(&self, session: &str) -> BTreeMap<String, Counters> {
        self.shared.sessions.counters(session)
    }

    /// Drops the cached results of a session: logs `Tool cache stats: 14/20 hits (70%)` if there were any
    /// calls, and resets the statistics. Results that are shared beyond the session stay.
    pub fn clear(&self, session: &str) {
        self.shared.sessions.end(session, &self.shared.options);
    }
}

#[async_trait]
impl Toolbox for CachedTools {
    fn definitions(&self) -> Vec<ToolDefinition> {
        self.shown.definitions()
    }

    fn writing_tools(&self) -> Vec<String> {
        self.shown.writing_tools()
    }

    fn prepare(&self, call: ToolCall) -> PreparedCall {
        self.shown.prepare(call)
    }

    fn prepare_rewritten(&self, call: &ToolCall, arguments: Arguments) -> PreparedCall {
        self.shown.prepare_rewritten(call, arguments)
    }

    async fn run(&self, calls: Vec<PreparedCall>, batch: &BatchContext) -> Vec<ToolCallResult> {
        let shared = &self.shared;
        if !shared.options.settings.enabled {
            let write_notifier = &shared.options.write_notifier;
            return self.shown.run_announced(calls, batch, write_notifier).await;
        }
        schedule(
            calls,
            |prepared| self.shown.concurrency_safe(prepared),
            |prepared| self.perform(prepared, batch),
        )
        .await
    }

    async fn reset(&self, session: &str) {
        self.clear(session);
    }
}
