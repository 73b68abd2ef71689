//! A tool.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use cachalot_core::{EffectTarget, Effects};
use cachalot_tools::workspace::PathError;
use cachalot_tools::{
    Arguments, CacheClass, Operation, OperationMetadata, Parameter, ParameterKind, ToolContext,
    ToolOutput,
};
use serde_json::Value;

/// `longest_line`: finds the longest line of a text file in the workspace.
pub struct LongestLine {
    /// How often it was done.
    done: Arc<AtomicU32>,
}

static METADATA: OperationMetadata = OperationMetadata::declared(
    "longest_line",
    &[],
    "Finds the longest line of a text file.",
    &[Parameter::required(
        "path",
        ParameterKind::Text,
        "The file, relative to the workspace.",
    )],
)
.read_only()
// It records what it reads as a witness, so a result is served while the file is the same.
.with_cache_class(CacheClass::Validated);

impl LongestLine {
    /// The tool, and the number of times that it was done.
    #[must_use]
    pub fn counted() -> (Self, Arc<AtomicU32>) {
        let done = Arc::new(AtomicU32::new(0));
        let tool = Self {
            done: Arc::clone(&done),
        };
        (tool, done)
    }
}

/// Where the file is, if it may be read.
fn file(arguments: &Arguments, context: &ToolContext) -> Result<PathBuf, PathError> {
    let path = arguments.get("path").and_then(Value::as_str);
    context.workspace.resolve(path.unwrap_or_default())
}

#[async_trait]
impl Operation for LongestLine {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        &METADATA
    }

    fn effects(&self, arguments: &Arguments, context: &ToolContext) -> Effects {
        match file(arguments, context) {
            Ok(path) => Effects::reading(vec![EffectTarget::Path(path)]),
            Err(_) => Effects::reading(Vec::new()),
        }
    }

    async fn run(&self, arguments: Arguments, context: &ToolContext) -> ToolOutput {
        let path = match file(&arguments, context) {
            Ok(path) => path,
            Err(error) => return ToolOutput::error(error.to_string()),
        };
        self.done.fetch_add(1, Ordering::SeqCst);
        // Noted before it is looked at, and read through the same handle.
        let bytes = match context.witness.read(&path) {
            Ok(bytes) => bytes,
            Err(error) => return ToolOutput::error(format!("{}: {error}", path.display())),
        };
        let text = String::from_utf8_lossy(&bytes);
        let longest = text.lines().max_by_key(|line| line.chars().count());
        ToolOutput::text(longest.unwrap_or_default())
    }
}
