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
//! that they are in, and of this room: `unknown-agent`, `unknown-model`, `no-agents`, `bad-permission`,
//! `unreadable-instruction`, `delegates-to-itself`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cachalot_core::Problem;
use cachalot_core::tree::{self, Entry, Node, Section};
use cachalot_model::budget::Budget;
use cachalot_model::{Configured, Models};

use crate::permissions::Permissions;

/// Model calls in a turn, unless the file says otherwise.
pub const DEFAULT_ITERATIONS: u32 = 50;
/// Identical consecutive batches of calls at which a turn is ended, unless the file says otherwise.
pub const DEFAULT_REPETITIONS: u32 = 5;

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
    /// The agents, in the order of the file.
    pub agents: Vec<AgentDefinition>,
    /// What `models:` and `providers:` say.
    pub configured: Configured,
    /// `mcps:`, read by the room of tools.
    pub mcps: Option<Node>,
    /// `tools:`, read by the room of tools.
    pub tools: Option<Node>,
    /// `permissions:`.
    pub permissions: Permissions,
    /// `budget:`, for the whole chat.
    pub budget: Budget,
    /// Where the file is: relative paths are relative to it.
    pub directory: PathBuf,
    /// The entry.
    entry: usize,
}

/// How a file was written: what its sections cannot tell by themselves.
#[derive(Debug, Clone, Copy)]
pub struct Written<'a> {
    /// The text of the file.
    pub text: &'a str,
    /// Where it is: relative paths in it are relative to that.
    pub directory: &'a Path,
    /// What `${NAME}` in it stands for.
    pub environment: &'a BTreeMap<String, String>,
}

impl Written<'_> {
    /// Reads `models` and `providers`, environment variables expanded.
    pub fn configured(
        &self,
        section: &mut Section<'_>,
        problems: &mut Vec<Problem>,
    ) -> Configured {
        let mut expanded = |key| {
            section
                .present(key)
                .map(|node| tree::expand(node, self.text, self.environment, problems))
        };
        let (models, providers) = (expanded("models"), expanded("providers"));
        Configured::read(models.as_ref(), providers.as_ref(), problems)
    }
}

/// One agent.
#[derive(Debug, Clone)]
pub struct AgentDefinition {
    /// Its name.
    pub name: String,
    /// The model's name: a key of `models:`, `provider/model`, or a model's own name.
    pub model: String,
    /// What it is good for: read by agents that delegate to it.
    pub description: String,
    /// What it is told before everything else.
    pub instruction: String,
    /// `toolsets:`, read by the room of tools.
    pub toolsets: Option<Node>,
    /// Agents that it may delegate to.
    pub sub_agents: Vec<String>,
    /// Model calls in a turn at most.
    pub max_iterations: u32,
    /// Identical consecutive batches of calls at which a turn is ended.
    pub max_repetitions: u32,
    /// Whether the newest message tells the time.
    pub add_date: bool,
    /// How many memories that match the user's message are put into the newest message.
    pub recall: u32,
}

impl Team {
    /// Reads an agent file that holds nothing but a team.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn load(root: &Node, written: &Written<'_>) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let team = Section::of(root, "an agent file", &mut problems).and_then(|mut section| {
            // For people; they mean nothing to us.
            for key in ["version", "name", "description", "metadata"] {
                section.claim(key);
            }
            let team = Self::read(&mut section, written, &mut problems);
            section.finish(&mut problems);
            team
        });
        match team {
            Some(team) if problems.is_empty() => Ok(team),
            _ => Err(problems),
        }
    }

    /// Reads the keys of a team out of a file that may hold more; `None` if there are no agents.
    pub fn read(
        section: &mut Section<'_>,
        written: &Written<'_>,
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        let place = section.place().clone();
        let directory = written.directory;
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
        let Some(entries) = section.map("agents", problems).filter(|e| !e.is_empty()) else {
            problems.push(
                Problem::new("no-agents", "the file has no agents")
                    .at(&place)
                    .help("add `agents:` with at least one: `root: {model: …, instruction: …}`"),
            );
            return None;
        };
        let agents: Vec<_> = entries
            .iter()
            .filter_map(|entry| agent(entry, directory, problems))
            .collect();
        check_delegation(entries, &agents, problems);
        let entry = agents
            .iter()
            .position(|agent| agent.name == "root")
            .unwrap_or(0);
        (agents.len() == entries.len()).then(|| Self {
            agents,
            configured,
            mcps,
            tools,
            permissions,
            budget,
            directory: directory.to_owned(),
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

    /// What is wrong with the models that the agents name, as far as `models` can tell.
    #[must_use]
    pub fn check_models(&self, models: &Models) -> Vec<Problem> {
        self.agents
            .iter()
            .filter_map(|agent| {
                let error = models.find(&agent.model).err()?;
                Some(Problem::new(
                    "unknown-model",
                    format!("agent `{}`: {error}", agent.name),
                ))
            })
            .collect()
    }
}

fn agent(
    entry: &Entry,
    directory: &Path,
    problems: &mut Vec<Problem>,
) -> Option<AgentDefinition> {
    let mut section = Section::of(&entry.value, "an agent", problems)?;
    let model = section.required_text("model", problems);
    let number = |key, default: u32, section: &mut Section<'_>, problems: &mut Vec<Problem>| {
        section
            .integer(key, 0..=u64::from(u32::MAX), problems)
            .and_then(|number| u32::try_from(number).ok())
            .unwrap_or(default)
    };
    let definition = AgentDefinition {
        name: entry.key.clone(),
        model: model.unwrap_or_default().to_owned(),
        description: section
            .text("description", problems)
            .unwrap_or_default()
            .to_owned(),
        instruction: instruction(&mut section, directory, problems),
        toolsets: section.present("toolsets").cloned(),
        sub_agents: section
            .texts("sub_agents", problems)
            .unwrap_or_default()
            .into_iter()
            .map(ToOwned::to_owned)
            .collect(),
        max_iterations: match number("max_iterations", DEFAULT_ITERATIONS, &mut section, problems) {
            0 => u32::MAX,
            most => most,
        },
        max_repetitions: number(
            "max_consecutive_tool_calls",
            DEFAULT_REPETITIONS,
            &mut section,
            problems,
        )
        .max(2),
        add_date: section.boolean("add_date", problems).unwrap_or(false),
        recall: number("recall", 0, &mut section, problems),
    };
    section.finish(problems);
    model.map(|_| definition)
}

/// `instruction`, or the text of the file that `instruction_file` names.
fn instruction(
    section: &mut Section<'_>,
    directory: &Path,
    problems: &mut Vec<Problem>,
) -> String {
    let text = section.text("instruction", problems);
    let Some(node) = section.present("instruction_file") else {
        return text.unwrap_or_default().to_owned();
    };
    let Some(file) = node.as_text() else {
        problems.push(node.wrong_type("instruction_file", "the path of a text file"));
        return String::new();
    };
    if text.is_some() {
        problems.push(
            Problem::new(
                "conflicting-keys",
                "an agent has either an `instruction` or an `instruction_file`",
            )
            .at(&node.place),
        );
    }
    let path = directory.join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| {
        problems.push(
            Problem::new(
                "unreadable-instruction",
                format!("{}: {error}", path.display()),
            )
            .at(&node.place)
            .help("the path is relative to the agent file"),
        );
        String::new()
    })
}

fn check_delegation(entries: &[Entry], agents: &[AgentDefinition], problems: &mut Vec<Problem>) {
    let names: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
    for agent in agents {
        let Some(entry) = entries.iter().find(|entry| entry.key == agent.name) else {
            continue;
        };
        for sub_agent in &agent.sub_agents {
            if *sub_agent == agent.name {
                problems.push(
                    Problem::new(
                        "delegates-to-itself",
                        format!("agent `{sub_agent}` is its own sub-agent"),
                    )
                    .at(&entry.key_place),
                );
            } else if !names.contains(&sub_agent.as_str()) {
                problems.push(
                    Problem::new(
                        "unknown-agent",
                        format!("agent `{}` delegates to `{sub_agent}`, which is not there", agent.name),
                    )
                    .at(&entry.key_place)
                    .help(cachalot_core::suggest::did_you_mean(sub_agent, &names)),
                );
            }
        }
    }
}
