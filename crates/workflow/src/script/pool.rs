//! A pool of worker processes, started on demand and reused while they are healthy.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use cachalot_core::Clock;
use cachalot_process::describe_status;

use super::process::{Launch, Worker, WorkerError};
use super::wire::{
    self, BlockOutcome, Interpreter, MAX_ANSWER_BYTES, MAX_DEPTH, MAX_PRINTED_BYTES, Request,
    WorkerReply,
};
use super::{
    FailureKind, Python3Options, Script, ScriptFailure, ScriptResult, ScriptRunner, WorkerOptions,
    limits,
};

/// The time beyond a block's time limit before the parent kills the worker. Workers of an embedded
/// interpreter check the limit themselves and report the line at which the block was stopped.
const GRACE: Duration = Duration::from_secs(1);
/// The number of blocks after which a worker is replaced, which also frees memory that it leaked.
const BLOCKS_PER_WORKER: u32 = 1_000;

/// Worker processes of one kind: a runner of inline code.
///
/// Workers are started on demand and reused. A worker that crashes or exceeds its limits fails its block and
/// is replaced. Dropping the future of [`ScriptRunner::run`] kills the block's worker and the processes that
/// it started; dropping the pool kills all workers.
///
/// In an embedded interpreter, a block has no access to files, the environment, processes or the network.
/// Its worker is a process of our own binary, whose environment contains only the time zone.
///
/// A pool belongs to the tokio runtime on which it is used first.
#[derive(Debug)]
pub struct WorkerPool {
    /// The start of a worker, or the failure of every block because the interpreter was not found.
    launch: Result<Launch, ScriptFailure>,
    interpreter: Interpreter,
    idle: Mutex<Vec<Worker>>,
    permits: Semaphore,
    time_limit: Duration,
    /// True if the worker checks the time limit itself.
    enforces_time_limit: bool,
    /// The worker's memory limit in bytes, for messages; 0 if it has no limit.
    memory_limit: u64,
    /// The clock for the time of day in a block; `None` if the interpreter reads the time itself.
    clock: Option<Arc<dyn Clock>>,
    /// The number of the last request.
    requests: AtomicU64,
    /// The version of the user's own Python, once a worker has started.
    version: OnceLock<String>,
}

impl WorkerPool {
    /// Creates a runner of Python, without starting a worker.
    ///
    /// A block can use `state` and `variables` (dicts; changes to `state` are returned in [`ScriptResult::changes`],
    /// changes to `variables` stay in the block), `json`, and `print`, whose output appears in the report. A
    /// block with its own `return` is the body of a function. A block without one returns the names that it
    /// assigned, except those that begin with `_` and those of functions, classes and modules. A result must
    /// be JSON: tuples become lists and int keys text, anything else fails with the name of its type.
    ///
    /// The interpreter runs a part of Python. Everything else fails with `script_unsupported`, which names the construct,
    /// its line and a workaround.
    #[must_use]
    pub fn python(options: &WorkerOptions) -> Self {
        Self::embedded(options, Interpreter::Python)
    }

    /// Creates a runner of Lua 5.5, without starting a worker.
    ///
    /// A block can use `state` and `variables` (tables; assignments to them stay in the block) and the base
    /// functions, `coroutine`, `math`, `string`, `table` and `utf8` of Lua 5.5, `os.clock`, `os.date` and
    /// `os.time` (UTC), and `print`, whose output appears in the report. Each block has its own globals.
    ///
    /// Return values are converted to JSON:
    /// - Nothing and nil become null.
    /// - Several values become a list.
    /// - A table whose keys are all positive whole numbers becomes a list, with null for missing items.
    /// - Any other table becomes an object, including the empty table.
    /// - A whole float becomes an integer.
    /// - Anything else fails with the name of its type.
    ///
    /// A block has no access to files, the environment, processes, the network or bytecode.
    #[must_use]
    pub fn lua(options: &WorkerOptions) -> Self {
        Self::embedded(options, Interpreter::Lua)
    }

    fn embedded(options: &WorkerOptions, interpreter: Interpreter) -> Self {
        let launch = Ok(options.launch());
        Self {
            enforces_time_limit: true,
            memory_limit: options.memory_limit,
            clock: Some(Arc::clone(&options.clock)),
            ..Self::new(launch, interpreter, options.workers, options.time_limit)
        }
    }

    /// Creates a runner of the user's own Python, 3.9 or newer, without starting a worker. A missing interpreter
    /// fails the first block, not this call.
    ///
    /// Inputs, results and output are the same as in the embedded interpreter. Without a sandbox, a block has all
    /// permissions of the process. A module that a block imported stays imported in its worker. Each block has its
    /// own names.
    #[must_use]
    pub fn python3(options: Python3Options) -> Self {
        let (workers, time_limit) = (options.workers, options.time_limit);
        let memory_limit = options.memory_limit;
        Self {
            memory_limit,
            ..Self::new(options.launch(), Interpreter::Python, workers, time_limit)
        }
    }

    /// Returns the version of the user's own Python, such as `3.12`; `None` before a worker has started, and for
    /// embedded interpreters.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.get().map(String::as_str)
    }

    /// Ends all idle workers.
    pub async fn close(&self) {
        while let Some(worker) = self.take() {
            worker.end().await;
        }
    }

    /// Compiles a block with the user's own Python, and does not run it.
    ///
    /// # Errors
    /// The error of the compiler, or the reason why there is none.
    pub async fn compile(&self, script: &Script) -> Result<(), ScriptFailure> {
        self.answer(script, &Map::new(), &Map::new(), true)
            .await
            .map(drop)
    }

    fn new(
        launch: Result<Launch, ScriptFailure>,
        interpreter: Interpreter,
        workers: usize,
        time_limit: Duration,
    ) -> Self {
        Self {
            launch,
            interpreter,
            idle: Mutex::default(),
            permits: Semaphore::new(workers.clamp(1, Semaphore::MAX_PERMITS)),
            time_limit,
            enforces_time_limit: false,
            memory_limit: 0,
            clock: None,
            requests: AtomicU64::new(0),
            version: OnceLock::new(),
        }
    }

    fn request(
        &self,
        number: u64,
        script: &Script,
        state: &Map<String, Value>,
        variables: &Map<String, Value>,
        compile_only: bool,
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
            now: self.clock.as_ref().map_or(0, |clock| clock.now()),
            compile_only,
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
    async fn worker(&self, launch: &Launch) -> Result<Worker, ScriptFailure> {
        while let Some(worker) = self.take() {
            if worker.is_alive() {
                return Ok(worker);
            }
        }
        let worker = Worker::start(launch)
            .await
            .map_err(|error| start_failure(launch, error))?;
        if let Some((_, version)) = worker.ready.split_once(' ') {
            check_version(version)?;
            let _ = self.version.set(version.to_owned());
        }
        Ok(worker)
    }

    fn take(&self) -> Option<Worker> {
        self.idle.lock().pop()
    }

    fn worker_failure(&self, launch: &Launch, error: WorkerError) -> ScriptFailure {
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
            WorkerError::NoSandbox(_) | WorkerError::NotStarted(_) | WorkerError::NotReady => {
                start_failure(launch, error)
            }
        }
    }

    /// True if a worker with a memory limit reported a failed memory allocation on stderr.
    fn out_of_memory(&self, stderr_tail: &str) -> bool {
        self.memory_limit > 0
            && stderr_tail.contains("memory allocation of")
            && stderr_tail.contains("failed")
    }

    /// Has one block answered by a worker that runs no other block at the same time.
    async fn answer(
        &self,
        script: &Script,
        state: &Map<String, Value>,
        variables: &Map<String, Value>,
        compile_only: bool,
    ) -> Result<ScriptResult, ScriptFailure> {
        let launch = self.launch.as_ref().map_err(|failure| ScriptFailure {
            line: Some(script.first_line),
            ..failure.clone()
        })?;
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
        let request = self.request(number, script, state, variables, compile_only)?;
        let _permit = self
            .permits
            .acquire()
            .await
            .map_err(|_| failure("script_worker", "the runner of inline code is shut down"))?;
        let mut worker = self.worker(launch).await?;
        let limit = if self.enforces_time_limit {
            self.time_limit + GRACE
        } else {
            self.time_limit
        };
        let line = match timeout(limit, worker.exchange(&request)).await {
            // The return drops the worker, which kills it and what the block has started.
            Err(_) => {
                return Err(failure(
                    "script_timeout",
                    limits::timed_out(self.time_limit),
                ));
            }
            Ok(Err(error)) => return Err(self.worker_failure(launch, error)),
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
        // Only a worker that has given a proper answer is used again. The greeting counts as an answer, too.
        if worker.answered <= BLOCKS_PER_WORKER {
            self.idle.lock().push(worker);
        }
        match reply.answer {
            BlockOutcome::Ended(ended) => Ok(ended),
            BlockOutcome::Failed(failure) => Err(failure),
        }
    }
}

#[async_trait]
impl ScriptRunner for WorkerPool {
    /// Runs one block in a worker that runs no other block at the same time.
    ///
    /// The returned future owns the worker: dropping the future kills it. Waiting for a free worker does
    /// not count towards the time limit.
    async fn run(
        &self,
        script: &Script,
        state: &Map<String, Value>,
        variables: &Map<String, Value>,
    ) -> Result<ScriptResult, ScriptFailure> {
        self.answer(script, state, variables, false).await
    }
}

/// Refuses versions of Python that no longer get corrections.
fn check_version(version: &str) -> Result<(), ScriptFailure> {
    let mut parts = version.split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(3)), Some(Ok(minor))) if minor >= 9 => Ok(()),
        _ => Err(failure(
            "script_worker",
            format!(
                "Python {version} is too old: install Python 3.9 or newer, or name it in `settings.python3.command`"
            ),
        )),
    }
}

fn start_failure(launch: &Launch, error: WorkerError) -> ScriptFailure {
    let program = launch.program.display();
    let cause = match error {
        WorkerError::NoSandbox(why) => format!(
            "its sandbox cannot be made: {why}; `--python embedded` and `--sandbox=off` run it without one"
        ),
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
