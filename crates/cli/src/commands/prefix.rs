//! `cachalot prefix`.

mod analyze;
mod lint;
mod live;
mod plan;
pub(crate) mod recorded_break;
mod what_if;

use crate::arguments::PrefixCommand;
use crate::command_error::Result;
use crate::wiring::{ProcessEnvironment, Warn};

/// Analyzes logs, checks requests before they are sent, follows running chats, and compares policies.
///
/// # Errors
/// A file cannot be read, or a check fails.
pub(crate) async fn run(
    command: &PrefixCommand,
    process_environment: &ProcessEnvironment,
    warn: Warn,
) -> Result<()> {
    match command {
        PrefixCommand::Analyze(arguments) => {
            analyze::analyze(arguments, process_environment, warn).await
        }
        PrefixCommand::Lint(arguments) => lint::lint(arguments, process_environment),
        PrefixCommand::Live(arguments) => live::live(arguments, process_environment, warn).await,
        PrefixCommand::Plan(arguments) => plan::plan(arguments, process_environment, warn).await,
        PrefixCommand::WhatIf(arguments) => {
            what_if::what_if(arguments, process_environment, warn).await
        }
    }
}
