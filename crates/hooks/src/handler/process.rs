//! A command in a process group of its own, which never outlives whoever waits for it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};

use super::LONGEST;
use crate::dialect::Ended;
use crate::output::Fault;

/// How often it is looked whether a command has ended whose outputs are still open.
const GLANCE: Duration = Duration::from_millis(20);

/// How long others may hold the outputs of a command that has ended.
const PATIENCE: Duration = Duration::from_millis(200);

/// The exit codes with which a shell says that it cannot run what it was told to.
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;

/// What to run.
pub(super) struct Job {
    /// A shell line.
    pub(super) line: String,
    pub(super) directory: PathBuf,
    /// The whole environment.
    pub(super) environment: BTreeMap<String, String>,
    /// What stands on its stdin.
    pub(super) input: Vec<u8>,
}

impl Job {
    /// Runs it to its end. If the future is dropped or there is too much output, the whole process
    /// group is killed. What the command leaves in the background is killed, too, if it holds on to
    /// the outputs; what has let go of both was meant to stay.
    ///
    /// # Errors
    /// It cannot be started, is not there, says more than [`LONGEST`] bytes, or is ended by a signal.
    pub(super) async fn run(self) -> Result<Ended, Fault> {
        self.run_showing(|_| {}).await
    }

    /// Does the same as [`Job::run`], and shows `see` the whole stdout so far each time it has grown.
    pub(super) async fn run_showing(self, see: impl FnMut(&[u8]) + Send) -> Result<Ended, Fault> {
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
            () = group.leaves_its_outputs_open() => group.kill(),
        }
        let status = group.wait().await.map_err(|error| broken(&error))?;
        let ended = Ended {
            code: code(status)?,
            stdout: said,
            stderr: complained,
        };
        is_run(&ended)?;
        Ok(ended)
    }

    fn start(&self) -> Result<Group, Fault> {
        if !self.directory.is_dir() {
            return Err(Fault::new(format!(
                "the directory `{}` that it is to run in does not exist",
                self.directory.display()
            )));
        }
        let mut command = in_the_shell(&self.line);
        command
            .current_dir(&self.directory)
            .env_clear()
            .envs(&self.environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Group::start(command).map_err(|error| {
            Fault::new(match error.kind() {
                io::ErrorKind::NotFound => "there is no shell to run it".to_owned(),
                _ => format!("it cannot be started: {error}"),
            })
        })
    }
}

#[cfg(not(windows))]
fn in_the_shell(line: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line);
    command
}

#[cfg(windows)]
fn in_the_shell(line: &str) -> Command {
    let mut command = Command::new("cmd");
    // It takes its command line apart in its own way.
    command.arg("/C").raw_arg(line);
    command
}

fn broken(error: &io::Error) -> Fault {
    Fault::new(format!("lost touch with it: {error}"))
}

/// A running command and whatever it has started, as far as that stays in its group. Dropping it
/// kills the whole group, unless the command has ended by itself.
struct Group {
    child: Child,
    /// Whether the command has been waited for: from then on its number may be another's.
    over: bool,
}

impl Group {
    /// Takes the command, since a command keeps the ends of pipes open.
    fn start(mut command: Command) -> io::Result<Self> {
        command.kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let child = command.spawn()?;
        Ok(Self { child, over: false })
    }

    async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.over = true;
        Ok(status)
    }

    /// Comes back when the command has ended and others have held its outputs for long enough.
    #[cfg(unix)]
    async fn leaves_its_outputs_open(&self) {
        while !self.has_ended() {
            tokio::time::sleep(GLANCE).await;
        }
        tokio::time::sleep(PATIENCE).await;
    }

    /// There are no groups here that could be killed.
    #[cfg(not(unix))]
    async fn leaves_its_outputs_open(&self) {
        std::future::pending().await
    }

    /// Without taking note of its end, which would give its number away before the rest is killed.
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
            // It may have ended by itself in this moment.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }

    #[cfg(not(unix))]
    fn kill(&self) {
        // `kill_on_drop` ends the command itself; there are no groups here.
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.over {
            self.kill();
        }
    }
}

async fn feed(stdin: Option<ChildStdin>, input: &[u8]) -> Result<(), Fault> {
    let Some(mut stdin) = stdin else {
        return Ok(());
    };
    match stdin.write_all(input).await {
        // It need not read what it is told.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(broken(&error)),
        Ok(()) => Ok(()),
    }
}

/// Reads to the end. What was read is in `bytes` also if the future is dropped.
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
        if bytes.len() > LONGEST {
            return Err(Fault::new(format!(
                "it said more than {} MiB on {name}, and was ended: it should say less",
                LONGEST >> 20
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

/// Whether the shell could run the command.
fn is_run(ended: &Ended) -> Result<(), Fault> {
    /// How much of the shell's complaint is shown, in characters.
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
