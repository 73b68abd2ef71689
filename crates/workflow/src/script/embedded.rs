//! Runs blocks in the embedded interpreters, in worker processes of our own binary.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::Clock;
use serde_json::{Map, Value};

use super::pool::Pool;
use super::wire::Interpreter;
use super::{Script, ScriptFailure, ScriptResult, ScriptRunner, WorkerOptions};

/// The runner of an embedded interpreter.
///
/// A block has no access to files, the environment, processes or the network. Blocks run in worker
/// processes, whose environment contains only the time zone. Workers are started on demand and reused. A
/// worker that crashes or exceeds its limits fails its block and is replaced. Dropping the future of
/// [`ScriptRunner::run`] kills the block's worker; dropping the runner kills all workers.
///
/// A runner belongs to the tokio runtime on which it is used first.
#[derive(Debug)]
pub struct EmbeddedRunner {
    pool: Pool,
    clock: Arc<dyn Clock>,
}

impl EmbeddedRunner {
    /// Creates a runner of Python, without starting a worker.
    ///
    /// A block can use `state` and `variables` (dicts; changes to `state` are returned in [`ScriptResult::changes`],
    /// changes to `variables` stay in the block), `json`, and `print`, whose output appears in the report. A
    /// block with its own `return` is the body of a function. A block without one returns the names that it
    /// assigned, except those that begin with `_` and those of functions, classes and modules. A result must
    /// be JSON: tuples become lists and int keys text, anything else fails with the name of its type.
    ///
    /// The interpreter implements a part of Python. Features that it lacks or computes differently are
    /// rewritten into calls of helpers before the block runs, or fail with `script_unsupported`, which names
    /// the construct, its line and a workaround, even where the block catches all exceptions.
    ///
    /// Known differences from Python:
    /// - the order of sets
    /// - the wording of exception messages
    /// - the printed form of the flags of `re` (numbers)
    /// - a dict with the equal keys `1` and `True` (keeps the latter as key)
    /// - `sys.version`
    /// - the time zone (UTC)
    /// - the line of an error that passes an `except` that does not catch it (the line of the `except`)
    #[must_use]
    pub fn python(options: &WorkerOptions) -> Self {
        Self::new(options, Interpreter::Python)
    }

    /// Creates a runner of Lua 5.4, without starting a worker.
    ///
    /// A block can use `state` and `variables` (tables; assignments to them stay in the block) and the base
    /// functions, `coroutine`, `math`, `string`, `table` and `utf8` of Lua 5.4, `os.clock`, `os.date` and
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
        Self::new(options, Interpreter::Lua)
    }

    fn new(options: &WorkerOptions, interpreter: Interpreter) -> Self {
        Self {
            pool: options.pool(interpreter),
            clock: Arc::clone(&options.clock),
        }
    }
}

#[async_trait]
impl ScriptRunner for EmbeddedRunner {
    async fn run(
        &self,
        script: &Script,
        state: &Map<String, Value>,
        variables: &Map<String, Value>,
    ) -> Result<ScriptResult, ScriptFailure> {
        self.pool
            .run(script, state, variables, self.clock.now())
            .await
    }
}
