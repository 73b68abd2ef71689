//! A pool of worker processes, started on demand and reused while they are healthy.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use cachalot_core::Millis;
use cachalot_process::describe_status;

use super::process::{Launch, Worker, WorkerError};
use super::wire::{
    self, BlockOutcome, Interpreter, MAX_ANSWER_BYTES, MAX_DEPTH, MAX_PRINTED_BYTES, Request,
    WorkerReply,
};
use super::{FailureKind, Script, ScriptFailure, ScriptResult, limits};

/// The time beyond a block's time limit before the parent kills the worker. Workers of an embedded
/// interpreter check the limit themselves and report the line at which the block was stopped.
const GRACE: Duration = Duration::from_secs(1);
/// The number of blocks after which a worker is replaced, which also frees memory that it leaked.
const BLOCKS_PER_WORKER: u32 = 1_000;

/// Worker processes of one kind.
#[derive(Debug)]
pub(super) struct Pool {
    launch: Launch,
    interpreter: Interpreter,
    idle: Mutex<Vec<Worker>>,
    permits: Semaphore,
    time_limit: Duration,
    /// True if the worker checks the time limit itself.
    enforces_time_limit: bool,
    /// The worker's memory limit in bytes, for messages; 0 if it has no limit.
    memory_limit: u64,
    /// The number of the last request.
    requests: AtomicU64,
}

impl Pool {
    /// Creates a pool of at most `workers` processes, at least one. Starts no worker.
    pub(super) fn new(
        launch: Launch,
        interpreter: Interpreter,
        workers: usize,
        time_limit: Duration,
        enforces_time_limit: bool,
        memory_limit: u64,
    ) -> Self {
        Self {
            launch,
            interpreter,
            idle: Mutex::new(Vec::new()),
            permits: Semaphore::new(workers.clamp(1, Semaphore::MAX_PERMITS)),
            time_limit,
            enforces_time_limit,
            memory_limit,
            requests: AtomicU64::new(0),
        }
    }

    /// Runs one block in a worker that runs no other block at the same time.
    ///
    /// The returned future owns the worker: dropping the future kills it. Waiting for a free worker does
    /// not count towards the time limit.
    pub(super) async fn run(
        &self,
        script: &Script,
        state: &Map<String, Value>,
        variables: &Map<String, Value>,
        now: Millis,
    ) -> Result<ScriptResult, ScriptFailure> {
        for (name, map) in [("state", state), ("variables", variables)] {
            if !wire::is_within_max_depth(map) {
                return Err(failure(
                    "script_error",
                    format!(
                        "`{name}` is nested more than {MAX_DEPTH} levels deep, which inline code cannot be given"
                    ),
                ));
            }
        }
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let request = self.request(number, script, state, variables, now)?;
        let _permit = self
            .permits
            .acquire()
            .await
            .map_err(|_| failure("script_worker", "the runner of inline code is shut down"))?;
        let mut worker = self.worker().await?;
        let limit = if self.enforces_time_limit {
            self.time_limit + GRACE
        } else {
            self.time_limit
        };
        let line = match timeout(limit, worker.exchange(&request)).await {
            Err(_) => {
                return Err(failure(
                    "script_timeout",
                    limits::timed_out(self.time_limit),
                ));
            }
            Ok(Err(error)) => return Err(self.worker_failure(error)),
            Ok(Ok(line)) => line,
        };
        let reply: WorkerReply = serde_json::from_slice(&line).map_err(|error| {
            failure(
                "script_worker",
                format!("the worker of the block gave no proper answer: {error}"),
            )
        })?;
        if reply.number != number {
            return Err(failure(
                "script_worker",
                "the worker of the block gave the answer of another block and was stopped: an earlier block may have split its process (`os.fork()`); run it again",
            ));
        }
        if worker.answered <= BLOCKS_PER_WORKER {
            self.idle.lock().push(worker);
        }
        match reply.answer {
            BlockOutcome::Ended(ended) => Ok(ended),
            BlockOutcome::Failed(failure) => Err(failure),
        }
    }

    fn request(
        &self,
        number: u64,
        script: &Script,
        state: &Map<String, Value>,
        variables: &Map<String, Value>,
        now: Millis,
    ) -> Result<Vec<u8>, ScriptFailure> {
        let request = Request {
            number,
            interpreter: self.interpreter,
            source: &script.source,
            first_line: script.first_line,
            state,
            variables,
            time_limit_ms: u64::try_from(self.time_limit.as_millis()).unwrap_or(u64::MAX),
            most_printed: MAX_PRINTED_BYTES,
            now,
        };
        let mut line = serde_json::to_vec(&request).map_err(|error| {
            failure(
                "script_worker",
                format!("the block could not be sent to its worker: {error}"),
            )
        })?;
        line.push(b'\n');
        Ok(line)
    }

    /// Returns an idle worker that is still running, or starts one.
    async fn worker(&self) -> Result<Worker, ScriptFailure> {
        while let Some(worker) = self.take() {
            if worker.is_alive() {
                return Ok(worker);
            }
        }
        Worker::start(&self.launch)
            .await
            .map_err(|error| self.start_failure(error))
    }

    fn take(&self) -> Option<Worker> {
        self.idle.lock().pop()
    }

    fn start_failure(&self, error: WorkerError) -> ScriptFailure {
        let program = self.launch.program.display();
        let cause = match error {
            WorkerError::NotStarted(error) => error.to_string(),
            WorkerError::NotReady | WorkerError::TooLong => {
                "it did not report that it was ready".to_owned()
            }
            WorkerError::Ended {
                stderr_tail,
                status,
            } => describe_exit(status, &stderr_tail),
        };
        failure(
            "script_worker",
            format!("the worker for inline code, {program}, could not be started: {cause}"),
        )
    }

    fn worker_failure(&self, error: WorkerError) -> ScriptFailure {
        match error {
            WorkerError::TooLong => failure(
                "script_memory",
                format!(
                    "the block returned more than {MAX_ANSWER_BYTES} bytes; return less, or write a file"
                ),
            ),
            WorkerError::Ended { stderr_tail, .. } if self.out_of_memory(&stderr_tail) => failure(
                "script_memory",
                format!(
                    "the block needed more than its memory limit of {} MiB and was stopped",
                    self.memory_limit / (1024 * 1024)
                ),
            ),
            WorkerError::Ended {
                status,
                stderr_tail,
            } => failure(
                "script_worker",
                format!(
                    "the block ended its worker process: {}",
                    describe_exit(status, &stderr_tail)
                ),
            ),
            WorkerError::NotStarted(_) | WorkerError::NotReady => self.start_failure(error),
        }
    }

    /// True if a worker with a memory limit reported a failed memory allocation on stderr.
    fn out_of_memory(&self, stderr_tail: &str) -> bool {
        self.memory_limit > 0
            && stderr_tail.contains("memory allocation of")
            && stderr_tail.contains("failed")
    }
}

/// Describes how a process ended.
fn describe_exit(status: Option<std::process::ExitStatus>, stderr_tail: &str) -> String {
    let ended = match status {
        Some(status) => describe_status(status),
        None => "it closed its output".to_owned(),
    };
    if stderr_tail.is_empty() {
        ended
    } else {
        format!("{ended}: {stderr_tail}")
    }
}

fn failure(kind: FailureKind, message: impl Into<String>) -> ScriptFailure {
    ScriptFailure::new(kind, message, None)
}
