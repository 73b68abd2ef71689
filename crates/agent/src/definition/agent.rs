//! The definition of an agent.

use std::path::PathBuf;

use cachalot_core::config::{
    Custom, Located, Parameter, ParameterKind as Kind, SettingValue, Settings, Table, Values, key,
    no_effect,
};
use cachalot_core::suggest::{did_you_mean, nearest};
use cachalot_core::tree::{MapEntry, Node};
use cachalot_core::{Problem, SourceSpan};
use cachalot_hooks::source::ParsedHooks as Hooks;
use cachalot_hooks::{Builtins, HookEntry};
use cachalot_mcp::settings::{Parsed, ToolsetKind, ToolsetSettings};
use cachalot_model::{Model, ModelSettings, Models, OutputFormat};
use cachalot_prompt::PrefixSettings;
use serde_json::{Value, json};

use super::command::{self, CommandDefinition};
use super::compaction::CompactionSettings;
use super::groups::Groups;
use super::limit::or_unlimited;
use super::review::ReviewDefinition;

/// Default of `max_iterations`: model calls per turn.
pub const DEFAULT_ITERATIONS: u32 = 50;
/// Default of `max_consecutive_tool_calls`: the number of identical consecutive batches of calls at which a
/// turn ends.
pub const DEFAULT_REPETITIONS: u32 = 5;
/// Default of `compaction_threshold`: the fraction of the model's context window at which the conversation is
/// compacted.
pub const DEFAULT_COMPACTION_THRESHOLD: f64 = 0.9;

/// The keys of an agent that belong to no builtin. Open for those that do.
pub const AGENT: &Table = AgentKeys::TABLE;

/// An agent.
#[derive(Debug, Settings)]
#[settings(name = "an agent", open, default, also = KEYS_OF_OTHERS, check = check)]
struct AgentKeys {
    /// A key of `models`, `provider/model`, or a model's own name.
    #[setting(required)]
    model: Option<String>,
    /// What the agent can do; read by agents that delegate to it.
    #[setting(default)]
    description: String,
    /// The first part of the system text.
    instruction: Option<String>,
    /// A file with the instruction, relative to the agent file, or several.
    #[setting(kind = Kind::Custom(&INSTRUCTION_FILE), with = texts)]
    instruction_file: Option<Vec<String>>,
    /// A text that is shown to the user when a chat begins.
    #[setting(default)]
    welcome_message: String,
    /// Its tools.
    #[setting(key = "toolsets", kind = Kind::Custom(&TOOLSETS), with = unread)]
    _toolsets: Option<()>,
    /// Selects only tools that change nothing, in all toolsets; it may give work only to agents of which this is true.
    #[setting(key = "readonly", default = false)]
    read_only: bool,
    /// `true` for all skills, or a list of names and of skills of this file.
    #[setting(key = "skills", kind = Kind::Custom(&SKILLS), with = unread)]
    _skills: Option<()>,
    /// Agents that it may delegate to.
    #[setting(default)]
    sub_agents: SubAgents,
    /// Agents to which it may give the conversation: they continue it in its place.
    handoffs: Vec<Located<String>>,
    /// The agent that continues the conversation after each final answer of this one.
    force_handoff: Option<String>,
    /// Commands by name, which the user sends as `/name`: a message, or `description`, `instruction`, `agent` and `url`.
    #[setting(key = "commands", kind = Kind::Custom(&COMMANDS), with = unread)]
    _commands: Option<()>,
    fallback: Option<Fallback>,
    structured_output: Option<StructuredOutput>,
    /// The maximum model calls of a turn; 0 for no limit.
    #[setting(default = DEFAULT_ITERATIONS as u64)]
    max_iterations: u32,
    /// The number of identical consecutive batches of calls that ends a turn; 0 for no limit.
    #[setting(key = "max_consecutive_tool_calls", default = DEFAULT_REPETITIONS as u64)]
    max_repetitions: u32,
    /// The maximum number of memories that match the user's message and are added to it.
    #[setting(default = 0)]
    recall: u32,
    /// The part of the model's context window from which on the conversation is summarized; 0 for never.
    #[setting(range = 0.0..=1.0, default = DEFAULT_COMPACTION_THRESHOLD)]
    compaction_threshold: f64,
    #[setting(default)]
    compaction: CompactionSettings,
    /// `false`: the conversation is never summarized without a request.
    #[setting(default = true)]
    session_compaction: bool,
    /// Handlers of events.
    #[setting(key = "hooks", kind = Kind::Custom(&HOOKS), with = unread)]
    _hooks: Option<()>,
    /// Background reviews of its conversations.
    review: Option<ReviewDefinition>,
    #[setting(default)]
    prefix: PrefixSettings,
    /// Keys of `toolsets` of the file, which follow its own.
    #[setting(key = "use_toolsets")]
    _use_toolsets: Vec<String>,
    /// Keys of `commands` of the file, whose commands it has, too.
    #[setting(key = "use_commands")]
    _use_commands: Vec<String>,
    /// Keys of `skills` of the file, whose skills it has, too.
    #[setting(key = "use_skills")]
    _use_skills: Vec<String>,
    /// Keys of `rag` of the file, whose documents it may search.
    #[setting(key = "rag")]
    _rag: Vec<String>,
}

/// The reader of a key whose meaning depends on other parts of the file: [`Groups`] and [`read`] read it.
fn unread(_: &Node) -> Option<()> {
    None
}

static TOOLSETS: Custom =
    Custom::shape(|| json!({ "type": "array", "items": { "$ref": "#/$defs/toolset" } }));
static SKILLS: Custom =
    Custom::shape(|| json!({ "anyOf": [{ "type": "boolean" }, { "type": "array" }] }));
static HOOKS: Custom = Custom::shape(|| json!({ "type": "object" }));
static COMMANDS: Custom = Custom::shape(|| {
    let one = json!({ "anyOf": [{ "type": "string" }, CommandDefinition::TABLE.schema(false)] });
    let all = json!({ "type": "object", "additionalProperties": one });
    json!({ "anyOf": [all, { "type": "array", "items": all }] })
});

fn check(keys: &AgentKeys, values: Values<'_>, problems: &mut Vec<Problem>) {
    if keys.max_repetitions == 1 {
        let message =
            "`max_consecutive_tool_calls` must be at least 2, or 0 for no limit, but it is 1";
        let place = values.place("max_consecutive_tool_calls");
        let problem = Problem::new("out-of-range", message).at(&place);
        problems.push(problem.help("write 2 or more, or 0"));
    }
}

/// Keys of docker-agent that change nothing here, or are refused.
#[rustfmt::skip]
const KEYS_OF_OTHERS: &[Parameter] = &[
    key("harness", Kind::Custom(&HARNESS), ""),
    key("safety", Kind::Custom(&SAFETY), ""),
    key("routing", Kind::Custom(&ROUTING), ""),
    no_effect("budgets", "`budget` of the file limits all agents together"),
    no_effect("compaction_model", "write `compaction: {model: …}`"),
    no_effect("inject_memories", "`recall: 5` adds the five memories that match the message"),
    no_effect("max_inject_memories", "write the number in `recall`"),
    no_effect("inject_memories_strategy", "`recall` finds memories by their words"),
    no_effect("tool_choice", "the model decides about its calls: say in the `instruction` when it has to use tools"),
    no_effect("code_mode_tools", "the model calls its tools one by one"),
    no_effect("add_description_parameter", "the approval shows the whole call"),
    no_effect("num_history_items", "the whole conversation is sent, most of which the provider has read before; `compaction_threshold` limits its length"),
    no_effect("max_old_tool_call_tokens", "messages that were sent do not change; `compaction_threshold` limits the length of the conversation"),
    no_effect("max_tool_result_tokens", "the toolsets limit their results: `max_output` of `shell` and of MCP servers; the hook `limit_large_tool_results` limits all of them"),
];

/// The key of an agent that is another program.
static HARNESS: Custom = Custom {
    schema: None,
    check: |entry, problems| {
        problems.push(
            Problem::new("unsupported-harness", "agents that run another coding agent are not supported")
                .at(&entry.key_place)
                .help("give the agent a `model` and the toolsets `filesystem` and `shell`, in place of `harness`"),
        );
    },
};

/// The mode in which calls of tools are approved.
pub(super) static SAFETY: Custom = Custom {
    schema: None,
    check: |entry, problems| {
        // In the other modes, at most as many calls are asked about as here.
        let problem = if entry.value.as_text() == Some("strict") {
            Problem::new("unsupported-safety", "`safety: strict` is not supported")
                .help("write `ask: [\"*\"]` under `permissions` of the file, so that each call is asked about")
        } else {
            Problem::warning("no-effect", "`safety` has no effect")
                .help("calls that may change something are asked about, unless a rule under `permissions` allows them")
        };
        problems.push(problem.at(&entry.key_place));
    },
};

/// The key of an agent whose messages a hook gives to other agents.
static ROUTING: Custom = Custom {
    schema: None,
    check: |entry, problems| {
        problems.push(
            Problem::new("unsupported-routing", "messages are not routed to agents")
                .at(&entry.key_place)
                .help("name the agents in `handoffs`, and describe in the `instruction` which one is for what"),
        );
    },
};

static INSTRUCTION_FILE: Custom = Custom {
    schema: Some(|| json!({ "anyOf": [{ "type": "string" }, Kind::Texts.schema(false)] })),
    check: |entry, problems| match entry.value.as_list() {
        Some(_) => Kind::Texts.check(entry, problems),
        None => Kind::Text.check(entry, problems),
    },
};

/// Returns a text, or the texts of a list.
fn texts(node: &Node) -> Option<Vec<String>> {
    let items = node.as_list().unwrap_or(std::slice::from_ref(node));
    Some(
        items
            .iter()
            .filter_map(Node::as_text)
            .map(str::to_owned)
            .collect(),
    )
}

/// Models that are asked when the agent's own does not answer.
#[derive(Debug, Settings)]
#[settings(name = "`fallback`", also = FALLBACK_OF_OTHERS)]
struct Fallback {
    /// The models, in this order.
    models: Option<Vec<String>>,
    /// The maximum number of retries of a request.
    #[setting(range = 0..=10)]
    retries: Option<u32>,
}

const FALLBACK_OF_OTHERS: &[Parameter] = &[no_effect(
    "cooldown",
    "each request asks the agent's own model first",
)];

/// The answers are JSON that matches a schema.
#[derive(Debug, Settings)]
#[settings(name = "`structured_output`")]
struct StructuredOutput {
    /// The name of the shape.
    #[setting(default = "answer")]
    name: String,
    /// For readers.
    #[setting(key = "description")]
    _description: Option<String>,
    /// Its JSON Schema.
    #[setting(kind = Kind::Object)]
    schema: Value,
    /// Requires the provider to enforce the schema.
    #[setting(default = false)]
    strict: bool,
}

/// An agent that it may delegate to.
#[derive(Debug, Settings)]
#[settings(name = "a sub-agent")]
struct SubAgentKeys {
    /// Its name.
    name: Located<String>,
    /// Runs it on a fork of the conversation.
    #[setting(default = false)]
    fork: bool,
}

/// Distinct sub-agents, with the places of their names.
#[derive(Debug, Default)]
struct SubAgents(Vec<(SubAgent, SourceSpan)>);

/// A list of names, or of `{name: …, fork: true}`.
impl SettingValue for SubAgents {
    const KIND: Kind = Kind::Custom(&SUB_AGENTS);

    fn from_node(node: &Node, _: Kind, problems: &mut Vec<Problem>) -> Option<Self> {
        let Some(items) = node.as_list() else {
            problems.push(node.wrong_type("`sub_agents`", "a list"));
            return None;
        };
        let mut named: Vec<(SubAgent, SourceSpan)> = Vec::new();
        for item in items {
            let Some((sub_agent, place)) = sub_agent(item, problems) else {
                continue;
            };
            match named.iter().find(|(known, _)| known.name == sub_agent.name) {
                None => named.push((sub_agent, place)),
                Some((known, _)) if *known == sub_agent => {}
                Some(_) => {
                    let name = &sub_agent.name;
                    let message = format!("`{name}` is named both with and without `fork: true`");
                    let problem = Problem::new("conflicting-keys", message).at(&place);
                    problems.push(problem.help("name it once"));
                }
            }
        }
        Some(Self(named))
    }
}

static SUB_AGENTS: Custom = Custom::shape(|| {
    let item = json!({ "anyOf": [{ "type": "string" }, SubAgentKeys::TABLE.schema(false)] });
    json!({ "type": "array", "items": item })
});

fn sub_agent(item: &Node, problems: &mut Vec<Problem>) -> Option<(SubAgent, SourceSpan)> {
    if let Some(name) = item.as_text() {
        let name = name.to_owned();
        return Some((SubAgent { name, fork: false }, item.place.clone()));
    }
    if item.as_map().is_none() {
        let expected = "a name, or `{name: …, fork: true}`";
        problems.push(item.wrong_type("an item of `sub_agents`", expected));
        return None;
    }
    let SubAgentKeys { name, fork } = SubAgentKeys::read(item, problems)?;
    let Located { value: name, place } = name;
    Some((SubAgent { name, fork }, place))
}

/// The definition of an agent.
#[derive(Debug, Clone)]
pub struct AgentDefinition {
    /// The agent's name.
    pub name: String,
    /// The model's name: a key of `models:`, `provider/model`, or a model's own name.
    pub model: String,
    /// Settings of the model that the agent sets itself: fallbacks and the form of answers.
    pub model_settings: ModelSettings,
    /// A text for the user at the beginning of a chat; empty if there is none.
    pub welcome_message: String,
    /// The agent's abilities; shown to agents that delegate to it.
    pub description: String,
    /// The first part of the system text.
    pub instruction: String,
    /// The files of `instruction_file`.
    pub instruction_files: Vec<PathBuf>,
    /// Text about the place where it works, such as the instructions of a project; empty if there is none.
    /// No key of a file: the program that loads the definition supplies it. It is the last part of the system
    /// text, and therefore frozen when a session begins.
    pub context: String,
    /// All of its toolsets; `None` if it has none.
    pub toolsets: Option<Parsed<ToolsetSettings>>,
    /// True if all of its tools, and those of the agents to which it gives work, change nothing.
    pub read_only: bool,
    /// Agents to which it may delegate; no duplicates.
    pub sub_agents: Vec<SubAgent>,
    /// Agents to which it may hand off the conversation; no duplicates.
    pub handoffs: Vec<String>,
    /// The agent that continues after each final answer.
    pub force_handoff: Option<String>,
    /// Commands that the user sends by name; distinct names.
    pub commands: Vec<CommandDefinition>,
    /// Maximum model calls per turn.
    pub max_iterations: u32,
    /// Number of identical consecutive batches of calls at which a turn ends.
    pub max_repetitions: u32,
    /// Maximum number of long-term memories that match the user's message and are added to the newest
    /// message.
    pub recall: u32,
    /// The fraction of the model's context window at which the conversation is compacted; 0: never.
    pub compaction_threshold: f64,
    /// The writer of summaries.
    pub compaction: CompactionSettings,
    /// Background reviews of its conversations; `None`: no reviews.
    pub review: Option<ReviewDefinition>,
    /// Lifetime of the prefix in the provider's cache, and the limits for warnings about prefix breaks.
    pub prefix: PrefixSettings,
    /// The agent's own hooks, in the order of the file.
    pub hooks: Vec<HookEntry>,
    /// Other keys, in the order of the file; each belongs to a builtin.
    pub sections: Vec<MapEntry>,
}

impl AgentDefinition {
    /// Finds the model of the agent, with the settings that the agent sets itself.
    ///
    /// # Errors
    /// Those of [`Models::choose`].
    pub fn find_model(&self, models: &Models) -> Result<Model, cachalot_model::Error> {
        let model = models.choose(Some(&self.model), &self.model_settings)?;
        let compacting = if self.compaction.by_provider && self.compaction_threshold > 0.0 {
            model.compacting_above(self.compaction_threshold)
        } else {
            None
        };
        Ok(compacting.unwrap_or(model))
    }

    /// True if another agent may continue its conversation.
    #[must_use]
    pub fn hands_off(&self) -> bool {
        !self.handoffs.is_empty() || self.force_handoff.is_some()
    }

    /// Returns the command of this name.
    #[must_use]
    pub fn command(&self, name: &str) -> Option<&CommandDefinition> {
        self.commands.iter().find(|command| command.name == name)
    }

    /// Returns the folders that its toolsets deny to all tools.
    pub(super) fn denied_folders(&self) -> impl Iterator<Item = &Located<String>> {
        let toolsets = self
            .toolsets
            .iter()
            .flat_map(|toolsets| &toolsets.value.toolsets);
        let folders = toolsets.filter_map(|toolset| match &toolset.kind {
            ToolsetKind::Filesystem(folders) => Some(&folders.denied),
            _ => None,
        });
        folders.flatten()
    }

    /// Describes the agent for the model of another agent, in one line.
    pub(crate) fn described(&self) -> String {
        match self.description.trim() {
            "" => format!("- {}", self.name),
            description => format!("- {}: {description}", self.name),
        }
    }

    /// Returns the value of a key that belongs to a builtin.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<&Node> {
        let entry = self.sections.iter().find(|entry| entry.key == name)?;
        Some(&entry.value)
    }
}

/// An agent to which another one may delegate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubAgent {
    /// The name of the agent.
    pub name: String,
    /// True if it runs on a fork of the delegating agent's conversation; false if it starts with an empty
    /// one.
    pub fork: bool,
}

/// An agent with its places in the file.
pub(super) struct ParsedAgent {
    pub(super) definition: AgentDefinition,
    /// The place of the model name.
    pub(super) model: SourceSpan,
    /// The places of the sub-agent names.
    pub(super) sub_agents: Vec<SourceSpan>,
    /// The places of the names in `handoffs`.
    pub(super) handoffs: Vec<SourceSpan>,
    /// The place of `force_handoff`.
    pub(super) force_handoff: SourceSpan,
    /// The place of `commands`.
    pub(super) commands: SourceSpan,
    /// Valid hook settings that have no effect.
    pub(super) warnings: Vec<Problem>,
}

/// Reads an agent; `None` if it has no model.
pub(super) fn read(
    entry: &MapEntry,
    source: &super::SourceFile<'_>,
    groups: &Groups<'_>,
    toolsets: Option<Parsed<ToolsetSettings>>,
    problems: &mut Vec<Problem>,
) -> Option<ParsedAgent> {
    if entry.value.as_map().is_none() && !entry.value.is_null() {
        let name = &entry.key;
        let problem = entry.value.wrong_type("an agent", "a mapping");
        problems.push(problem.help(format!("write `{name}: {{model: …, instruction: …}}`")));
        return None;
    }
    let values = AGENT.read(&entry.value, problems)?;
    groups.check(&entry.value, problems);
    let keys = AgentKeys::from_values(values, problems)?;
    let mut warnings = Vec::new();
    let model = keys.model.as_deref();
    let model = model.map(|model| first_model(model, &values.place("model"), &mut warnings));
    let (sub_agents, places) = keys.sub_agents.0.into_iter().unzip();
    let (handoffs, handoff_places) = distinct(keys.handoffs).into_iter().unzip();
    let hooks = match values.node("hooks") {
        Some(node) => {
            let file = &node.place.file;
            cachalot_hooks::definition::read(node, file, source.builtins, problems)
        }
        None => Hooks::default(),
    };
    let files = keys.instruction_file.iter().flatten();
    let files: Vec<PathBuf> = files.map(|file| source.directory.join(file)).collect();
    let definition = AgentDefinition {
        name: entry.key.clone(),
        model: model.unwrap_or_default().to_owned(),
        model_settings: model_settings(keys.fallback, keys.structured_output),
        welcome_message: keys.welcome_message,
        description: keys.description,
        instruction: instruction(keys.instruction, &files, values, problems),
        instruction_files: files,
        context: String::new(),
        toolsets,
        read_only: keys.read_only,
        sub_agents,
        handoffs,
        force_handoff: keys.force_handoff,
        commands: command::read(&groups.commands(&entry.value), problems),
        max_iterations: or_unlimited(keys.max_iterations),
        max_repetitions: or_unlimited(keys.max_repetitions),
        recall: keys.recall,
        compaction_threshold: if keys.session_compaction {
            keys.compaction_threshold
        } else {
            0.0
        },
        compaction: keys.compaction,
        review: keys.review.map(|review| {
            review.check_inheritance(values, model, problems);
            review.with_limits()
        }),
        prefix: keys.prefix,
        hooks: hooks.entries,
        sections: sections(values, source.builtins, problems),
    };
    model.map(|_| ParsedAgent {
        definition,
        model: values.place("model"),
        sub_agents: places,
        handoffs: handoff_places,
        force_handoff: values.place("force_handoff"),
        commands: values.place("commands"),
        warnings: [warnings, hooks.warnings].concat(),
    })
}

/// Returns the first model of a list such as `claude,gpt`, between which docker-agent alternates.
fn first_model<'a>(model: &'a str, place: &SourceSpan, warnings: &mut Vec<Problem>) -> &'a str {
    let Some((first, _)) = model.split_once(',') else {
        return model;
    };
    let message = format!("`{model}` names several models, and `{first}` gives all answers");
    warnings.push(Problem::warning("no-effect", message).at(place).help(
        "name one model; `fallback: {models: […]}` names others that answer when it does not",
    ));
    first.trim()
}

/// Returns `fallback` and `structured_output`.
fn model_settings(fallback: Option<Fallback>, output: Option<StructuredOutput>) -> ModelSettings {
    let (fallbacks, retries) =
        fallback.map_or((None, None), |fallback| (fallback.models, fallback.retries));
    ModelSettings {
        fallbacks,
        retries,
        structured_output: output.map(|output| OutputFormat {
            name: output.name,
            schema: output.schema,
            strict: output.strict,
        }),
        ..ModelSettings::default()
    }
}

/// Returns the names without duplicates, with their places.
fn distinct(names: Vec<Located<String>>) -> Vec<(String, SourceSpan)> {
    let mut named: Vec<(String, SourceSpan)> = Vec::new();
    for Located { value, place } in names {
        if !named.iter().any(|(known, _)| *known == value) {
            named.push((value, place));
        }
    }
    named
}

/// Returns the remedy for an unknown key of an agent. Keys of other programs, and those of models, are not near to the
/// right ones.
fn remedy(key: &str, known: &[&str]) -> String {
    match key {
        "tools" | "tool" => {
            "name tools in `toolsets`: `toolsets: [{type: filesystem}, {type: shell}]`".to_owned()
        }
        "prompt" | "system" | "system_prompt" | "role" | "goal" => {
            "write it as `instruction: …`".to_owned()
        }
        "mcp" | "mcps" | "mcpServers" | "mcp_servers" => {
            "name the servers below `mcps:` of the file, and here `toolsets: [{type: mcp, ref: NAME}]`"
                .to_owned()
        }
        _ if ModelSettings::TABLE.parameter(key).is_some() => format!(
            "it is a key of models: `models: {{NAME: {{model: …, {key}: …}}}}`, and `model: NAME` here"
        ),
        _ => did_you_mean(key, known),
    }
}

/// Returns the other keys, which belong to builtins. Reports every other key as unknown.
fn sections(values: Values<'_>, builtins: &Builtins, problems: &mut Vec<Problem>) -> Vec<MapEntry> {
    let mut claimed = Vec::new();
    for entry in values.undeclared() {
        let Some(owner) = builtins.owner(&entry.key) else {
            let own = AGENT.parameters().map(|parameter| parameter.name);
            let known: Vec<&str> = own.chain(builtins.sections()).collect();
            if let Some(key) = nearest(&entry.key, known.iter().copied()) {
                Problem::remove_missing_key(problems, key, &values.mapping().head());
            }
            problems.push(
                Problem::new(
                    "unknown-key",
                    format!("unknown key `{}` in an agent", entry.key),
                )
                .at(&entry.key_place)
                .help(remedy(&entry.key, &known)),
            );
            continue;
        };
        if !entry.value.is_null() {
            owner.check_section(&entry.key, &entry.value, problems);
            claimed.push(entry.clone());
        }
    }
    claimed
}

/// Returns `instruction`, or the content of `instruction_file`.
fn instruction(
    text: Option<String>,
    files: &[PathBuf],
    values: Values<'_>,
    problems: &mut Vec<Problem>,
) -> String {
    if values.node("instruction_file").is_none() {
        return text.unwrap_or_default();
    }
    let place = values.place("instruction_file");
    if text.is_some() {
        problems.push(
            Problem::new(
                "conflicting-keys",
                "an agent has either an `instruction` or an `instruction_file`",
            )
            .at(&place)
            .help("leave one of them out"),
        );
    }
    let texts = files.iter().map(|path| {
        std::fs::read_to_string(path).unwrap_or_else(|error| {
            problems.push(
                Problem::new(
                    "unreadable-instruction",
                    format!("{}: {error}", path.display()),
                )
                .at(&place)
                .help("the path is relative to the agent file, and the file is UTF-8 text"),
            );
            String::new()
        })
    });
    let texts: Vec<String> = texts.collect();
    match texts.as_slice() {
        [text] => text.clone(),
        texts => texts
            .iter()
            .map(|text| text.trim_end())
            .collect::<Vec<_>>()
            .join("\n\n"),
    }
}
