//! Runs the commands of handlers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cachalot_core::text::head;
use cachalot_process::{
    Error, Lingering, Output, Run, StartError, Stream, Streams, describe_status, shell_command,
};

use super::MAX_OUTPUT_BYTES;
use crate::dependencies::HookSandbox;
use crate::dialect::HandlerResponse;
use crate::output::Fault;

/// The number of bytes of an output at which a command is killed. Up to there, what exceeds
/// [`MAX_OUTPUT_BYTES`] is discarded, so that the command ends with its own exit code.
const MAX_DISCARDED_BYTES: usize = 64 << 20;

/// Exit codes of a shell that cannot run the command.
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;

/// A command to run.
pub(super) struct ShellCommand {
    /// The command line, for a shell.
    pub(super) line: String,
    pub(super) directory: PathBuf,
    /// The complete environment.
    pub(super) environment: BTreeMap<String, String>,
    /// The content of stdin.
    pub(super) input: Vec<u8>,
    /// Where it runs; `None`: it has all rights of the user.
    pub(super) sandbox: Option<SandboxedRun>,
}

/// The sandbox of a command.
pub(super) struct SandboxedRun {
    pub(super) sandbox: Arc<dyn HookSandbox>,
    /// A file outside of the workspace that it can read.
    pub(super) read: Option<PathBuf>,
    /// A file outside of the workspace that it can write.
    pub(super) written: Option<PathBuf>,
}

impl ShellCommand {
    /// Runs the command to its end. Kills the whole process group if the future is dropped or the output
    /// is far too large. Background processes are treated as [`Lingering::Kill`] says. Of each output,
    /// [`MAX_OUTPUT_BYTES`] bytes are returned.
    ///
    /// # Errors
    /// The command cannot be started, does not exist, prints more than [`MAX_DISCARDED_BYTES`] bytes, or
    /// is ended by a signal.
    pub(super) async fn run(self) -> Result<HandlerResponse, Fault> {
        self.run_observed(|_, _| {}).await
    }

    /// Like [`ShellCommand::run`], and calls `see` with the bounded output so far whenever there is more.
    pub(super) async fn run_observed(
        mut self,
        mut see: impl FnMut(Stream, &[u8]) + Send,
    ) -> Result<HandlerResponse, Fault> {
        let mut command = match self.sandbox {
            None => shell_command(&self.line),
            Some(SandboxedRun {
                sandbox,
                read,
                written,
            }) => {
                let mut command = sandbox.command("/bin/sh", read, written).await?;
                command.arg("-c").arg(&self.line);
                let temporary = sandbox.temporary().to_string_lossy().into_owned();
                self.environment.insert("TMPDIR".to_owned(), temporary);
                command
            }
        };
        command
            .current_dir(&self.directory)
            .env_clear()
            .envs(&self.environment);
        let run = Run {
            command,
            input: Some(self.input),
            streams: Streams::Separate,
            output_limit: Some(MAX_DISCARDED_BYTES),
            // The dispatcher drops the future on timeout.
            timeout: None,
            lingering: Lingering::Kill,
        };
        let mut output = Output::default();
        let mut is_stdout_cut = false;
        let sink = |stream, bytes: &[u8]| {
            let known = match stream {
                Stream::Stdout => output.stdout.len(),
                Stream::Stderr => output.stderr.len(),
            };
            // Each output holds at most the limit, because nothing beyond it is kept.
            let kept = bytes.len().min(MAX_OUTPUT_BYTES - known);
            is_stdout_cut |= stream == Stream::Stdout && kept < bytes.len();
            output.push(stream, &bytes[..kept]);
            match stream {
                Stream::Stdout => see(stream, &output.stdout),
                Stream::Stderr => see(stream, &output.stderr),
            }
        };
        let status = run.run(sink).await.map_err(fault)?.status;
        let code = status.code().ok_or_else(|| {
            let how = describe_status(status);
            Fault {
                // No exit code decides, and more of the output might have followed.
                may_deny: !(output.stdout.is_empty() && output.stderr.is_empty()),
                ..Fault::new(format!("it crashed or was killed: {how}"))
            }
        })?;
        let ended = HandlerResponse {
            code,
            stdout: output.stdout,
            stdout_cut_at: is_stdout_cut.then_some(MAX_OUTPUT_BYTES),
            stderr: output.stderr,
        };
        check_exit_code(&ended)?;
        Ok(ended)
    }
}

fn fault(error: Error) -> Fault {
    if let Error::TooMuchOutput { stream, limit } = error {
        return Fault::of_cut_output(format!(
            "it wrote more than {} MiB to {stream} and was killed; reduce its output",
            limit >> 20
        ));
    }
    if let Error::Pipe(_) = error {
        return Fault::of_cut_output(error.to_string());
    }
    Fault::new(match error {
        Error::Start(StartError::NoDirectory(directory)) => format!(
            "the directory `{}` that it is to run in does not exist",
            directory.display()
        ),
        Error::Start(StartError::NoProgram(_)) => "there is no shell to run it".to_owned(),
        error => error.to_string(),
    })
}

/// Returns an error if the shell could not run the command.
fn check_exit_code(ended: &HandlerResponse) -> Result<(), Fault> {
    /// Maximum characters of the shell's error message.
    const SHOWN: usize = 200;
    let (what, remedy) = match ended.code {
        NOT_FOUND => (
            "command not found",
            "install it, or give its path; the path is seen from where it runs (`working_dir`)",
        ),
        NOT_EXECUTABLE => (
            "the command cannot be run",
            "make it executable (`chmod +x`), or put its interpreter before it",
        ),
        _ => return Ok(()),
    };
    let complaint = String::from_utf8_lossy(&ended.stderr);
    let complaint = cachalot_core::secret::mask_credentials(complaint.trim());
    let complaint = head(&complaint, SHOWN);
    let code = ended.code;
    Err(Fault::new(if complaint.is_empty() {
        format!("{what} (exit code {code}): {remedy}")
    } else {
        format!("{what} (exit code {code}): {complaint}; {remedy}")
    }))
}
