//! `cachalot validate`.

use std::path::Path;

use cachalot_agent::Team;
use cachalot_core::Problem;
use cachalot_core::tree::Node;
use cachalot_workflow::actions::action_tool;
use cachalot_workflow::actions::cache::agent_segment;
use cachalot_workflow::{actions, format};
use serde_json::{Value, json};

use crate::agent_file::{AgentFile, Expected, Kind, in_order};
use crate::arguments::Validate;
use crate::backend::Backend;
use crate::command_error::{CommandError, Result, Sources};
use crate::python::PythonRunners;
use crate::render::failure::problem_json;
use crate::sandbox::{NetworkAccess, SandboxSettings};
use crate::wiring::ProcessEnvironment;
use crate::{hooks, nanobot, render, team};

/// A workflow, its backend and its text.
pub(crate) struct LoadedWorkflow {
    pub(crate) agent: format::Agent,
    pub(crate) backend: Backend,
    pub(crate) sources: Sources,
}

/// Returns the name of a workflow in scopes and handles. A workflow without a name is identified by its file, independent
/// of the path to it.
pub(crate) fn segment(
    agent: &format::Agent,
    file: &Path,
    process_environment: &ProcessEnvironment,
) -> String {
    let file = process_environment.directory.join(file);
    let file = std::fs::canonicalize(&file).unwrap_or(file);
    agent_segment(agent.settings.name.as_deref(), agent.name.as_deref(), &file)
}

/// Reads and checks the file of a workflow.
///
/// # Errors
/// All problems of the file; or the file is a team, which is for `cachalot chat`.
pub(crate) fn load(
    file: &Path,
    registry: &cachalot_workflow::Registry,
    python: &PythonRunners<'_>,
    process_environment: &ProcessEnvironment,
) -> Result<LoadedWorkflow> {
    let source = AgentFile::read(file, process_environment)?;
    match workflow(&source, registry, python, process_environment)? {
        Ok((agent, backend)) => Ok(LoadedWorkflow {
            sources: source.sources(&agent.warnings),
            agent,
            backend,
        }),
        Err(problems) => {
            let root = source.parse().ok();
            let is_team =
                |root: &Node| Kind::from_root(root) == Kind::Team || nanobot::is_config(root);
            let team = root.filter(is_team);
            let problems = team.map_or(problems, |root| vec![not_a_workflow(&source.name, &root)]);
            Err(source.wrong(problems))
        }
    }
}

/// Returns a workflow, or its problems.
///
/// # Errors
/// The user's own prices cannot be read.
fn workflow(
    source: &AgentFile,
    registry: &cachalot_workflow::Registry,
    python: &PythonRunners<'_>,
    process_environment: &ProcessEnvironment,
) -> Result<std::result::Result<(format::Agent, Backend), Vec<Problem>>> {
    let environment = &process_environment.environment;
    let builtins = hooks::for_reading(process_environment)?;
    let loaded = python.choose(|python| {
        let (name, text) = (&source.name, &source.text);
        format::load_with_python(name, text, registry, environment, &builtins, python)
    });
    // Most workflows have no agents and need no second parse.
    let root = match &loaded {
        Ok(agent) if agent.team.is_none() => None,
        _ => source.parse().ok(),
    };
    let mut problems =
        root.map_or_else(Vec::new, |root| team::problems_of_tools(&root, environment));
    match loaded {
        Err(others) => problems.extend(others),
        Ok(agent) => {
            for agent in std::iter::once(&agent).chain(agent.subgraphs()) {
                let refusals =
                    crate::models::refusals(&agent.models, &agent.efforts, process_environment)?;
                // Subgraphs share models that they do not set.
                let new = refusals
                    .into_iter()
                    .filter(|refusal| !problems.contains(refusal));
                let new: Vec<Problem> = new.collect();
                problems.extend(new);
            }
            if let Some(team) = &agent.team {
                problems.extend(team::problems_of_models(team, process_environment)?);
                problems.extend(team.check_permissions(action_tool::signatures()));
            }
            match Backend::from_settings(&agent.settings.memory) {
                Ok(backend) if problems.iter().all(|problem| problem.is_warning) => {
                    let mut agent = agent;
                    agent.warnings.append(&mut problems);
                    return Ok(Ok((agent, backend)));
                }
                Ok(_) => {}
                Err(problem) => problems.push(*problem),
            }
        }
    }
    format::sort(&mut problems, &source.name);
    Ok(Err(problems))
}

fn not_a_workflow(name: &str, root: &Node) -> Problem {
    let message = format!("{name} is a team of agents: it is talked to, and has no `nodes` to run");
    Problem::new("not-a-workflow", message)
        .at(&root.head())
        .help(format!(
            "talk to it: `cachalot chat {name}`; to run its agents, add a node with `uses: agent.run`"
        ))
}

/// Description of a valid file, and its warnings.
struct ValidFile {
    holds: String,
    warnings: Vec<Problem>,
    /// What the embedded Python would refuse, if the file runs in the user's own.
    python_only: Vec<Problem>,
    sources: Sources,
}

async fn check(
    file: &Path,
    arguments: &Validate,
    process_environment: &ProcessEnvironment,
) -> Result<ValidFile> {
    let mut source = AgentFile::read(file, process_environment)?;
    let root = source.parse()?;
    let team = |team: Team, source: &AgentFile| ValidFile {
        holds: render::count(team.agents.len() as u64, "agent", "agents"),
        warnings: team.warnings,
        python_only: Vec::new(),
        sources: source.sources(&[]),
    };
    let declared = |holds| ValidFile {
        holds,
        warnings: Vec::new(),
        python_only: Vec::new(),
        sources: Sources::new(),
    };
    if nanobot::is_config(&root) {
        let mut with_keys = process_environment.clone();
        let read = team::read_config(&mut source, &root, &mut with_keys)?;
        return Ok(team(read, &source));
    }
    match Kind::from_root(&root) {
        Kind::Team => Ok(team(
            team::read(&source, &root, process_environment)?,
            &source,
        )),
        Kind::Gateway => {
            let config = cachalot_gateway::Config::from_root(&root);
            let config = config
                .map_err(|problems| source.wrong_as(Expected::Gateway, in_order(problems)))?;
            let (upstreams, keys) = config.counts();
            Ok(declared(format!(
                "{} and {}",
                render::count(upstreams as u64, "upstream", "upstreams"),
                render::count(keys as u64, "key", "keys")
            )))
        }
        Kind::McpPolicy => {
            let policy = cachalot_mcp::proxy_policy::ProxyPolicy::from_root(&root);
            let policy = policy
                .map_err(|problems| source.wrong_as(Expected::McpPolicy, in_order(problems)))?;
            let (servers, tools) = policy.counts();
            Ok(declared(format!(
                "{} and {}",
                render::count(servers as u64, "server", "servers"),
                render::count(tools as u64, "entry of tools", "entries of tools")
            )))
        }
        Kind::Workflow => {
            // What a run needs a flag for is no problem of the file.
            let settings = SandboxSettings {
                network: NetworkAccess::All,
                ..SandboxSettings::default()
            };
            let runners = PythonRunners::new(&arguments.python, &settings, process_environment);
            let loaded = workflow(&source, &actions::builtin(), &runners, process_environment)?;
            let (agent, _) = loaded.map_err(|problems| source.wrong(problems))?;
            agent
                .team
                .iter()
                .for_each(|team| team::warn_of(&team.warnings));
            let (problems, python_only) = runners.check(&agent).await?;
            if !problems.is_empty() {
                return Err(source.wrong(problems));
            }
            Ok(ValidFile {
                holds: render::count(agent.node_names().count() as u64, "node", "nodes"),
                sources: source.sources(&agent.warnings),
                warnings: agent.warnings,
                python_only,
            })
        }
    }
}

/// Checks files, and reports the problems of all of them.
///
/// # Errors
/// A file has problems or cannot be read, or the user's own prices cannot be read.
pub(crate) async fn validate(
    arguments: &Validate,
    process_environment: &ProcessEnvironment,
) -> Result<()> {
    let mut documents = Vec::new();
    let mut problems = Vec::new();
    let mut all_sources = Sources::new();
    let mut is_valid = true;
    for file in &arguments.files {
        let checked = check(file, arguments, process_environment).await;
        is_valid &= checked.is_ok();
        match checked {
            Ok(valid) if arguments.json => {
                let mut document = document(file, true, &valid.warnings);
                if !valid.python_only.is_empty() {
                    document["python_only"] = valid.python_only.iter().map(problem_json).collect();
                }
                documents.push(document);
            }
            Ok(valid) => tell(file, &valid),
            Err(CommandError::Usage {
                problems: found, ..
            }) if arguments.json => documents.push(document(file, false, &found)),
            Err(CommandError::Usage {
                problems: found,
                sources,
            }) => {
                problems.extend(found);
                all_sources.extend(sources);
            }
            Err(other) => return Err(other),
        }
    }
    match documents.as_slice() {
        [] => {}
        [only] => render::json(only)?,
        several => render::json(&several)?,
    }
    if is_valid {
        Ok(())
    } else {
        // With `--json`, the problems are printed already.
        Err(CommandError::Usage {
            problems,
            sources: all_sources,
        })
    }
}

/// Prints the result for a valid file.
fn tell(file: &Path, valid: &ValidFile) {
    if !valid.warnings.is_empty() {
        let warnings = render::problems::render(&valid.warnings, &valid.sources);
        render::err(warnings.trim_end());
    }
    let told = match valid.warnings.len() {
        0 => "no problems".to_owned(),
        some => render::count(some as u64, "warning", "warnings"),
    };
    render::err(&format!("{}: {told}, {}", file.display(), valid.holds));
    for only in &valid.python_only {
        let place = only
            .place
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        render::err(&format!("  only with Python: {place}: {}", only.message));
    }
}

/// Returns the result for a file as JSON.
fn document(file: &Path, is_valid: bool, problems: &[Problem]) -> Value {
    let listed = |are_warnings: bool| -> Vec<Value> {
        let listed = problems
            .iter()
            .filter(|problem| problem.is_warning == are_warnings);
        listed.map(problem_json).collect()
    };
    json!({
        "file": file.display().to_string(),
        "valid": is_valid,
        "problems": listed(false),
        "warnings": listed(true),
    })
}
