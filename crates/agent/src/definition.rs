//! Teams of agents, as YAML says.
//!
//! ```yaml
//! models:
//!   fast: {provider: openai, model: gpt-4o-mini}
//! agents:
//!   root:
//!     model: fast
//!     instruction: Answer in one sentence.
//! ```
//!
//! The first agent, or the one called `root`, is the entry. Problems have the codes of the sections
//! that they are in, of the builtins that keys belong to, and of this room: `no-agents`, `unknown-agent`, `unknown-model`,
//! `delegates-to-itself`, `bad-permission`, `conflicting-keys`, `unreadable-instruction`.

mod agent;
mod review;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::{self, Node, Section};
use cachalot_core::{Place, Problem};
use cachalot_model::budget::Budget;
use cachalot_model::{Configured, ModelSettings, Models};

use cachalot_operation::Permissions;
use cachalot_operation::permissions::Signature;

pub use cachalot_hooks::Builtins;

pub use agent::{
    AgentDefinition, DEFAULT_COMPACTION_THRESHOLD, DEFAULT_ITERATIONS, DEFAULT_REPETITIONS,
    SubAgent,
};

pub use review::{
    DEFAULT_REVIEW_INPUT_TOKENS, DEFAULT_REVIEW_ITERATIONS, DEFAULT_REVIEW_TURNS, Named, Notify,
    ReviewDefinition, ReviewKind,
};

use agent::Written as WrittenAgent;

/// The keys of an agent file that are a team's.
pub const KEYS: [&str; 7] = [
    "agents",
    "models",
    "providers",
    "mcps",
    "tools",
    "permissions",
    "budget",
];

/// A team: agents, and what they share.
#[derive(Debug, Clone)]
pub struct Team {
    /// The agents, in the order of the file; at least one.
    pub agents: Vec<AgentDefinition>,
    /// What `models:` and `providers:` say.
    pub configured: Configured,
    /// `mcps:`, read by the room of tools.
    pub mcps: Option<Node>,
    /// `tools:`, read by the room of tools.
    pub tools: Option<Node>,
    /// `settings:` of a file that holds nothing but a team, environment variables expanded; read by the
    /// command line.
    pub settings: Option<Node>,
    /// `permissions:`.
    pub permissions: Permissions,
    /// `budget:`, for the whole chat.
    pub budget: Budget,
    /// Where the file is: relative paths are relative to it.
    pub directory: PathBuf,
    /// What is not honoured, though nothing is wrong with it; in the order of the file.
    pub warnings: Vec<Problem>,
    /// Where each agent names its model.
    model_places: Vec<Place>,
    /// The entry.
    entry: usize,
}

/// How a file was written: what its sections cannot tell by themselves.
#[derive(Clone, Copy)]
pub struct Written<'a> {
    /// The text of the file.
    pub text: &'a str,
    /// Where it is: relative paths in it are relative to that.
    pub directory: &'a Path,
    /// What `${NAME}` in it stands for.
    pub environment: &'a BTreeMap<String, String>,
    /// The builtins that hooks may name, and that keys of agents may belong to.
    pub builtins: &'a Builtins,
}

impl Written<'_> {
    /// Claims `key`, environment variables expanded.
    fn expanded(
        &self,
        section: &mut Section<'_>,
        key: &'static str,
        problems: &mut Vec<Problem>,
    ) -> Option<Node> {
        let node = section.present(key)?;
        Some(tree::expand(
            node,
            Some(self.text),
            self.environment,
            problems,
        ))
    }

    /// Reads `models` and `providers`, environment variables expanded.
    pub fn configured(&self, section: &mut Section<'_>, problems: &mut Vec<Problem>) -> Configured {
        let mut expanded = |key| self.expanded(section, key, problems);
        let (models, providers) = (expanded("models"), expanded("providers"));
        Configured::read(models.as_ref(), providers.as_ref(), problems)
    }
}

impl Team {
    /// Reads an agent file that holds nothing but a team.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the file.
    pub fn load(root: &Node, written: &Written<'_>) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let team = Section::of(root, "an agent file", &mut problems).and_then(|mut section| {
            // For people; they mean nothing to us.
            for key in ["version", "name", "description", "metadata"] {
                section.claim(key);
            }
            let settings = written.expanded(&mut section, "settings", &mut problems);
            let team = Self::read(&mut section, written, &mut problems)
                .map(|team| Self { settings, ..team });
            section.finish(&mut problems);
            team
        });
        match team {
            Some(team) if problems.is_empty() => Ok(team),
            _ => {
                problems.sort_by_key(|problem| problem.place.as_ref().map(|place| place.start));
                Err(problems)
            }
        }
    }

    /// Reads the keys of a team out of a file that may hold more; `None` if there are no agents, or
    /// something is wrong with one.
    pub fn read(
        section: &mut Section<'_>,
        written: &Written<'_>,
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        let place = section.place().clone();
        let configured = written.configured(section, problems);
        let mcps = section.present("mcps").cloned();
        let tools = section.present("tools").cloned();
        let permissions = section
            .present("permissions")
            .map(|node| Permissions::read(node, problems))
            .unwrap_or_default();
        let budget = section
            .section("budget", "`budget`", problems)
            .map(|budget| Budget::read(budget, problems))
            .unwrap_or_default();
        let place = section
            .entry("agents")
            .map_or(place, |entry| entry.key_place.clone());
        let read = problems.len();
        let Some(entries) = section.map("agents", problems).filter(|e| !e.is_empty()) else {
            // If there is something else than agents, that has been said.
            if problems.len() == read {
                problems.push(no_agents(&place));
            }
            return None;
        };
        let mut agents: Vec<WrittenAgent> = entries
            .iter()
            .filter_map(|entry| agent::read(entry, written, problems))
            .collect();
        let names: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
        for agent in &agents {
            check_delegation(agent, &names, problems);
        }
        let warnings = agents.iter_mut().flat_map(|agent| agent.warnings.drain(..));
        let warnings = warnings.collect();
        let entry = names.iter().position(|name| *name == "root").unwrap_or(0);
        let all = agents.len() == entries.len();
        let (agents, model_places) = agents
            .into_iter()
            .map(|agent| (agent.definition, agent.model))
            .unzip();
        all.then_some(Self {
            agents,
            configured,
            mcps,
            tools,
            settings: None,
            permissions,
            budget,
            directory: written.directory.to_owned(),
            warnings,
            model_places,
            entry,
        })
    }

    /// The agent that a chat begins with.
    #[must_use]
    pub fn entry(&self) -> &AgentDefinition {
        &self.agents[self.entry]
    }

    /// The agent of that name.
    #[must_use]
    pub fn agent(&self, name: &str) -> Option<&AgentDefinition> {
        self.agents.iter().find(|agent| agent.name == name)
    }

    /// Problems of rules under `permissions` that can be about no call: they name a tool or an argument
    /// that no built-in tool has. Rules about tools of MCP servers are checked once these are connected.
    #[must_use]
    pub fn check_permissions(&self) -> Vec<Problem> {
        let mut tools = cachalot_tools::builtin::signatures();
        tools.push(Signature {
            name: crate::delegate::NAME.to_owned(),
            arguments: ["agent", "task", "expected_output"]
                .map(str::to_owned)
                .into(),
        });
        let has_servers = self.mcps.is_some() || self.names_servers();
        self.permissions.check(&tools, has_servers)
    }

    /// Whether a toolset may be an MCP server.
    fn names_servers(&self) -> bool {
        let toolsets = self
            .agents
            .iter()
            .filter_map(|agent| agent.toolsets.as_ref());
        let mut entries = toolsets.filter_map(Node::as_list).flatten();
        entries.any(|entry| entry.get("type").and_then(Node::as_text) == Some("mcp"))
    }

    /// What is wrong with the models that the agents name, as far as `models` can tell without asking
    /// them.
    #[must_use]
    pub fn check_models(&self, models: &Models) -> Vec<Problem> {
        let own = self.agents.iter().zip(&self.model_places);
        let own = own.map(|(agent, place)| (agent, agent.model.as_str(), place));
        let of_reviews = self.agents.iter().filter_map(|agent| {
            let model = agent.review.as_ref()?.model.as_ref()?;
            Some((agent, model.name.as_str(), &model.place))
        });
        own.chain(of_reviews)
            .filter_map(|(agent, model, place)| {
                let error = models.find(model).err()?;
                let code = match models.refusal(Some(model), &ModelSettings::default()) {
                    Some(_) => "bad-value",
                    None => "unknown-model",
                };
                let problem = Problem::new(code, format!("agent `{}`: {error}", agent.name));
                Some(problem.at(place))
            })
            .collect()
    }
}

fn no_agents(place: &Place) -> Problem {
    Problem::new("no-agents", "the file has no agents")
        .at(place)
        .help("add `agents:` with at least one: `root: {model: …, instruction: …}`")
}

fn check_delegation(agent: &WrittenAgent, names: &[&str], problems: &mut Vec<Problem>) {
    let name = &agent.definition.name;
    let named = agent.definition.sub_agents.iter().zip(&agent.sub_agents);
    for (
        SubAgent {
            name: sub_agent, ..
        },
        place,
    ) in named
    {
        if sub_agent == name {
            problems.push(
                Problem::new(
                    "delegates-to-itself",
                    format!("agent `{name}` is its own sub-agent"),
                )
                .at(place)
                .help("take it out; an agent that should do the same again can be another one with the same instruction"),
            );
        } else if !names.contains(&sub_agent.as_str()) {
            problems.push(
                Problem::new(
                    "unknown-agent",
                    format!("agent `{name}` delegates to `{sub_agent}`, which is not there"),
                )
                .at(place)
                .help(did_you_mean(sub_agent, names)),
            );
        }
    }
}
