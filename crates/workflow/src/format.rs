//! Reading, checking and resolving of agent files.
//!
//! [`load`] reports all problems of a file at once. The agent that it returns runs without further name
//! lookups.

mod agent;
mod calls;
mod config;
mod cycles;
mod extraction;
mod file_keys;
mod flow;
mod indentation;
mod interrupts;
mod language;
mod llm_settings;
mod node_keys;
mod nodes;
mod outer_file;
mod reflection;
mod schema;
mod settings;
mod subgraph;
mod work;

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use cachalot_agent::definition::Builtins;
use cachalot_agent::{SourceFile, Team};
use cachalot_core::Problem;
use cachalot_core::config::Settings as _;
use cachalot_core::suggest::nearest;
use cachalot_core::tree::{self, MapEntry, NodeKind, Section};
use cachalot_mcp::settings::read_servers;
use cachalot_model::budget::Budget;
use cachalot_operation::Permissions;
use serde_json::{Map, Value};

use crate::actions::{requested_efforts, tool, unknown_programs};
use crate::template::Templates;
use crate::{Registry, codes};
use nodes::{END, NodeLevel, NodeReader, START};
use outer_file::OuterFile;

pub use agent::{Agent, InlineCode};
pub(crate) use agent::{
    Branch, ErrorMode, Evaluator, FanOut, Flow, Node, OnError, Output, Reflection, Retries, Rule,
    Subgraph, Target, Work,
};
pub use file_keys::FILE;
pub use language::{Language, PythonChoice, PythonRunner};
pub use llm_settings::ShellProvider;
pub use node_keys::OnErrorKeys;
pub use schema::schema;
pub use settings::{
    CacheSettings, HttpSettings, LedgerSettings, LlamaExtractSettings, MemorySettings,
    ParallelSettings, Python3Settings, PythonSettings, ScriptLimits, Settings, TeamSettings,
    UNSUPPORTED_BACKENDS, WebSearchSettings, WebSettings, read_team_settings,
};

/// Loads an agent file from its text.
///
/// - `file`: the path of the file, to show in problems. Paths in the file are relative to its directory.
/// - `environment`: the variables for `${NAME}` in the settings.
/// - `builtins`: the builtins that hooks of agents may name.
///
/// Reads the files that the file runs as subgraphs, too.
///
/// # Errors
/// All problems and warnings of the file, in the order of the file, then those of its subgraphs.
pub fn load(
    file: &str,
    text: &str,
    registry: &Registry,
    environment: &BTreeMap<String, String>,
    builtins: &Builtins,
) -> Result<Agent, Vec<Problem>> {
    let python = PythonChoice::EMBEDDED;
    load_with_python(file, text, registry, environment, builtins, python)
}

/// Loads an agent file like [`load`], for a runner of the Python code that has no `language` of its own.
///
/// # Errors
/// The same as those of [`load`].
pub fn load_with_python(
    file: &str,
    text: &str,
    registry: &Registry,
    environment: &BTreeMap<String, String>,
    builtins: &Builtins,
    python: PythonChoice<'_>,
) -> Result<Agent, Vec<Problem>> {
    let context = LoadContext {
        registry,
        environment,
        builtins,
        python,
        outer: None,
        loaded: &Cell::new(0),
    };
    load_with_context(file, text, context)
}

fn load_with_context(
    file: &str,
    text: &str,
    context: LoadContext<'_>,
) -> Result<Agent, Vec<Problem>> {
    let tree = tree::parse(file, text)?;
    let mut found = Vec::new();
    let agent = read(&tree, text, context, &mut found);
    let mut problems: Vec<Problem> = Vec::new();
    let mut known = HashSet::new();
    for problem in found {
        // Settings that a subgraph shares are read with each file.
        if known.insert((problem.is_warning, problem.to_string())) {
            problems.push(problem);
        }
    }
    sort(&mut problems, file);
    match agent {
        Some(agent) if problems.iter().all(|problem| problem.is_warning) => Ok(Agent {
            warnings: problems,
            ..agent
        }),
        _ => Err(problems),
    }
}

/// Sorts problems by their position in `file`. Those in other files come last, in the order found.
pub fn sort(problems: &mut [Problem], file: &str) {
    problems.sort_by_key(|problem| {
        let place = problem.place.as_ref();
        place.map(|place| {
            if &*place.file == file {
                (false, place.start)
            } else {
                (true, 0)
            }
        })
    });
}

/// Inputs of reading a file besides its text.
#[derive(Clone, Copy)]
struct LoadContext<'a> {
    registry: &'a Registry,
    environment: &'a BTreeMap<String, String>,
    builtins: &'a Builtins,
    /// The runner of Python.
    python: PythonChoice<'a>,
    /// The file that runs this one as a subgraph.
    outer: Option<&'a OuterFile<'a>>,
    /// The number of subgraph files that were loaded so far.
    loaded: &'a Cell<usize>,
}

fn read(
    tree: &tree::Node,
    text: &str,
    context: LoadContext<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Agent> {
    let LoadContext {
        registry,
        environment,
        builtins,
        python,
        outer,
        loaded: _,
    } = context;
    let mut section = Section::from_node(tree, "an agent file", problems)?;
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
    let own_settings = section.present("settings").map(|node| {
        let node = llm_settings::with_token_key(node);
        tree::expand(&node, Some(text), environment, problems)
    });
    let effective_settings = match outer {
        Some(outer) => {
            outer.check(&mut section, own_settings.as_ref(), problems);
            outer.merged_settings(own_settings)
        }
        None => own_settings,
    };
    let mut settings = match &effective_settings {
        Some(node) => settings::read(node, problems),
        None => Settings::default(),
    };
    problems.extend(unknown_programs(tree, &settings.value));
    let written = SourceFile {
        text,
        directory: &directory_of(Path::new(&*tree.place.file)),
        environment,
        builtins,
    };
    let team = if section.has("agents") {
        Some(Team::read(&mut section, tree, &written, problems))
    } else {
        without_agents(&mut section, problems);
        None
    };
    let rules = rules_of(&mut section, team.as_ref(), outer, problems);
    let registry = &with_tools(registry, &mut section, &rules, environment, problems);
    let models = match &team {
        Some(team) => team.as_ref().map(|team| team.configured.clone()),
        None => Some(written.configured(&mut section, problems)),
    };
    let budget = match &team {
        Some(team) => team.as_ref().map(|team| team.budget.clone()),
        None => section
            .present("budget")
            .and_then(|node| Budget::read(node, problems)),
    };
    let has_models = ["models", "providers"]
        .iter()
        .any(|key| section.present(key).is_some());
    let models = match outer.filter(|_| !has_models) {
        Some(outer) => outer.models.clone(),
        None => models.unwrap_or_default(),
    };
    let models = models.with_defaults(settings.llm.clone());
    let written_budget = section.present("budget").map(tree::Node::to_value);
    let nodes = nodes_of(&mut section, team.is_some(), problems);
    problems.extend(llm_settings::check_local(
        effective_settings.as_ref(),
        section.node("nodes"),
    ));
    let has_subgraphs = nodes.iter().any(|node| node.get("subgraph").is_some());
    settings.memory.note_text_search(section.node("nodes"));
    // A subgraph may use the store of the outer file.
    if team.is_none() && outer.is_none() && !has_subgraphs {
        settings
            .memory
            .leave_out_unused(section.node("nodes"), problems);
    }
    let extraction_schema = extraction::read_sections(&mut section, problems);
    let edges = section.node("edges");
    approvals.extend(interrupts::read_list(
        &mut section,
        "an agent file",
        problems,
    ));
    file_keys::FILE.finish(section, problems);

    let templates = Templates::new(text, variables.keys().map(String::as_str));
    let names = names(nodes, problems);
    let file = OuterFile {
        name: &tree.place.file,
        settings: effective_settings.as_ref(),
        models: &models,
        budget: outer.map_or(written_budget.as_ref(), |outer| outer.budget),
        rules: &rules,
        outer,
    };
    let mut reader = NodeReader {
        source: text,
        context,
        file: &file,
        registry,
        templates: &templates,
        names: &names,
        indexes: indexes(&names),
        variables: &variables,
        extraction_schema,
        runner: python.runner.or(settings.python.runner).unwrap_or_default(),
        scripts: Vec::new(),
        approvals,
        approvals_inside: Vec::new(),
        problems: std::mem::take(problems),
    };
    let read: Vec<Option<Node>> = nodes
        .iter()
        .map(|node| reader.node(node, NodeLevel::Node, None))
        .collect();
    let (start, flows) = reader.flows(nodes, edges);
    *problems = reader.problems;
    let scripts = reader.scripts;
    let mut approvals = interrupts::resolve(reader.approvals, &names, problems);
    approvals.extend(reader.approvals_inside);
    problems.extend(interrupts::warning(&approvals));
    indentation::explain_indentation(nodes, problems);
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
        models,
        efforts: requested_efforts(tree),
        budget: budget.unwrap_or_default(),
        team,
        settings,
        initial_state,
        actions: Arc::new(registry.clone()),
        templates,
        nodes,
        start,
        approvals,
        scripts,
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
        let (message, help) = if has_agents {
            (
                "an agent file needs `nodes` to be run",
                "to talk to its agents, use `cachalot chat`; to run them, add a node with `uses: agent.run`",
            )
        } else {
            ("an agent file needs `nodes`", NODES_HELP)
        };
        problems.push(missing(message).at(section.place()).help(help));
        return &[];
    };
    let problem = match &entry.value.kind {
        NodeKind::List(nodes) if !nodes.is_empty() => return nodes,
        NodeKind::Null => missing("`nodes` is empty").at(&entry.key_place),
        NodeKind::List(_) => missing("`nodes` is empty").at(&entry.value.place),
        _ => entry.value.wrong_type("`nodes`", "a list"),
    };
    problems.push(problem.help(NODES_HELP));
    &[]
}

/// Help text for a file without nodes.
const NODES_HELP: &str = "write the nodes below `nodes:` as a list, each with a name and what it does: `- {name: greet, run: 'return {\"text\": 1}'}`";

/// Reports sections that only agents use as problems if the file has no agents. Steps that are tools use
/// `mcps` and `permissions`, too.
fn without_agents(section: &mut Section<'_>, problems: &mut Vec<Problem>) {
    section.claim("agents");
    let has_tools = section.node("nodes").is_some_and(tool::are_named);
    for key in ["mcps", "tools", "permissions"] {
        if let Some(entry) = section.entry(key)
            && (key == "tools" || !has_tools)
        {
            let message = format!("`{key}` is for agents, and there are none");
            let problem = Problem::new(codes::NO_AGENTS, message).at(&entry.key_place);
            let help = match key {
                "tools" => "add `agents:`, or take it out: it would have no effect",
                _ => {
                    "add `agents:` or a step that is a tool, or take it out: it would have no effect"
                }
            };
            problems.push(problem.help(help));
        }
    }
}

/// Returns the rules for steps that are tools: those of the file, and of the files that run it as a
/// subgraph.
fn rules_of(
    section: &mut Section<'_>,
    team: Option<&Option<Team>>,
    outer: Option<&OuterFile<'_>>,
    problems: &mut Vec<Problem>,
) -> Arc<Permissions> {
    let mut rules = match (team, section.node("permissions")) {
        (Some(team), _) => team
            .as_ref()
            .map(|team| team.permissions.clone())
            .unwrap_or_default(),
        (None, Some(node)) if !node.is_null() => {
            let rules = Permissions::read(node, problems);
            let tools = cachalot_tools::builtin::signatures();
            let has_servers = section.present("mcps").is_some();
            problems.extend(rules.check(&tools, has_servers));
            rules
        }
        (None, _) => Permissions::default(),
    };
    if let Some(outer) = outer {
        rules.also_deny(outer.rules);
    }
    Arc::new(rules)
}

/// Returns the registry with the tools that the nodes name.
fn with_tools(
    registry: &Registry,
    section: &mut Section<'_>,
    rules: &Arc<Permissions>,
    environment: &BTreeMap<String, String>,
    problems: &mut Vec<Problem>,
) -> Registry {
    let mut registry = registry.clone();
    let Some(nodes) = section.node("nodes").filter(|nodes| tool::are_named(nodes)) else {
        return registry;
    };
    // The problems of a file with agents are reported with their toolsets.
    let mut found = Vec::new();
    let servers = section
        .node("mcps")
        .map(|node| read_servers(node, environment, &mut found))
        .unwrap_or_default();
    if !section.has("agents") {
        problems.append(&mut found);
    }
    tool::register_named(nodes, &servers, rules, &mut registry);
    registry
}

fn directory_of(file: &Path) -> PathBuf {
    file.parent().map(Path::to_owned).unwrap_or_default()
}

fn mapping(entries: Option<&[MapEntry]>) -> Map<String, Value> {
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
    let mut known = HashSet::new();
    for node in nodes {
        let written = node.get("name");
        let name = written.and_then(tree::Node::as_text).unwrap_or_default();
        if let Some(written) = written.filter(|_| !name.is_empty()) {
            if [START, END].contains(&name) {
                let message = format!("a node cannot be called `{name}`");
                let help = "the name stands for where a run begins or ends";
                let problem = Problem::new(codes::BAD_VALUE, message);
                problems.push(problem.at(&written.place).help(help));
            } else if !known.insert(name) {
                let message = format!("a second node is called `{name}`");
                let problem = Problem::new(codes::DUPLICATE_NODE, message);
                problems.push(problem.at(&written.place).help("give it another name"));
            }
        }
        names.push(name.to_owned());
    }
    names
}

/// Returns the number of each name; of equal names, that of the first.
fn indexes(names: &[String]) -> HashMap<&str, usize> {
    let mut indexes = HashMap::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        indexes.entry(name.as_str()).or_insert(index);
    }
    indexes
}

/// The number of problems of a file after which names of nodes are not compared with unknown ones anymore.
const MAX_SUGGESTIONS: usize = 100;

/// Returns the problem of a name that is not among the nodes `known`; they are empty if none is to be suggested.
/// `end` is another name that may be meant.
fn undefined_node(
    code: &'static str,
    by: &str,
    name: &str,
    known: &[&str],
    end: Option<&str>,
) -> Problem {
    /// The maximum number of nodes that are listed.
    const MAX_LISTED: usize = 50;
    let help = match nearest(name, known.iter().copied().chain(end)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "write the name of a node".to_owned(),
        None if known.len() > MAX_LISTED => {
            format!("the nodes are {}, …", known[..MAX_LISTED].join(", "))
        }
        None => format!("the nodes are {}", known.join(", ")),
    };
    let message = format!("{by} names `{name}`, and there is no such node");
    Problem::new(code, message).help(help)
}
