//! The end of the program, as init reports it to the supervisor.

use std::io::{PipeReader, PipeWriter, Read as _, Write as _};

use rustix::process::{Resource, Rlimit, WaitStatus, setrlimit};

use super::{CANNOT_RUN, system};

/// The end of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// With an exit code.
    Exited(i32),
    /// By a signal.
    Signaled(i32),
}

impl From<WaitStatus> for Ended {
    fn from(status: WaitStatus) -> Self {
        match status.terminating_signal() {
            Some(signal) => Self::Signaled(signal),
            None => Self::Exited(status.exit_status().unwrap_or(CANNOT_RUN)),
        }
    }
}

impl Ended {
    /// Ends this process in the same way.
    pub(super) fn repeat(self) -> ! {
        match self {
            Self::Exited(code) => std::process::exit(code),
            Self::Signaled(signal) => {
                // The program has left its memory in a file already, if it was to.
                let none = Rlimit {
                    current: Some(0),
                    maximum: Some(0),
                };
                let _ = setrlimit(Resource::Core, none);
                system::end_by(signal);
                std::process::exit(128 + signal)
            }
        }
    }
}

/// The report of init, which it sends once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Report {
    /// The program has ended, and so has all that it started.
    Ended(Ended),
    /// The program has ended, and left other processes.
    EndedAndLeft(Ended),
    /// A mount of the sandbox is gone, and everything in it is ended.
    MountRemoved,
}

impl Report {
    /// Sends the report.
    pub(super) fn send(self, mut to: &PipeWriter) {
        let (kind, ended) = match self {
            Self::Ended(ended) => (0, ended),
            Self::EndedAndLeft(ended) => (1, ended),
            Self::MountRemoved => (2, Ended::Exited(CANNOT_RUN)),
        };
        let (is_signal, number) = match ended {
            Ended::Exited(code) => (0, code),
            Ended::Signaled(signal) => (1, signal),
        };
        let [a, b, c, d] = number.to_le_bytes();
        // Without a supervisor there is no reader.
        // One write of a few bytes, which a pipe does not split: the thread that watches the mounts has the same pipe.
        let _ = to.write_all(&[kind, is_signal, a, b, c, d]);
    }

    /// Waits for the report; `None` if init has ended without one.
    pub(super) fn receive(mut from: &PipeReader) -> Option<Self> {
        let mut bytes = [0; 6];
        from.read_exact(&mut bytes).ok()?;
        let [kind, is_signal, number @ ..] = bytes;
        let number = i32::from_le_bytes(number);
        let ended = match is_signal {
            0 => Ended::Exited(number),
            _ => Ended::Signaled(number),
        };
        Some(match kind {
            0 => Self::Ended(ended),
            1 => Self::EndedAndLeft(ended),
            _ => Self::MountRemoved,
        })
    }
}
