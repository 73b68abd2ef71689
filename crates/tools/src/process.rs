//! Programs in process groups of their own, which never outlive whoever waits for them.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::Instant;

/// How often it is looked whether a program has ended that is given time to.
const GLANCE: Duration = Duration::from_millis(5);

/// A running program and whatever it has started, as far as that stays in its group. Dropping it
/// kills the whole group, unless the program has ended by itself.
pub(crate) struct Group {
    child: Child,
    /// Whether the program has been waited for: from then on its number may be another's.
    over: bool,
}

impl Group {
    /// Starts a program. Takes the command, since a command keeps the ends of pipes open.
    pub(crate) fn start(mut command: Command) -> io::Result<Self> {
        command.kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let child = command.spawn()?;
        Ok(Self { child, over: false })
    }

    /// The program itself, to take its pipes.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits for the program's end, not for that of what it has started. Dropping the future and
    /// waiting again loses nothing.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.over = true;
        Ok(status)
    }

    /// Gives the program time to end by itself, then kills whatever of the group is left. How the
    /// program ended, if that can be told.
    pub(crate) async fn end(&mut self, patience: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + patience;
        // Without taking note of its end, which would give its number away before the rest is killed.
        while !self.has_ended() && Instant::now() < deadline {
            tokio::time::sleep(GLANCE).await;
        }
        self.kill();
        self.wait().await.ok()
    }

    #[cfg(unix)]
    fn has_ended(&self) -> bool {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        self.over
            || self
                .leader()
                .is_none_or(|leader| !matches!(waitid(WaitId::Pid(leader), look), Ok(None)))
    }

    #[cfg(not(unix))]
    fn has_ended(&self) -> bool {
        self.over
    }

    #[cfg(unix)]
    fn leader(&self) -> Option<rustix::process::Pid> {
        self.child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(rustix::process::Pid::from_raw)
    }

    /// Kills the program and what it has started.
    #[cfg(unix)]
    pub(crate) fn kill(&mut self) {
        if self.over {
            return;
        }
        if let Some(leader) = self.leader() {
            // It may have ended by itself in this moment.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }

    /// Kills the program; there are no groups here.
    #[cfg(not(unix))]
    pub(crate) fn kill(&mut self) {
        if !self.over {
            // It may have ended by itself in this moment.
            let _ = self.child.start_kill();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// How a program ended, for people: `exit status 1`, `ended by signal 9`.
pub(crate) fn described(status: ExitStatus) -> String {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt as _;
        if let Some(signal) = status.signal() {
            return format!("ended by signal {signal}");
        }
    }
    match status.code() {
        Some(code) => format!("exit status {code}"),
        None => "ended without an exit status".to_owned(),
    }
}
