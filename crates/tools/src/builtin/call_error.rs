//! Errors of the built-in tools.

use std::io;

use cachalot_core::SecretSet;
use cachalot_operation::ToolOutput;
use cachalot_store::Error;

use crate::workspace::PathError;
use crate::workspace_sandbox::ProtectionError;

/// The reason why a call failed, for the model.
#[derive(Debug, thiserror::Error)]
pub(in crate::builtin) enum CallError {
    /// The call cannot do what it asks for; with the remedy.
    #[error("{0}")]
    Refused(String),
    /// A path is refused.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The file system failed on a subject.
    #[error("{0}: {1}")]
    File(String, #[source] io::Error),
    /// The sandbox of a command cannot be made.
    #[error("the command did not run, because its sandbox cannot be made: {0}")]
    Sandbox(#[from] ProtectionError),
    /// The store failed.
    #[error("the store failed: {}{}", .0, if .0.is_retryable() { "; try again later" } else { "" })]
    Store(#[from] Error),
}

impl CallError {
    /// Returns the result of the call, without secrets.
    pub(in crate::builtin) fn output(&self, secret_set: &SecretSet) -> ToolOutput {
        ToolOutput::error(secret_set.redact(&self.to_string()))
    }
}
