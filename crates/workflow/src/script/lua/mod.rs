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
use super::{Ended, Script, ScriptFailure, ScriptRunner, WorkerOptions};

pub use check::check;

/// Runs blocks in the embedded Lua.
///
/// A block sees `state` and `variables` (tables; assignments to them stay in the block) and the base
/// functions, `coroutine`, `math`, `string`, `table` and `utf8` of Lua 5.4, `os.clock`, `os.date` and
/// `os.time` (UTC), and `print`, whose output ends in the report. Each block has globals of its own.
///
/// What it returns becomes JSON: nothing and nil become null, several values a list, a table whose
/// keys are all positive whole numbers a list (null where one is missing), any other table an object,
/// the empty table too; a whole float becomes an integer. Anything else fails and names the type.
///
/// It has no way to files, the environment, processes, the network or bytecode. Blocks run in worker
/// processes as those of [`PythonRunner`](super::python::PythonRunner) do, with the same limits.
///
/// A runner belongs to the tokio runtime on which it is used first.
#[derive(Debug)]
pub struct LuaRunner {
    pool: Pool,
    clock: Arc<dyn Clock>,
}

impl LuaRunner {
    /// A runner that has started nothing yet.
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
    ) -> Result<Ended, ScriptFailure> {
        self.pool
            .run(script, state, variables, self.clock.now())
            .await
    }
}
