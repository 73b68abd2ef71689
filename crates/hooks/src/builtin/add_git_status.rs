//! `add_git_status`: adds the changes in the working directory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_process::{Error, Lingering, Run, Streams, untrusting_git};
use tokio::process::Command;

use super::BuiltinDependencies;
use super::simple::SimpleBuiltin;
use crate::Event;
use crate::input::Input;
use crate::output::{Fault, Output};
use crate::paragraph::{add, truncate};

/// Maximum bytes of the status in the message.
const MAX_BYTES: usize = 4096;

/// Maximum bytes of filter names to read. A repository with more gets no status.
const MAX_FILTER_BYTES: usize = 64 * 1024;

/// Timeout of git.
const TIMEOUT: Duration = Duration::from_secs(5);

/// An environment variable of the child process that is set to the empty string; see
/// [`AddGitStatus::filters`].
const EMPTY_VARIABLE: &str = "CACHALOT_EMPTY";

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
        let mut command = self.git(directory);
        for name in self.filters(directory).await? {
            command.arg(format!("--config-env={name}={EMPTY_VARIABLE}"));
        }
        command.args([
            "status",
            "--short",
            "--branch",
            "--no-renames",
            "--ignore-submodules=all",
        ]);
        let (output, code) = output(command, MAX_BYTES).await?;
        (output.len() > MAX_BYTES || code == Some(0)).then_some(output)
    }

    /// Returns the setting names of all filters. The caller overrides each with an empty value: git has
    /// no option that disables filters, and the attributes that select them are spread over several
    /// files.
    async fn filters(&self, directory: &Path) -> Option<Vec<String>> {
        let mut command = self.git(directory);
        command.args([
            "config",
            "--null",
            "--name-only",
            "--get-regexp",
            "^filter[.]",
        ]);
        let (output, code) = output(command, MAX_FILTER_BYTES).await?;
        // Exit code 1: no setting matches.
        if output.len() > MAX_FILTER_BYTES || !matches!(code, Some(0 | 1)) {
            return None;
        }
        let names = output.split(|byte| *byte == 0);
        let names = names.filter(|name| !name.is_empty());
        names
            .map(|name| String::from_utf8(name.to_vec()).ok())
            .collect()
    }

    fn git(&self, directory: &Path) -> Command {
        let mut command = untrusting_git(directory, &self.environment);
        command.env(EMPTY_VARIABLE, "");
        command
    }
}

/// Returns the output and the exit code of a program. If the output exceeds `most` bytes, returns the
/// bytes so far without an exit code, and kills the program.
async fn output(command: Command, most: usize) -> Option<(Vec<u8>, Option<i32>)> {
    let run = Run {
        command,
        input: None,
        streams: Streams::StdoutOnly,
        output_limit: Some(most),
        // The caller drops the future on timeout.
        timeout: None,
        lingering: Lingering::Kill,
    };
    let mut output = Vec::new();
    match run.run(|_, bytes| output.extend_from_slice(bytes)).await {
        Ok(ended) => Some((output, ended.status.code())),
        Err(Error::TooMuchOutput { .. }) => Some((output, None)),
        Err(_) => None,
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
#[path = "../../../process/tests/process/program_file.rs"]
mod program_file;

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)]
#[path = "../../tests/unit/builtin/add_git_status.rs"]
mod tests;
