//! Signals that interrupt or end the process.

use tokio::sync::mpsc::UnboundedReceiver;

use crate::command_error::{CommandError, Result};
#[cfg(unix)]
use crate::disposition::Disposition;

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
    /// Ctrl-C and Esc of a terminal in raw mode, which sends no signals.
    keys: Option<UnboundedReceiver<Signal>>,
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
        // `nohup` starts a process that goes on without its terminal.
        let hangup = if Disposition::of(libc::SIGHUP).is_ignored() {
            None
        } else {
            Some(listen(SignalKind::hangup())?)
        };
        Ok(Self {
            listening: SignalStreams {
                interrupt: listen(SignalKind::interrupt())?,
                terminate: listen(SignalKind::terminate())?,
                hangup,
            },
            keys: None,
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
            keys: None,
            is_ending: false,
        })
    }

    /// Receives no SIGHUP, which has another meaning for the command.
    #[cfg(unix)]
    pub(crate) fn without_hangup(mut self) -> Self {
        self.listening.hangup = None;
        self
    }

    /// Also receives the keys of a terminal.
    pub(crate) fn add_keys(&mut self, keys: Option<UnboundedReceiver<Signal>>) {
        self.keys = keys;
    }

    /// Waits for the next signal or key.
    pub(crate) async fn next(&mut self) -> Signal {
        let keys = self.keys.as_mut();
        let pressed = async {
            let pressed = match keys {
                Some(keys) => keys.recv().await,
                None => None,
            };
            match pressed {
                Some(signal) => signal,
                None => std::future::pending().await,
            }
        };
        let signal = tokio::select! {
            signal = self.listening.next() => signal,
            signal = pressed => signal,
        };
        self.is_ending |= signal == Signal::End;
        signal
    }

    /// Returns true if `next` has returned [`Signal::End`].
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Discards Ctrl-C presses from before this call, which were not meant for the next operation. Returns
    /// true if the process is to end.
    pub(crate) async fn forget(&mut self) -> bool {
        loop {
            let pressed = tokio::select! {
                // A signal that has arrived is seen before the branch that is always ready.
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

impl SignalStreams {
    /// Waits for the next signal.
    #[cfg(unix)]
    async fn next(&mut self) -> Signal {
        let hung_up = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::End,
            _ = hung_up => Signal::End,
        }
    }

    /// Waits for the next signal.
    #[cfg(not(unix))]
    async fn next(&mut self) -> Signal {
        if tokio::signal::ctrl_c().await.is_err() {
            // Without a handler, Ctrl-C ends the process by itself.
            std::future::pending::<()>().await;
        }
        Signal::Interrupt
    }
}
