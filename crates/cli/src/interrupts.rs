//! Ctrl-C, and the like.

use crate::outcome::{Result, Trouble};

/// What somebody outside wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// That it stops what it does: Ctrl-C.
    Interrupt,
    /// That it ends: the terminal was closed, or the process was asked to end.
    End,
}

/// Whoever listens is told instead of the process being ended. What comes while nobody waits is told
/// when somebody does.
pub(crate) struct Interrupts {
    listening: Listening,
    /// Whether the process was asked to end.
    is_over: bool,
}

#[cfg(unix)]
struct Listening {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    /// `None` where it is to be ignored, as by `nohup`.
    hangup: Option<tokio::signal::unix::Signal>,
}

#[cfg(not(unix))]
struct Listening;

impl Interrupts {
    /// Listens from now on.
    ///
    /// # Errors
    /// The system does not let it.
    #[cfg(unix)]
    pub(crate) fn listen() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| {
            signal(kind).map_err(|error| Trouble::failed(format!("listening for Ctrl-C: {error}")))
        };
        let hangup = match ignores_hangups() {
            true => None,
            false => Some(listen(SignalKind::hangup())?),
        };
        Ok(Self {
            listening: Listening {
                interrupt: listen(SignalKind::interrupt())?,
                terminate: listen(SignalKind::terminate())?,
                hangup,
            },
            is_over: false,
        })
    }

    /// Listens from now on.
    ///
    /// # Errors
    /// None here.
    #[cfg(not(unix))]
    pub(crate) fn listen() -> Result<Self> {
        Ok(Self {
            listening: Listening,
            is_over: false,
        })
    }

    /// The next one.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) -> Signal {
        let Listening {
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
        self.is_over |= signal == Signal::End;
        signal
    }

    /// Whether somebody was told that the process is to end.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// The next one.
    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) -> Signal {
        if tokio::signal::ctrl_c().await.is_err() {
            // Without a handler, Ctrl-C ends the process by itself.
            std::future::pending::<()>().await;
        }
        Signal::Interrupt
    }

    /// Lets go of a Ctrl-C that was pressed before now: it was not meant for what comes. Whether the
    /// process is to end.
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

/// Whether the process was started so that it outlives its terminal. Known on Linux only.
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
