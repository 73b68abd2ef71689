//! Runs a command with stdout and stderr in one pipe, in the order of writing.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::Command;

use super::capture::Capture;
use super::pipe::{OutputReader, pipe};
use crate::process::ProcessGroup;

/// After the end of the command: the pause in the output of its background processes that ends the reading,
/// and the maximum time to wait for that pause.
const QUIET_PERIOD: Duration = Duration::from_millis(100);
const MAX_DRAIN_TIME: Duration = Duration::from_secs(1);

/// Maximum number of bytes per read.
const MAX_READ_BYTES: usize = 64 << 10;

/// The result of running a command.
pub(super) struct CommandResult {
    pub(super) written: Capture,
    /// The exit status; `None` if the command was killed on timeout.
    pub(super) status: Option<ExitStatus>,
    /// Set if a process that it started still has its output open.
    pub(super) left_running: bool,
}

/// Runs a command until it ends or times out. On timeout, or if the future is dropped, its whole process
/// group is killed. Does not wait for background processes.
pub(super) async fn run(
    mut command: Command,
    timeout: Duration,
    mut written: Capture,
) -> io::Result<CommandResult> {
    let (mut output, writer) = pipe()?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let mut group = ProcessGroup::start(command)?;
    let time_is_up = tokio::time::sleep(timeout);
    tokio::pin!(time_is_up);
    let mut buffer = vec![0; MAX_READ_BYTES];
    let mut open = true;
    let status = loop {
        tokio::select! {
            read = output.read(&mut buffer), if open => match read? {
                0 => open = false,
                read => written.push(&buffer[..read]),
            },
            status = group.wait() => break Some(status?),
            () = &mut time_is_up => {
                group.kill();
                break None;
            }
        }
    };
    if open {
        open = drain(&mut output, &mut buffer, &mut written).await?;
    }
    Ok(CommandResult {
        written,
        status,
        left_running: open && status.is_some(),
    })
}

/// Reads the remaining output after the end of the command; returns true if the output is still open then.
async fn drain(
    output: &mut OutputReader,
    buffer: &mut [u8],
    written: &mut Capture,
) -> io::Result<bool> {
    let reading = async {
        loop {
            match tokio::time::timeout(QUIET_PERIOD, output.read(buffer)).await {
                Err(_) => return Ok(true),
                Ok(Ok(0)) => return Ok(false),
                Ok(Ok(read)) => written.push(&buffer[..read]),
                Ok(Err(error)) => return Err(error),
            }
        }
    };
    tokio::time::timeout(MAX_DRAIN_TIME, reading)
        .await
        .unwrap_or(Ok(true))
}
