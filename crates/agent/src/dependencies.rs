//! Dependencies of turns, supplied by the program.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::Clock;
use cachalot_hooks::{HookDependencies, HookEntry};
use cachalot_model::Models;
use cachalot_prompt::Sessions;
use cachalot_tools::{Tool, ToolContext, Toolbox};

use crate::definition::{AgentDefinition, Team};
use crate::event::{Approver, Listener};
use crate::{AgentDirectory, ContextSource, Error};

/// Creates the tools of agents.
#[async_trait]
pub trait Toolboxes: Send + Sync {
    /// Creates the tools of an agent for a session: those of its toolsets, and the runtime's tools in `own`.
    /// Tools that cannot be initialized are reported through `warn`.
    ///
    /// # Errors
    /// A tool that the definition requires does not exist.
    async fn toolbox(
        &self,
        team: &Team,
        agent: &AgentDefinition,
        session: &str,
        own: Vec<Arc<dyn Tool>>,
        warn: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Arc<dyn Toolbox>, Error>;

    /// Returns the instructions of an agent's toolsets, which follow the agent's own. The default is none.
    fn instructions(&self, team: &Team, agent: &AgentDefinition) -> Vec<String> {
        let _ = (team, agent);
        Vec::new()
    }

    /// Takes the notices for the model about work that the tools of a session do in the background, one
    /// paragraph each. Each is returned once. The default is none.
    fn take_notices(&self, session: &str) -> Vec<String> {
        let _ = session;
        Vec::new()
    }

    /// Drops the state that tools share among the agents of the team, because the chat begins a new
    /// conversation. The default does nothing.
    fn reset_team(&self) {}
}

/// Dependencies of turns.
#[derive(Clone)]
pub struct Dependencies {
    /// Creates the tools of agents.
    pub toolboxes: Arc<dyn Toolboxes>,
    /// The context of every tool call; session and witness are set per call.
    pub tools: ToolContext,
    /// The model catalog.
    pub models: Models,
    /// The session store.
    pub sessions: Sessions,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Sources of paragraphs for the newest message.
    pub context: Vec<Arc<dyn ContextSource>>,
    /// Hooks. Without them, no events are emitted, and agents with hooks are refused.
    pub hooks: Option<HookSetup>,
    /// Receives the events of turns.
    pub listener: Arc<dyn Listener>,
    /// Answers requests for approval.
    pub approver: Arc<dyn Approver>,
    /// Generates unique session IDs.
    pub new_session_id: Arc<dyn Fn() -> String + Send + Sync>,
    /// True if a human decides when the next turn comes: the provider must keep the prefix in its cache
    /// meanwhile.
    pub human_paced: bool,
    /// True if chats end with their first turn (pipes, `agent.run`): no later turn reads what a request
    /// writes to the provider's cache.
    pub single_turn: bool,
    /// Files and folders that agents may write only with the user's approval, in addition to those known by
    /// name (`.git/config`, `.cachalot`, `.mcp.json`, …): agent files, the user's configuration.
    pub protected: Vec<PathBuf>,
    /// True if a fork that lacks something that it must inherit is refused. If false, the listener receives a
    /// warning: such a fork costs more and works the same.
    pub strict_forks: bool,
}

/// Dependencies of hooks.
#[derive(Clone)]
pub struct HookSetup {
    /// The surroundings of handlers.
    pub dependencies: HookDependencies,
    /// The builtins' view of the agents: the roster with which they were registered, of this team only.
    pub agent_directory: Arc<AgentDirectory>,
    /// Hooks that no agent names (the user's configuration, `hooks.d`, flags); they follow the agent's own.
    pub entries: Vec<HookEntry>,
}
