//! Runtime of agents: the store, sessions, tools and models of one chat or one run.

mod actions;
mod command_line;
mod documents;
mod figures;
mod hook_tools;
mod instruction_files;
mod payments;
mod recall;
mod tools;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use cachalot_agent::{
    AgentDirectory, Approver, ContextSource, Dependencies, HookSetup, Listener, Permissions, Team,
};
use cachalot_cache::{Cache, CacheMode, Domain};
use cachalot_core::{Effects, SecretSet};
use cachalot_hooks::{AgentLookup, Builtins, HookSandbox};
use cachalot_mcp::settings::{self, McpServerPool};
use cachalot_mcp::{EraMemory, McpTransport, Reporter, ServerState};
use cachalot_model::Models;
use cachalot_prompt::Sessions;
use cachalot_sandbox::{CommandSandbox, Network, Policy};
use cachalot_store::Store;
use cachalot_store::in_process::InProcessStore;
use cachalot_tools::builtin::SessionStates;
use cachalot_tools::builtin::skills::workspace_directories;
use cachalot_tools::cached::{CachedTools, EngineLifetime, EngineRegistration, WriteNotifier};
use cachalot_tools::{LiveOutput, Origin, ToolContext, Workspace, WorkspaceSandbox};
use cachalot_workflow::action::runtime::{AgentHost, ToolServices};
use parking_lot::Mutex;

use crate::arguments::{HookFlags, SandboxMode};
use crate::command_error::{CommandError, Result};
use crate::home::Home;
use crate::hooks::{self, ResponseStores};
use crate::models::models;
use crate::sandbox::{HookPrograms, PythonNetwork, SandboxUse, SessionSandbox};
use crate::wiring::{ProcessEnvironment, Warn, run_id};
use hook_tools::PoolTools;

/// Parts from which a workbench is created.
pub(crate) struct WorkbenchParts {
    pub(crate) process_environment: ProcessEnvironment,
    pub(crate) store: Option<Arc<dyn Store>>,
    /// True if sessions are kept in the store, which then has to answer.
    pub(crate) keeps_sessions: bool,
    pub(crate) cache: Cache,
    pub(crate) secret_set: Arc<SecretSet>,
    /// Cache mode of the command line, which overrides files.
    pub(crate) mode: CacheMode,
    /// Hooks that the command line names.
    pub(crate) hooks: HookFlags,
    /// The programs that run in a sandbox.
    pub(crate) sandbox: SandboxUse,
    pub(crate) warn: Warn,
    /// Receives messages that are not warnings: the figures of a session that ends.
    pub(crate) tell: Warn,
    /// Receives the warnings of tools, and the logs of MCP servers and the progress of their calls.
    pub(crate) reporter: Arc<dyn Reporter>,
    /// True if a user may take back the changes of files.
    pub(crate) logs_changes: bool,
    /// True if tools may ask a user questions.
    pub(crate) asks_user: bool,
}

/// Runtime of agents. Clones share all state.
#[derive(Clone)]
pub(crate) struct Workbench(Arc<WorkbenchInner>);

struct WorkbenchInner {
    parts: WorkbenchParts,
    context: ToolContext,
    sessions: Sessions,
    protected: Vec<PathBuf>,
    /// The sandbox of programs, with their temporary files.
    sandbox: Option<SessionSandbox>,
    /// The user's data directory, which contains skills.
    data: Option<PathBuf>,
    write_notifier: WriteNotifier,
    /// Notifies the cache also of changes that MCP servers announce before there are sessions.
    _registration: EngineRegistration,
    servers: McpServerPool,
    /// State that tools keep for sessions.
    session_states: SessionStates,
    /// Tools of sessions, by session id, for statistics.
    session_tools: Mutex<BTreeMap<String, SessionTools>>,
}

/// An MCP server in a list.
pub(crate) struct ListedServer {
    pub(crate) name: String,
    /// Its program, or its kind.
    pub(crate) place: String,
    pub(crate) state: ServerState,
    /// The names of the tools that a session has of it.
    pub(crate) tools: Vec<String>,
}

/// Tools of a session while it lasts.
struct SessionTools {
    tools: Weak<CachedTools>,
    /// True if their results are cached.
    enabled: bool,
    /// Holder of the fork, if the session belongs to one.
    holder: Option<String>,
}

/// Returns the files that agents must not write without the user's permission: see [`Dependencies::protected`].
fn protected(
    process_environment: &ProcessEnvironment,
    home: &Home,
    hooks: &HookFlags,
    agent_file: Option<&Path>,
) -> Vec<PathBuf> {
    let named = hooks.hooks.iter().map(PathBuf::as_path);
    let named = named.chain(agent_file);
    let mut protected: Vec<PathBuf> = named
        .map(|file| process_environment.directory.join(file))
        .collect();
    protected.extend(process_environment.configuration());
    protected.extend([&home.database, &home.ledger, &home.digest_key.path].map(Clone::clone));
    protected.extend(home.logins.clone());
    protected.extend(home.database.parent().map(|data| data.join("skills")));
    protected
}

impl Workbench {
    /// Creates the workbench. `workspace` is the working directory of the tools, and `agent_file` the file that
    /// defines the agents; `None` for the built-in agent.
    ///
    /// # Errors
    /// The workspace is not a directory.
    pub(crate) fn new(
        parts: WorkbenchParts,
        home: &Home,
        workspace: &Path,
        agent_file: Option<&Path>,
    ) -> Result<Self> {
        let process_environment = &parts.process_environment;
        let mut protected = protected(process_environment, home, &parts.hooks, agent_file);
        let clock = Arc::clone(&process_environment.clock);
        let place = Workspace::open(workspace).map_err(|error| {
            CommandError::failed(format!("the workspace {}: {error}", workspace.display()))
        })?;
        protected.extend(workspace_directories(place.root()));
        // Without a store, sessions end with the process.
        let store = parts.store.clone().filter(|_| parts.keeps_sessions);
        let shelf = store.unwrap_or_else(|| Arc::new(InProcessStore::new(Arc::clone(&clock))));
        let SandboxUse {
            settings,
            mechanism,
            commands,
            python,
            python_network: _,
        } = &parts.sandbox;
        let is_needed = *commands || *python || settings.mcp_servers || settings.hooks;
        let sandbox = if is_needed {
            Some(SessionSandbox::new(
                settings,
                *mechanism,
                process_environment,
                home,
                place.root(),
            )?)
        } else {
            None
        };
        let of_commands = sandbox.as_ref().filter(|_| *commands);
        let place = if parts.logs_changes {
            place.with_change_log(Arc::default())
        } else {
            place
        };
        // Without a store, nothing of this process is kept.
        let eras = match &parts.store {
            Some(_) => EraMemory::in_file(home.mcp_eras.clone()),
            None => EraMemory::default(),
        };
        // File tools see the temporary files of commands.
        let place = match of_commands {
            Some(sandbox) => place.with_temporary(sandbox.temporary())?,
            None => place,
        };
        let context = ToolContext {
            workspace: Arc::new(place),
            session: String::new(),
            environment: Arc::new(process_environment.environment.clone()),
            clock: Arc::clone(&clock),
            http: process_environment.http()?,
            store: parts.store.clone(),
            secret_set: Arc::clone(&parts.secret_set),
            user: None,
            sampler: None,
            gate: None,
            rules: Arc::default(),
            sandbox: of_commands.map(|sandbox| sandbox.protecting(&protected)),
            witness: cachalot_cache::Witness::default(),
            output: LiveOutput::default(),
        };
        let write_notifier = WriteNotifier::new();
        Ok(Self(Arc::new(WorkbenchInner {
            _registration: write_notifier.register(&parts.cache, EngineLifetime::Persistent),
            sessions: Sessions::new(shelf, clock, Arc::clone(&parts.secret_set)),
            data: home.database.parent().map(Path::to_owned),
            parts,
            context,
            protected,
            sandbox,
            write_notifier,
            servers: McpServerPool::with_eras(eras),
            session_states: SessionStates::default(),
            session_tools: Mutex::default(),
        })))
    }

    /// Creates the dependencies of a team's agents.
    ///
    /// # Errors
    /// The settings of the models are invalid.
    pub(crate) fn dependencies_for(
        &self,
        team: &Team,
        listener: Arc<dyn Listener>,
        approver: Arc<dyn Approver>,
    ) -> Result<Dependencies> {
        let inner = &self.0;
        let mut context: Vec<Arc<dyn ContextSource>> = Vec::new();
        if let Some(store) = &inner.context.store {
            context.push(Arc::new(recall::MemoryRecall {
                store: Arc::clone(store),
                clock: Arc::clone(&inner.context.clock),
            }));
        }
        let models = models(
            &inner.parts.process_environment,
            team.configured.clone(),
            &inner.context.secret_set,
            Arc::clone(&inner.parts.warn),
        )?;
        let listener = Arc::new(payments::Payments {
            ledger: inner.parts.cache.ledger().clone(),
            secret_set: Arc::clone(&inner.context.secret_set),
            bench: self.clone(),
            next: listener,
        });
        let mut hooks = self.hook_setup(&models, self.announced_domains(team))?;
        let mut protected = inner.protected.clone();
        protected.extend(instruction_files::of_team(
            team,
            &hooks.entries,
            &inner.parts.process_environment,
            inner.context.workspace.root(),
        ));
        let settings = &inner.parts.sandbox.settings;
        let chosen_sandbox =
            |is_chosen| self.chosen_sandbox(is_chosen, &protected, &team.permissions);
        hooks.dependencies.sandbox = chosen_sandbox(settings.hooks)
            .map(|sandbox| Arc::new(HookPrograms(sandbox)) as Arc<dyn HookSandbox>);
        let mut context_of_tools = inner.context.clone();
        let sandbox = inner
            .sandbox
            .as_ref()
            .filter(|_| inner.parts.sandbox.commands);
        // Anew, because the instruction files of this team are protected, too.
        context_of_tools.sandbox = sandbox.map(|sandbox| sandbox.protecting(&protected));
        Ok(Dependencies {
            hooks: Some(hooks),
            models,
            toolboxes: Arc::new(tools::ChatToolboxes::new(
                self.clone(),
                chosen_sandbox(settings.mcp_servers),
            )),
            tools: context_of_tools,
            sessions: inner.sessions.clone(),
            clock: Arc::clone(&inner.context.clock),
            context,
            listener,
            approver,
            protected,
            strict_forks: false,
            new_session_id: Arc::new(run_id),
            human_paced: false,
            single_turn: false,
        })
    }

    /// Creates the hooks of a team; its builtins see only its agents. `announced` are the domains of its MCP
    /// servers.
    fn hook_setup(&self, models: &Models, announced: Vec<Domain>) -> Result<HookSetup> {
        let inner = &self.0;
        let agent_directory = Arc::new(AgentDirectory::default());
        let lookup = Arc::clone(&agent_directory) as Arc<dyn AgentLookup>;
        let builtins = self.builtins_for(lookup, announced)?;
        let entries = hooks::entries(
            &inner.parts.process_environment,
            &inner.parts.hooks,
            &builtins,
            &inner.parts.warn,
        )?;
        Ok(HookSetup {
            dependencies: cachalot_hooks::HookDependencies {
                builtins: Arc::new(builtins),
                models: models.clone(),
                http: inner.context.http.clone(),
                environment: Arc::clone(&inner.context.environment),
                clock: Arc::clone(&inner.context.clock),
                directory: inner.context.workspace.root().to_owned(),
                sandbox: None,
                tools: Some(Arc::new(PoolTools {
                    servers: inner.servers.clone(),
                    context: inner.context.clone(),
                })),
            },
            agent_directory,
            entries,
        })
    }

    fn builtins_for(
        &self,
        lookup: Arc<dyn AgentLookup>,
        announced: Vec<Domain>,
    ) -> Result<Builtins> {
        let inner = &self.0;
        let answers = ResponseStores {
            cache: inner.parts.cache.clone(),
            process_environment: inner.parts.process_environment.clone(),
            secret_set: Arc::clone(&inner.context.secret_set),
            mode: inner.parts.mode,
            warn: Arc::clone(&inner.parts.warn),
            announced,
            write_notifier: inner.write_notifier.clone(),
        };
        hooks::builtins(
            &inner.parts.process_environment,
            lookup,
            &inner.context.secret_set,
            answers.opener(),
        )
    }

    /// Describes how the tool calls of a session were answered.
    pub(crate) fn stats(&self, session: &str) -> String {
        let session_tools = self.0.session_tools.lock();
        let Some(SessionTools { tools, enabled, .. }) = session_tools.get(session) else {
            return "there are no tools".to_owned();
        };
        match tools.upgrade().filter(|_| *enabled) {
            Some(tools) => figures::figures(&tools, session),
            None => {
                "tools: every call runs, because `tools.cacheToolResults` is not true".to_owned()
            }
        }
    }

    /// Returns the name of the sandbox of commands; empty if they run outside after an approval.
    pub(crate) fn sandbox_label(&self) -> &'static str {
        match self.sandbox_mode() {
            Some(SandboxMode::Auto) => "sandbox, no questions",
            Some(SandboxMode::Off) => "no sandbox",
            _ if !self.0.parts.sandbox.commands => "",
            _ if self.0.parts.sandbox.mechanism.guards_files() => "sandbox",
            _ => "limited sandbox",
        }
    }

    /// Returns the use of the sandbox for commands that the user chose, and that this machine permits.
    pub(crate) fn sandbox_mode(&self) -> Option<SandboxMode> {
        let SandboxUse {
            settings,
            mechanism,
            commands,
            python: _,
            python_network: _,
        } = &self.0.parts.sandbox;
        let guards_files = *commands && mechanism.guards_files();
        settings.for_chat().map(|mode| match mode {
            SandboxMode::On | SandboxMode::Auto if !commands => SandboxMode::Ask,
            SandboxMode::Auto if !guards_files => SandboxMode::On,
            mode => mode,
        })
    }

    /// Returns the sandbox of Python code, if there is one.
    pub(crate) fn python_sandbox(&self) -> Option<WorkspaceSandbox> {
        let mut sandbox = self
            .workspace_sandbox()
            .filter(|_| self.0.parts.sandbox.python)?;
        let network = match self.0.parts.sandbox.python_network {
            PythonNetwork::AsPermitted => None,
            PythonNetwork::None => Some(Network::None),
            PythonNetwork::All => Some(Network::All),
        };
        if let Some(network) = network {
            let policy = Policy {
                network,
                ..sandbox.sandbox.policy.clone()
            };
            let inner = CommandSandbox {
                policy,
                hosts: Vec::new(),
                ..CommandSandbox::clone(&sandbox.sandbox)
            };
            sandbox.sandbox = Arc::new(inner);
        }
        Some(sandbox)
    }

    /// Returns the sandbox of the commands of a workflow, if there is one.
    pub(crate) fn command_sandbox(&self) -> Option<WorkspaceSandbox> {
        self.workspace_sandbox()
            .filter(|_| self.0.parts.sandbox.commands)
    }

    /// Returns the sandbox of MCP servers or of hooks, if the user chose one for them: they cannot change these files, nor
    /// read what the rules deny to `shell`.
    fn chosen_sandbox(
        &self,
        is_chosen: bool,
        protected: &[PathBuf],
        rules: &Permissions,
    ) -> Option<WorkspaceSandbox> {
        let inner = &self.0;
        let sandbox = inner.sandbox.as_ref().filter(|_| is_chosen)?;
        Some(WorkspaceSandbox {
            sandbox: sandbox.protecting(protected),
            workspace: Arc::clone(&inner.context.workspace),
            rules: Arc::new(rules.clone()),
            may_write: true,
        })
    }

    fn workspace_sandbox(&self) -> Option<WorkspaceSandbox> {
        let inner = &self.0;
        Some(WorkspaceSandbox {
            sandbox: inner.sandbox.as_ref()?.protecting(&inner.protected),
            workspace: Arc::clone(&inner.context.workspace),
            rules: Arc::clone(&inner.context.rules),
            may_write: true,
        })
    }

    /// Returns the working directory of the tools.
    pub(crate) fn workspace(&self) -> &Path {
        self.0.context.workspace.root()
    }

    /// Returns the directory for copies of files, which commands can neither read nor write; `None` without a sandbox.
    pub(crate) fn copies(&self) -> Option<&Path> {
        self.0.sandbox.as_ref().map(SessionSandbox::copies)
    }

    /// Returns access to the files in the working directory of the tools.
    pub(crate) fn files(&self) -> Arc<Workspace> {
        Arc::clone(&self.0.context.workspace)
    }

    /// Returns the known secrets.
    pub(crate) fn secret_set(&self) -> &SecretSet {
        &self.0.context.secret_set
    }

    /// Runs work that changes files of the workspace. The caches are notified before and after it.
    pub(crate) async fn changing_files<T>(&self, work: impl Future<Output = T>) -> T {
        let inner = &self.0;
        let writes = Effects::UNKNOWN.writes;
        let root = inner.context.workspace.root();
        inner.write_notifier.announce(&writes, root, work).await
    }

    /// Returns the MCP servers, with the tools that a session has of each.
    pub(crate) fn servers(&self, session: &str) -> Vec<ListedServer> {
        let tools = self.tools_of_session(session);
        let metadata = |server: &str| {
            let origin = Origin::Mcp(server.to_owned());
            let tools = tools.iter().flat_map(|tools| tools.tools());
            let names = tools.map(|tool| tool.metadata());
            let names = names.filter(|metadata| metadata.origin == origin);
            names.map(|metadata| metadata.name.to_string()).collect()
        };
        let servers = self.0.servers.servers().into_iter();
        servers
            .map(|server| ListedServer {
                name: server.name().to_owned(),
                place: match &server.settings().transport {
                    McpTransport::Stdio { command, .. } => command.clone(),
                    // The URL may contain a credential.
                    McpTransport::Http { .. } => "HTTP".to_owned(),
                },
                state: server.state(),
                tools: metadata(server.name()),
            })
            .collect()
    }

    /// Returns the sessions of the store, or those of this process without a store.
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    /// Returns true if sessions outlive the process.
    pub(crate) fn keeps_sessions(&self) -> bool {
        let inner = &self.0;
        inner.context.store.is_some() && inner.parts.keeps_sessions
    }

    /// Removes a session without messages.
    pub(crate) async fn forget(&self, session: &str) {
        // If that fails, only an empty session is left behind.
        let _ = self.0.sessions.remove(session).await;
    }

    /// Ends background work of a chat or a run, and writes pending data to the store and the ledger.
    pub(crate) async fn close(&self) {
        self.0.session_states.close().await;
        self.0.servers.close().await;
        // The cache comes last: the end of a background job is announced to it.
        self.0.parts.cache.close().await;
    }

    /// Returns the dependencies of tools that are steps of a workflow: those of the agents' tools.
    pub(crate) fn tool_services(&self, rules: &Permissions) -> ToolServices {
        let inner = &self.0;
        ToolServices {
            servers: inner.servers.clone(),
            sandbox: self.chosen_sandbox(
                inner.parts.sandbox.settings.mcp_servers,
                &inner.protected,
                rules,
            ),
            reporter: Arc::clone(&inner.parts.reporter),
            write_notifier: inner.write_notifier.clone(),
            registration: None,
            workspace: Arc::default(),
        }
    }

    fn tool_dependencies(
        &self,
        built_in: settings::BuiltInDependencies,
        sandbox: Option<WorkspaceSandbox>,
    ) -> settings::ToolDependencies {
        let inner = &self.0;
        settings::ToolDependencies {
            mcp: cachalot_mcp::McpDependencies {
                directory: inner.context.workspace.root().to_owned(),
                environment: Arc::clone(&inner.context.environment),
                secret_set: Arc::clone(&inner.context.secret_set),
                reporter: Arc::clone(&inner.parts.reporter),
                write_notifier: inner.write_notifier.clone(),
                sandbox,
                asks_user: inner.parts.asks_user,
            },
            built_in,
            servers: inner.servers.clone(),
        }
    }
}

#[async_trait]
impl AgentHost for Workbench {
    async fn dependencies(
        &self,
        team: &Arc<Team>,
        listener: Arc<dyn Listener>,
    ) -> std::result::Result<Dependencies, cachalot_agent::Error> {
        self.dependencies_for(team, listener, Arc::new(cachalot_agent::event::DenyAll))
            .map_err(|error| {
                cachalot_agent::Error::new(cachalot_agent::ErrorKind::Definition, error.to_string())
            })
    }

    fn adds_hooks(&self) -> bool {
        let inner = &self.0;
        let silent: Warn = Arc::new(|_| {});
        // Problems of hooks are reported when an agent starts.
        hooks::for_reading(&inner.parts.process_environment)
            .and_then(|builtins| {
                hooks::entries(
                    &inner.parts.process_environment,
                    &inner.parts.hooks,
                    &builtins,
                    &silent,
                )
            })
            // Hooks that cannot be read count as hooks: no stored answer may pass them by.
            .map_or(true, |entries| !entries.is_empty())
    }

    fn builtins(&self) -> Arc<Builtins> {
        // Checking a file needs only their names and sections.
        Arc::new(hooks::for_reading(&self.0.parts.process_environment).unwrap_or_default())
    }
}
