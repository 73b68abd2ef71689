//! Running a command: both outputs into one pipe, in the order written.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::Command;

use super::capture::Capture;
use super::pipe::{Output, pipe};
use crate::process::Group;

/// After the end of the command: how long nothing has to come from what it left running, and how long
/// at most that is waited for.
const QUIET: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(1);

/// How much is read at once.
const CHUNK: usize = 64 << 10;

/// What became of a command.
pub(super) struct Ran {
    pub(super) written: Capture,
    /// How it ended; `None` if its time was up and it was killed.
    pub(super) status: Option<ExitStatus>,
    /// Whether something that it started still holds its output.
    pub(super) left_running: bool,
}

/// Runs a command to its end or the end of its time. If the future is dropped, or the time is up, its
/// whole process group is killed. What it leaves running in the background is not waited for.
pub(super) async fn run(
    mut command: Command,
    timeout: Duration,
    mut written: Capture,
) -> io::Result<Ran> {
    let (mut output, writer) = pipe()?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let mut group = Group::start(command)?;
    let time_is_up = tokio::time::sleep(timeout);
    tokio::pin!(time_is_up);
    let mut buffer = vec![0; CHUNK];
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
    Ok(Ran {
        written,
        status,
        left_running: open && status.is_some(),
    })
}

/// Reads what is there after the end of the command. Whether the output is still open then.
async fn drain(output: &mut Output, buffer: &mut [u8], written: &mut Capture) -> io::Result<bool> {
    let reading = async {
        loop {
            match tokio::time::timeout(QUIET, output.read(buffer)).await {
                Err(_) => return Ok(true),
                Ok(Ok(0)) => return Ok(false),
                Ok(Ok(read)) => written.push(&buffer[..read]),
                Ok(Err(error)) => return Err(error),
            }
        }
    };
    tokio::time::timeout(LONGEST, reading)
        .await
        .unwrap_or(Ok(true))
}
