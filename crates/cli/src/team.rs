//! Teams of agents.

use std::collections::BTreeMap;
use std::path::Path;

use cachalot_agent::definition::FileTools;
use cachalot_agent::permissions::ToolSignature;
use cachalot_agent::{SourceFile, Team};
use cachalot_core::Problem;
use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::{Node, Section};
use cachalot_mcp::settings::{ToolsetKind, ToolsetSettings, names, server_prefixes, signatures};
use cachalot_workflow::Registry;
use cachalot_workflow::actions::{self, action_tool};
use cachalot_workflow::format::{TeamSettings, read_team_settings};

use crate::agent_file::{AgentFile, Kind, in_order};
use crate::agent_names::DELEGATION;
use crate::command_error::Result;
use crate::hooks;
use crate::models::models_to_check;
use crate::nanobot::{self, Converted};
use crate::read_only_agents::WritingAgents;
use crate::render;
use crate::render::visible::visible;
use crate::wiring::ProcessEnvironment;

/// Reads and checks a file that defines a team, or a `config.json` of nanobot, whose keys it adds to the environment.
///
/// # Errors
/// All problems of the file; or the file is a workflow, which is for `cachalot run`.
pub(crate) fn load(file: &Path, process_environment: &mut ProcessEnvironment) -> Result<Team> {
    let mut source = AgentFile::read(file, process_environment)?;
    let root = source.parse()?;
    if nanobot::is_config(&root) {
        let team = read_config(&mut source, &root, process_environment)?;
        warn_briefly_of(&source.name, &team.warnings);
        return Ok(team);
    }
    let name = &source.name;
    if Kind::from_root(&root) == Kind::Workflow && root.get("nodes").is_some() {
        let problem = Problem::new(
            "not-a-team",
            format!("{name} is a workflow: it is run, not talked to"),
        )
        .at(&root.place)
        .help(format!("run it: `cachalot run {name}`"));
        return Err(source.wrong(vec![problem]));
    }
    let team = read(&source, &root, process_environment)?;
    warn_briefly_of(name, &team.warnings);
    Ok(team)
}

/// Reads and checks a `config.json` of nanobot, and adds its keys to the environment. The caller reports its warnings.
///
/// # Errors
/// All problems of the file.
pub(crate) fn read_config(
    source: &mut AgentFile,
    config: &Node,
    process_environment: &mut ProcessEnvironment,
) -> Result<Team> {
    let Converted {
        root,
        keys,
        secrets,
        problems,
    } = nanobot::convert(config, &process_environment.environment);
    source.mask(&secrets);
    if problems.iter().any(|problem| !problem.is_warning) {
        return Err(source.wrong(in_order(problems)));
    }
    process_environment.environment.extend(keys);
    let mut team = read(source, &root, process_environment)?;
    team.warnings = in_order([problems, team.warnings].concat());
    Ok(team)
}

/// Reads and checks a team. The caller reports its warnings.
///
/// # Errors
/// All problems of the file.
pub(crate) fn read(
    source: &AgentFile,
    root: &Node,
    process_environment: &ProcessEnvironment,
) -> Result<Team> {
    let builtins = hooks::for_reading(process_environment)?;
    let written = SourceFile {
        text: &source.text,
        directory: source.path.parent().unwrap_or(Path::new("")),
        environment: &process_environment.environment,
        builtins: &builtins,
    };
    let ToolReport {
        mut problems,
        signatures,
        prefixes,
    } = read_toolsets_of(root, &process_environment.environment);
    let further = || [action_tool::signatures(), signatures.clone()].concat();
    let loaded = Team::load(root, &written).map(|mut team| {
        team.name_server_tools(&prefixes, further());
        team
    });
    // A team with other problems is checked, too.
    let read = Section::from_node(root, "an agent file", &mut Vec::new())
        .and_then(|mut section| Team::read(&mut section, root, &written, &mut Vec::new()));
    if let Some(mut team) = read {
        problems.extend(problems_of_models(&team, process_environment)?);
        team.name_server_tools(&prefixes, further());
        problems.extend(team.check_permissions(further()));
    }
    if let Ok(team) = &loaded {
        settings(team, &mut problems);
    }
    match loaded {
        Ok(mut team) if problems.iter().all(|problem| problem.is_warning) => {
            problems.append(&mut team.warnings);
            team.warnings = in_order(problems);
            Ok(team)
        }
        Ok(_) => Err(source.wrong(in_order(problems))),
        Err(others) => {
            problems.extend(others);
            Err(source.wrong(in_order(problems)))
        }
    }
}

/// Prints warnings on stderr at the start of a chat. Keys without effect are only counted: `validate` lists
/// them.
fn warn_briefly_of(name: &str, warnings: &[Problem]) {
    let is_brief = |warning: &&Problem| warning.code == "no-effect";
    let (brief, others): (Vec<&Problem>, Vec<&Problem>) = warnings.iter().partition(is_brief);
    let others: Vec<Problem> = others.into_iter().cloned().collect();
    warn_of(&others);
    if !brief.is_empty() {
        let count = render::count(brief.len() as u64, "key", "keys");
        let verb = if brief.len() == 1 { "has" } else { "have" };
        render::warn(&format!(
            "{count} of {name} {verb} no effect; `cachalot validate {name}` lists them"
        ));
    }
}

/// Prints warnings on stderr about valid parts of a file that are not honored.
pub(crate) fn warn_of(warnings: &[Problem]) {
    for warning in warnings {
        render::warn(&visible(&warning.to_string()));
    }
}

/// Returns the problems of `mcps`, of the agents' `toolsets` and of `tools` in an agent file.
pub(crate) fn problems_of_tools(
    root: &Node,
    environment: &BTreeMap<String, String>,
) -> Vec<Problem> {
    read_toolsets_of(root, environment).problems
}

/// The toolsets of a file, as permission rules and the user see them.
struct ToolReport {
    problems: Vec<Problem>,
    /// The tools that the file itself defines.
    signatures: Vec<ToolSignature>,
    /// The prefixes of the tools of MCP servers.
    prefixes: Vec<String>,
}

fn read_toolsets_of(root: &Node, environment: &BTreeMap<String, String>) -> ToolReport {
    let mut problems = Vec::new();
    let (mut all_signatures, mut prefixes) = (Vec::new(), Vec::new());
    let FileTools {
        shared,
        toolsets: all_toolsets,
    } = FileTools::read(root, environment);
    problems.extend(
        shared
            .servers
            .into_iter()
            .flat_map(|servers| servers.problems),
    );
    let registry = actions::builtin();
    let mut writing_agents = WritingAgents::default();
    let agents = root.get("agents").and_then(Node::as_map);
    for (agent, toolsets) in agents.unwrap_or_default().iter().zip(all_toolsets) {
        let before = problems.len();
        let toolsets = match toolsets {
            Some(toolsets) => {
                problems.extend(toolsets.problems);
                toolsets.value
            }
            None => ToolsetSettings::default(),
        };
        problems.extend(problems_of_actions(&toolsets, &registry));
        writing_agents.record(&agent.key, &toolsets, &registry);
        all_signatures.extend(signatures(&toolsets));
        prefixes.extend(server_prefixes(&toolsets));
        // The tools of invalid toolsets are unknown.
        if problems
            .iter()
            .skip(before)
            .all(|problem| problem.is_warning)
        {
            problems.extend(problems_of_review(&agent.value, &toolsets));
        }
    }
    problems.extend(writing_agents.problems(root));
    problems.extend(
        shared
            .results
            .into_iter()
            .flat_map(|results| results.problems),
    );
    prefixes.sort_unstable();
    prefixes.dedup();
    // Agents that share a toolset have the same problems.
    let mut distinct: Vec<Problem> = Vec::new();
    for problem in problems {
        if !distinct.contains(&problem) {
            distinct.push(problem);
        }
    }
    ToolReport {
        problems: distinct,
        signatures: all_signatures,
        prefixes,
    }
}

/// Returns the problems of the actions that toolsets name.
fn problems_of_actions(toolsets: &ToolsetSettings, registry: &Registry) -> Vec<Problem> {
    let mut problems = Vec::new();
    for toolset in &toolsets.toolsets {
        let ToolsetKind::Actions(names) = &toolset.kind else {
            continue;
        };
        for name in names {
            let (message, help) = match registry.get(name) {
                None => {
                    let known: Vec<&str> = registry
                        .actions()
                        .map(|action| &*action.metadata().name)
                        .collect();
                    (
                        format!("there is no action `{name}`"),
                        did_you_mean(name, &known),
                    )
                }
                Some(action) => match action_tool::refusal(&**action) {
                    None => continue,
                    Some(why) => (
                        format!("the action `{name}` {why}"),
                        "take it out of `allow`".to_owned(),
                    ),
                },
            };
            let problem = Problem::new("unknown-action", message);
            problems.push(problem.at(&toolset.place).help(help));
        }
    }
    problems
}

/// Returns a problem for each tool that the review of an agent names and the agent does not have. Agents with
/// MCP servers are not checked: their tools are unknown until they start.
fn problems_of_review(agent: &Node, toolsets: &ToolsetSettings) -> Vec<Problem> {
    let named = agent.get("review").and_then(|review| review.get("tools"));
    let (Some(named), Some(mut known)) = (named.and_then(Node::as_list), names(toolsets)) else {
        return Vec::new();
    };
    if agent.get("sub_agents").is_some() {
        known.push(DELEGATION.to_owned());
    }
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let is_missing = |item: &&Node| item.as_text().is_some_and(|name| !known.contains(&name));
    let missing = named.iter().filter(is_missing);
    missing
        .map(|item| {
            let name = item.as_text().unwrap_or_default();
            let message = format!("the agent has no tool `{name}` that its review could use");
            Problem::new("unknown-tool", message)
                .at(&item.place)
                .help(if known.is_empty() {
                    "the agent has no tools at all; give it `toolsets`".to_owned()
                } else {
                    did_you_mean(name, &known)
                })
        })
        .collect()
}

/// Returns the settings of the ledger, the cache and its store.
pub(crate) fn settings(team: &Team, problems: &mut Vec<Problem>) -> TeamSettings {
    let settings = team.settings.as_ref();
    let settings = settings.map(|node| read_team_settings(node, problems));
    settings.unwrap_or_default()
}

/// Returns the problems of the models that the agents name.
///
/// # Errors
/// The user's own prices cannot be read.
pub(crate) fn problems_of_models(
    team: &Team,
    process_environment: &ProcessEnvironment,
) -> Result<Vec<Problem>> {
    let models = models_to_check(process_environment, team.configured.clone())?;
    let mut problems = team.check_models(&models);
    let toolsets = team
        .agents
        .iter()
        .filter_map(|agent| agent.toolsets.as_ref());
    let toolsets = toolsets.flat_map(|parsed| &parsed.value.toolsets);
    problems.extend(toolsets.filter_map(|toolset| {
        let ToolsetKind::Rag(settings) = &toolset.kind else {
            return None;
        };
        let model = &settings.embeddings.as_ref()?.embedding_model;
        let error = models.find(&model.value).err()?;
        let problem = Problem::new("unknown-model", error.to_string()).at(&model.place);
        Some(problem.help("for example `openai/text-embedding-3-small`"))
    }));
    Ok(problems)
}
