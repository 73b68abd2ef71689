//! `add_git_status`: adds the changes in the working directory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_process::{git_output, without_filters};

use super::BuiltinDependencies;
use super::simple::SimpleBuiltin;
use crate::Event;
use crate::input::Input;
use crate::output::{Fault, Output};
use crate::paragraph::{add, truncate};

/// Maximum bytes of the status in the message.
const MAX_BYTES: usize = 4096;

/// Timeout of git.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Adds the output of `git status` to the user's messages.
///
/// The configuration of a repository is untrusted: the repository may come from an archive that contains
/// its `.git`, or the agent may have written to it. `git status` can run programs from it: as a file
/// system monitor, as a hook when the index is written, as a file filter (`filter.NAME.clean`,
/// `filter.NAME.process`), as a transport when objects are missing (partial clones), and all of these
/// again in each submodule. None of them is run. Consequences: a file with a filter (Git LFS) counts as
/// changed once its modification time changes, and changes inside submodules are not reported.
pub(super) struct AddGitStatus {
    environment: Arc<BTreeMap<String, String>>,
    limit: Duration,
}

impl AddGitStatus {
    pub(super) fn new(dependencies: &BuiltinDependencies) -> Self {
        Self {
            environment: Arc::clone(&dependencies.environment),
            limit: TIMEOUT,
        }
    }

    /// Returns the output of git; `None` if git is missing or fails, for example outside of a
    /// repository.
    async fn status(&self, directory: &Path) -> Option<Vec<u8>> {
        let mut command = without_filters(directory, &self.environment).await?;
        command.args([
            "status",
            "--short",
            "--branch",
            "--no-renames",
            "--ignore-submodules=all",
        ]);
        let (output, code) = git_output(command, MAX_BYTES).await?;
        (output.len() > MAX_BYTES || code == Some(0)).then_some(output)
    }
}

#[async_trait]
impl SimpleBuiltin for AddGitStatus {
    const NAME: &'static str = "add_git_status";
    const ABOUT: &'static str = "Adds the branch and the changed files (`git status --short --branch`) to each message of the user before which they changed. Nothing outside of git repositories.";
    const EVENTS: &'static [Event] = &[Event::TurnStart];

    async fn handle(&self, input: &Input) -> Result<Output, Fault> {
        if input.cwd.as_os_str().is_empty() {
            return Ok(Output::default());
        }
        let status = tokio::time::timeout(self.limit, self.status(&input.cwd)).await;
        let Ok(status) = status else {
            return Err(Fault::new(format!(
                "`git status` took longer than {:?} and was ended; run it once by hand, or take `{}` out",
                self.limit,
                Self::NAME
            )));
        };
        let text = status.and_then(|said| {
            let said = String::from_utf8_lossy(&said);
            truncate(said.trim_end().as_bytes(), MAX_BYTES)
        });
        Ok(match text {
            Some(text) => add(format!("<git_status>\n{text}\n</git_status>"), input),
            None => Output::default(),
        })
    }
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)]
#[path = "../../tests/unit/builtin/add_git_status.rs"]
mod tests;
