//! Inline code: the `run` blocks of an agent file.

mod block;
mod branches;
mod changes;
mod check;
mod convert;
mod diagnose;
mod host;
mod interpreter;
mod limits;
pub mod lua;
mod options;
mod pool;
mod printed;
mod process;
pub mod python;
pub mod python3;
mod rewrite;
mod shims;
mod surrogates;
mod templates;
mod unsupported;
mod wire;
pub mod worker;

pub use check::{check, check_syntax};
pub(crate) use check::{may_change_state, template_in};
pub use options::WorkerOptions;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A block of inline code.
#[derive(Debug, Clone)]
pub struct Script {
    /// Its source, indentation of the block removed.
    pub source: String,
    /// The line of the agent file on which `source` begins, from 1.
    pub first_line: u32,
}

/// How a block ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ended {
    /// What it returned; null if nothing.
    pub returned: Value,
    /// What it printed.
    pub printed: String,
    /// What it did to `state` itself.
    pub changes: Changes,
}

/// What a block did to the state that it was given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// Fields that are new or have another value, also if only something inside them changed.
    pub set: Map<String, Value>,
    /// Fields that are gone.
    pub removed: Vec<String>,
}

/// Why a block failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ScriptFailure {
    /// `script_error`, `script_unsupported`, `script_timeout`, `script_memory`, `script_worker`.
    pub kind: &'static str,
    /// What happened, in the words of the interpreter, and the way out where there is one.
    pub message: String,
    /// The line of the agent file, from 1.
    pub line: Option<u32>,
    /// What it printed before it failed.
    pub printed: String,
}

/// Runs inline code. `state` and `variables` are what the block sees under these names.
#[async_trait]
pub trait ScriptRunner: Send + Sync {
    /// Runs one block to its end. Blocks of parallel branches run at the same time.
    ///
    /// # Errors
    /// The block's own error, or that it was stopped.
    async fn run(
        &self,
        script: &Script,
        state: &Map<String, Value>,
        variables: &Map<String, Value>,
    ) -> Result<Ended, ScriptFailure>;
}
