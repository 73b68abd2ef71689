//! Options of worker processes of our own binary, which run blocks in an embedded interpreter.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::{Clock, SystemClock};

use super::process::Launch;
use super::wire::Greeting;

/// Worker processes of our own binary, and the limits of the blocks that they run.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// The path of our own binary, which becomes a worker when it is called with `arguments`.
    pub program: PathBuf,
    /// The arguments for which the binary calls [`serve`](super::worker::serve).
    pub arguments: Vec<OsString>,
    /// The maximum run time of a block; starting a worker and waiting for one do not count.
    pub time_limit: Duration,
    /// The maximum memory of a worker, in bytes, in addition to its memory at start, including the
    /// block's state; 0 means no limit. Enforced by the system on Linux; on other systems only single
    /// huge values are rejected.
    pub memory_limit: u64,
    /// The maximum number of blocks that run concurrently, at least one; further blocks wait.
    pub workers: usize,
    /// The clock for the time of day in a block of Lua, in UTC.
    pub clock: Arc<dyn Clock>,
}

impl WorkerOptions {
    /// Returns the default options for worker processes of `program`: the argument `__script-worker`, 30
    /// seconds, 512 MiB, two workers, and the clock of the machine.
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

    /// Returns the start of such a worker.
    pub(super) fn launch(&self) -> Launch {
        let greeting = Greeting {
            memory_limit: self.memory_limit,
        };
        Launch {
            program: self.program.clone(),
            arguments: self.arguments.clone(),
            // Without `TZ`, the C library reads the machine's time zone from a file.
            environment: vec![("TZ".into(), "UTC0".into())],
            directory: PathBuf::from("/"),
            sandbox: None,
            greeting: serde_json::to_string(&greeting).unwrap_or_default(),
        }
    }
}
