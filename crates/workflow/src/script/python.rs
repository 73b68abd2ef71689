//! The default runner: Python in an embedded interpreter, in worker processes of our own binary.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_core::{Clock, SystemClock};
use serde_json::{Map, Value};

use super::pool::Pool;
use super::process::Launch;
use super::wire::Greeting;
use super::{Ended, Script, ScriptFailure, ScriptRunner, worker};

/// How blocks are run.
#[derive(Debug, Clone)]
pub struct PythonOptions {
    /// Our own binary, which becomes a worker when it is called with `arguments`.
    pub program: PathBuf,
    /// What makes it one; what is called then is [`worker::serve`].
    pub arguments: Vec<OsString>,
    /// How long a block may run; starting a worker and waiting for one are not counted.
    pub time_limit: Duration,
    /// How many bytes a worker may use on top of what it has when it starts, the block's state
    /// included; 0 is no limit. Enforced by the system on Linux; elsewhere only single huge values
    /// are refused.
    pub memory_limit: u64,
    /// How many blocks may run at the same time, at least one; the others wait.
    pub workers: usize,
    /// The time of day that `datetime.now()` tells a block, in UTC.
    pub clock: Arc<dyn Clock>,
}

impl PythonOptions {
    /// Worker processes of `program`: `__script-worker`, 30 seconds, 512 MiB, two at a time, the
    /// clock of the machine.
    #[must_use]
    pub fn new(program: PathBuf) -> Self {
        Self {
            program,
            arguments: vec!["__script-worker".into()],
            time_limit: Duration::from_secs(30),
            memory_limit: 512 * 1024 * 1024,
            workers: 2,
            clock: Arc::new(SystemClock),
        }
    }
}

/// Runs blocks in the embedded Python.
///
/// A block sees `state` and `variables` (dicts; what it does to them stays in the block), `json`,
/// and `print`, whose output ends in the report. With a `return` of its own it is the body of a
/// function; without, the names that it assigned are its result, except those that begin with `_`
/// and those that are functions, classes or modules. What it returns must be JSON: tuples become
/// lists and int keys text, anything else fails and names the type.
///
/// The interpreter knows a part of Python; a block that needs more fails with
/// `script_unsupported`, which names the construct, its line and the way out. Known to differ
/// without a word: `str.center` puts an odd space on the right, `title()` of `ß` is `SS`, sets have
/// another order, quotients of integers beyond 2^53 and the last digit of a float halfway between
/// two shortest forms may differ by one, and an error that passes an `except` which does not catch
/// it is placed at that line.
///
/// It has no way to files, the environment, processes or the network. Blocks run in worker
/// processes with an empty environment, which are started when the first block needs them and
/// kept for the next. A worker that dies or overruns its limits costs its block and is replaced.
/// Dropping the future of [`ScriptRunner::run`] kills the block's worker, dropping the runner all.
///
/// A runner belongs to the tokio runtime on which it is used first.
#[derive(Debug)]
pub struct PythonRunner {
    pool: Pool,
    clock: Arc<dyn Clock>,
}

impl PythonRunner {
    /// A runner that has started nothing yet.
    #[must_use]
    pub fn new(options: PythonOptions) -> Self {
        let PythonOptions {
            program,
            arguments,
            time_limit,
            memory_limit,
            workers,
            clock,
        } = options;
        let launch = Launch {
            program,
            arguments,
            environment: Vec::new(),
            directory: PathBuf::from("/"),
            greeting: serde_json::to_string(&Greeting { memory_limit }).unwrap_or_default(),
            ready: worker::READY,
        };
        Self {
            pool: Pool::new(launch, workers, time_limit, true, memory_limit),
            clock,
        }
    }
}

#[async_trait]
impl ScriptRunner for PythonRunner {
    async fn run(
        &self,
        script: &Script,
        state: &Map<String, Value>,
        variables: &Map<String, Value>,
    ) -> Result<Ended, ScriptFailure> {
        self.pool
            .run(script, state, variables, self.clock.now())
            .await
    }
}
