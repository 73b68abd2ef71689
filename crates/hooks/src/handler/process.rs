//! Runs a command in a process group of its own, which is killed with the caller's future.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};

use super::MAX_OUTPUT_BYTES;
use crate::dialect::HandlerResponse;
use crate::output::Fault;

/// Poll interval: checks if a command has ended while its outputs are still open.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum time that other processes may keep the outputs open after the command has ended.
const PIPE_GRACE_PERIOD: Duration = Duration::from_millis(200);

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
}

impl ShellCommand {
    /// Runs the command to its end. Kills the whole process group if the future is dropped or the output
    /// is too large. A background process of the command is killed if it keeps an output open; one that
    /// has closed both outputs keeps running.
    ///
    /// # Errors
    /// The command cannot be started, does not exist, prints more than [`MAX_OUTPUT_BYTES`] bytes, or is ended by
    /// a signal.
    pub(super) async fn run(self) -> Result<HandlerResponse, Fault> {
        self.run_observed(|_| {}).await
    }

    /// Like [`ShellCommand::run`], and calls `see` with the complete stdout so far whenever it has grown.
    pub(super) async fn run_observed(
        self,
        see: impl FnMut(&[u8]) + Send,
    ) -> Result<HandlerResponse, Fault> {
        let mut group = self.start()?;
        let (stdin, stdout, stderr) = (
            group.child.stdin.take(),
            group.child.stdout.take(),
            group.child.stderr.take(),
        );
        let (mut said, mut complained) = (Vec::new(), Vec::new());
        let talk = async {
            tokio::try_join!(
                feed(stdin, &self.input),
                drain(stdout, "stdout", &mut said, see),
                drain(stderr, "stderr", &mut complained, |_| {}),
            )
        };
        tokio::select! {
            biased;
            talked = talk => {
                talked?;
            }
            () = group.keeps_outputs_open() => group.kill(),
        }
        let status = group.wait().await.map_err(|error| broken(&error))?;
        let ended = HandlerResponse {
            code: code(status)?,
            stdout: said,
            stderr: complained,
        };
        check_exit_code(&ended)?;
        Ok(ended)
    }

    fn start(&self) -> Result<ProcessGroup, Fault> {
        if !self.directory.is_dir() {
            return Err(Fault::new(format!(
                "the directory `{}` that it is to run in does not exist",
                self.directory.display()
            )));
        }
        let mut command = shell_command(&self.line);
        command
            .current_dir(&self.directory)
            .env_clear()
            .envs(&self.environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        ProcessGroup::start(command).map_err(|error| {
            Fault::new(match error.kind() {
                io::ErrorKind::NotFound => "there is no shell to run it".to_owned(),
                _ => format!("it cannot be started: {error}"),
            })
        })
    }
}

#[cfg(not(windows))]
fn shell_command(line: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line);
    command
}

#[cfg(windows)]
fn shell_command(line: &str) -> Command {
    let mut command = Command::new("cmd");
    // `cmd` parses its command line by rules of its own.
    command.arg("/C").raw_arg(line);
    command
}

fn broken(error: &io::Error) -> Fault {
    Fault::new(format!("lost touch with it: {error}"))
}

/// A running command with the processes that it started and that stay in its process group. Dropping it
/// kills the whole group, unless the command has ended.
struct ProcessGroup {
    child: Child,
    /// Set after the command was reaped: its process id may be reused from then on.
    is_reaped: bool,
}

impl ProcessGroup {
    /// Takes the command by value, because it keeps the child's pipe ends open.
    fn start(mut command: Command) -> io::Result<Self> {
        command.kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let child = command.spawn()?;
        Ok(Self {
            child,
            is_reaped: false,
        })
    }

    async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.is_reaped = true;
        Ok(status)
    }

    /// Completes when the command has ended and its outputs stayed open for [`PIPE_GRACE_PERIOD`].
    #[cfg(unix)]
    async fn keeps_outputs_open(&self) {
        while !self.has_ended() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        tokio::time::sleep(PIPE_GRACE_PERIOD).await;
    }

    /// This platform has no process groups that could be killed.
    #[cfg(not(unix))]
    async fn keeps_outputs_open(&self) {
        std::future::pending().await
    }

    /// Checks for the end without reaping the process, so that its id stays valid until the group is
    /// killed.
    #[cfg(unix)]
    fn has_ended(&self) -> bool {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        self.leader()
            .is_none_or(|leader| !matches!(waitid(WaitId::Pid(leader), look), Ok(None)))
    }

    #[cfg(unix)]
    fn leader(&self) -> Option<rustix::process::Pid> {
        self.child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(rustix::process::Pid::from_raw)
    }

    #[cfg(unix)]
    fn kill(&self) {
        if let Some(leader) = self.leader() {
            // The command may have ended in the meantime.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }

    #[cfg(not(unix))]
    fn kill(&self) {
        // `kill_on_drop` kills the command itself; this platform has no process groups.
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if !self.is_reaped {
            self.kill();
        }
    }
}

async fn feed(stdin: Option<ChildStdin>, input: &[u8]) -> Result<(), Fault> {
    let Some(mut stdin) = stdin else {
        return Ok(());
    };
    match stdin.write_all(input).await {
        // A command need not read its input.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(broken(&error)),
        Ok(()) => Ok(()),
    }
}

/// Reads to the end. If the future is dropped, `bytes` holds the output so far.
async fn drain(
    output: Option<impl AsyncRead + Unpin>,
    name: &str,
    bytes: &mut Vec<u8>,
    mut see: impl FnMut(&[u8]),
) -> Result<(), Fault> {
    let Some(mut output) = output else {
        return Ok(());
    };
    while output
        .read_buf(bytes)
        .await
        .map_err(|error| broken(&error))?
        > 0
    {
        if bytes.len() > MAX_OUTPUT_BYTES {
            return Err(Fault::new(format!(
                "it wrote more than {} MiB to {name} and was killed; reduce its output",
                MAX_OUTPUT_BYTES >> 20
            )));
        }
        see(bytes);
    }
    Ok(())
}

#[cfg(unix)]
fn code(status: ExitStatus) -> Result<i32, Fault> {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().ok_or_else(|| match status.signal() {
        Some(signal) => Fault::new(format!(
            "it crashed or was killed: ended by signal {signal}"
        )),
        None => Fault::new("it ended without an exit code"),
    })
}

#[cfg(not(unix))]
fn code(status: ExitStatus) -> Result<i32, Fault> {
    status
        .code()
        .ok_or_else(|| Fault::new("it ended without an exit code"))
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
    let complaint: String = complaint.chars().take(SHOWN).collect();
    let code = ended.code;
    Err(Fault::new(match complaint.is_empty() {
        true => format!("{what} (exit code {code}): {remedy}"),
        false => format!("{what} (exit code {code}): {complaint}; {remedy}"),
    }))
}
