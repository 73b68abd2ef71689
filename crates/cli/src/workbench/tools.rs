//! The tools of an agent: those of its toolsets, with results kept as the file says.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use cachalot_agent::{AgentDefinition, Error, ErrorKind, Team, Toolboxes};
use cachalot_core::Problem;
use cachalot_tools::cached::{CachedTools, Options};
use cachalot_tools::mcp::Reporter;
use cachalot_tools::settings::{ToolsetSettings, assemble, read_servers, read_toolsets};
use cachalot_tools::{Registry, Tool, Toolbox};

use super::{Kept, Workbench};
use crate::team::read_tools;
use crate::wiring::Warn;

#[async_trait]
impl Toolboxes for Workbench {
    async fn toolbox(
        &self,
        team: &Team,
        agent: &AgentDefinition,
        session: &str,
        own: Vec<Arc<dyn Tool>>,
        _warn: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Arc<dyn Toolbox>, Error> {
        let inner = &self.0;
        let mut problems = Vec::new();
        let toolsets = toolsets(team, agent, &inner.context.environment, &mut problems);
        let settings = read_tools(team.tools.as_ref(), &mut problems);
        // Whoever loaded the file has told them, with their places.
        if !problems.is_empty() {
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            return Err(Error::new(ErrorKind::Definition, told.join("; ")));
        }
        let surroundings = self.tool_surroundings(Arc::new(Told(Arc::clone(&inner.warn))));
        let missing =
            |error: &dyn std::fmt::Display| Error::new(ErrorKind::Tools, error.to_string());
        let assembled = assemble(&toolsets, &surroundings)
            .await
            .map_err(|error| missing(&error))?;
        let mut tools = assembled.tools;
        tools.extend(own);
        let enabled = settings.enabled;
        let registry = Registry::new(tools).map_err(|error| missing(&error))?;
        let kept = CachedTools::new(
            &registry,
            Options {
                settings,
                mode: inner.mode,
                ledger: inner.cache.ledger().clone(),
                clock: Arc::clone(&inner.context.clock),
                seals: Arc::clone(&inner.seals),
                log: Arc::clone(&inner.tell) as Arc<dyn Fn(&str) + Send + Sync>,
                persistent: inner.memory.as_ref().map(|_| inner.cache.clone()),
                // Whose results are shared by `scope: user`.
                user: inner.surroundings.user(),
                writers: inner.writers.clone(),
            },
        )
        .map_err(|error| missing(&error))?;
        let kept = Arc::new(kept);
        let mut known = inner.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // Those of sub-agents that are done are gone.
        known.retain(|_, kept| kept.tools.strong_count() > 0);
        let tools = Arc::downgrade(&kept);
        known.insert(session.to_owned(), Kept { tools, enabled });
        Ok(kept)
    }

    fn instructions(&self, team: &Team, agent: &AgentDefinition) -> Vec<String> {
        let environment = &self.0.context.environment;
        toolsets(team, agent, environment, &mut Vec::new())
            .toolsets
            .into_iter()
            .filter_map(|toolset| toolset.instruction)
            .collect()
    }
}

/// The toolsets of an agent.
fn toolsets(
    team: &Team,
    agent: &AgentDefinition,
    environment: &BTreeMap<String, String>,
    problems: &mut Vec<Problem>,
) -> ToolsetSettings {
    let servers = team
        .mcps
        .as_ref()
        .map(|node| read_servers(node, environment, problems))
        .unwrap_or_default();
    agent
        .toolsets
        .as_ref()
        .map(|node| read_toolsets(node, &servers, environment, problems))
        .unwrap_or_default()
}

/// Tells what happens around tools.
struct Told(Warn);

impl Reporter for Told {
    fn warning(&self, message: &str) {
        (self.0)(message);
    }

    fn list_changed(&self, server: &str) {
        (self.0)(&format!(
            "the MCP server `{server}` has other tools now; /reload takes them over, and so does a new session (/new)"
        ));
    }
}
