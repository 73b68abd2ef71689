//! The tools of an agent: those of its toolsets, with results kept as the file says.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use cachalot_agent::{AgentDefinition, Error, ErrorKind, Team, Toolboxes};
use cachalot_core::Problem;
use cachalot_core::tree::Section;
use cachalot_tools::cached::{CachedTools, Options, Settings};
use cachalot_tools::mcp::Reporter;
use cachalot_tools::settings::{ToolsetSettings, assemble, read_servers, read_toolsets};
use cachalot_tools::{Registry, Tool, Toolbox};

use super::Workbench;
use crate::render;
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
        let (toolsets, settings) = read(team, agent, &inner.context.environment)
            .map_err(|problems| Error::new(ErrorKind::Definition, told(&problems)))?;
        let surroundings = self.tool_surroundings(Arc::new(Told(Arc::clone(&inner.warn))));
        let missing =
            |error: &dyn std::fmt::Display| Error::new(ErrorKind::Tools, error.to_string());
        let assembled = assemble(&toolsets, &surroundings)
            .await
            .map_err(|error| missing(&error))?;
        let mut tools = assembled.tools;
        tools.extend(own);
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
                user: user(&inner.context.environment),
                writers: inner.writers.clone(),
            },
        )
        .map_err(|error| missing(&error))?;
        inner
            .kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(session.to_owned(), kept.clone());
        Ok(Arc::new(kept))
    }
}

/// What a file says of tools, for one agent.
pub(crate) fn read(
    team: &Team,
    agent: &AgentDefinition,
    environment: &BTreeMap<String, String>,
) -> Result<(ToolsetSettings, Settings), Vec<Problem>> {
    let mut problems = Vec::new();
    let servers = team
        .mcps
        .as_ref()
        .map(|node| read_servers(node, environment, &mut problems))
        .unwrap_or_default();
    let toolsets = agent
        .toolsets
        .as_ref()
        .map(|node| read_toolsets(node, &servers, environment, &mut problems))
        .unwrap_or_default();
    let settings = team
        .tools
        .as_ref()
        .and_then(|node| Section::of(node, "`tools`", &mut problems))
        .map(|mut section| {
            let settings = Settings::read(&mut section, &mut problems);
            section.finish(&mut problems);
            settings
        })
        .unwrap_or_default();
    match problems.is_empty() {
        true => Ok((toolsets, settings)),
        false => Err(problems),
    }
}

fn told(problems: &[Problem]) -> String {
    let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
    told.join("; ")
}

/// Whose results are shared by `scope: user`: whoever the system says is logged in.
fn user(environment: &BTreeMap<String, String>) -> String {
    ["USER", "LOGNAME", "USERNAME"]
        .iter()
        .find_map(|name| environment.get(*name))
        .cloned()
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
            "the MCP server `{server}` has other tools now; a new session takes them (/new)"
        ));
    }
}

/// What the tool calls of a session were answered from.
pub(super) fn figures(tools: &CachedTools, session: &str) -> String {
    let stats = tools.cache_stats(session);
    let mut lines = vec![format!(
        "{} of {} hits ({:.0}%)",
        stats.hits,
        stats.eligible,
        stats.hit_rate * 100.0
    )];
    let mut rows = vec![
        [
            "tool",
            "hits",
            "coalesced",
            "ran",
            "stale prevented",
            "served",
        ]
        .map(ToOwned::to_owned)
        .to_vec(),
    ];
    for (name, counters) in tools.counters(session) {
        let bypassed: u64 = counters.bypassed.values().sum();
        rows.push(vec![
            name,
            counters.hits.to_string(),
            counters.coalesced.to_string(),
            (counters.misses + bypassed).to_string(),
            (counters.invalidated + counters.stale_prevented).to_string(),
            render::bytes(counters.bytes_served),
        ]);
    }
    if rows.len() > 1 {
        lines.push(render::table::columns(&rows).trim_end().to_owned());
    }
    lines.join("\n")
}
