//! The tools of the toolset `background_jobs`: commands that run beside the conversation.
//!
//! A job is treated like a call of `shell` that lasts from its start to its end: it has the same permissions,
//! workspace and environment, and counts as a write of unknown extent. All caches are notified when it starts
//! and when it ends; meanwhile no result of the workspace is served or stored.
//!
//! A job ends with its session at the latest: its process group is killed.

mod tools;

use std::sync::Arc;

use cachalot_core::config::Settings;
use cachalot_operation::{Tool, WriteNotifier};

use super::session_state::SessionState;
use super::shell::{CommandEnvironment, CommandSettings};

/// Settings of the toolset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Settings)]
#[settings(name = "`background_jobs`")]
pub struct BackgroundJobsSettings {
    /// Settings of its commands.
    #[setting(flatten)]
    pub commands: CommandSettings,
    /// Lets a call request that the notice about the end of its job contains the output.
    #[setting(default = false)]
    pub recall: bool,
}

/// Creates the five tools of a session. `write_notifier` is notified of the writes of jobs.
///
/// # Errors
/// If an entry of [`CommandSettings::pass`] is not a valid pattern.
pub fn background_jobs(
    settings: BackgroundJobsSettings,
    state: &Arc<SessionState>,
    write_notifier: &WriteNotifier,
) -> Result<Vec<Arc<dyn Tool>>, globset::Error> {
    let environment = CommandEnvironment::new(&settings.commands)?;
    let limit = settings.commands.output_limit;
    let run = tools::RunJob::new(
        state,
        environment,
        write_notifier.clone(),
        limit,
        settings.recall,
    );
    let run: Arc<dyn Tool> = Arc::new(run);
    let others = tools::for_started_jobs(state, limit);
    Ok([run].into_iter().chain(others).collect())
}
