//! The `cachalot` command: its program calls [`main`].

mod abbreviation;
mod agent_file;
mod agent_names;
mod arguments;
mod backend;
mod chat;
mod command_error;
mod commands;
mod debug_log;
mod default_agent;
mod default_model;
mod digest_key;
#[cfg(unix)]
mod disposition;
mod encrypted_records;
mod fleet_ledger;
mod home;
mod hooks;
mod html_file;
mod input;
mod interrupts;
mod models;
mod nanobot;
mod output_file;
mod permissions;
mod plan_costs;
mod python;
mod random;
mod read_only_agents;
mod regular_file;
mod remedies;
mod render;
mod sandbox;
mod store_content;
mod team;
mod terminal;
mod wiring;
mod workbench;

#[cfg(all(test, unix))]
#[allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "of the tests of the command, which use the rest"
)]
#[path = "../tests/cli/terminal.rs"]
mod pty;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory as _, Parser as _};

use arguments::{Arguments, Command};
use command_error::{CommandError, Result};
use render::style::Style;
use wiring::{ProcessEnvironment, Warn};

/// Runs the command that the arguments of the process name.
#[must_use]
pub fn main() -> ExitCode {
    cachalot_sandbox::run_if_helper();
    let arguments = Arguments::try_parse().unwrap_or_else(|mut error| {
        arguments::suggest(&mut error);
        error.exit()
    });
    if matches!(arguments.command, Some(Command::ScriptWorker)) {
        return cachalot_workflow::script::worker::serve();
    }
    silence_documents();
    match dispatch(arguments.command.as_ref()) {
        Ok(code) => code,
        Err(command_error) => {
            tell(&command_error);
            command_error.exit_code()
        }
    }
}

/// Returns the commands, their arguments and their help, for the reference documentation.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Suppresses panic messages of the thread that reads PDF files. The reader panics on some damaged files; the
/// panic is caught there and becomes an ordinary failure.
fn silence_documents() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() != Some("document-text") {
            default(panic);
        }
    }));
}

fn dispatch(command: Option<&Command>) -> Result<ExitCode> {
    let environment = &ProcessEnvironment::of_process()?;
    debug_log::install(environment)?;
    let Some(command) = command else {
        commands::overview::overview(environment)?;
        return Ok(ExitCode::SUCCESS);
    };
    let warn: Warn = Arc::new(render::warn);
    let done = match command {
        Command::Exec(exec) => return wait_for(commands::exec::exec(exec, environment)),
        Command::Mcp(mcp) => {
            let work = commands::mcp::mcp(mcp, environment, warn);
            // For one client, a message is passed on sooner by one thread than by several.
            return if mcp.proxy.listen.is_none() {
                wait_on_one_thread(work)
            } else {
                wait_for(work)
            };
        }
        Command::McpServer(server) => {
            return wait_on_one_thread(commands::mcp::run_server(server));
        }
        Command::Run(run) => wait_for(commands::run::run(run, environment)),
        Command::Chat(chat) => wait_for(commands::chat::chat(chat, environment)),
        Command::Init(init) => commands::init::init(init, environment),
        Command::Sessions(command) => wait_for(commands::sessions::run(command, environment, warn)),
        Command::Simulate(simulate) => {
            wait_for(commands::simulate::simulate(simulate, environment))
        }
        Command::Serve(serve) => wait_for(commands::serve::serve(serve, environment, warn)),
        Command::Validate(validate) => {
            wait_for(commands::validate::validate(validate, environment))
        }
        Command::Cache(command) => {
            let inspection = commands::cache::Inspection {
                process_environment: environment,
                warn,
            };
            wait_for(inspection.run(command))
        }
        Command::Ledger(command) => commands::ledger::run(command, environment, warn),
        Command::Doctor(doctor) => wait_for(commands::doctor::doctor(doctor, environment, warn)),
        Command::Spend(spend) => wait_for(commands::spend::spend(spend, environment, warn)),
        Command::Hash(hash) => wait_for(commands::hash::hash(hash, environment)),
        Command::Why(why) => wait_for(commands::why::why(why, environment, warn)),
        Command::Prefix(command) => wait_for(commands::prefix::run(command, environment, warn)),
        Command::Models(models) => commands::models::models(models, environment),
        Command::Hooks(command) => wait_for(commands::hooks::run(command, environment, &warn)),
        Command::Schema { of } => commands::schema::schema(*of, environment),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Arguments::command(), "cachalot", &mut script);
            render::out(&String::from_utf8_lossy(&script))
        }
        Command::ScriptWorker => Ok(()),
    };
    done.map(|()| ExitCode::SUCCESS)
}

fn wait_for<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    run_on(runtime, work)
}

fn wait_on_one_thread<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    run_on(runtime, work)
}

fn run_on<T>(runtime: tokio::runtime::Runtime, work: impl Future<Output = Result<T>>) -> Result<T> {
    let outcome = runtime.block_on(work);
    // Blocking work that was cancelled (a hash, a large read) must not keep the process alive.
    runtime.shutdown_background();
    outcome
}

fn tell(command_error: &CommandError) {
    let style = Style::of_stderr();
    match command_error {
        CommandError::Usage { problems, sources } => {
            render::err(render::problems::render(problems, sources).trim_end());
        }
        CommandError::Failed {
            message,
            problem: None,
            ..
        } => {
            let message = render::visible::visible(message);
            render::err(&format!("{} {message}", style.error("error:")));
        }
        CommandError::Failed {
            problem: Some(problem),
            ..
        } => {
            let problems = std::slice::from_ref(&problem.0);
            render::err(render::problems::render(problems, &problem.1).trim_end());
        }
        CommandError::Interrupted(how) => render::err(&format!("interrupted: {how}")),
        CommandError::BrokenPipe => {}
    }
}
