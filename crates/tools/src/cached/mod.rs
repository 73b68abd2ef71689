//! Results that are never paid for twice and never stale: a layer over the registry that the turn
//! loop does not know of.
//!
//! It turns a tool call into a call of the engine and says what the tool's words mean there: which
//! domains the call joins, for how long and on what grounds its result may be served. Everything else
//! is the engine's: time to live, single-flight, validation, bounds, accounts.

mod counters;
mod defaults;
mod deliveries;
mod domains;
mod force;
mod kept;
mod perform;
mod sessions;
mod settings;
mod standing;
mod writers;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_cache::{Cache, Ledger, Mode};
use cachalot_core::{Clock, Seals};
use cachalot_model::ToolDefinition;

use crate::registry::{Registry, RegistryError, schedule};
use crate::tool::Tool;
use crate::toolbox::{Answer, Batch, Call, Prepared, Toolbox};

pub use counters::{CacheStats, Counters};
pub use settings::{Delivery, Settings, Sharing};
pub use writers::Writers;

use domains::Lasting;
use sessions::Sessions;
use standing::Profile;
use writers::Enrolled;

/// What surrounds kept results: whatever would otherwise be global.
pub struct Options {
    /// How results are kept.
    pub settings: Settings,
    /// What the command line says of caching, over the settings.
    pub mode: Mode,
    /// Where calls are accounted for.
    pub ledger: Ledger,
    /// The time of expiry.
    pub clock: Arc<dyn Clock>,
    /// Secrets: a result that holds one is not kept.
    pub seals: Arc<Seals>,
    /// Told in one sentence each: the figures of a session that ends, and faults.
    pub log: Arc<dyn Fn(&str) + Send + Sync>,
    /// The engine over a memory that outlives sessions: keeps results that more than one session
    /// shares, and is told of what tools write, whatever the settings say.
    pub persistent: Option<Cache>,
    /// On whose behalf the calls are made.
    pub user: String,
    /// Who is told of writes: shared by everybody in this process who works in the same files.
    pub writers: Writers,
}

/// What sessions are made of.
struct Origins {
    ledger: Ledger,
    clock: Arc<dyn Clock>,
    seals: Arc<Seals>,
    log: Arc<dyn Fn(&str) + Send + Sync>,
    persistent: Option<(Cache, Enrolled)>,
    user: String,
    writers: Writers,
}

struct Shared {
    settings: Settings,
    mode: Mode,
    origins: Origins,
    sessions: Sessions,
}

/// A toolbox that answers repeated calls of read-only tools from what it kept, for as long as that is
/// what the tool would answer. Off by default, and then like the registry itself, except that it
/// announces writes to whoever else keeps results. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct CachedTools {
    shared: Arc<Shared>,
    /// The tools as models see them: with `force` where it means something.
    shown: Registry,
    profiles: Arc<HashMap<String, Profile>>,
}

impl CachedTools {
    /// A layer over a registry.
    ///
    /// # Errors
    /// None that the registry did not have: a schema of a tool that cannot take one more argument.
    pub fn new(registry: &Registry, options: Options) -> Result<Self, RegistryError> {
        let Options {
            settings,
            mode,
            ledger,
            clock,
            seals,
            log,
            persistent,
            user,
            writers,
        } = options;
        let narrowed = match settings.scope {
            Sharing::Session => None,
            _ if persistent.is_none() => Some("there is no memory that would keep them longer"),
            // Nothing is shared with nobody.
            Sharing::User if user.trim().is_empty() => Some("nobody says who the user is"),
            Sharing::Workspace | Sharing::User => None,
        };
        if let Some(why) = narrowed.filter(|_| settings.enabled) {
            log(&format!(
                "tool results are kept for their session only: {why}"
            ));
        }
        let origins = Origins {
            persistent: persistent.map(|engine| {
                let enrolled = writers.enrol(&engine, Lasting::Longer);
                (engine, enrolled)
            }),
            ledger,
            clock,
            seals,
            log,
            user,
            writers,
        };
        let shared = Arc::new(Shared {
            settings,
            mode,
            origins,
            sessions: Sessions::default(),
        });
        let this = Self::over(shared, registry)?;
        this.warn_of_lifetimes();
        Ok(this)
    }

    /// The same layer over other tools: what an MCP server offers now. What was kept is kept.
    ///
    /// # Errors
    /// Those of [`CachedTools::new`].
    pub fn with_registry(&self, registry: &Registry) -> Result<Self, RegistryError> {
        Self::over(Arc::clone(&self.shared), registry)
    }

    fn over(shared: Arc<Shared>, registry: &Registry) -> Result<Self, RegistryError> {
        let profiles: HashMap<String, Profile> = registry
            .tools()
            .map(|tool| {
                let profile = Profile::of(tool, &shared.settings.ttl);
                (tool.about().name.clone(), profile)
            })
            .collect();
        let forceable = |tool: &Arc<dyn Tool>| {
            profiles
                .get(&tool.about().name)
                .is_some_and(|profile| profile.takes_force)
        };
        let shown = if shared.settings.enabled && registry.tools().any(forceable) {
            let tools = registry.tools().map(|tool| -> Arc<dyn Tool> {
                if forceable(tool) {
                    Arc::new(force::Forceable::new(tool))
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

    /// A lifetime that means nothing is a mistake that nobody would notice.
    fn warn_of_lifetimes(&self) {
        if !self.shared.settings.enabled {
            return;
        }
        for tool in self.shared.settings.ttl.keys() {
            match self.profiles.get(tool).map(|profile| profile.standing) {
                Some(standing::Standing::Never(why)) => (self.shared.origins.log)(&format!(
                    "`cacheToolResultsTtl` names `{tool}`, whose results are never kept: {why}"
                )),
                Some(_) => {}
                None => (self.shared.origins.log)(&format!(
                    "`cacheToolResultsTtl` names `{tool}`, and there is no such tool (yet)"
                )),
            }
        }
    }

    /// How often kept results were of use in a session, since it began or was last cleared.
    #[must_use]
    pub fn cache_stats(&self, session: &str) -> CacheStats {
        self.shared.sessions.stats(session)
    }

    /// The same in detail, by tool.
    #[must_use]
    pub fn counters(&self, session: &str) -> BTreeMap<String, Counters> {
        self.shared.sessions.counters(session)
    }

    /// Lets go of what was kept for a session: says `Tool cache stats: 14/20 hits (70%)` if there were
    /// any calls, and counts from zero. What is shared beyond the session stays.
    pub fn clear(&self, session: &str) {
        self.shared.sessions.end(session, &self.shared.origins);
    }
}

#[async_trait]
impl Toolbox for CachedTools {
    fn definitions(&self) -> Vec<ToolDefinition> {
        self.shown.definitions()
    }

    fn prepare(&self, call: Call) -> Prepared {
        self.shown.prepare(call)
    }

    async fn run(&self, calls: Vec<Prepared>, batch: &Batch) -> Vec<Answer> {
        let shared = &self.shared;
        if !shared.settings.enabled && shared.origins.writers.is_empty() {
            return self.shown.run(calls, batch).await;
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
