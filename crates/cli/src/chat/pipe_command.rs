//! Slash commands as the prompt of a command line or a pipe.

use cachalot_agent::{CancellationToken, Chat};
use cachalot_core::Problem;

use super::agent_command;
use super::attachments::Folders;
use super::command::{Command, Shown};
use super::export::export;
use super::fork::fork;
use super::messages::describe_retraction;
use super::setup::{ChatSetup, failure};
use crate::command_error::{CommandError, Result};
use crate::workbench::Workbench;

/// Returns the command that a prompt calls. A prompt of several lines is a message: it may come from a file.
///
/// # Errors
/// The command needs a chat on a terminal, or there is no such command.
pub(super) fn find(prompt: &str) -> Result<Option<Command>> {
    if prompt.contains('\n') {
        return Ok(None);
    }
    let Some(command) = Command::parse(prompt) else {
        return Ok(None);
    };
    match refusal(&command) {
        None => Ok(Some(command)),
        Some(why) => Err(CommandError::usage(
            Problem::new("terminal-command", format!("`{prompt}`: {why}"))
                .help("a blank in front makes it a message"),
        )),
    }
}

/// Returns the reason why a command does not work without a terminal.
fn refusal(command: &Command) -> Option<&'static str> {
    Some(match command {
        Command::Shell(_) => "it runs a command in a chat on a terminal; here, your shell runs it",
        Command::New | Command::Quit => "a chat through a pipe ends after its answer",
        Command::Resume(_) => "`--resume ID` and `--continue` resume a session",
        Command::Model(_) => "`--model` chooses the model, and `cachalot models` lists them",
        Command::Agent(Some(_)) => "`--agent` chooses the agent",
        Command::Fresh(None) => "it takes the message behind it: `/fresh How deep can it dive?`",
        Command::Rewind => {
            "it takes back a turn of a chat on a terminal; `/retract` takes back the last message"
        }
        Command::Review(_) | Command::Aside(_) | Command::Reload => "it needs a chat on a terminal",
        Command::Help
        | Command::Session
        | Command::Stats
        | Command::Tools
        | Command::Servers
        | Command::Permissions
        | Command::Agent(None)
        | Command::Export(_)
        | Command::Fork
        | Command::Compact
        | Command::Retract
        | Command::Fresh(Some(_))
        | Command::Unknown(_) => return None,
    })
}

/// Runs a command and returns its output.
///
/// # Errors
/// The command failed, or there is no such command.
pub(super) async fn run(
    command: &Command,
    chat: &mut Chat,
    setup: &ChatSetup<'_>,
    bench: &Workbench,
    cancel: &CancellationToken,
) -> Result<String> {
    let default_decision = if setup.arguments.yes {
        "others run, because of `--yes`"
    } else {
        "others are refused, because no user is present (`--yes` permits them)"
    };
    let shown = Shown {
        chat,
        bench,
        width: None,
        default_decision,
        agent_commands: agent_command::describe(chat.agent()),
    };
    if let Some(output) = command.output(&shown) {
        return match command {
            Command::Unknown(_) => {
                Err(CommandError::usage(Problem::new("unknown-command", output)))
            }
            _ => Ok(output),
        };
    }
    let failed = |error: cachalot_agent::Error| failure(&error);
    Ok(match command {
        Command::Export(file) => {
            let environment = setup.process_environment;
            let folders = Folders::new(&environment.directory, environment);
            export(chat, file.as_deref(), folders, bench.secret_set())?
        }
        Command::Fork => fork(bench.sessions(), chat.session()).await?,
        Command::Retract => match chat.retract().await.map_err(failed)? {
            Some(retracted) => describe_retraction(&retracted),
            None => "there is no message to take back".to_owned(),
        },
        Command::Compact => {
            let was = if chat.compact(cancel).await.map_err(failed)? {
                "was"
            } else {
                "was not"
            };
            format!("the conversation {was} summarized")
        }
        other => return Err(CommandError::failed(refusal(other).unwrap_or_default())),
    })
}
