//! `cachalot chat`.

use std::io::IsTerminal as _;
use std::sync::Arc;

use cachalot_core::Problem;

use crate::arguments::Chat;
use crate::chat::setup::ChatSetup;
use crate::chat::{pipe, terminal};
use crate::command_error::{CommandError, Result};
use crate::permissions;
use crate::team;
use crate::wiring::ProcessEnvironment;

/// Runs a chat with the agents of a file: many turns on a terminal, one question through a pipe.
///
/// # Errors
/// The file or the command line is invalid, or the question could not be answered.
pub(crate) async fn chat(arguments: &Chat, process_environment: &ProcessEnvironment) -> Result<()> {
    let mut team = team::load(&arguments.file, process_environment)?;
    permissions::add(&mut team, process_environment);
    let team = Arc::new(team);
    let setup = ChatSetup {
        arguments,
        process_environment,
        team,
        home: process_environment.home(arguments.place.db.as_deref(), None)?,
    };
    if !std::io::stdin().is_terminal() {
        return pipe::answer(&setup).await;
    }
    if arguments.json {
        return Err(CommandError::usage(
            Problem::new("no-question", "`--json` needs the question on stdin")
                .help("for instance `echo 'How deep can it dive?' | cachalot chat --json FILE`"),
        ));
    }
    terminal::run_chat(&setup).await
}
