//! A running program in a process group of its own.

use std::io;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::process::{Child, Command};

use crate::StartError;

/// A running program and its descendants, except those that leave its process group.
///
/// Dropping it kills the whole group, unless [`ProcessGroup::wait`] has returned the exit status: from then on
/// the system may give the process ID to another process. A group of its own also keeps interrupts at the
/// terminal away from the program.
///
/// Platforms other than Unix have no process groups: there only the program itself is killed.
#[derive(Debug)]
pub struct ProcessGroup {
    child: Child,
    killer: GroupKiller,
}

/// Ends a process group from another task, without waiting. Has no effect once [`ProcessGroup::wait`] was
/// called: from then on the system may give the process ID to another process. Clones share the group.
///
/// Does nothing on platforms other than Unix.
#[derive(Debug, Clone)]
pub struct GroupKiller(Arc<Mutex<Option<u32>>>);

impl GroupKiller {
    /// Kills the program and its descendants.
    pub fn kill(&self) {
        // Locked during the kill, so that the process ID stays valid.
        let leader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(leader) = *leader {
            kill_group(leader);
        }
    }

    /// Asks the program and its descendants to end.
    pub fn terminate(&self) {
        let leader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(leader) = *leader {
            terminate_group(leader);
        }
    }

    fn disarm(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(unix)]
fn kill_group(leader: u32) {
    signal_group(leader, rustix::process::Signal::KILL);
}

#[cfg(unix)]
fn terminate_group(leader: u32) {
    signal_group(leader, rustix::process::Signal::TERM);
}

#[cfg(unix)]
fn signal_group(leader: u32, signal: rustix::process::Signal) {
    use rustix::process::{Pid, kill_process_group};
    if let Some(leader) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
        // Fails if the group has ended in the meantime.
        let _ = kill_process_group(leader, signal);
    }
}

#[cfg(not(unix))]
fn kill_group(_leader: u32) {}

#[cfg(not(unix))]
fn terminate_group(_leader: u32) {}

impl ProcessGroup {
    /// Starts a program. Takes the command by value, because a command keeps the child's pipe ends open.
    ///
    /// # Errors
    /// If the working directory or the program does not exist, or the system refuses to start it.
    pub fn start(mut command: Command) -> Result<Self, StartError> {
        // The system reports a missing directory and a missing program as the same error.
        if let Some(directory) = command.as_std().get_current_dir()
            && !directory.is_dir()
        {
            return Err(StartError::NoDirectory(directory.to_owned()));
        }
        command.kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        match command.spawn() {
            Ok(child) => Ok(Self {
                killer: GroupKiller(Arc::new(Mutex::new(child.id()))),
                child,
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let program = command.as_std().get_program();
                Err(StartError::NoProgram(
                    program.to_string_lossy().into_owned(),
                ))
            }
            Err(error) => Err(StartError::Refused(error)),
        }
    }

    /// The program itself, for access to its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Returns a handle that kills the group from another task.
    #[must_use]
    pub fn killer(&self) -> GroupKiller {
        self.killer.clone()
    }

    /// Waits for the end of the program, not of its descendants, and returns the exit status. Cancellation
    /// safe. The group can no longer be killed afterwards.
    ///
    /// # Errors
    /// If the system does not report the status.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.killer.disarm();
        self.child.wait().await
    }

    /// Gives the program time to end by itself, then kills its group. Returns the exit status and true if the
    /// program ended in time.
    pub async fn end_within(&mut self, grace: Duration) -> (Option<ExitStatus>, bool) {
        let is_in_time = tokio::time::timeout(grace, self.ended()).await.is_ok();
        // Also after an end in time: descendants of the program may still be running.
        self.kill();
        (self.wait().await.ok(), is_in_time)
    }

    /// Returns true if the program has not ended, as far as the system reports.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.has_ended()
    }
}

#[cfg(unix)]
impl ProcessGroup {
    /// Completes when the program has ended. Unlike [`ProcessGroup::wait`], leaves its process ID valid, so
    /// that its group can still be killed.
    pub async fn ended(&mut self) {
        use tokio::signal::unix::{SignalKind, signal};
        /// Interval of the checks if the system does not announce the end of processes.
        const POLL_INTERVAL: Duration = Duration::from_millis(20);

        // Registered before the first check, so that no end is missed.
        let mut announced = signal(SignalKind::child()).ok();
        while !self.has_ended() {
            match &mut announced {
                Some(announced) => {
                    announced.recv().await;
                }
                None => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    fn has_ended(&self) -> bool {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        // `NOWAIT` leaves the status to `wait`. Until then the system gives the process ID to no other process.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        self.leader()
            .is_none_or(|leader| !matches!(waitid(WaitId::Pid(leader), look), Ok(None)))
    }

    /// Returns the process ID of the program, which is the ID of its group; `None` after
    /// [`ProcessGroup::wait`].
    fn leader(&self) -> Option<rustix::process::Pid> {
        let id = i32::try_from(self.child.id()?).ok()?;
        rustix::process::Pid::from_raw(id)
    }

    /// Kills the program and its descendants. Does nothing after [`ProcessGroup::wait`].
    pub fn kill(&mut self) {
        if let Some(leader) = self.child.id() {
            kill_group(leader);
        }
    }
}

#[cfg(not(unix))]
impl ProcessGroup {
    /// Completes when the program has ended.
    pub async fn ended(&mut self) {
        // The status is kept for [`ProcessGroup::wait`].
        let _ = self.child.wait().await;
    }

    fn has_ended(&self) -> bool {
        self.child.id().is_none()
    }

    /// Kills the program; this platform has no process groups. Does nothing after [`ProcessGroup::wait`].
    pub fn kill(&mut self) {
        // Fails if the program has ended in the meantime.
        let _ = self.child.start_kill();
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
        // After the drop, the runtime collects the exit status, and the process ID may name another process.
        self.killer.disarm();
    }
}
