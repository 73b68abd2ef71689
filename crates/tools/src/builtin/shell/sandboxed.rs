//! Commands in the sandbox of a call.

use cachalot_operation::ToolContext;
use cachalot_process::shell_command;
use tokio::process::Command;

use crate::WorkspaceSandbox;
use crate::builtin::call_error::CallError;

/// Returns the command of a program, in the sandbox of a call if it has one.
///
/// # Errors
/// If the files that the sandbox has to protect cannot be found.
pub(in crate::builtin) fn command(
    program: &str,
    context: &ToolContext,
) -> Result<Command, CallError> {
    let Some(sandbox) = WorkspaceSandbox::for_call(context) else {
        return Ok(Command::new(program));
    };
    let command = sandbox.command(program)?;
    Ok(command.into())
}

/// Returns the command of a line of the system's shell, in the sandbox of a call if it has one.
///
/// # Errors
/// If the files that the sandbox has to protect cannot be found.
pub(in crate::builtin) fn line(line: &str, context: &ToolContext) -> Result<Command, CallError> {
    if context.sandbox.is_none() {
        return Ok(shell_command(line));
    }
    let mut command = command("/bin/sh", context)?;
    command.args(["-c", line]);
    Ok(command)
}
