//! `add_git_status`: what has changed in the working directory.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use super::Parts;
use super::paragraph::{add, capped};
use super::plain::Plain;
use crate::Event;
use crate::input::Input;
use crate::output::{Fault, Output};

/// How much is shown.
const MOST_BYTES: usize = 4096;

/// How long git may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Tells the model each turn what git says of the working directory.
pub(super) struct AddGitStatus {
    environment: Arc<BTreeMap<String, String>>,
    limit: Duration,
}

impl AddGitStatus {
    pub(super) fn new(parts: &Parts) -> Self {
        Self {
            environment: Arc::clone(&parts.environment),
            limit: LIMIT,
        }
    }

    /// What git says; nothing if there is no git, or no repository.
    async fn status(&self, directory: &Path) -> Option<Vec<u8>> {
        let mut child = self.command(directory).spawn().ok()?;
        let mut said = Vec::new();
        let stdout = child.stdout.take()?;
        let read = stdout
            .take(MOST_BYTES as u64 + 1)
            .read_to_end(&mut said)
            .await;
        if read.is_ok() && said.len() > MOST_BYTES {
            // It has more to say, to nobody: dropping the child ends it.
            return Some(said);
        }
        let status: io::Result<_> = child.wait().await;
        (read.is_ok() && status.is_ok_and(|status| status.success())).then_some(said)
    }

    fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new("git");
        command
            // The configuration of a repository must not make it run a program.
            .args(["-c", "core.fsmonitor=false"])
            .args(["status", "--short", "--branch"])
            .current_dir(directory)
            .env_clear()
            .envs(&*self.environment)
            // Looking must not get in the way of a git that writes.
            .env("GIT_OPTIONAL_LOCKS", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        command
    }
}

#[async_trait]
impl Plain for AddGitStatus {
    const NAME: &'static str = "add_git_status";
    const ABOUT: &'static str = "Tells the model the branch and what has changed (`git status --short --branch`), in each message of the user before which that became different. Nothing outside of git repositories.";
    const EVENTS: &'static [Event] = &[Event::TurnStart];

    async fn hear(&self, input: &Input) -> Result<Output, Fault> {
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
            capped(said.trim_end().as_bytes(), MOST_BYTES)
        });
        Ok(match text {
            Some(text) => add(format!("<git_status>\n{text}\n</git_status>"), input),
            None => Output::default(),
        })
    }
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn a_git_that_hangs_is_ended() {
        let directory = tempfile::tempdir().unwrap();
        let git = directory.path().join("git");
        std::fs::write(&git, "#!/bin/sh\necho $$ > pid\nexec /bin/sleep 60\n").unwrap();
        std::fs::set_permissions(&git, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = directory.path().display().to_string();
        let builtin = AddGitStatus {
            environment: Arc::new(BTreeMap::from([("PATH".to_owned(), path)])),
            limit: Duration::from_millis(300),
        };
        let input = Input {
            event: Event::TurnStart,
            cwd: directory.path().to_owned(),
            ..Input::default()
        };
        let before = Instant::now();
        let fault = builtin.hear(&input).await.unwrap_err();
        assert!(fault.message.contains("took longer than 300ms"), "{fault}");
        assert!(before.elapsed() < Duration::from_secs(10));
        let pid = std::fs::read_to_string(directory.path().join("pid")).unwrap_or_default();
        let Ok(pid) = pid.trim().parse() else {
            // On a busy machine it was ended before it got as far as that.
            return;
        };
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        // It is gone as soon as the runtime has waited for it.
        while rustix::process::test_kill_process(pid).is_ok() {
            assert!(before.elapsed() < Duration::from_secs(10));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
