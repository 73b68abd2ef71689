//! Dependencies of a run that its steps share; they replace global state.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use cachalot_agent::definition::Builtins;
use cachalot_agent::{Dependencies, Listener, Team};
use cachalot_cache::Cache;
use cachalot_core::{Clock, SecretSet};
use cachalot_mcp::settings::McpServerPool;
use cachalot_model::budget::Meter;
use cachalot_model::{Model, ModelConfiguration, Models};
use cachalot_operation::Workspace;
use cachalot_operation::domains::EngineLifetime;
use cachalot_operation::write_notifier::{EngineRegistration, WriteNotifier};
use cachalot_storage::Storage;
use cachalot_store::Store;
use cachalot_tools::WorkspaceSandbox;
use serde_json::{Map, Value};

use super::Registry;
use crate::Failure;
use crate::report::Reporter;
use crate::session::SessionMemory;
use crate::template::TemplateContext;

/// Source of random numbers, passed in so that tests are deterministic.
pub trait Random: Send + Sync {
    /// Returns a number in `0.0..1.0`.
    fn unit(&self) -> f64;
}

/// Supplies the dependencies of agents that a step runs. The program that embeds this crate implements
/// it and assembles tools and sessions.
#[async_trait]
pub trait AgentHost: Send + Sync {
    /// Returns the dependencies of a team that reports to `listener`.
    ///
    /// # Errors
    /// The reason why the team cannot be prepared, and what to do.
    async fn dependencies(
        &self,
        team: &Arc<Team>,
        listener: Arc<dyn Listener>,
    ) -> Result<Dependencies, cachalot_agent::Error>;

    /// True if the user's configuration adds hooks to every agent.
    fn adds_hooks(&self) -> bool;

    /// Returns the builtins that hooks in files with teams may name.
    fn builtins(&self) -> Arc<Builtins>;
}

/// Dependencies of tools that are steps.
#[derive(Clone)]
pub struct ToolServices {
    /// The running MCP servers.
    pub servers: McpServerPool,
    /// The sandbox of MCP servers that are programs; `None`: they have all rights of the user.
    pub sandbox: Option<WorkspaceSandbox>,
    /// The receiver of warnings and output of MCP servers.
    pub reporter: Arc<dyn cachalot_mcp::Reporter>,
    /// The caches of the process that are notified of writes.
    pub write_notifier: WriteNotifier,
    /// Notifies the cache of the run of writes, too.
    pub registration: Option<Arc<EngineRegistration>>,
    /// The workspace of the run, once a tool needed it.
    pub workspace: Arc<OnceLock<ToolWorkspace>>,
}

/// The directory and the environment of a run, as tools take them.
#[derive(Clone)]
pub struct ToolWorkspace {
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) environment: Arc<BTreeMap<String, String>>,
}

impl ToolServices {
    /// Notifies a cache of the writes of steps from now on.
    pub fn notify(&mut self, cache: &Cache) {
        let registration = self
            .write_notifier
            .register(cache, EngineLifetime::Persistent);
        self.registration = Some(Arc::new(registration));
    }
}

impl Default for ToolServices {
    fn default() -> Self {
        Self {
            servers: McpServerPool::new(),
            sandbox: None,
            reporter: Arc::new(()),
            write_notifier: WriteNotifier::new(),
            registration: None,
            workspace: Arc::default(),
        }
    }
}

/// Dependencies of a run that its steps share.
#[derive(Clone)]
pub struct Runtime {
    /// Unique identifier of this run.
    pub run: String,
    /// The agent's name as it appears in handles (escaped).
    pub agent: String,
    /// The base directory of relative paths.
    pub directory: PathBuf,
    /// The environment variables of the run.
    pub environment: BTreeMap<String, String>,
    /// `settings` of the agent file as plain values, environment variables expanded.
    pub settings: Value,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of random numbers.
    pub random: Arc<dyn Random>,
    /// Access to the bytes behind URIs, and the HTTP client.
    pub storage: Storage,
    /// The store of long-term memory, for `ltm.*`; `None` if it could not be opened (a warning was
    /// reported).
    pub store: Option<Arc<dyn Store>>,
    /// The memory of the run, for `memory.*`.
    pub session: SessionMemory,
    /// The cache, on the same store. Without a store it keeps nothing.
    pub cache: Cache,
    /// Cache mode of the command line, which overrides the file: `--no-cache`, `--refresh`, `--frozen`.
    pub mode: cachalot_cache::CacheMode,
    /// The secrets that are masked in output of the run.
    pub secret_set: Arc<SecretSet>,
    /// Values of `{{ secrets.NAME }}`.
    pub secrets: BTreeMap<String, cachalot_core::Secret<String>>,
    /// The models that the agent file and the environment configure.
    pub models: Models,
    /// Meter of the file's budget: the part that is left.
    pub meter: Meter,
    /// The agents of the file.
    pub team: Option<Arc<Team>>,
    /// Source of agent dependencies; `None` if no agents can run.
    pub agent_host: Option<Arc<dyn AgentHost>>,
    /// The action registry.
    pub actions: Arc<Registry>,
    /// Dependencies of tools that are steps.
    pub tools: ToolServices,
    /// The sandbox of programs that `shell.run` starts; `None`: they have all rights of the user.
    pub sandbox: Option<WorkspaceSandbox>,
    /// The receiver of events.
    pub reporter: Arc<dyn Reporter>,
}

impl Runtime {
    /// Returns the dependencies of a subgraph of this run: the same, with the agent's name, the settings,
    /// the models and the actions of the other file, and without agents. Budget, cache, secrets and permissions are shared.
    pub(crate) fn for_subgraph(
        &self,
        agent: &str,
        settings: &Value,
        models: &ModelConfiguration,
        actions: &Arc<Registry>,
    ) -> Self {
        Self {
            agent: agent.to_owned(),
            settings: settings.clone(),
            models: self.models.with_configuration(models.clone()),
            actions: Arc::clone(actions),
            team: None,
            ..self.clone()
        }
    }

    /// Returns the failure `over_budget` unless the budget allows another model call.
    pub(crate) fn check_budget(&self, model: &Model) -> Result<(), Failure> {
        self.meter
            .check_for(model)
            .map_err(|over| Failure::new("over_budget", over.to_string()))
    }

    /// Returns the store of long-term memory. The error says why there is none.
    pub(crate) fn long_term_memory(&self) -> Result<&Arc<dyn Store>, &'static str> {
        let store = self.store.as_ref();
        store.ok_or("there is no long-term memory in this run: see the warning at its start, or give `--db`, `CACHALOT_DB` or `settings.ltm.path`")
    }

    /// Returns the workspace of tools that are steps: the directory of the run, opened once.
    pub(crate) fn tool_workspace(&self) -> Result<&ToolWorkspace, Failure> {
        let kept = &self.tools.workspace;
        if let Some(known) = kept.get() {
            return Ok(known);
        }
        let workspace = Workspace::open(&self.directory).map_err(|error| {
            let directory = self.directory.display();
            Failure::new("tool_error", format!("the directory {directory}: {error}"))
        })?;
        Ok(kept.get_or_init(|| ToolWorkspace {
            workspace: Arc::new(workspace),
            environment: Arc::new(self.environment.clone()),
        }))
    }

    /// Returns the values that are the same for all templates of the run, and registers its secrets for
    /// masking.
    #[must_use]
    pub fn template_context(&self, variables: &Map<String, Value>) -> TemplateContext {
        let environment = self
            .environment
            .iter()
            .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
            .collect();
        TemplateContext::new(variables, self.settings.clone(), environment)
            .with_secrets(self.secrets.clone(), Arc::clone(&self.secret_set))
            .with_storage(self.storage.clone())
    }

    /// Masks known secrets in the text, and text that looks like a credential.
    pub(crate) fn masked(&self, text: &str) -> String {
        cachalot_core::secret::mask_credentials(&self.secret_set.redact(text)).into_owned()
    }
}
