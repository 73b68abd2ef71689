//! The `cachalot` command.

mod agent_file;
mod arguments;
mod aside;
mod backend;
mod chat;
mod commands;
mod home;
mod hooks;
mod input;
mod interrupts;
mod models;
mod outcome;
mod permissions;
mod render;
mod team;
mod what_if;
mod wiring;
mod workbench;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory as _, Parser as _};

use arguments::{Arguments, Command};
use outcome::{Result, Trouble};
use render::style::Style;
use wiring::{Surroundings, Warn};

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
        Err(trouble) => {
            tell(&trouble);
            trouble.exit_code()
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
    let surroundings = Surroundings::of_process()?;
    match command {
        Command::Run(run) => wait_for(commands::run::run(run, &surroundings)),
        Command::Chat(chat) => wait_for(commands::chat::chat(chat, &surroundings)),
        Command::Sessions(command) => {
            wait_for(commands::sessions::run(command, &surroundings, warning()))
        }
        Command::Simulate(simulate) => {
            wait_for(commands::simulate::simulate(simulate, &surroundings))
        }
        Command::Validate(validate) => commands::validate::validate(validate, &surroundings),
        Command::Cache(command) => {
            let inspection = commands::cache::Inspection {
                surroundings: &surroundings,
                warn: warning(),
            };
            wait_for(inspection.run(command))
        }
        Command::Ledger(command) => commands::ledger::run(command, &surroundings, warning()),
        Command::Hash(hash) => wait_for(commands::hash::hash(hash, &surroundings)),
        Command::Why(why) => commands::why::why(why, &surroundings, warning()),
        Command::Prefix(command) => {
            wait_for(commands::prefix::run(command, &surroundings, warning()))
        }
        Command::Models(models) => commands::models::models(models, &surroundings),
        Command::Hooks(command) => {
            wait_for(commands::hooks::run(command, &surroundings, &warning()))
        }
        Command::Schema { of } => commands::schema::schema(*of, &surroundings),
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
    let style = Style::of_stderr();
    Arc::new(move |message| render::err(&format!("{} {message}", style.notable("warning:"))))
}

fn tell(trouble: &Trouble) {
    let style = Style::of_stderr();
    match trouble {
        Trouble::Usage { problems, sources } => {
            render::err(render::problems::render(problems, sources).trim_end());
        }
        Trouble::Failed {
            message,
            problem: None,
        } => {
            let message = render::visible::visible(message);
            render::err(&format!("{} {message}", style.bad("error:")));
        }
        Trouble::Failed {
            message: _,
            problem: Some(problem),
        } => {
            let problems = std::slice::from_ref(&problem.0);
            render::err(render::problems::render(problems, &problem.1).trim_end());
        }
        Trouble::Interrupted(how) => render::err(&format!("interrupted: {how}")),
        Trouble::BrokenPipe => {}
    }
}
