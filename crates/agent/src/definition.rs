//! Teams of agents, read from YAML.
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
//! The first agent, or the one called `root`, is the entry. Problems have the codes of their sections, of the
//! builtins to which keys belong, and of this crate: `no-agents`, `unknown-agent`, `unknown-model`,
//! `delegates-to-itself`, `bad-permission`, `conflicting-keys`, `unreadable-instruction`.

mod agent;
mod command;
mod compaction;
mod file_tools;
mod groups;
mod limit;
mod review;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cachalot_core::config::{
    Located, Parameter, ParameterKind as Kind, Settings as _, key, required,
};
use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::{self, Node, Section};
use cachalot_core::{Problem, SourceSpan};
use cachalot_model::budget::Budget;
use cachalot_model::{ModelConfiguration, ModelSettings, Models};

use cachalot_mcp::settings::{Parsed, SharedTools, ToolsetKind};
use cachalot_operation::Permissions;
use cachalot_operation::permissions::ToolSignature;

pub use cachalot_hooks::Builtins;

pub use agent::{
    AGENT, AgentDefinition, DEFAULT_COMPACTION_THRESHOLD, DEFAULT_ITERATIONS, DEFAULT_REPETITIONS,
    SubAgent,
};

pub use command::{CommandDefinition, CommandPart};
pub use compaction::CompactionSettings;
pub use file_tools::FileTools;
pub use review::{
    DEFAULT_REVIEW_INPUT_TOKENS, DEFAULT_REVIEW_ITERATIONS, DEFAULT_REVIEW_TURNS, LocatedName,
    Notify, REVIEW, ReviewDefinition, ReviewKind,
};

use agent::ParsedAgent;
use groups::Groups;

/// The keys of an agent file that belong to a team.
pub const KEYS: [&str; 11] = [
    "agents",
    "models",
    "providers",
    "mcps",
    "tools",
    "permissions",
    "budget",
    "toolsets",
    "commands",
    "skills",
    "rag",
];

/// The name of the tool by which an agent gives a task to a sub-agent.
pub(crate) const DELEGATION_TOOL: &str = "transfer_task";

/// The parameters of that tool.
#[rustfmt::skip]
pub(crate) const DELEGATION_PARAMETERS: &[Parameter] = &[
    // The names of the sub-agents are in its schema.
    required("agent", Kind::Text, "Who gets the task."),
    required("task", Kind::Text, "The task, with everything that is needed to do it."),
    key("expected_output", Kind::Text, "What the answer should look like."),
];

/// The name of the tool by which an agent gives the conversation to another agent.
pub(crate) const HANDOFF_TOOL: &str = "handoff";

/// The parameters of that tool.
#[rustfmt::skip]
pub(crate) const HANDOFF_PARAMETERS: &[Parameter] = &[
    // The names of the agents are in its schema.
    required("agent", Kind::Text, "The agent that continues."),
];

/// A team: agents, and the settings that they share.
#[derive(Debug, Clone)]
pub struct Team {
    /// The agents, in the order of the file; at least one.
    pub agents: Vec<AgentDefinition>,
    /// The content of `models:` and `providers:`.
    pub configured: ModelConfiguration,
    /// `mcps:` and `tools:`.
    pub shared_tools: SharedTools,
    /// `settings:` of a file that holds nothing but a team, environment variables expanded; parsed by the
    /// command line.
    pub settings: Option<Node>,
    /// `permissions:`.
    pub permissions: Permissions,
    /// `budget:` of the whole chat.
    pub budget: Budget,
    /// The directory of the file; relative paths in the file start there.
    pub directory: PathBuf,
    /// Valid keys and values that have no effect, in the order of the file.
    pub warnings: Vec<Problem>,
    /// The place of each agent's model name.
    model_places: Vec<SourceSpan>,
    /// Index of the entry agent.
    entry: usize,
}

/// The source of a file that is being read: its text and surroundings.
#[derive(Clone, Copy)]
pub struct SourceFile<'a> {
    /// The text of the file.
    pub text: &'a str,
    /// The directory of the file; relative paths in the file start there.
    pub directory: &'a Path,
    /// Values of the variables in `${NAME}` references.
    pub environment: &'a BTreeMap<String, String>,
    /// The builtins that hooks may name, and to which keys of agents may belong.
    pub builtins: &'a Builtins,
}

impl SourceFile<'_> {
    /// Claims `key` and expands its environment variables.
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

    /// Reads `models` and `providers` and expands their environment variables.
    pub fn configured(
        &self,
        section: &mut Section<'_>,
        problems: &mut Vec<Problem>,
    ) -> ModelConfiguration {
        let (models, providers) = (section.present("models"), section.present("providers"));
        // Models may remain unused; one that is called needs its variables.
        let mut expanded =
            |node| tree::expand_set(node, Some(self.text), self.environment, problems);
        let (own_models, own_providers) = (models.map(&mut expanded), providers.map(&mut expanded));
        let mut configured =
            ModelConfiguration::read(own_models.as_ref(), own_providers.as_ref(), problems);
        configured.note_unset(models, providers, self.environment);
        configured
    }
}

impl Team {
    /// Reads an agent file that holds nothing but a team.
    ///
    /// # Errors
    /// All problems of the file, in its order.
    pub fn load(root: &Node, source: &SourceFile<'_>) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let team =
            Section::from_node(root, "an agent file", &mut problems).and_then(|mut section| {
                // Keys for human readers; they have no effect.
                for key in ["version", "name", "description", "metadata"] {
                    section.claim(key);
                }
                let settings = source.expanded(&mut section, "settings", &mut problems);
                let team = Self::read(&mut section, root, source, &mut problems)
                    .map(|team| Self { settings, ..team });
                section.finish(&mut problems);
                team
            });
        problems.sort_by_key(|problem| problem.place.as_ref().map(|place| place.start));
        match team {
            Some(mut team) if problems.iter().all(|problem| problem.is_warning) => {
                team.warnings.extend(problems);
                Ok(team)
            }
            _ => Err(problems),
        }
    }

    /// Reads the keys of a team from a file that may hold other keys. `root` is the tree of the file. Returns
    /// `None` if there are no agents or an agent is invalid.
    pub fn read(
        section: &mut Section<'_>,
        root: &Node,
        source: &SourceFile<'_>,
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        let place = section.place().clone();
        let configured = source.configured(section, problems);
        section.claim("mcps");
        section.claim("tools");
        let FileTools { shared, toolsets } = FileTools::read(root, source.environment);
        let mut permissions = section
            .present("permissions")
            .map(|node| Permissions::read(node, problems))
            .unwrap_or_default();
        problems.extend(permissions.order_warnings());
        let budget = section
            .present("budget")
            .and_then(|node| Budget::read(node, problems))
            .unwrap_or_default();
        for key in ["toolsets", "commands", "skills", "rag"] {
            // The agents that use them read them.
            section.map(key, problems);
        }
        unsupported_sections(section, problems);
        let groups = Groups::from_root(root);
        let place = section
            .entry("agents")
            .map_or(place, |entry| entry.key_place.clone());
        let read = problems.len();
        let Some(entries) = section.map("agents", problems).filter(|e| !e.is_empty()) else {
            // A value of another type was reported already.
            if problems.len() == read {
                problems.push(no_agents(&place));
            }
            return None;
        };
        let mut agents: Vec<ParsedAgent> = entries
            .iter()
            .zip(toolsets)
            .filter_map(|(entry, toolsets)| agent::read(entry, source, &groups, toolsets, problems))
            .collect();
        let names: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
        for agent in &agents {
            let folders = agent.definition.denied_folders();
            deny_listed_folders(folders, source.environment, &mut permissions, problems);
        }
        for agent in &mut agents {
            let definition = &mut agent.definition;
            let configured = configured.model(&definition.model);
            if let Some(threshold) = configured.and_then(|model| model.compaction_threshold) {
                definition.compaction_threshold = threshold;
            }
        }
        check_forced_handoffs(&agents, &names, problems);
        for agent in &agents {
            check_commands(agent, &names, problems);
            check_delegation(agent, &names, problems);
            check_handoffs(agent, &names, problems);
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
            shared_tools: shared,
            settings: None,
            permissions,
            budget,
            directory: source.directory.to_owned(),
            warnings,
            model_places,
            entry,
        })
    }

    /// The agent with which a chat begins.
    #[must_use]
    pub fn entry(&self) -> &AgentDefinition {
        &self.agents[self.entry]
    }

    /// The agent with this name.
    #[must_use]
    pub fn agent(&self, name: &str) -> Option<&AgentDefinition> {
        self.agents.iter().find(|agent| agent.name == name)
    }

    /// Sets the model and the context of an agent ([`AgentDefinition::context`]) where they are given.
    pub fn adapt(&mut self, agent: &str, model: Option<&str>, context: Option<String>) {
        let agents = self.agents.iter_mut();
        for definition in agents.filter(|definition| definition.name == agent) {
            if let Some(model) = model {
                model.clone_into(&mut definition.model);
            }
            if let Some(context) = &context {
                definition.context.clone_from(context);
            }
        }
    }

    /// Returns problems of `permissions` rules that can never match a call: they name a tool or an argument
    /// that neither a built-in tool nor one of `further` has. Rules about tools of MCP servers are checked
    /// when these are connected.
    #[must_use]
    pub fn check_permissions(&self, further: Vec<ToolSignature>) -> Vec<Problem> {
        let tools = own_tools(further);
        let has_servers = self.shared_tools.servers.is_some() || self.names_servers();
        self.permissions.check(&tools, has_servers)
    }

    /// Lets permission rules with the bare name of a tool of an MCP server apply to it. `prefixes` are those of
    /// the servers' tools, `further` the tools of this file.
    pub fn name_server_tools(&mut self, prefixes: &[String], further: Vec<ToolSignature>) {
        let tools = own_tools(further);
        self.permissions.name_server_tools(prefixes, &tools);
    }

    /// True if a toolset may be an MCP server.
    fn names_servers(&self) -> bool {
        self.has_toolset(|kind| matches!(kind, ToolsetKind::Mcp(_)))
    }

    /// True if a toolset is of this kind, or if one that was not understood may be.
    fn has_toolset(&self, is_kind: fn(&ToolsetKind) -> bool) -> bool {
        let toolsets = self.agents.iter();
        let mut toolsets = toolsets.filter_map(|agent| agent.toolsets.as_ref());
        toolsets.any(|toolsets| {
            let mut kinds = toolsets.value.toolsets.iter().map(|toolset| &toolset.kind);
            kinds.any(is_kind) || toolsets.errors().next().is_some()
        })
    }

    /// Returns the problems that leave an agent without its tools. The command line reports them when it loads a
    /// file.
    #[must_use]
    pub fn tool_errors<'a>(&'a self, agent: &'a AgentDefinition) -> Vec<&'a Problem> {
        let SharedTools { servers, results } = &self.shared_tools;
        let servers = servers.iter().flat_map(Parsed::errors);
        let toolsets = agent.toolsets.iter().flat_map(Parsed::errors);
        let results = results.iter().flat_map(Parsed::errors);
        servers.chain(toolsets).chain(results).collect()
    }

    /// True if an agent may have a tool that runs commands.
    #[must_use]
    pub fn runs_commands(&self) -> bool {
        self.has_toolset(|kind| {
            use ToolsetKind::{BackgroundJobs, Scripts, Shell};
            matches!(kind, Shell(_) | BackgroundJobs(_) | Scripts(_))
        })
    }

    /// Returns problems of the models that the agents name, as far as `models` can find them without a
    /// request.
    #[must_use]
    pub fn check_models(&self, models: &Models) -> Vec<Problem> {
        let none = &ModelSettings::default();
        let own = self.agents.iter().zip(&self.model_places);
        let own =
            own.map(|(agent, place)| (agent, agent.model.as_str(), &agent.model_settings, place));
        let of_others = self.agents.iter().flat_map(|agent| {
            let of_review = agent
                .review
                .as_ref()
                .and_then(|review| review.model.as_ref());
            let models = of_review.into_iter().chain(&agent.compaction.model);
            models.map(move |model| (agent, model.name.as_str(), none, &model.place))
        });
        let mut problems: Vec<Problem> = own
            .chain(of_others)
            .filter(|(_, model, ..)| {
                // Its unknown provider was reported where the model is configured.
                let configured = self.configured.model(model);
                let provider = configured.and_then(|configured| configured.provider.as_deref());
                provider.is_none_or(|provider| models.has_provider(provider))
            })
            .flat_map(|(agent, model, settings, place)| {
                let subject = format!("agent `{}`", agent.name);
                let Err(error) = models.choose(Some(model), settings) else {
                    let unsent = models.unsent(Some(model), settings).into_iter();
                    return unsent
                        .map(|setting| setting.warning(&subject).at(place))
                        .collect();
                };
                let code = match models.refusal(Some(model), settings) {
                    Some(_) => "bad-value",
                    None => "unknown-model",
                };
                vec![Problem::new(code, format!("{subject}: {error}")).at(place)]
            })
            .collect();
        let own = self.agents.iter().zip(&self.model_places);
        problems.extend(own.filter_map(|(agent, place)| {
            let by_provider = agent.compaction.by_provider && agent.compaction_threshold > 0.0;
            let model = agent.find_model(models).ok().filter(|_| by_provider)?;
            let message = format!(
                "agent `{}`: `compaction: {{by_provider: true}}` has no effect: {}/{} has no such summaries",
                agent.name,
                model.provider(),
                model.name()
            );
            let warning = Problem::warning("no-effect", message).at(place);
            (!model.is_compacting()).then(|| {
                warning.help("the agent's model summarizes; OpenAI's models in the format `responses`, and Anthropic's at its own API, do it within a request")
            })
        }));
        problems
    }
}

/// Returns the tools of the program, and `further` ones.
fn own_tools(further: Vec<ToolSignature>) -> Vec<ToolSignature> {
    let mut tools = cachalot_tools::builtin::signatures();
    tools.extend(further);
    tools.push(signature(DELEGATION_TOOL, DELEGATION_PARAMETERS));
    tools.push(signature(HANDOFF_TOOL, HANDOFF_PARAMETERS));
    tools
}

/// Denies all tools the folders in `deny_list` of the toolsets of the type `filesystem`.
fn deny_listed_folders<'a>(
    folders: impl Iterator<Item = &'a Located<String>>,
    environment: &BTreeMap<String, String>,
    permissions: &mut Permissions,
    problems: &mut Vec<Problem>,
) {
    let home = environment.get("HOME").map_or("~", String::as_str);
    for Located { value, place } in folders {
        let folder = match value.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{home}{rest}"),
            _ => value.trim_start_matches("./").to_owned(),
        };
        let denied = permissions.deny_folder(Path::new(&folder), place);
        problems.extend(denied.err());
    }
}

fn signature(name: &str, parameters: &[Parameter]) -> ToolSignature {
    let arguments = parameters.iter();
    ToolSignature {
        name: name.to_owned(),
        arguments: arguments
            .map(|parameter| parameter.name.to_owned())
            .collect(),
    }
}

/// Reports the sections of docker-agent that have no counterpart.
fn unsupported_sections(section: &mut Section<'_>, problems: &mut Vec<Problem>) {
    let refused = [
        (
            "budgets",
            "write the limits into `budget`, which all agents of a chat share",
        ),
        (
            "evaluators",
            "ask the question in a hook: `{type: model, model: MODEL, prompt: …, schema: guard_decision}`",
        ),
        (
            "runtime",
            "start Cachalot within a container, for instance `docker run -it -v .:/work -w /work IMAGE cachalot chat FILE`, and take `runtime` out",
        ),
    ];
    if let Some(entry) = section.entry_if_unclaimed("flavors") {
        let message = "`flavors` in an agent file has no effect";
        let warning = Problem::warning("no-effect", message).at(&entry.key_place);
        problems.push(warning.help("write a file of its own for each flavor"));
    }
    for (key, help) in refused {
        if let Some(entry) = section.entry_if_unclaimed(key) {
            if let Some([mode]) = entry.value.as_map()
                && (key, mode.key.as_str()) == ("runtime", "safety")
            {
                (agent::SAFETY.check)(mode, problems);
                continue;
            }
            let message = format!("`{key}` in an agent file is not supported");
            problems.push(
                Problem::new("unsupported-section", message)
                    .at(&entry.key_place)
                    .help(help),
            );
        }
    }
}

/// The problem of the name of an agent that the file does not have.
fn unknown_agent(message: String, place: &SourceSpan, name: &str, names: &[&str]) -> Problem {
    let help = if name.contains('/') {
        format!(
            "agents of a registry are not fetched: save the file of `{name}`, add its agents to `agents:`, and write their names here"
        )
    } else {
        did_you_mean(name, names)
    };
    Problem::new("unknown-agent", message).at(place).help(help)
}

fn no_agents(place: &SourceSpan) -> Problem {
    Problem::new("no-agents", "the file has no agents")
        .at(place)
        .help("add `agents:` with at least one: `root: {model: …, instruction: …}`")
}

fn check_delegation(agent: &ParsedAgent, names: &[&str], problems: &mut Vec<Problem>) {
    let name = &agent.definition.name;
    let named = agent.definition.sub_agents.iter().zip(&agent.sub_agents);
    for (sub_agent, place) in named {
        let other = &sub_agent.name;
        if other == name {
            let message = format!("agent `{name}` is its own sub-agent");
            problems.push(
                Problem::new("delegates-to-itself", message)
                    .at(place)
                    .help("take it out; an agent that should do the same again can be another one with the same instruction"),
            );
        } else if !names.contains(&other.as_str()) {
            let message = format!("agent `{name}` delegates to `{other}`, which is not there");
            problems.push(unknown_agent(message, place, other, names));
        }
    }
}

fn check_handoffs(agent: &ParsedAgent, names: &[&str], problems: &mut Vec<Problem>) {
    let name = &agent.definition.name;
    let named = agent.definition.handoffs.iter().zip(&agent.handoffs);
    for (other, place) in named {
        if other == name {
            let message = format!("agent `{name}` hands off to itself");
            problems.push(
                Problem::new("delegates-to-itself", message)
                    .at(place)
                    .help("take it out: the agent continues anyway"),
            );
        } else if !names.contains(&other.as_str()) {
            let message = format!("agent `{name}` hands off to `{other}`, which is not there");
            problems.push(unknown_agent(message, place, other, names));
        }
    }
}

/// Reports commands that switch to an agent that is not there.
fn check_commands(agent: &ParsedAgent, names: &[&str], problems: &mut Vec<Problem>) {
    for command in &agent.definition.commands {
        let Some(other) = command
            .agent
            .as_deref()
            .filter(|name| !names.contains(name))
        else {
            continue;
        };
        let (name, command) = (&agent.definition.name, &command.name);
        let message = format!(
            "the command `{command}` of agent `{name}` switches to `{other}`, which is not there"
        );
        problems.push(unknown_agent(message, &agent.commands, other, names));
    }
}

/// Reports values of `force_handoff` that name an unknown agent, and those that lead back to their agent.
fn check_forced_handoffs(agents: &[ParsedAgent], names: &[&str], problems: &mut Vec<Problem>) {
    let next = |name: &str| {
        let agent = agents.iter().find(|agent| agent.definition.name == name);
        agent.and_then(|agent| agent.definition.force_handoff.as_deref())
    };
    for agent in agents {
        let name = agent.definition.name.as_str();
        let Some(other) = next(name) else {
            continue;
        };
        let mut chain = std::iter::successors(Some(other), |name| next(name)).take(agents.len());
        if !names.contains(&other) {
            let message = format!("agent `{name}` hands off to `{other}`, which is not there");
            problems.push(unknown_agent(message, &agent.force_handoff, other, names));
        } else if chain.any(|later| later == name) {
            let message = format!("`force_handoff` of agent `{name}` leads back to it");
            problems.push(
                Problem::new("delegates-to-itself", message)
                    .at(&agent.force_handoff)
                    .help(
                        "let one agent of the chain end it; `handoffs` lets an agent decide itself",
                    ),
            );
        }
    }
}
