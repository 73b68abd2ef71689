//! One worker process, and the protocol with it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cachalot_process::{ProcessGroup, StartError};
use cachalot_tools::{ProtectionError, WorkspaceSandbox};
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::wire::{MAX_ANSWER_BYTES, READY};

/// The maximum time until a process is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum time to wait for the exit status and the rest of stderr of a process that closed its
/// output.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// The number of bytes at the end of stderr that are kept.
const STDERR_TAIL_BYTES: usize = 4 * 1024;

/// Command, environment and handshake of a worker.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    /// The complete environment of the process.
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) directory: PathBuf,
    /// The sandbox of the process; `None`: it has all rights of the user, unless it drops them itself.
    pub(super) sandbox: Option<WorkspaceSandbox>,
    /// The first line that is sent to the worker.
    pub(super) greeting: String,
}

/// A worker that runs one block at a time. Its process group is killed when it is dropped, and when it
/// ends by itself: processes that a block started end with the worker.
#[derive(Debug)]
pub(super) struct Worker {
    group: ProcessGroup,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    stderr_tail: StderrTail,
    /// What it said when it was ready.
    pub(super) ready: String,
    /// The number of blocks that it has answered.
    pub(super) answered: u32,
}

/// Reason why a worker gave no answer.
#[derive(Debug)]
pub(super) enum WorkerError {
    /// The sandbox of the process cannot be made.
    NoSandbox(ProtectionError),
    /// The process could not be started.
    NotStarted(StartError),
    /// The process was not ready in time.
    NotReady,
    /// The process ended by itself or was killed.
    Ended {
        status: Option<ExitStatus>,
        stderr_tail: String,
    },
    /// The answer was longer than [`MAX_ANSWER_BYTES`].
    TooLong,
}

impl Worker {
    /// Starts a worker and waits until it is ready.
    pub(super) async fn start(launch: &Launch) -> Result<Self, WorkerError> {
        let command = match &launch.sandbox {
            None => Command::new(&launch.program),
            Some(sandbox) => sandbox
                .prepare(&launch.program)
                .await
                .map_err(WorkerError::NoSandbox)?,
        };
        let mut worker = Self::spawn(launch, command)?;
        let greeting = format!("{}\n", launch.greeting);
        match timeout(READY_TIMEOUT, worker.exchange(greeting.as_bytes())).await {
            Err(_) => Err(WorkerError::NotReady),
            Ok(Err(silence)) => Err(silence),
            Ok(Ok(line)) if line.starts_with(READY.as_bytes()) => {
                worker.ready = String::from_utf8_lossy(&line).into_owned();
                Ok(worker)
            }
            Ok(Ok(_)) => Err(WorkerError::NotReady),
        }
    }

    fn spawn(launch: &Launch, mut command: Command) -> Result<Self, WorkerError> {
        command
            .args(&launch.arguments)
            .env_clear()
            .envs(launch.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&launch.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut group = ProcessGroup::start(command).map_err(WorkerError::NotStarted)?;
        let child = group.child();
        let missing = || {
            let missing = std::io::Error::other("the worker has no pipes");
            WorkerError::NotStarted(missing.into())
        };
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        let stderr_tail = StderrTail::spawn_reader(child.stderr.take().ok_or_else(missing)?);
        Ok(Self {
            group,
            input,
            output,
            stderr_tail,
            ready: String::new(),
            answered: 0,
        })
    }

    /// True if the process has not exited as far as the system reports.
    pub(super) fn is_alive(&self) -> bool {
        self.group.is_running()
    }

    /// Sends a line, which includes its line feed, and returns the answer without one.
    pub(super) async fn exchange(&mut self, line: &[u8]) -> Result<Vec<u8>, WorkerError> {
        // A write to a worker that has ended fails with a broken pipe; its exit status is more
        // informative than that error.
        let sent = async {
            self.input.write_all(line).await?;
            self.input.flush().await
        };
        if sent.await.is_err() {
            return Err(self.silence().await);
        }
        let mut answer = Vec::new();
        let read = (&mut self.output)
            .take(MAX_ANSWER_BYTES)
            .read_until(b'\n', &mut answer)
            .await;
        match (read, answer.pop()) {
            (Ok(_), Some(b'\n')) => {
                self.answered += 1;
                Ok(answer)
            }
            (Ok(_), Some(_)) if answer.len() as u64 + 1 >= MAX_ANSWER_BYTES => {
                Err(WorkerError::TooLong)
            }
            _ => Err(self.silence().await),
        }
    }

    /// Ends an idle worker. In a sandbox, it removes what stands in the workspace for it.
    pub(super) async fn end(self) {
        let Self {
            mut group, input, ..
        } = self;
        drop(input);
        group.end_within(EXIT_TIMEOUT).await;
    }

    /// Returns how a worker that closed its pipes ended.
    async fn silence(&mut self) -> WorkerError {
        // The status of a worker that had to be killed is that of the kill, not the reason of its end.
        let (status, is_in_time) = self.group.end_within(EXIT_TIMEOUT).await;
        let stderr_tail = self.stderr_tail.finish().await;
        WorkerError::Ended {
            status: status.filter(|_| is_in_time),
            stderr_tail,
        }
    }
}

/// The last bytes that a process wrote to stderr.
#[derive(Debug)]
struct StderrTail {
    tail: Arc<Mutex<Vec<u8>>>,
    reading: JoinHandle<()>,
}

impl StderrTail {
    fn spawn_reader(mut stderr: ChildStderr) -> Self {
        let tail = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&tail);
        let reading = tokio::spawn(async move {
            let mut chunk = [0; 1024];
            while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
                let mut kept = kept.lock();
                kept.extend_from_slice(&chunk[..read]);
                let surplus = kept.len().saturating_sub(STDERR_TAIL_BYTES);
                kept.drain(..surplus);
            }
        });
        Self { tail, reading }
    }

    /// Returns the kept bytes, once the process has closed its stderr.
    async fn finish(&mut self) -> String {
        // A process that left the group may hold the pipe open: after the timeout, the bytes received so far
        // are used.
        let _ = timeout(EXIT_TIMEOUT, &mut self.reading).await;
        let tail = self.tail.lock();
        String::from_utf8_lossy(&tail).trim().to_owned()
    }
}
