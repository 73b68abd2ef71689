//! The definition of an agent.

use std::path::Path;

use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::{MapEntry, Node, Section};
use cachalot_core::{Problem, SourceSpan};
use cachalot_hooks::source::ParsedHooks as Hooks;
use cachalot_hooks::{Builtins, HookEntry};
use cachalot_prompt::PrefixSettings;

use super::review::{self, ReviewDefinition};

/// Default of `max_iterations`: model calls per turn.
pub const DEFAULT_ITERATIONS: u32 = 50;
/// Default of `max_consecutive_tool_calls`: the number of identical consecutive batches of calls at which a
/// turn ends.
pub const DEFAULT_REPETITIONS: u32 = 5;
/// Default of `compaction_threshold`: the fraction of the model's context window at which the conversation is
/// compacted.
pub const DEFAULT_COMPACTION_THRESHOLD: f64 = 0.9;

/// The keys of an agent that belong to no builtin.
const KEYS: [&str; 13] = [
    "model",
    "description",
    "instruction",
    "instruction_file",
    "toolsets",
    "sub_agents",
    "max_iterations",
    "max_consecutive_tool_calls",
    "recall",
    "compaction_threshold",
    "hooks",
    "review",
    "prefix",
];

/// The definition of an agent.
#[derive(Debug, Clone)]
pub struct AgentDefinition {
    /// The agent's name.
    pub name: String,
    /// The model's name: a key of `models:`, `provider/model`, or a model's own name.
    pub model: String,
    /// The agent's abilities; shown to agents that delegate to it.
    pub description: String,
    /// The first part of the system text.
    pub instruction: String,
    /// `toolsets:`, parsed when the toolboxes are created.
    pub toolsets: Option<Node>,
    /// Agents to which it may delegate; no duplicates.
    pub sub_agents: Vec<SubAgent>,
    /// Maximum model calls per turn.
    pub max_iterations: u32,
    /// Number of identical consecutive batches of calls at which a turn ends.
    pub max_repetitions: u32,
    /// Maximum number of long-term memories that match the user's message and are added to the newest
    /// message.
    pub recall: u32,
    /// The fraction of the model's context window at which the conversation is compacted; 0: never.
    pub compaction_threshold: f64,
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
    /// Valid hook settings that have no effect.
    pub(super) warnings: Vec<Problem>,
}

/// Reads an agent; `None` if it has no model.
pub(super) fn read(
    entry: &MapEntry,
    source: &super::SourceFile<'_>,
    problems: &mut Vec<Problem>,
) -> Option<ParsedAgent> {
    let mut section = Section::from_node(&entry.value, "an agent", problems)?;
    let model = section.required_text("model", problems);
    let (sub_agents, places) = sub_agents(&mut section, problems).into_iter().unzip();
    let hooks = hooks(&mut section, source.builtins, problems);
    let definition = AgentDefinition {
        name: entry.key.clone(),
        model: model.unwrap_or_default().to_owned(),
        description: section
            .text("description", problems)
            .unwrap_or_default()
            .to_owned(),
        instruction: instruction(&mut section, source.directory, problems),
        toolsets: section.present("toolsets").cloned(),
        sub_agents,
        max_iterations: limit(&mut section, "max_iterations", 1, problems)
            .unwrap_or(DEFAULT_ITERATIONS),
        max_repetitions: limit(&mut section, "max_consecutive_tool_calls", 2, problems)
            .unwrap_or(DEFAULT_REPETITIONS),
        recall: section
            .integer("recall", 0..=MAX_RECALL, problems)
            .and_then(|number| u32::try_from(number).ok())
            .unwrap_or(0),
        compaction_threshold: threshold(&mut section, problems),
        review: review::read(&mut section, model, problems),
        prefix: match section.present("prefix") {
            Some(node) => PrefixSettings::read(node, problems),
            None => PrefixSettings::default(),
        },
        hooks: hooks.entries,
        sections: sections(&mut section, source.builtins, problems),
    };
    let place = section.node("model").map(|node| node.place.clone());
    section.finish(problems);
    model.map(|_| ParsedAgent {
        definition,
        model: place.unwrap_or_else(|| entry.key_place.clone()),
        sub_agents: places,
        warnings: hooks.warnings,
    })
}

const MAX_RECALL: u64 = u32::MAX as u64;

/// Claims `key`: a limit of at least `min`, or 0 for none.
pub(super) fn limit(
    section: &mut Section<'_>,
    key: &'static str,
    min: u32,
    problems: &mut Vec<Problem>,
) -> Option<u32> {
    let number = section.integer(key, 0..=MAX_RECALL, problems)?;
    match u32::try_from(number).ok()? {
        0 => Some(u32::MAX),
        limit if limit >= min => Some(limit),
        limit => {
            let mut problem = Problem::new(
                "out-of-range",
                format!("`{key}` must be at least {min}, or 0 for no limit, but it is {limit}"),
            )
            .help(format!("write {min} or more, or 0"));
            if let Some(node) = section.node(key) {
                problem = problem.at(&node.place);
            }
            problems.push(problem);
            None
        }
    }
}

/// Claims `sub_agents`: a list of distinct names, or of `{name: …, fork: true}`, with their places.
fn sub_agents(
    section: &mut Section<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<(SubAgent, SourceSpan)> {
    let mut named: Vec<(SubAgent, SourceSpan)> = Vec::new();
    for item in section.list("sub_agents", problems).unwrap_or_default() {
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
    let mut section = Section::from_node(item, "a sub-agent", problems)?;
    let name = section.required_text("name", problems).map(str::to_owned);
    let fork = section.boolean("fork", problems).unwrap_or(false);
    let place = section.node("name").map(|node| node.place.clone());
    section.finish(problems);
    Some((SubAgent { name: name?, fork }, place?))
}

/// Claims `compaction_threshold`.
fn threshold(section: &mut Section<'_>, problems: &mut Vec<Problem>) -> f64 {
    let key = "compaction_threshold";
    let Some(part) = section.number(key, problems) else {
        return DEFAULT_COMPACTION_THRESHOLD;
    };
    if (0.0..=1.0).contains(&part) {
        return part;
    }
    let problem = Problem::new(
        "out-of-range",
        format!("`{key}` must be from 0 to 1, but it is {part}"),
    )
    .help("write the part of what the model takes (0.9), or 0 for never");
    problems.push(match section.node(key) {
        Some(node) => problem.at(&node.place),
        None => problem,
    });
    DEFAULT_COMPACTION_THRESHOLD
}

/// Claims `hooks`.
fn hooks(section: &mut Section<'_>, builtins: &Builtins, problems: &mut Vec<Problem>) -> Hooks {
    let Some(node) = section.present("hooks") else {
        return Hooks::default();
    };
    cachalot_hooks::definition::read(node, &node.place.file, builtins, problems)
}

/// Claims the remaining keys, which belong to builtins. Reports every other key as unknown.
fn sections(
    section: &mut Section<'_>,
    builtins: &Builtins,
    problems: &mut Vec<Problem>,
) -> Vec<MapEntry> {
    let mut claimed = Vec::new();
    for entry in section.take_rest() {
        let Some(owner) = builtins.owner(&entry.key) else {
            let known: Vec<&str> = KEYS.into_iter().chain(builtins.sections()).collect();
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

/// Claims `instruction`, or `instruction_file` and reads that file.
fn instruction(section: &mut Section<'_>, directory: &Path, problems: &mut Vec<Problem>) -> String {
    let text = section.text("instruction", problems);
    let Some(node) = section.present("instruction_file") else {
        return text.unwrap_or_default().to_owned();
    };
    let Some(file) = node.as_text() else {
        problems.push(node.wrong_type("`instruction_file`", "text, the path of a file"));
        return String::new();
    };
    if text.is_some() {
        problems.push(
            Problem::new(
                "conflicting-keys",
                "an agent has either an `instruction` or an `instruction_file`",
            )
            .at(&node.place)
            .help("leave one of them out"),
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
            .help("the path is relative to the agent file, and the file is UTF-8 text"),
        );
        String::new()
    })
}
