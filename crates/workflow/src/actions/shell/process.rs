//! A child process in its own process group, which never outlives the task that waits for it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};

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
}

/// The result of a process that ended.
pub(in crate::actions) struct ProcessOutput {
    pub(in crate::actions) stdout: Vec<u8>,
    pub(in crate::actions) stderr: Vec<u8>,
    /// The exit code, or the negated number of the signal that ended the process.
    pub(in crate::actions) code: i32,
}

/// Reason why a process has no result.
pub(in crate::actions) enum ProcessError {
    NoDirectory(PathBuf),
    NoProgram,
    Start(io::Error),
    Communication(io::Error),
    Timeout(Duration),
    OutputLimit { stream: &'static str, limit: usize },
}

impl Job {
    /// Runs the process to its end. The whole process group is killed if the future is dropped, the
    /// timeout expires, or an output exceeds its limit.
    pub(in crate::actions) async fn run(self) -> Result<ProcessOutput, ProcessError> {
        let timeout = self.timeout;
        let group = Group::start(&self)?;
        match tokio::time::timeout(timeout, group.communicate(self.input, self.output_limit)).await
        {
            Ok(ended) => ended,
            Err(_) => Err(ProcessError::Timeout(timeout)),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .current_dir(&self.directory)
            .env_clear()
            .envs(&self.environment)
            .stdin(if self.input.is_some() {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        command
    }
}

/// A running process and its descendants, except those that leave its process group.
struct Group {
    child: Child,
    /// True once the process has been waited for: from then on the system may reuse its process id.
    is_reaped: bool,
}

impl Group {
    fn start(job: &Job) -> Result<Self, ProcessError> {
        if !job.directory.is_dir() {
            return Err(ProcessError::NoDirectory(job.directory.clone()));
        }
        match job.command().spawn() {
            Ok(child) => Ok(Self {
                child,
                is_reaped: false,
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ProcessError::NoProgram),
            Err(error) => Err(ProcessError::Start(error)),
        }
    }

    /// Writes the input and reads both outputs until they are closed, then waits for the process: in this
    /// order, so that the group id stays valid for as long as the group may have to be killed.
    async fn communicate(
        mut self,
        input: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<ProcessOutput, ProcessError> {
        let (stdin, stdout, stderr) = (
            self.child.stdin.take(),
            self.child.stdout.take(),
            self.child.stderr.take(),
        );
        let (_, stdout, stderr) = tokio::try_join!(
            write_input(stdin, input.unwrap_or_default()),
            read_output(stdout, "stdout", limit),
            read_output(stderr, "stderr", limit),
        )?;
        let status = self
            .child
            .wait()
            .await
            .map_err(ProcessError::Communication)?;
        self.is_reaped = true;
        Ok(ProcessOutput {
            stdout,
            stderr,
            code: code(status),
        })
    }

    #[cfg(unix)]
    fn kill(&self) {
        let leader = self
            .child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(rustix::process::Pid::from_raw);
        if let Some(leader) = leader {
            // The group may have ended in the meantime.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }

    #[cfg(not(unix))]
    fn kill(&self) {
        // `kill_on_drop` ends the process itself; this platform has no process groups.
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_reaped {
            self.kill();
        }
    }
}

async fn write_input(stdin: Option<ChildStdin>, input: Vec<u8>) -> Result<(), ProcessError> {
    let Some(mut stdin) = stdin else {
        return Ok(());
    };
    match stdin.write_all(&input).await {
        // The process need not read its input.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(ProcessError::Communication(error)),
        Ok(()) => Ok(()),
    }
}

async fn read_output(
    output: Option<impl AsyncRead + Unpin>,
    stream: &'static str,
    limit: usize,
) -> Result<Vec<u8>, ProcessError> {
    let mut bytes = Vec::new();
    let Some(output) = output else {
        return Ok(bytes);
    };
    // Reads one byte more than the limit, to detect output that exceeds it.
    output
        .take(limit as u64 + 1)
        .read_to_end(&mut bytes)
        .await
        .map_err(ProcessError::Communication)?;
    if bytes.len() > limit {
        Err(ProcessError::OutputLimit { stream, limit })
    } else {
        Ok(bytes)
    }
}

#[cfg(unix)]
fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status
        .code()
        .or_else(|| status.signal().map(|signal| -signal))
        .unwrap_or(-1)
}

#[cfg(not(unix))]
fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or(-1)
}
