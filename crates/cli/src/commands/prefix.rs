//! `cachalot prefix`.

mod analyze;
mod lint;
mod live;
mod plan;

use crate::arguments::PrefixCommand;
use crate::outcome::Result;
use crate::wiring::{Surroundings, Warn};

/// Analyzes logs, checks requests before they are sent, and follows running chats.
///
/// # Errors
/// A file cannot be read, or a check fails.
pub(crate) async fn run(
    command: &PrefixCommand,
    surroundings: &Surroundings,
    warn: Warn,
) -> Result<()> {
    match command {
        PrefixCommand::Analyze(arguments) => analyze::analyze(arguments, surroundings, warn).await,
        PrefixCommand::Lint(arguments) => lint::lint(arguments, surroundings),
        PrefixCommand::Live(arguments) => live::live(arguments, surroundings, warn).await,
        PrefixCommand::Plan(arguments) => plan::plan(arguments, surroundings, warn).await,
    }
}
