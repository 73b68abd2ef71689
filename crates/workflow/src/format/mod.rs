//! Reading, checking and resolving of agent files.
//!
//! [`load`] reports all problems of a file at once. The agent that it returns runs without further name
//! lookups.

mod agent;
mod arguments;
mod calls;
pub mod codes;
mod config;
mod cycles;
mod flow;
mod interrupts;
mod llm_settings;
mod meeting;
mod misplaced;
mod nodes;
mod reflection;
mod schema;
mod settings;
mod work;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use cachalot_agent::definition::Builtins;
use cachalot_agent::{Team, Written};
use cachalot_core::Problem;
use cachalot_core::tree::{self, Entry, Kind, Section};
use cachalot_model::budget::Budget;
use serde_json::{Map, Value};

use crate::actions::{Registry, unknown_programs};
use crate::template::Templates;
use nodes::{END, Rank, Reader, START};

pub use agent::{Agent, Block, Language};
pub(crate) use agent::{
    Branch, Evaluator, FanOut, Flow, Mode, Node, OnError, Output, Reflection, Retries, Rule,
    Target, Work,
};
pub use arguments::check_arguments;
pub use schema::schema;
pub use settings::{
    BACKENDS_OF_OTHERS, CacheSettings, LedgerSettings, MemorySettings, ScriptSettings, Settings,
    read_of_team,
};

/// Sections that other runtimes support and this one does not.
const UNSUPPORTED: &[&str] = &[
    "imports",
    "data",
    "input_schema",
    "output_schema",
    "extends",
    "overlay",
];

/// Help text that names the actions that would read a section.
const OF_VALIDATION: &str = "only the actions `validate.*` of the reference read it";

/// Sections that change no result.
const NO_EFFECT: &[(&str, &str)] = &[
    ("endpoint", "a file is run by `cachalot run`"),
    (
        "observability",
        "`cachalot run --ndjson` writes the events of a run",
    ),
    ("extraction_schema", OF_VALIDATION),
    ("validation_constraints", OF_VALIDATION),
    ("semantic_probes", OF_VALIDATION),
    ("validation_logging", OF_VALIDATION),
    ("checkpoint", "a run that ended begins anew"),
];

/// Loads an agent file from its text.
///
/// - `file`: the file name to show in problems.
/// - `environment`: the variables for `${NAME}` in the settings.
/// - `builtins`: the builtins that hooks of agents may name.
///
/// # Errors
/// All problems and warnings of the file, in the order of the file.
pub fn load(
    file: &str,
    text: &str,
    registry: &Registry,
    environment: &BTreeMap<String, String>,
    builtins: &Builtins,
) -> Result<Agent, Vec<Problem>> {
    load_for(file, text, registry, environment, builtins, None)
}

/// Loads an agent file like [`load`]. If `runner` is set, it runs the Python code that has no `language`
/// of its own and overrides `settings.python.runner`.
///
/// # Errors
/// The same as those of [`load`].
pub fn load_for(
    file: &str,
    text: &str,
    registry: &Registry,
    environment: &BTreeMap<String, String>,
    builtins: &Builtins,
    runner: Option<Language>,
) -> Result<Agent, Vec<Problem>> {
    let tree = tree::parse(file, text)?;
    let mut problems = Vec::new();
    let surroundings = (registry, environment, builtins, runner);
    let agent = read(&tree, text, surroundings, &mut problems);
    problems.sort_by_key(|problem| problem.place.as_ref().map(|place| place.start));
    match agent {
        Some(agent) if problems.iter().all(|problem| problem.is_warning) => Ok(Agent {
            warnings: problems,
            ..agent
        }),
        _ => Err(problems),
    }
}

/// Inputs of reading a file besides its text, as passed to [`load_for`].
type Surroundings<'a> = (
    &'a Registry,
    &'a BTreeMap<String, String>,
    &'a Builtins,
    Option<Language>,
);

fn read(
    tree: &tree::Node,
    text: &str,
    (registry, environment, builtins, runner): Surroundings<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Agent> {
    let mut section = Section::of(tree, "an agent file", problems)?;
    let name = section.text("name", problems).map(str::to_owned);
    let description = section.text("description", problems).map(str::to_owned);
    let version = section
        .present("version")
        .map(|version| match version.to_value() {
            Value::String(text) => text,
            other => other.to_string(),
        });
    let variables = mapping(section.map("variables", problems));
    let initial_state = mapping(section.map("initial_state", problems));
    section.claim("state_schema");
    let mut approvals = config::read(&mut section, problems);
    let written_settings = section.present("settings");
    let mut settings = match written_settings.map(llm_settings::with_token_key) {
        Some(node) => settings::read(
            &tree::expand(&node, Some(text), environment, problems),
            problems,
        ),
        None => Settings::default(),
    };
    problems.extend(unknown_programs(tree, &settings.value));
    let written = Written {
        text,
        directory: &directory_of(tree),
        environment,
        builtins,
    };
    let team = match section.has("agents") {
        true => Some(Team::read(&mut section, &written, problems)),
        false => {
            without_agents(&mut section, problems);
            None
        }
    };
    let models = match &team {
        Some(team) => team.as_ref().map(|team| team.configured.clone()),
        None => Some(written.configured(&mut section, problems)),
    };
    let budget = match &team {
        Some(team) => team.as_ref().map(|team| team.budget.clone()),
        None => section
            .section("budget", "`budget`", problems)
            .map(|budget| Budget::read(budget, problems)),
    };
    let nodes = nodes_of(&mut section, team.is_some(), problems);
    problems.extend(llm_settings::check_local(
        written_settings,
        section.node("nodes"),
    ));
    if team.is_none() {
        settings
            .memory
            .leave_out_unused(section.node("nodes"), problems);
    }
    let edges = section.node("edges");
    settings::unsupported(
        &mut section,
        UNSUPPORTED,
        codes::UNSUPPORTED_SECTION,
        "an agent file",
        problems,
    );
    approvals.extend(interrupts::of_list(&mut section, "an agent file", problems));
    settings::without_effect(&mut section, NO_EFFECT, "an agent file", problems);
    section.finish(problems);

    let templates = Templates::new(text, variables.keys().map(String::as_str));
    let names = names(nodes, problems);
    let mut reader = Reader {
        source: text,
        registry,
        templates: &templates,
        names: &names,
        variables: &variables,
        runner: runner
            .or(settings.python.runner)
            .unwrap_or(Language::Python),
        approvals,
        problems: std::mem::take(problems),
    };
    let read: Vec<Option<Node>> = nodes
        .iter()
        .map(|node| reader.node(node, Rank::Node, None))
        .collect();
    let (start, flows) = reader.flows(nodes, edges);
    *problems = reader.problems;
    let approvals = interrupts::resolve(reader.approvals, &names, problems);
    problems.extend(interrupts::warning(&approvals));
    misplaced::explain(nodes, problems);
    let nodes = read
        .into_iter()
        .zip(flows)
        .map(|(node, flow)| node.map(|node| Node { flow, ..node }))
        .collect::<Option<Vec<Node>>>()?;
    problems.extend(cycles::problems(&start, &nodes));
    let team = team.flatten().map(|mut team| {
        team.configured.defaults = settings.llm.clone();
        Arc::new(team)
    });
    Some(Agent {
        name,
        description,
        version,
        variables,
        models: models
            .unwrap_or_default()
            .with_defaults(settings.llm.clone()),
        budget: budget.unwrap_or_default(),
        team,
        settings,
        initial_state,
        templates,
        nodes,
        start,
        approvals,
        warnings: Vec::new(),
    })
}

/// Claims the required section `nodes`.
fn nodes_of<'a>(
    section: &mut Section<'a>,
    has_agents: bool,
    problems: &mut Vec<Problem>,
) -> &'a [tree::Node] {
    let missing = |message: &str| Problem::new(codes::MISSING_KEY, message);
    let Some(entry) = section.entry("nodes") else {
        problems.push(match has_agents {
            true => missing("an agent file needs `nodes` to be run")
                .at(section.place())
                .help("to talk to its agents, use `cachalot chat`; to run them, add a node with `uses: agent.run`"),
            false => missing("an agent file needs `nodes`").at(section.place()).help(A_NODE),
        });
        return &[];
    };
    match &entry.value.kind {
        Kind::List(nodes) if !nodes.is_empty() => nodes,
        Kind::Null => {
            problems.push(
                missing("`nodes` is empty")
                    .at(&entry.key_place)
                    .help(A_NODE),
            );
            &[]
        }
        Kind::List(_) => {
            problems.push(
                missing("`nodes` is empty")
                    .at(&entry.value.place)
                    .help(A_NODE),
            );
            &[]
        }
        _ => {
            let problem = entry.value.wrong_type("`nodes`", "a list");
            problems.push(problem.help(A_NODE));
            &[]
        }
    }
}

/// Help text for a file without nodes.
const A_NODE: &str = "write the nodes below `nodes:` as a list, each with a name and what it does: `- {name: greet, run: 'return {\"text\": 1}'}`";

/// Reports sections that only agents use as problems if the file has no agents.
fn without_agents(section: &mut Section<'_>, problems: &mut Vec<Problem>) {
    section.claim("agents");
    for key in ["mcps", "tools", "permissions"] {
        if let Some(entry) = section.entry(key) {
            problems.push(
                Problem::new(
                    codes::NO_AGENTS,
                    format!("`{key}` is for agents, and there are none"),
                )
                .at(&entry.key_place)
                .help("add `agents:`, or take it out: it would have no effect"),
            );
        }
    }
}

/// Returns the directory of the file, derived from its name.
fn directory_of(tree: &tree::Node) -> PathBuf {
    Path::new(&*tree.place.file)
        .parent()
        .map(Path::to_owned)
        .unwrap_or_default()
}

fn mapping(entries: Option<&[Entry]>) -> Map<String, Value> {
    entries
        .unwrap_or_default()
        .iter()
        .map(|entry| (entry.key.clone(), entry.value.to_value()))
        .collect()
}

/// Returns the names of the nodes in order, with an empty name for a node without one. Reports reserved
/// names and duplicates.
fn names(nodes: &[tree::Node], problems: &mut Vec<Problem>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for node in nodes {
        let written = node.get("name");
        let name = written.and_then(tree::Node::as_text).unwrap_or_default();
        if let Some(written) = written.filter(|_| !name.is_empty()) {
            if [START, END].contains(&name) {
                problems.push(
                    Problem::new(
                        codes::BAD_VALUE,
                        format!("a node cannot be called `{name}`"),
                    )
                    .at(&written.place)
                    .help("the name stands for where a run begins or ends"),
                );
            } else if names.iter().any(|known| known == name) {
                problems.push(
                    Problem::new(
                        codes::DUPLICATE_NODE,
                        format!("a second node is called `{name}`"),
                    )
                    .at(&written.place)
                    .help("give it another name"),
                );
            }
        }
        names.push(name.to_owned());
    }
    names
}
