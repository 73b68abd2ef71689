//! One worker process, and the conversation with it.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::wire::LONGEST_ANSWER;

/// How long a process may take to say that it is ready.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// How long we wait for the last words of a process that closed its output.
const LAST_WORDS_WITHIN: Duration = Duration::from_secs(1);
/// How many of the last bytes of its complaints are kept.
const COMPLAINT: usize = 4 * 1024;

/// How to start a worker.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    /// The whole environment of the process.
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) directory: PathBuf,
    /// Its first line.
    pub(super) greeting: String,
    /// What it says when it is ready.
    pub(super) ready: &'static str,
}

/// A worker that runs one block at a time. Dropping it kills it and what it started.
#[derive(Debug)]
pub(super) struct Worker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    complaint: Complaint,
    /// How many blocks it has answered.
    pub(super) answered: u32,
}

/// Why a worker gave no answer.
#[derive(Debug)]
pub(super) enum Silence {
    /// It could not be started.
    NotStarted(io::Error),
    /// It did not say in time that it was ready.
    NotReady,
    /// It ended, by itself or by another's hand.
    Ended {
        status: Option<ExitStatus>,
        complaint: String,
    },
    /// Its answer was longer than [`LONGEST_ANSWER`].
    TooLong,
}

impl Worker {
    /// Starts a worker and waits until it is ready.
    pub(super) async fn start(launch: &Launch) -> Result<Self, Silence> {
        let mut worker = Self::spawn(launch).map_err(Silence::NotStarted)?;
        let greeting = format!("{}\n", launch.greeting);
        match timeout(READY_WITHIN, worker.exchange(greeting.as_bytes())).await {
            Err(_) => Err(Silence::NotReady),
            Ok(Err(silence)) => Err(silence),
            Ok(Ok(line)) if line == launch.ready.as_bytes() => Ok(worker),
            Ok(Ok(_)) => Err(Silence::NotReady),
        }
    }

    fn spawn(launch: &Launch) -> io::Result<Self> {
        let mut command = Command::new(&launch.program);
        command
            .args(&launch.arguments)
            .env_clear()
            .envs(launch.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&launch.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        // A group of its own: interrupting us at the terminal is ours to handle, and what a block
        // started ends with it.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn()?;
        let missing = || io::Error::other("the worker has no pipes");
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        let complaint = Complaint::of(child.stderr.take().ok_or_else(missing)?);
        Ok(Self {
            child,
            input,
            output,
            complaint,
            answered: 0,
        })
    }

    /// Whether it still runs, as far as we know.
    pub(super) fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a line, with its line feed, and returns the answer without one.
    pub(super) async fn exchange(&mut self, line: &[u8]) -> Result<Vec<u8>, Silence> {
        // A worker that is gone breaks the pipe; its end says more than that does.
        let sent = async {
            self.input.write_all(line).await?;
            self.input.flush().await
        };
        if sent.await.is_err() {
            return Err(self.silence().await);
        }
        let mut answer = Vec::new();
        let read = (&mut self.output)
            .take(LONGEST_ANSWER)
            .read_until(b'\n', &mut answer)
            .await;
        match (read, answer.pop()) {
            (Ok(_), Some(b'\n')) => {
                self.answered += 1;
                Ok(answer)
            }
            (Ok(_), Some(_)) if answer.len() as u64 + 1 >= LONGEST_ANSWER => Err(Silence::TooLong),
            _ => Err(self.silence().await),
        }
    }

    /// How a worker that closed its pipes ended.
    async fn silence(&mut self) -> Silence {
        let status = timeout(LAST_WORDS_WITHIN, self.child.wait()).await;
        let complaint = self.complaint.whole().await;
        Silence::Ended {
            status: status.ok().and_then(Result::ok),
            complaint,
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The child itself is killed and reaped by `kill_on_drop`; only while it is not reaped is
        // its number certain to be its own.
        #[cfg(unix)]
        if let Some(group) = self
            .child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(rustix::process::Pid::from_raw)
        {
            // Fails if the group is gone already.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

/// The last words of a process on its standard error.
#[derive(Debug)]
struct Complaint {
    tail: Arc<Mutex<Vec<u8>>>,
    reading: JoinHandle<()>,
}

impl Complaint {
    fn of(mut stderr: ChildStderr) -> Self {
        let tail = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&tail);
        let reading = tokio::spawn(async move {
            let mut chunk = [0; 1024];
            while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&chunk[..read]);
                let surplus = kept.len().saturating_sub(COMPLAINT);
                kept.drain(..surplus);
            }
        });
        Self { tail, reading }
    }

    /// Everything that was kept, once the process has closed its standard error.
    async fn whole(&mut self) -> String {
        // A grandchild may hold the pipe open: what has arrived is enough then.
        let _ = timeout(LAST_WORDS_WITHIN, &mut self.reading).await;
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&tail).trim().to_owned()
    }
}
