//! A program to run in an action.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use cachalot_process::{Error, Lingering, Output, Run, Streams, exit_code};
use cachalot_tools::{ProtectionError, WorkspaceSandbox};
use tokio::process::Command;

/// A program to run, and its limits.
pub(in crate::actions) struct Job {
    pub(in crate::actions) program: String,
    pub(in crate::actions) arguments: Vec<String>,
    pub(in crate::actions) directory: PathBuf,
    /// The complete environment of the process.
    pub(in crate::actions) environment: BTreeMap<String, String>,
    pub(in crate::actions) input: Option<Vec<u8>>,
    pub(in crate::actions) timeout: Duration,
    /// The maximum bytes of stdout and of stderr, each.
    pub(in crate::actions) output_limit: usize,
    /// The sandbox of the process; `None`: it has all rights of the user.
    pub(in crate::actions) sandbox: Option<WorkspaceSandbox>,
}

/// The reason why a program has no result.
#[derive(Debug, thiserror::Error)]
pub(in crate::actions) enum JobError {
    /// The sandbox cannot be made; nothing ran.
    #[error("it did not run, because its sandbox cannot be made: {0}")]
    NoSandbox(ProtectionError),
    /// The process failed.
    #[error(transparent)]
    Process(#[from] Error),
}

/// The result of a process that ended.
pub(in crate::actions) struct Ended {
    pub(in crate::actions) output: Output,
    /// The exit code, or the negated number of the signal that ended the process.
    pub(in crate::actions) code: i32,
}

impl Job {
    /// Runs the process to its end. The whole process group is killed if the future is dropped, the
    /// timeout expires, or an output exceeds its limit. Processes that it started and that hold an output
    /// open are waited for, so that a result never depends on how fast they were.
    pub(in crate::actions) async fn run(self) -> Result<Ended, JobError> {
        let mut command = match &self.sandbox {
            None => Command::new(&self.program),
            Some(sandbox) => sandbox
                .prepare(&self.program)
                .await
                .map_err(JobError::NoSandbox)?,
        };
        command
            .args(&self.arguments)
            .current_dir(&self.directory)
            .env_clear()
            .envs(&self.environment);
        // After the variables of the run, whose directory for temporary files is not visible in the sandbox.
        if let Some(sandbox) = &self.sandbox {
            command.env("TMPDIR", sandbox.temporary());
        }
        let run = Run {
            command,
            input: self.input,
            streams: Streams::Separate,
            output_limit: Some(self.output_limit),
            timeout: Some(self.timeout),
            lingering: Lingering::Wait,
        };
        let mut output = Output::default();
        let ended = run.run(|stream, bytes| output.push(stream, bytes)).await?;
        Ok(Ended {
            output,
            code: exit_code(ended.status),
        })
    }
}
