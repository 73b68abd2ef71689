//! The process of the command, on platforms without job control.

use std::io;
use std::process::{Command, ExitStatus};

/// Nothing: Ctrl-C ends both processes.
pub(super) struct Signals;

impl Signals {
    /// Starts to receive signals.
    ///
    /// # Errors
    /// None on this platform.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    /// Never resolves.
    pub(super) async fn impatient(&mut self) {
        std::future::pending().await
    }

    /// Does nothing.
    pub(super) async fn forget(&mut self) {}
}

/// Runs the command until it ends.
///
/// # Errors
/// The command cannot be started.
pub(super) async fn run(command: &mut Command, _signals: &mut Signals) -> io::Result<ExitStatus> {
    let mut child = command.spawn()?;
    tokio::task::spawn_blocking(move || child.wait()).await?
}

/// Returns the exit code for a status.
pub(super) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or(1);
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// Does nothing.
pub(crate) fn end_by_signal(_status: ExitStatus) {}
