//! Signals that interrupt or end the process.

use crate::command_error::{CommandError, Result};

/// A request from outside the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Stop the current work: Ctrl-C.
    Interrupt,
    /// End the process: the terminal was closed, or the process was asked to terminate.
    End,
}

/// Receives signals, which then do not end the process. A signal that arrives while no task waits is returned
/// by the next call of `next`.
pub(crate) struct Interrupts {
    listening: SignalStreams,
    /// Set when the process was asked to end.
    is_ending: bool,
}

#[cfg(unix)]
struct SignalStreams {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    /// `None` if SIGHUP is ignored, as under `nohup`.
    hangup: Option<tokio::signal::unix::Signal>,
}

#[cfg(not(unix))]
struct SignalStreams;

impl Interrupts {
    /// Starts to receive signals.
    ///
    /// # Errors
    /// The system does not allow the signal handlers.
    #[cfg(unix)]
    pub(crate) fn listen() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| {
            signal(kind)
                .map_err(|error| CommandError::failed(format!("listening for Ctrl-C: {error}")))
        };
        let hangup = match ignores_hangups() {
            true => None,
            false => Some(listen(SignalKind::hangup())?),
        };
        Ok(Self {
            listening: SignalStreams {
                interrupt: listen(SignalKind::interrupt())?,
                terminate: listen(SignalKind::terminate())?,
                hangup,
            },
            is_ending: false,
        })
    }

    /// Starts to receive signals.
    ///
    /// # Errors
    /// None on this platform.
    #[cfg(not(unix))]
    pub(crate) fn listen() -> Result<Self> {
        Ok(Self {
            listening: SignalStreams,
            is_ending: false,
        })
    }

    /// Waits for the next signal.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) -> Signal {
        let SignalStreams {
            interrupt,
            terminate,
            hangup,
        } = &mut self.listening;
        let hung_up = async {
            match hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        let signal = tokio::select! {
            _ = interrupt.recv() => Signal::Interrupt,
            _ = terminate.recv() => Signal::End,
            _ = hung_up => Signal::End,
        };
        self.is_ending |= signal == Signal::End;
        signal
    }

    /// Returns true if `next` has returned [`Signal::End`].
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Waits for the next signal.
    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) -> Signal {
        if tokio::signal::ctrl_c().await.is_err() {
            // Without a handler, Ctrl-C ends the process by itself.
            std::future::pending::<()>().await;
        }
        Signal::Interrupt
    }

    /// Discards Ctrl-C presses from before this call, which were not meant for the next operation. Returns
    /// true if the process is to end.
    pub(crate) async fn forget(&mut self) -> bool {
        loop {
            let pressed = tokio::select! {
                biased;
                signal = self.next() => Some(signal),
                () = std::future::ready(()) => None,
            };
            if pressed != Some(Signal::Interrupt) {
                return pressed.is_some();
            }
        }
    }
}

/// Returns true if the process was started to outlive its terminal. This is known on Linux only; other
/// systems return true.
#[cfg(unix)]
fn ignores_hangups() -> bool {
    if !cfg!(target_os = "linux") {
        return true;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}
