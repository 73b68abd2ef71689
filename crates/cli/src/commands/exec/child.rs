//! The process of the command: it has the terminal, and this process follows it.
//!
//! Both are in one process group, so the keys of the terminal reach both. The command alone decides about their effect:
//! this process survives Ctrl-C, stops when the command stops, and ends after it, by the same signal.

use std::io;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitIdStatus, getpgrp, getpid,
    kill_process, setrlimit, waitid,
};
use rustix::termios::tcgetpgrp;
use tokio::signal::unix::{self, SignalKind, signal};
use tokio::sync::oneshot;

use crate::disposition::{self, Disposition};

/// Time between two looks at a command that has stopped. A signal that stops the process group stops this process
/// meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Maximum time until a signal that this process sends itself ends it.
const SIGNAL_TIMEOUT: Duration = Duration::from_millis(500);

/// The signals that this process receives in place of their usual effects.
pub(super) struct Signals {
    /// SIGINT and SIGQUIT, unless they are ignored. The command gets those of the terminal itself.
    keys: Vec<(Signal, unix::Signal)>,
    terminate: unix::Signal,
    /// `None` if SIGHUP is ignored, as under `nohup`.
    hangup: Option<unix::Signal>,
    resume: unix::Signal,
    /// SIGTSTP, unless it is ignored: never waited for, but received, so that Ctrl-Z stops the command first. Else the
    /// shell would have the terminal while the command still reads from it.
    _stop: Option<unix::Signal>,
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
        let mut keys = Vec::new();
        for (kind, sent) in [
            (SignalKind::interrupt(), Signal::INT),
            (SignalKind::quit(), Signal::QUIT),
        ] {
            keys.extend(unless_ignored(kind)?.map(|received| (sent, received)));
        }
        Ok(Self {
            keys,
            terminate: signal(SignalKind::terminate())?,
            hangup: unless_ignored(SignalKind::hangup())?,
            resume: signal(SignalKind::from_raw(libc::SIGCONT))?,
            _stop: unless_ignored(SignalKind::from_raw(libc::SIGTSTP))?,
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
            pressed = key(&mut self.keys) => pressed,
        }
    }

    /// Waits until the user wants this process to end, after the command has ended: Ctrl-C, or a request to terminate.
    pub(super) async fn impatient(&mut self) {
        key(&mut self.keys).await;
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

/// Waits for the next SIGINT or SIGQUIT.
async fn key(keys: &mut [(Signal, unix::Signal)]) -> Signal {
    let received = keys.iter_mut().map(|(sent, received)| {
        Box::pin(async move {
            received.recv().await;
            *sent
        })
    });
    let received: Vec<_> = received.collect();
    if received.is_empty() {
        return std::future::pending().await;
    }
    futures_util::future::select_all(received).await.0
}

/// Returns true if the keys of a terminal are signals for this process group. The command then gets SIGINT and SIGQUIT
/// itself; those that another process has sent to this process alone cannot be told from them.
fn has_keys() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    terminal.is_ok_and(|terminal| tcgetpgrp(&terminal) == Ok(getpgrp()))
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
                let is_key = matches!(signal, Signal::INT | Signal::QUIT);
                if !(is_key && has_keys()) {
                    let _ = kill_process(id, signal);
                }
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

/// Ends this process by the signal that has ended the command: a shell then ends its loop or script, as it does for the
/// command itself. Returns if no signal has ended it, or if the signal is ignored or blocked here.
pub(crate) fn end_by_signal(status: ExitStatus) {
    use std::os::unix::process::ExitStatusExt as _;
    let Some(number) = status.signal() else {
        return;
    };
    let Some(signal) = Signal::from_named_raw(number) else {
        return;
    };
    if disposition::reset(number).is_ignored() {
        return;
    }
    // The memory of this process says nothing about the end of the command.
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = setrlimit(Resource::Core, none);
    let _ = kill_process(getpid(), signal);
    // Another thread may be the one that gets it.
    std::thread::sleep(SIGNAL_TIMEOUT);
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
