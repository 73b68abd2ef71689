//! The tools of the toolset `background_jobs`: commands that run beside the conversation.
//!
//! A job is treated like a call of `shell` that lasts from its start to its end: it has the same permissions,
//! workspace and environment, and counts as a write of unknown extent. All caches are notified when it starts
//! and when it ends; meanwhile no result of the workspace is served or stored.
//!
//! A job ends with its session at the latest: its process group is killed.

mod tools;

use std::collections::BTreeMap;
use std::sync::Arc;

use cachalot_core::Secret;
use cachalot_operation::{Tool, WriteNotifier};

use super::session_state::SessionState;
use super::shell::CommandEnvironment;

/// Settings of the toolset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundJobsSettings {
    /// Approximate maximum number of bytes of output that a result shows. Default 30,000.
    pub output_limit: usize,
    /// Variables for every command, which replace those of the same name.
    pub environment: BTreeMap<String, Secret<String>>,
    /// Patterns of variables that are passed on although they look like credentials; see
    /// [`ShellSettings::pass`](super::ShellSettings::pass).
    pub pass: Vec<String>,
    /// True to let a call request that the notice of the end contains the output.
    pub recall: bool,
}

impl Default for BackgroundJobsSettings {
    fn default() -> Self {
        Self {
            output_limit: 30_000,
            environment: BTreeMap::new(),
            pass: Vec::new(),
            recall: false,
        }
    }
}

/// Creates the five tools of a session. `write_notifier` is notified of the writes of jobs.
///
/// # Errors
/// If an entry of [`BackgroundJobsSettings::pass`] is not a valid pattern.
pub fn background_jobs(
    settings: BackgroundJobsSettings,
    state: &Arc<SessionState>,
    write_notifier: &WriteNotifier,
) -> Result<Vec<Arc<dyn Tool>>, globset::Error> {
    let environment = CommandEnvironment::new(settings.environment, &settings.pass)?;
    let limit = settings.output_limit;
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
