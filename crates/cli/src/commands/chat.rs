//! `cachalot chat`.

use std::io::IsTerminal as _;
use std::sync::Arc;

use cachalot_agent::Team;
use cachalot_core::Problem;
use cachalot_model::ModelConfiguration;
use serde_json::{Value, json};

use crate::arguments::{Chat, OutputFormat};
use crate::chat::invocation::Invocation;
use crate::chat::setup::{ChatSetup, workspace};
use crate::chat::{event_stream, pipe, terminal};
use crate::command_error::{CommandError, Result};
use crate::default_agent;
use crate::default_model::default_model;
use crate::home::Home;
use crate::models::models_to_check;
use crate::permissions;
use crate::render;
use crate::render::failure::error_json;
use crate::team;
use crate::wiring::ProcessEnvironment;

/// Runs a chat with the built-in agent or with the agents of a file: many turns on a terminal, one turn with
/// `--print` or with a prompt on stdin.
///
/// # Errors
/// The file or the command line is invalid, or the prompt could not be answered.
pub(crate) async fn chat(arguments: &Chat, process_environment: &ProcessEnvironment) -> Result<()> {
    let mut document = json!({});
    let ended = talk(arguments, process_environment, &mut document).await;
    if let Err(error) = &ended {
        document = failed(error, document);
    }
    let printed = match arguments.output_format() {
        OutputFormat::Text => Ok(()),
        OutputFormat::Json => render::json(&document),
        OutputFormat::StreamJson => event_stream::print_done(document),
    };
    ended.and(printed)
}

/// Returns the document of a chat that failed: `error`, `state` and `report`, and what is known of the answer.
fn failed(error: &CommandError, document: Value) -> Value {
    let state = document
        .get("agent")
        .map(|agent| json!({"agent": agent, "session": document["session"]}));
    let failed = json!({"error": error_json(error), "state": state, "report": null});
    render::with_members(failed, document)
}

async fn talk(
    arguments: &Chat,
    process_environment: &ProcessEnvironment,
    document: &mut Value,
) -> Result<()> {
    let Invocation { file, prompt } = Invocation::read(arguments, &process_environment.directory)?;
    let is_interactive = !arguments.print && std::io::stdin().is_terminal();
    if is_interactive && arguments.output_format() != OutputFormat::Text {
        return Err(CommandError::usage(
            Problem::new(
                "no-question",
                "JSON is printed for the answer to one prompt",
            )
            .help("for instance `cachalot chat --json -p \"How deep can it dive?\"`"),
        ));
    }
    let home = process_environment.home(arguments.place.db.as_deref(), None)?;
    let mut with_keys = process_environment.clone();
    let loaded = file.as_deref();
    let loaded = loaded.map(|file| team::load(file, &mut with_keys));
    let process_environment = &with_keys;
    let mut team = match loaded {
        Some(team) => team?,
        None => built_in(arguments, process_environment, &home)?,
    };
    if let Some(model) = arguments.model.as_deref().filter(|_| file.is_some()) {
        set_model(&mut team, model, arguments, process_environment)?;
    }
    permissions::add(&mut team, process_environment);
    let setup = ChatSetup {
        arguments,
        process_environment,
        team: Arc::new(team),
        home,
        file: file.as_deref(),
        prompt: prompt.as_deref(),
        is_interactive,
    };
    if is_interactive {
        terminal::run_chat(&setup).await
    } else {
        pipe::answer(&setup, document).await
    }
}

/// Returns the built-in agent with the instructions and skills of the workspace.
fn built_in(
    arguments: &Chat,
    process_environment: &ProcessEnvironment,
    home: &Home,
) -> Result<Team> {
    let model = match arguments.model.as_deref() {
        Some(model) => model,
        None => default_model(process_environment)?,
    };
    check_model(model, ModelConfiguration::default(), process_environment)?;
    let mut team = default_agent::team(model, process_environment)?;
    let place = workspace(arguments, process_environment);
    let context = default_agent::context(&place, home.database.parent())?;
    team.adapt(default_agent::NAME, None, Some(context));
    Ok(team)
}

/// Replaces the model of the agent that the user talks to.
fn set_model(
    team: &mut Team,
    model: &str,
    arguments: &Chat,
    process_environment: &ProcessEnvironment,
) -> Result<()> {
    check_model(model, team.configured.clone(), process_environment)?;
    let agent = arguments
        .agent
        .as_deref()
        .unwrap_or(&team.entry().name)
        .to_owned();
    team.adapt(&agent, Some(model), None);
    Ok(())
}

/// Checks that a model of the command line exists.
fn check_model(
    model: &str,
    configured: ModelConfiguration,
    process_environment: &ProcessEnvironment,
) -> Result<()> {
    match models_to_check(process_environment, configured)?.find(model) {
        Ok(_) => Ok(()),
        Err(error) => Err(CommandError::usage(
            Problem::new("unknown-model", format!("`--model`: {error}"))
                .help("`cachalot models` lists the known ones"),
        )),
    }
}
