//! The process of the command: it has the terminal, and this process follows it.
//!
//! Both are in one process group, so the keys of the terminal reach both. The command alone decides about their effect:
//! this process survives Ctrl-C, stops when the command stops, and ends after it.

use std::io;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, getpid, kill_process, waitid,
};
use tokio::signal::unix::{self, SignalKind, signal};
use tokio::sync::oneshot;

use crate::disposition::Disposition;

/// Time between two looks at a command that has stopped. With Ctrl-Z, this process gets the same signal meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The signals that this process receives in place of their usual effects.
pub(super) struct Signals {
    /// Signals of the terminal, which the command gets itself.
    ignored: Vec<unix::Signal>,
    terminate: unix::Signal,
    /// `None` if SIGHUP is ignored, as under `nohup`.
    hangup: Option<unix::Signal>,
    resume: unix::Signal,
}

impl Signals {
    /// Starts to receive signals. One that is ignored stays so, also for the command.
    ///
    /// # Errors
    /// The system does not allow the signal handlers.
    pub(super) fn listen() -> io::Result<Self> {
        let unless_ignored = |kind: SignalKind| match Disposition::of(kind.as_raw_value()) {
            found if found.is_ignored() => Ok(None),
            _ => signal(kind).map(Some),
        };
        let mut ignored = Vec::new();
        for kind in [SignalKind::interrupt(), SignalKind::quit()] {
            ignored.extend(unless_ignored(kind)?);
        }
        Ok(Self {
            ignored,
            terminate: signal(SignalKind::terminate())?,
            hangup: unless_ignored(SignalKind::hangup())?,
            resume: signal(SignalKind::from_raw(libc::SIGCONT))?,
        })
    }

    /// Waits for the next signal that the command gets from this process.
    async fn next(&mut self) -> Signal {
        let hung_up = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => Signal::TERM,
            _ = hung_up => Signal::HUP,
            _ = self.resume.recv() => Signal::CONT,
        }
    }

    /// Waits until the user wants this process to end, after the command has ended: Ctrl-C, or a request to terminate.
    pub(super) async fn impatient(&mut self) {
        let Self { ignored, .. } = self;
        let pressed = ignored.iter_mut().map(|signal| Box::pin(signal.recv()));
        let pressed: Vec<_> = pressed.collect();
        if pressed.is_empty() {
            std::future::pending::<()>().await;
        }
        futures_util::future::select_all(pressed).await;
    }

    /// Forgets the signals of the terminal that have arrived: they were meant for the command.
    pub(super) async fn forget(&mut self) {
        loop {
            tokio::select! {
                // A signal that has arrived is seen before the branch that is always ready.
                biased;
                () = self.impatient() => {}
                () = std::future::ready(()) => return,
            }
        }
    }
}

/// Runs the command until it ends. Signals that this process alone gets are passed on to it.
///
/// # Errors
/// The command cannot be started.
pub(super) async fn run(command: &mut Command, signals: &mut Signals) -> io::Result<ExitStatus> {
    let mut child = command.spawn()?;
    let id = Pid::from_child(&child);
    let (ended, mut has_ended) = oneshot::channel();
    let follower = std::thread::Builder::new().name("command".to_owned());
    let follower = follower.spawn(move || {
        follow(id);
        // The receiver waits for it.
        let _ = ended.send(());
    });
    if let Err(error) = follower {
        let _ = child.kill();
        let _ = child.wait();
        return Err(error);
    }
    loop {
        tokio::select! {
            _ = &mut has_ended => break,
            // The process exists until `wait` below, so its number is not that of another one.
            signal = signals.next() => {
                let _ = kill_process(id, signal);
            }
        }
    }
    child.wait()
}

/// Returns the exit code for a status, as a shell does: 128 and the number of the signal that has ended the command.
pub(super) fn exit_code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 1,
    };
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// Follows a process until it has ended, and leaves its status to the caller. While it is stopped, this process is, too:
/// a shell sees only this one.
fn follow(id: Pid) {
    let look = |options: WaitIdOptions| {
        let options = options | WaitIdOptions::EXITED | WaitIdOptions::STOPPED;
        waitid(WaitId::Pid(id), options | WaitIdOptions::NOWAIT)
    };
    let is_stopped = |status: &WaitIdStatus| status.stopped();
    loop {
        match look(WaitIdOptions::empty()) {
            Ok(Some(status)) if status.stopped() => {
                std::thread::sleep(LOOK_AGAIN);
                let still = look(WaitIdOptions::NOHANG);
                if still.is_ok_and(|status| status.as_ref().is_some_and(is_stopped)) {
                    // Returns when a shell has resumed the process group, and the command with it.
                    let _ = kill_process(getpid(), Signal::STOP);
                    std::thread::sleep(LOOK_AGAIN);
                }
            }
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) | Err(_) => return,
        }
    }
}
