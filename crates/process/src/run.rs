//! Runs a program to its end.

mod outputs;

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::process::{ChildStdin, Command};

use crate::{Error, GroupKiller, ProcessGroup, StartError, Stream, Streams};
use outputs::Outputs;

/// The policy for processes that the program has started and that hold an output open when it has ended. A
/// process that has closed both outputs is never waited for, and continues.
///
/// The output that is available at the end of the program is read under all policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lingering {
    /// The run lasts until they have closed the outputs: what they write belongs to the result. The timeout
    /// kills them.
    Wait,
    /// The same, and then the rest of the process group is killed: nothing outlives the run.
    WaitThenKill,
    /// They are killed once they stop writing, at the latest one second after the program.
    Kill,
    /// They continue, and what they write once they stopped writing, at the latest one second after the
    /// program, is lost.
    Leave,
}

/// Collected output of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// The bytes of stdout.
    pub stdout: Vec<u8>,
    /// The bytes of stderr.
    pub stderr: Vec<u8>,
}

impl Output {
    /// Appends bytes to a stream.
    pub fn push(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Stdout => self.stdout.extend_from_slice(bytes),
            Stream::Stderr => self.stderr.extend_from_slice(bytes),
        }
    }
}

/// The end of a program that was not killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The exit status.
    pub status: ExitStatus,
    /// True if, under [`Lingering::Leave`], a process that it started still holds an output open.
    pub left_running: bool,
}

/// A program to run, and its limits.
pub struct Run {
    /// The program, its arguments, working directory and environment. Its standard streams are replaced.
    pub command: Command,
    /// The content of stdin; `None` connects it to the null device.
    pub input: Option<Vec<u8>>,
    /// The outputs to capture.
    pub streams: Streams,
    /// The maximum number of bytes of each captured output; `None` if unlimited.
    pub output_limit: Option<usize>,
    /// The maximum run time; `None` if unlimited. Reading the remaining output under [`Lingering::Kill`] and
    /// [`Lingering::Leave`] does not count.
    pub timeout: Option<Duration>,
    /// The policy for processes that outlive the program.
    pub lingering: Lingering,
}

/// A program that [`Run::start`] has started. Dropping it kills the whole process group.
pub struct StartedRun {
    group: ProcessGroup,
    outputs: Outputs,
    input: Option<Vec<u8>>,
    timeout: Option<Duration>,
    lingering: Lingering,
}

impl Run {
    /// Runs the program and passes its output to `sink`, in chunks. The whole process group is killed if the
    /// future is dropped, the timeout expires, or an output exceeds its limit; `sink` then has received the
    /// output so far. A program need not read its input.
    ///
    /// # Errors
    /// If the program is not started, a pipe fails, or a limit is exceeded.
    pub async fn run(self, sink: impl FnMut(Stream, &[u8])) -> Result<Ended, Error> {
        self.start()?.run_until(std::future::pending(), sink).await
    }

    /// Starts the program. Its outputs are read by [`StartedRun::run_until`].
    ///
    /// # Errors
    /// If the program is not started, or a pipe fails.
    pub fn start(mut self) -> Result<StartedRun, Error> {
        self.command.stdin(match self.input {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        });
        let merged =
            outputs::connect(&mut self.command, self.streams).map_err(StartError::Refused)?;
        let mut group = ProcessGroup::start(self.command)?;
        let outputs =
            Outputs::new(group.child(), merged, self.output_limit).map_err(Error::Pipe)?;
        Ok(StartedRun {
            group,
            outputs,
            input: self.input,
            timeout: self.timeout,
            lingering: self.lingering,
        })
    }
}

impl StartedRun {
    /// Returns a handle that kills the program and its descendants from another task.
    #[must_use]
    pub fn killer(&self) -> GroupKiller {
        self.group.killer()
    }

    /// Runs the program like [`Run::run`]. When `stop` completes, the process group is killed, and the run
    /// ends like that of a program that a signal ended.
    ///
    /// # Errors
    /// If a pipe fails, or a limit is exceeded.
    pub async fn run_until(
        self,
        stop: impl Future<Output = ()>,
        mut sink: impl FnMut(Stream, &[u8]),
    ) -> Result<Ended, Error> {
        let Self {
            mut group,
            mut outputs,
            input,
            timeout,
            lingering,
        } = self;
        let stdin = group.child().stdin.take();
        let waits = matches!(lingering, Lingering::Wait | Lingering::WaitThenKill);
        let running = async {
            // Both directions at once: a program that writes before it has read all of its input would block on a full
            // pipe, and so would this side.
            let exchange = async {
                tokio::try_join!(
                    feed(stdin, input.as_deref().unwrap_or_default()),
                    outputs.read_to_end(&mut sink)
                )
            };
            tokio::select! {
                biased;
                exchanged = exchange => {
                    exchanged?;
                    group.ended().await;
                    Ok::<(), Error>(())
                }
                () = group.ended(), if !waits => Ok(()),
            }
        };
        let time_is_over = async {
            match timeout {
                Some(timeout) => {
                    tokio::time::sleep(timeout).await;
                    timeout
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ran = running => ran?,
            () = stop => group.kill(),
            timeout = time_is_over => {
                group.kill();
                // A failure to read the remaining output is ignored: the timeout is the cause.
                let _ = outputs.drain(&mut sink).await;
                return Err(Error::TimedOut(timeout));
            }
        }
        let is_open = outputs.drain(&mut sink).await?;
        if (is_open && lingering == Lingering::Kill) || lingering == Lingering::WaitThenKill {
            group.kill();
        }
        Ok(Ended {
            status: group.wait().await.map_err(Error::Pipe)?,
            left_running: is_open && lingering == Lingering::Leave,
        })
    }
}

/// Writes the input and closes the pipe.
async fn feed(stdin: Option<ChildStdin>, input: &[u8]) -> Result<(), Error> {
    let Some(mut stdin) = stdin else {
        return Ok(());
    };
    match stdin.write_all(input).await {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::Pipe(error)),
        // The program need not read its input.
        _ => Ok(()),
    }
}
