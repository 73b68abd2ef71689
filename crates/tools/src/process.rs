//! Programs in process groups of their own, which are killed when their owner is dropped.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::Instant;

/// Interval at which the end of a program is polled during its grace period.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A running program and the processes that it has started, as far as they stay in its group. Dropping it
/// kills the whole group, unless the program has ended by itself.
pub struct ProcessGroup {
    child: Child,
    /// Set after the program has been waited for: from then on its process ID may be reused.
    reaped: bool,
}

impl ProcessGroup {
    /// Starts a program. Takes the command by value, because a command keeps the ends of pipes open.
    pub fn start(mut command: Command) -> io::Result<Self> {
        command.kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let child = command.spawn()?;
        Ok(Self {
            child,
            reaped: false,
        })
    }

    /// The program itself, for access to its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits for the end of the program, not of the processes that it has started. Cancellation safe.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.reaped = true;
        Ok(status)
    }

    /// Gives the program time to end by itself, then kills the rest of the group. Returns the exit status, if
    /// known.
    pub async fn end(&mut self, grace: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + grace;
        // Polls without reaping the process, which would free its process ID before the rest of the group is
        // killed.
        while !self.has_ended() && Instant::now() < deadline {
            tokio::time::sleep(EXIT_POLL_INTERVAL).await;
        }
        self.kill();
        self.wait().await.ok()
    }

    #[cfg(unix)]
    fn has_ended(&self) -> bool {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        self.reaped
            || self
                .leader()
                .is_none_or(|leader| !matches!(waitid(WaitId::Pid(leader), look), Ok(None)))
    }

    #[cfg(not(unix))]
    fn has_ended(&self) -> bool {
        self.reaped
    }

    #[cfg(unix)]
    fn leader(&self) -> Option<rustix::process::Pid> {
        self.child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(rustix::process::Pid::from_raw)
    }

    /// Kills the program and the processes that it has started.
    #[cfg(unix)]
    pub fn kill(&mut self) {
        if self.reaped {
            return;
        }
        if let Some(leader) = self.leader() {
            // Fails if the program has just ended by itself.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }

    /// Kills the program; this platform has no process groups.
    #[cfg(not(unix))]
    pub fn kill(&mut self) {
        if !self.reaped {
            // Fails if the program has just ended by itself.
            let _ = self.child.start_kill();
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Describes an exit status for users: `exit status 1`, `ended by signal 9`.
pub fn describe_status(status: ExitStatus) -> String {
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
