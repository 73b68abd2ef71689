//! Tools of an agent: those of its toolsets, with results cached as the file configures.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use cachalot_agent::definition::Notify;
use cachalot_agent::{AgentDefinition, Error, ErrorKind, Team, Toolboxes};
use cachalot_cache::Domain;
use cachalot_mcp::settings::{BuiltInDependencies, ToolsetKind, assemble};
use cachalot_model::{Meter, ToolDefinition};
use cachalot_tools::builtin::SessionState;
use cachalot_tools::cached::{CachedTools, CachedToolsOptions, EngineLifetime};
use cachalot_tools::{
    Arguments, BatchContext, PreparedCall, Registry, Tool, ToolCall, ToolCallResult, Toolbox,
    WorkspaceSandbox,
};

use super::{SessionTools, Workbench};
use crate::agent_names::REVIEW;
use crate::wiring::Warn;

/// The tools of a session. Keeps the state of the session while agents with other tools take it over.
struct SessionToolbox {
    tools: Arc<CachedTools>,
    /// Texts of the MCP servers.
    instructions: Vec<String>,
    _state: Arc<SessionState>,
}

#[async_trait]
impl Toolbox for SessionToolbox {
    fn definitions(&self) -> Vec<ToolDefinition> {
        self.tools.definitions()
    }

    fn writing_tools(&self) -> Vec<String> {
        self.tools.writing_tools()
    }

    fn prepare(&self, call: ToolCall) -> PreparedCall {
        self.tools.prepare(call)
    }

    fn prepare_rewritten(&self, call: &ToolCall, arguments: Arguments) -> PreparedCall {
        self.tools.prepare_rewritten(call, arguments)
    }

    fn instructions(&self) -> Vec<String> {
        self.instructions.clone()
    }

    async fn run(&self, calls: Vec<PreparedCall>, batch: &BatchContext) -> Vec<ToolCallResult> {
        self.tools.run(calls, batch).await
    }

    async fn reset(&self, session: &str) {
        self.tools.reset(session).await;
    }
}

/// Creates the tools of the agents of one chat.
pub(super) struct ChatToolboxes {
    bench: Workbench,
    /// The sandbox of MCP servers; `None`: they have all rights of the user.
    servers: Option<WorkspaceSandbox>,
    /// The state that the agents share.
    team_state: Arc<SessionState>,
    /// Counts the requests for embeddings of all agents and sessions against the budget of the file, apart from the turns.
    embeddings: OnceLock<Meter>,
}

impl ChatToolboxes {
    pub(super) fn new(bench: Workbench, servers: Option<WorkspaceSandbox>) -> Self {
        Self {
            bench,
            servers,
            team_state: Arc::default(),
            embeddings: OnceLock::new(),
        }
    }
}

#[async_trait]
impl Toolboxes for ChatToolboxes {
    async fn toolbox(
        &self,
        team: &Team,
        agent: &AgentDefinition,
        session: &str,
        own: Vec<Arc<dyn Tool>>,
        _warn: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Arc<dyn Toolbox>, Error> {
        let (bench, inner) = (&self.bench, &self.bench.0);
        // The loader of the file has reported these problems with their places.
        let problems = team.tool_errors(agent);
        if !problems.is_empty() {
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            return Err(Error::new(ErrorKind::Definition, told.join("; ")));
        }
        let toolsets = agent
            .toolsets
            .as_ref()
            .map(|toolsets| toolsets.value.clone());
        let toolsets = toolsets.unwrap_or_default();
        let settings = team.shared_tools.results.as_ref();
        let settings = settings.map(|results| results.value.clone());
        let settings = settings.unwrap_or_default();
        let state = inner.session_states.of_session(session);
        let built_in = BuiltInDependencies {
            data: inner.data.clone(),
            session: Arc::clone(&state),
            team: Arc::clone(&self.team_state),
            write_notifier: inner.write_notifier.clone(),
        };
        let dependencies = bench.tool_dependencies(built_in, self.servers.clone());
        let missing =
            |error: &dyn std::fmt::Display| Error::new(ErrorKind::Tools, error.to_string());
        let assembled = assemble(&toolsets, &dependencies)
            .await
            .map_err(|error| missing(&error))?;
        let mut tools = assembled.tools;
        let actions = bench.action_tools(team, &toolsets);
        tools.extend(actions.map_err(|error| missing(&error))?);
        let meter = self
            .embeddings
            .get_or_init(|| Meter::new(team.budget.clone(), Arc::clone(&inner.context.clock)));
        let searches = bench.search_tools(team, &toolsets, meter);
        tools.extend(searches.map_err(|error| missing(&error))?);
        tools.extend(own);
        let enabled = settings.enabled;
        let registry = Registry::new(tools).map_err(|error| missing(&error))?;
        // A session that reloads its tools keeps its results and counters: a server or a tool that changed
        // has other keys.
        let session_tools = match bench.tools_of_session(session) {
            Some(before) => before.with_registry(&registry),
            None => CachedTools::new(
                &registry,
                CachedToolsOptions {
                    settings,
                    mode: inner.parts.mode,
                    ledger: inner.parts.cache.ledger().clone(),
                    clock: Arc::clone(&inner.context.clock),
                    secret_set: Arc::clone(&inner.context.secret_set),
                    log: bench.labeled_output(agent, session),
                    persistent: inner
                        .context
                        .store
                        .as_ref()
                        .map(|_| inner.parts.cache.clone()),
                    // User with whom `scope: user` shares results.
                    user: inner.parts.process_environment.user(),
                    write_notifier: inner.write_notifier.clone(),
                },
            ),
        };
        let session_tools = Arc::new(session_tools.map_err(|error| missing(&error))?);
        let mut known = inner.session_tools.lock();
        // Tools of sub-agents that have ended are dropped.
        known.retain(|_, session_tools| session_tools.tools.strong_count() > 0);
        let tools = Arc::downgrade(&session_tools);
        let holder = known.remove(session).and_then(|before| before.holder);
        known.insert(
            session.to_owned(),
            SessionTools {
                tools,
                enabled,
                holder,
            },
        );
        Ok(Arc::new(SessionToolbox {
            tools: session_tools,
            instructions: assembled.server_instructions,
            _state: state,
        }))
    }

    fn instructions(&self, _team: &Team, agent: &AgentDefinition) -> Vec<String> {
        let toolsets = agent
            .toolsets
            .iter()
            .flat_map(|parsed| &parsed.value.toolsets);
        toolsets
            .filter_map(|toolset| toolset.instruction.clone())
            .collect()
    }

    fn take_notices(&self, session: &str) -> Vec<String> {
        self.bench.0.session_states.take_notices(session)
    }

    fn reset_team(&self) {
        self.team_state.clear_todos();
    }
}

impl Workbench {
    /// Returns the current tools of a session, which last until it reloads them.
    pub(super) fn tools_of_session(&self, session: &str) -> Option<Arc<CachedTools>> {
        let known = self.0.session_tools.lock();
        known.get(session)?.tools.upgrade()
    }

    /// Returns the domains of the changes that the MCP servers of a team announce.
    pub(super) fn announced_domains(&self, team: &Team) -> Vec<Domain> {
        let of_file = team
            .shared_tools
            .servers
            .iter()
            .flat_map(|servers| servers.value.values());
        let toolsets = team.agents.iter().flat_map(|agent| &agent.toolsets);
        let toolsets = toolsets.flat_map(|toolsets| &toolsets.value.toolsets);
        let of_agents = toolsets.filter_map(|toolset| match &toolset.kind {
            ToolsetKind::Mcp(definition) => Some(definition.as_ref()),
            _ => None,
        });
        let servers = of_file.chain(of_agents);
        let domains = servers.map(|server| server.settings.domains());
        let domains = domains.reduce(|all, more| all.and(more));
        let domains = domains.map(|all| all.for_engine(EngineLifetime::Persistent));
        domains.unwrap_or_default()
    }

    /// Records that a session belongs to a fork.
    pub(super) fn mark_fork(&self, session: &str, holder: &str) {
        let mut known = self.0.session_tools.lock();
        if let Some(session_tools) = known.get_mut(session) {
            session_tools.holder = Some(holder.to_owned());
        }
    }

    /// Returns a function that prints messages that are not warnings: prefixed with the holder if the session
    /// belongs to a fork, and none for a review with `notify: off`.
    fn labeled_output(&self, agent: &AgentDefinition, session: &str) -> Warn {
        let (bench, session) = (Arc::downgrade(&self.0), session.to_owned());
        let review = agent.review.as_ref();
        let is_hidden = review.is_some_and(|review| review.notify == Notify::Off);
        Arc::new(move |message| {
            let Some(inner) = bench.upgrade() else { return };
            let known = inner.session_tools.lock();
            let holder = known
                .get(&session)
                .and_then(|session_tools| session_tools.holder.clone());
            drop(known);
            match holder {
                None => (inner.parts.tell)(message),
                Some(holder) if is_hidden && holder == REVIEW => {}
                Some(holder) => (inner.parts.tell)(&format!("{holder}: {message}")),
            }
        })
    }
}
