//! The system's shell.

use tokio::process::Command;

/// Returns the command that runs a line in the system's shell: `/bin/sh -c LINE`.
#[cfg(not(windows))]
#[must_use]
pub fn shell_command(line: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line);
    command
}

/// Returns the command that runs a line in the system's shell: `cmd /C LINE`.
#[cfg(windows)]
#[must_use]
pub fn shell_command(line: &str) -> Command {
    let mut command = Command::new("cmd");
    // `cmd` parses its command line by rules of its own.
    command.arg("/C").raw_arg(line);
    command
}
