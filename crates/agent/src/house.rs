//! What turns need of the world, handed in by whoever puts the program together.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::Clock;
use cachalot_hooks::{Entry, Surroundings};
use cachalot_model::Models;
use cachalot_prompt::Sessions;
use cachalot_tools::{Context, Tool, Toolbox};

use crate::definition::{AgentDefinition, Team};
use crate::event::{Approver, Listener};
use crate::{ContextSource, Error, Roster};

/// Makes the tools of agents.
#[async_trait]
pub trait Toolboxes: Send + Sync {
    /// The tools of an agent for a session: those of its toolsets, and `own`, which the runtime
    /// brings. Tools that could not be made ready are warned of through `warn`.
    ///
    /// # Errors
    /// If a tool that the definition requires is not there.
    async fn toolbox(
        &self,
        team: &Team,
        agent: &AgentDefinition,
        session: &str,
        own: Vec<Arc<dyn Tool>>,
        warn: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Arc<dyn Toolbox>, Error>;

    /// What an agent is told of its toolsets, behind its own instruction: by default nothing.
    fn instructions(&self, team: &Team, agent: &AgentDefinition) -> Vec<String> {
        let _ = (team, agent);
        Vec::new()
    }
}

/// What turns need of the world.
#[derive(Clone)]
pub struct House {
    /// Tools.
    pub toolboxes: Arc<dyn Toolboxes>,
    /// What every tool call is given; session and witness are set for each.
    pub tools: Context,
    /// Models.
    pub models: Models,
    /// Where sessions are kept.
    pub sessions: Sessions,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What is added to the newest message.
    pub context: Vec<Arc<dyn ContextSource>>,
    /// Hooks. Without them nobody is told of anything, and agents that name some are refused.
    pub hooks: Option<HookSetup>,
    /// Who is told.
    pub listener: Arc<dyn Listener>,
    /// Who is asked.
    pub approver: Arc<dyn Approver>,
    /// Names for sessions, apart from all others.
    pub name_session: Arc<dyn Fn() -> String + Send + Sync>,
    /// Whether a person says when the next turn comes: what was sent is to be kept meanwhile.
    pub human_paced: bool,
    /// True if chats end with their first turn (pipes, `agent.run`): no later turn reads what a request has
    /// the provider keep.
    pub single_turn: bool,
    /// Files and folders that agents do not write unless the user says so, beside those known by their
    /// names (`.git/config`, `.cachalot`, `.mcp.json`, …): agent files, the user's configuration.
    pub protected: Vec<PathBuf>,
    /// Whether a fork that has not what it is to inherit is refused. Otherwise the listener is warned:
    /// it costs more, and does the same.
    pub strict_forks: bool,
}

/// What hooks need of the world.
#[derive(Clone)]
pub struct HookSetup {
    /// What handlers need.
    pub surroundings: Surroundings,
    /// How builtins see agents: the one that they were registered with, and that of no other team.
    pub roster: Arc<Roster>,
    /// Hooks that no agent names (the user's configuration, `hooks.d`, flags): they come behind the
    /// agent's own.
    pub entries: Vec<Entry>,
}
