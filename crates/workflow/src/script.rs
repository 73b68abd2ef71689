//! Inline code: the `run` blocks of an agent file.

mod block;
mod branches;
mod callees;
mod changes;
mod check;
mod constants;
mod convert;
mod diagnose;
mod edits;
mod guards;
mod interpreter;
mod limits;
pub mod lua;
mod options;
mod output_buffer;
mod pool;
mod process;
mod programs;
mod python3;
mod supported;
mod templates;
mod unsupported;
mod wire;
pub mod worker;

pub use check::{check, check_syntax};
pub(crate) use check::{may_change_state, template_in, with_constants};
pub use options::WorkerOptions;
pub use pool::WorkerPool;
pub use python3::Python3Options;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A block of inline code.
#[derive(Debug, Clone)]
pub struct Script {
    /// The source, with the block's indentation removed.
    pub source: String,
    /// The line of the agent file on which `source` begins, from 1.
    pub first_line: u32,
}

/// Result of a block that ended without an error.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ScriptResult {
    /// The value that the block returned; null if it returned nothing.
    pub returned: Value,
    /// The output of the block.
    pub printed: String,
    /// The block's changes to `state` itself.
    #[serde(default)]
    pub changes: Changes,
}

/// Changes of a block to its state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// Fields that are new or have another value, including those with a change in a nested value.
    pub set: Map<String, Value>,
    /// Fields that were removed.
    pub removed: Vec<String>,
}

/// A stable identifier of failures. A name of its own, because serde would borrow a `&str` from its input.
pub type FailureKind = &'static str;

/// Failure of a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ScriptFailure {
    /// `script_error`, `script_unsupported`, `script_timeout`, `script_memory`, `script_worker`.
    #[serde(deserialize_with = "wire::failure_kind")]
    pub kind: FailureKind,
    /// The interpreter's error message, and a workaround if there is one.
    pub message: String,
    /// The line of the agent file, from 1.
    pub line: Option<u32>,
    /// The output before the failure.
    pub printed: String,
}

impl ScriptFailure {
    /// Creates the failure of a block that printed nothing.
    fn new(kind: &'static str, message: impl Into<String>, line: Option<u32>) -> Self {
        Self {
            kind,
            message: message.into(),
            line,
            printed: String::new(),
        }
    }
}

/// Runs inline code. The block sees `state` and `variables` under these names.
#[async_trait]
pub trait ScriptRunner: Send + Sync {
    /// Runs one block to its end. Blocks of parallel branches run concurrently.
    ///
    /// # Errors
    /// The block's own error, or the reason why it was stopped.
    async fn run(
        &self,
        script: &Script,
        state: &Map<String, Value>,
        variables: &Map<String, Value>,
    ) -> Result<ScriptResult, ScriptFailure>;
}
