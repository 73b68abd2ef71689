//! The runner for `language: lua`: Lua 5.4 in worker processes of our own binary.

mod check;
mod convert;
mod diagnose;
pub(super) mod interpreter;

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::Clock;
use serde_json::{Map, Value};

use super::pool::Pool;
use super::wire::Interpreter;
use super::{Script, ScriptFailure, ScriptResult, ScriptRunner, WorkerOptions};

pub use check::check;

/// Runs blocks in the embedded Lua.
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
/// A block has no access to files, the environment, processes, the network or bytecode. Blocks run in
/// worker processes like those of [`PythonRunner`](super::python::PythonRunner), with the same limits.
///
/// A runner belongs to the tokio runtime on which it is used first.
#[derive(Debug)]
pub struct LuaRunner {
    pool: Pool,
    clock: Arc<dyn Clock>,
}

impl LuaRunner {
    /// Creates a runner without starting a worker.
    #[must_use]
    pub fn new(options: &WorkerOptions) -> Self {
        Self {
            pool: options.pool(Interpreter::Lua),
            clock: Arc::clone(&options.clock),
        }
    }
}

#[async_trait]
impl ScriptRunner for LuaRunner {
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
