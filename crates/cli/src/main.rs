//! The `cachalot` command.

mod abbreviation;
mod agent_file;
mod agent_names;
mod arguments;
mod backend;
mod chat;
mod command_error;
mod commands;
mod default_agent;
mod default_model;
#[cfg(unix)]
mod disposition;
mod home;
mod hooks;
mod input;
mod interrupts;
mod models;
mod output_file;
mod permissions;
mod random;
mod render;
mod team;
mod terminal;
mod what_if;
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

fn main() -> ExitCode {
    let arguments = Arguments::try_parse().unwrap_or_else(|mut error| {
        arguments::suggest(&mut error);
        error.exit()
    });
    if matches!(arguments.command, Command::ScriptWorker) {
        return cachalot_workflow::script::worker::serve();
    }
    silence_documents();
    match dispatch(&arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(command_error) => {
            tell(&command_error);
            command_error.exit_code()
        }
    }
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

fn dispatch(command: &Command) -> Result<()> {
    let process_environment = ProcessEnvironment::of_process()?;
    match command {
        Command::Run(run) => wait_for(commands::run::run(run, &process_environment)),
        Command::Chat(chat) => wait_for(commands::chat::chat(chat, &process_environment)),
        Command::Init(init) => commands::init::init(init, &process_environment),
        Command::Sessions(command) => wait_for(commands::sessions::run(
            command,
            &process_environment,
            warning(),
        )),
        Command::Simulate(simulate) => {
            wait_for(commands::simulate::simulate(simulate, &process_environment))
        }
        Command::Serve(serve) => wait_for(commands::serve::serve(
            serve,
            &process_environment,
            warning(),
        )),
        Command::Validate(validate) => commands::validate::validate(validate, &process_environment),
        Command::Cache(command) => {
            let inspection = commands::cache::Inspection {
                process_environment: &process_environment,
                warn: warning(),
            };
            wait_for(inspection.run(command))
        }
        Command::Ledger(command) => commands::ledger::run(command, &process_environment, warning()),
        Command::Doctor(doctor) => wait_for(commands::doctor::doctor(
            doctor,
            &process_environment,
            warning(),
        )),
        Command::Spend(spend) => wait_for(commands::spend::spend(
            spend,
            &process_environment,
            warning(),
        )),
        Command::Hash(hash) => wait_for(commands::hash::hash(hash, &process_environment)),
        Command::Why(why) => commands::why::why(why, &process_environment, warning()),
        Command::Prefix(command) => wait_for(commands::prefix::run(
            command,
            &process_environment,
            warning(),
        )),
        Command::Models(models) => commands::models::models(models, &process_environment),
        Command::Hooks(command) => wait_for(commands::hooks::run(
            command,
            &process_environment,
            &warning(),
        )),
        Command::Schema { of } => commands::schema::schema(*of, &process_environment),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Arguments::command(), "cachalot", &mut script);
            render::out(&String::from_utf8_lossy(&script))
        }
        Command::ScriptWorker => Ok(()),
    }
}

fn wait_for<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(work);
    // Blocking work that was cancelled (a hash, a large read) must not keep the process alive.
    runtime.shutdown_background();
    outcome
}

/// Returns a function that prints warnings as lines on stderr.
fn warning() -> Warn {
    Arc::new(render::warn)
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
