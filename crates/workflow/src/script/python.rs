//! The default runner: Python in an embedded interpreter, in worker processes of our own binary.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::Clock;
use serde_json::{Map, Value};

use super::pool::Pool;
use super::wire::Interpreter;
use super::{Ended, Script, ScriptFailure, ScriptRunner, WorkerOptions};

/// Runs blocks in the embedded Python.
///
/// A block sees `state` and `variables` (dicts; what it does to `state` is told in
/// [`Ended::changes`], what it does to `variables` stays in the block), `json`,
/// and `print`, whose output ends in the report. With a `return` of its own it is the body of a
/// function; without, the names that it assigned are its result, except those that begin with `_`
/// and those that are functions, classes or modules. What it returns must be JSON: tuples become
/// lists and int keys text, anything else fails and names the type.
///
/// The interpreter knows a part of Python. What it lacks or computes differently is rewritten into
/// calls of helpers before the block runs, or fails with `script_unsupported`, which names the
/// construct, its line and the way out, even where the block catches exceptions of any kind.
///
/// Known to differ: the order of sets, the wording of exception messages, the printed form of the
/// flags of `re` (numbers), a dict with the equal keys `1` and `True` (which keeps the latter as
/// key), `sys.version`, the time zone (UTC), and the line of an error that passes an `except` which
/// does not catch it (it is placed there).
///
/// It has no way to files, the environment, processes or the network. Blocks run in worker
/// processes, whose environment holds nothing but the time zone; they are started when the first
/// block needs them and kept for the next. A worker that dies or overruns its limits costs its block and is replaced.
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
    pub fn new(options: &WorkerOptions) -> Self {
        Self {
            pool: options.pool(Interpreter::Python),
            clock: Arc::clone(&options.clock),
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
