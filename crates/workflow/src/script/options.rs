//! Workers of our own binary, which run blocks in an embedded interpreter.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::{Clock, SystemClock};

use super::pool::Pool;
use super::process::Launch;
use super::wire::{Greeting, Interpreter};
use super::worker;

/// The workers of our own binary, and the limits of the blocks that they run.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
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
    /// The time of day that a block sees, in UTC.
    pub clock: Arc<dyn Clock>,
}

impl WorkerOptions {
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

    /// Returns a pool of such workers that run blocks in `interpreter`. Starts none.
    pub(super) fn pool(&self, interpreter: Interpreter) -> Pool {
        let greeting = Greeting {
            memory_limit: self.memory_limit,
        };
        let launch = Launch {
            program: self.program.clone(),
            arguments: self.arguments.clone(),
            // The C library reads the time zone of the machine from a file without it.
            environment: vec![("TZ".into(), "UTC0".into())],
            directory: PathBuf::from("/"),
            greeting: serde_json::to_string(&greeting).unwrap_or_default(),
            ready: worker::READY,
        };
        Pool::new(
            launch,
            interpreter,
            self.workers,
            self.time_limit,
            true,
            self.memory_limit,
        )
    }
}
