//! The definition of an agent.

use std::path::{Path, PathBuf};

use cachalot_core::config::{
    Custom, Literal, Parameter, ParameterKind as Kind, Settings, Table, Values, key, no_effect,
    required, section,
};
use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::{MapEntry, Node};
use cachalot_core::{Problem, SourceSpan};
use cachalot_hooks::source::ParsedHooks as Hooks;
use cachalot_hooks::{Builtins, HookEntry};
use cachalot_model::{Model, ModelSettings, Models, OutputFormat};
use cachalot_prompt::PrefixSettings;
use serde_json::{Value, json};

use super::command::{self, COMMAND, CommandDefinition};
use super::compaction::CompactionSettings;
use super::groups::Groups;
use super::limit::limit;
use super::review::{self, REVIEW, ReviewDefinition};

/// Default of `max_iterations`: model calls per turn.
pub const DEFAULT_ITERATIONS: u32 = 50;
/// Default of `max_consecutive_tool_calls`: the number of identical consecutive batches of calls at which a
/// turn ends.
pub const DEFAULT_REPETITIONS: u32 = 5;
/// Default of `compaction_threshold`: the fraction of the model's context window at which the conversation is
/// compacted.
pub const DEFAULT_COMPACTION_THRESHOLD: f64 = 0.9;

/// No limit above this number.
const COUNT: Kind = Kind::IntegerIn(0, u32::MAX as u64);

/// The keys of an agent that belong to no builtin. Open for those that do.
pub static AGENT: Table = Table::new(
    "an agent",
    "An agent.",
    &[&[
        required("model", Kind::Text, "A key of `models`, `provider/model`, or a model's own name."),
        key("description", Kind::Text, "What the agent can do; read by agents that delegate to it."),
        key("instruction", Kind::Text, "The first part of the system text."),
        key("instruction_file", Kind::Custom(&INSTRUCTION_FILE), "A file with the instruction, relative to the agent file, or several."),
        key("welcome_message", Kind::Text, "A text that is shown to the user when a chat begins."),
        key(
            "toolsets",
            Kind::Custom(&Custom::shape(
                || json!({ "type": "array", "items": { "$ref": "#/$defs/toolset" } }),
            )),
            "Its tools.",
        ),
        key("readonly", Kind::Boolean, "Selects only tools that change nothing, in all toolsets; it may give work only to agents of which this is true.").default(Literal::Boolean(false)),
        key("skills", Kind::Custom(&Custom::shape(skills_schema)), "`true` for all skills, or a list of names and of skills of this file."),
        key(
            "sub_agents",
            Kind::Custom(&Custom::shape(|| {
                let item = json!({ "anyOf": [{ "type": "string" }, SUB_AGENT.schema(false)] });
                json!({ "type": "array", "items": item })
            })),
            "Agents that it may delegate to.",
        ),
        key("handoffs", Kind::Texts, "Agents to which it may give the conversation: they continue it in its place."),
        key("force_handoff", Kind::Text, "The agent that continues the conversation after each final answer of this one."),
        key("commands", Kind::Custom(&Custom::shape(commands_schema)), "Commands by name, which the user sends as `/name`: a message, or `description`, `instruction`, `agent` and `url`."),
        section("fallback", Fallback::TABLE),
        section("structured_output", StructuredOutput::TABLE),
        key("max_iterations", COUNT, "The maximum model calls of a turn; 0 for no limit.")
            .default(Literal::Integer(DEFAULT_ITERATIONS as u64)),
        key("max_consecutive_tool_calls", COUNT, "The number of identical consecutive batches of calls that ends a turn; 0 for no limit.")
            .default(Literal::Integer(DEFAULT_REPETITIONS as u64)),
        key("recall", COUNT, "The maximum number of memories that match the user's message and are added to it.")
            .default(Literal::Integer(0)),
        key("compaction_threshold", Kind::NumberIn(0.0, 1.0), "The part of the model's context window from which on the conversation is summarized; 0 for never.")
            .default(Literal::Number(DEFAULT_COMPACTION_THRESHOLD)),
        section("compaction", CompactionSettings::TABLE),
        key("session_compaction", Kind::Boolean, "`false`: the conversation is never summarized without a request.").default(Literal::Boolean(true)),
        key(
            "hooks",
            Kind::Custom(&Custom::shape(|| json!({ "type": "object" }))),
            "Handlers of events.",
        ),
        key("review", Kind::Table(&REVIEW), "Background reviews of its conversations."),
        section("prefix", PrefixSettings::TABLE),
        key("use_toolsets", Kind::Texts, "Keys of `toolsets` of the file, which follow its own."),
        key("use_commands", Kind::Texts, "Keys of `commands` of the file, whose commands it has, too."),
        key("use_skills", Kind::Texts, "Keys of `skills` of the file, whose skills it has, too."),
    ], KEYS_OF_OTHERS],
)
.open();

/// Keys of docker-agent that change nothing here, or are refused.
#[rustfmt::skip]
const KEYS_OF_OTHERS: &[Parameter] = &[
    key("harness", Kind::Custom(&HARNESS), ""),
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

static INSTRUCTION_FILE: Custom = Custom {
    schema: Some(|| json!({ "anyOf": [{ "type": "string" }, Kind::Texts.schema(false)] })),
    check: |entry, problems| match entry.value.as_list() {
        Some(_) => Kind::Texts.check(entry, problems),
        None => Kind::Text.check(entry, problems),
    },
};

fn commands_schema() -> Value {
    let one = json!({ "anyOf": [{ "type": "string" }, COMMAND.schema(false)] });
    let all = json!({ "type": "object", "additionalProperties": one });
    json!({ "anyOf": [all, { "type": "array", "items": all }] })
}

fn skills_schema() -> Value {
    json!({ "anyOf": [{ "type": "boolean" }, { "type": "array" }] })
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

#[rustfmt::skip]
static SUB_AGENT: Table = Table::new(
    "a sub-agent",
    "An agent that it may delegate to.",
    &[&[
        required("name", Kind::Text, "Its name."),
        key("fork", Kind::Boolean, "Runs it on a fork of the conversation.").default(Literal::Boolean(false)),
    ]],
);

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
    /// `toolsets:`, parsed when the toolboxes are created.
    pub toolsets: Option<Node>,
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
    problems: &mut Vec<Problem>,
) -> Option<ParsedAgent> {
    let values = AGENT.read(&entry.value, problems)?;
    groups.check(&entry.value, problems);
    let mut warnings = Vec::new();
    let model = values.text("model");
    let model = model.map(|model| first_model(model, &values.place("model"), &mut warnings));
    let (sub_agents, places) = sub_agents(values, problems).into_iter().unzip();
    let (handoffs, handoff_places) = handoffs(values).into_iter().unzip();
    let hooks = match values.node("hooks") {
        Some(node) => {
            let file = &node.place.file;
            cachalot_hooks::definition::read(node, file, source.builtins, problems)
        }
        None => Hooks::default(),
    };
    let definition = AgentDefinition {
        name: entry.key.clone(),
        model: model.unwrap_or_default().to_owned(),
        model_settings: model_settings(values, problems),
        welcome_message: values.string("welcome_message").unwrap_or_default(),
        description: values.string("description").unwrap_or_default(),
        instruction: instruction(values, source.directory, problems),
        instruction_files: instruction_files(values, source.directory),
        context: String::new(),
        toolsets: groups.toolsets(&entry.value),
        read_only: values.boolean("readonly").unwrap_or_default(),
        sub_agents,
        handoffs,
        force_handoff: values.string("force_handoff"),
        commands: command::read(&groups.commands(&entry.value), problems),
        max_iterations: limit(values, "max_iterations", 1, problems),
        max_repetitions: limit(values, "max_consecutive_tool_calls", 2, problems),
        recall: values.integer("recall").unwrap_or_default(),
        compaction_threshold: match values.boolean("session_compaction") {
            Some(false) => 0.0,
            _ => values
                .number("compaction_threshold")
                .unwrap_or(DEFAULT_COMPACTION_THRESHOLD),
        },
        compaction: values.setting("compaction", problems).unwrap_or_default(),
        review: values
            .table("review")
            .map(|review| review::read(review, model, problems)),
        prefix: values.setting("prefix", problems).unwrap_or_default(),
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

/// Reads `sub_agents`: a list of distinct names, or of `{name: …, fork: true}`, with their places.
fn sub_agents(values: Values<'_>, problems: &mut Vec<Problem>) -> Vec<(SubAgent, SourceSpan)> {
    let mut named: Vec<(SubAgent, SourceSpan)> = Vec::new();
    let node = values.node("sub_agents");
    if let Some(node) = node.filter(|node| node.as_list().is_none()) {
        problems.push(node.wrong_type("`sub_agents`", "a list"));
    }
    for item in node.and_then(Node::as_list).unwrap_or_default() {
        let Some((sub_agent, place)) = sub_agent(item, problems) else {
            continue;
        };
        match named.iter().find(|(known, _)| known.name == sub_agent.name) {
            None => named.push((sub_agent, place)),
            Some((known, _)) if *known == sub_agent => {}
            Some(_) => problems.push(
                Problem::new(
                    "conflicting-keys",
                    format!(
                        "`{}` is named both with and without `fork: true`",
                        sub_agent.name
                    ),
                )
                .at(&place)
                .help("name it once"),
            ),
        }
    }
    named
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
fn model_settings(values: Values<'_>, problems: &mut Vec<Problem>) -> ModelSettings {
    let fallback: Option<Fallback> = values.setting("fallback", problems);
    let output: Option<StructuredOutput> = values.setting("structured_output", problems);
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

/// Reads `handoffs`: distinct names, with their places.
fn handoffs(values: Values<'_>) -> Vec<(String, SourceSpan)> {
    let mut named: Vec<(String, SourceSpan)> = Vec::new();
    for item in values.list("handoffs").unwrap_or_default() {
        let Some(name) = item.as_text() else {
            continue;
        };
        if !named.iter().any(|(known, _)| known == name) {
            named.push((name.to_owned(), item.place.clone()));
        }
    }
    named
}

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
    let values = SUB_AGENT.read(item, problems)?;
    let sub_agent = SubAgent {
        name: values.string("name")?,
        fork: values.boolean("fork").unwrap_or_default(),
    };
    Some((sub_agent, values.place("name")))
}

/// Returns the other keys, which belong to builtins. Reports every other key as unknown.
fn sections(values: Values<'_>, builtins: &Builtins, problems: &mut Vec<Problem>) -> Vec<MapEntry> {
    let mut claimed = Vec::new();
    for entry in values.undeclared() {
        let Some(owner) = builtins.owner(&entry.key) else {
            let own = AGENT.parameters().map(|parameter| parameter.name);
            let known: Vec<&str> = own.chain(builtins.sections()).collect();
            problems.push(
                Problem::new(
                    "unknown-key",
                    format!("unknown key `{}` in an agent", entry.key),
                )
                .at(&entry.key_place)
                .help(did_you_mean(&entry.key, &known)),
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

/// Returns the paths in `instruction_file`.
fn instruction_files(values: Values<'_>, directory: &Path) -> Vec<PathBuf> {
    let node = values.node("instruction_file");
    let files = node.map(|node| node.as_list().unwrap_or(std::slice::from_ref(node)));
    let files = files.unwrap_or_default().iter().filter_map(Node::as_text);
    files.map(|file| directory.join(file)).collect()
}

/// Returns `instruction`, or the content of `instruction_file`.
fn instruction(values: Values<'_>, directory: &Path, problems: &mut Vec<Problem>) -> String {
    let text = values.string("instruction");
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
    let files = instruction_files(values, directory).into_iter();
    let texts = files.map(|path| {
        std::fs::read_to_string(&path).unwrap_or_else(|error| {
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
