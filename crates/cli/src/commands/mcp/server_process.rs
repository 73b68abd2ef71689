//! The process of a server: it ends with the proxy, even if the proxy is killed.
//!
//! A server should end when its input is closed, but several do not. This process is the leader of the server's process
//! group, and kills the group when its own parent is gone. The server has its input and output from the proxy, so no
//! message passes through here.

use std::process::ExitCode;
use std::time::Duration;

use tokio::process::Command;

use crate::arguments::McpServerProcess;
use crate::command_error::{CommandError, Result};
use crate::commands::exec::end_by_signal;
use crate::interrupts::Interrupts;

/// Interval of the checks whether the proxy still runs.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Runs a server to its end, and returns its exit code.
pub(crate) async fn run_server(server: &McpServerProcess) -> Result<ExitCode> {
    // The group gets signals as a whole: the server decides what they do.
    let mut interrupts = Interrupts::listen()?;
    let Some((program, arguments)) = server.command.split_first() else {
        return Err(CommandError::failed("no server is named"));
    };
    let mut child = Command::new(program)
        .args(arguments)
        .spawn()
        .map_err(|error| CommandError::failed(format!("`{}`: {error}", program.display())))?;
    let mut checks = tokio::time::interval(CHECK_INTERVAL);
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            _ = interrupts.next() => {}
            _ = checks.tick() => end_without_parent(server.parent),
        }
    };
    end_by_signal(status);
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}

/// Kills the process group, with this process, if the proxy is gone.
#[cfg(unix)]
fn end_without_parent(parent: u32) {
    use rustix::process::{Signal, getpgrp, getpid, getppid, kill_process_group};
    let is_there =
        getppid().is_some_and(|found| u32::try_from(found.as_raw_nonzero().get()) == Ok(parent));
    // The proxy makes this process the leader of a group; another group is none of ours.
    if !is_there && getpgrp() == getpid() {
        let _ = kill_process_group(getpid(), Signal::KILL);
    }
}

#[cfg(not(unix))]
fn end_without_parent(_parent: u32) {}
