//! Tools: operations that are offered to a model, those of MCP servers and of other crates included.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::Witness;
use cachalot_core::{Clock, SecretSet};
use cachalot_model::Block;
use cachalot_sandbox::CommandSandbox;
use cachalot_storage::HttpClient;
use cachalot_store::Store;

use crate::operation::Operation;
use crate::permissions::Permissions;
use crate::workspace::{PathError, Workspace};
use crate::{Gate, LiveOutput, Sampler, UserPrompter};

/// An [`Operation`] that a model may call. A failure of a call is an output with [`ToolOutput::is_error`].
pub trait Tool: Operation<Context = ToolContext, Output = ToolOutput> {}

impl<T: Operation<Context = ToolContext, Output = ToolOutput> + ?Sized> Tool for T {}

/// The dependencies of a call besides its arguments, which would otherwise be global.
#[derive(Clone)]
pub struct ToolContext {
    /// The base directory of relative paths, which no path may leave.
    pub workspace: Arc<Workspace>,
    /// The session that the call belongs to.
    pub session: String,
    /// The environment variables.
    pub environment: Arc<BTreeMap<String, String>>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The HTTP client. URLs chosen by a model must use its guarded half.
    pub http: HttpClient,
    /// Long-term memory, if there is one.
    pub store: Option<Arc<dyn Store>>,
    /// The secrets that must be redacted.
    pub secret_set: Arc<SecretSet>,
    /// Asks the user questions; `None` if no user can be asked.
    pub user: Option<Arc<dyn UserPrompter>>,
    /// Asks the model of the agent for others; `None` if no agent made the call, or no user can approve it.
    pub sampler: Option<Arc<dyn Sampler>>,
    /// The allow-list of tools; `None`: all tools. Code that runs a call or passes it on must check it first,
    /// before hooks, permissions, and anything that could answer in the tool's place.
    pub gate: Option<Gate>,
    /// The permission rules. Calls are checked against them before they run; searches use them to find the
    /// files below their directory that they must not read.
    pub rules: Arc<Permissions>,
    /// The sandbox of the programs that tools start; `None`: they have all rights of the user.
    pub sandbox: Option<Arc<CommandSandbox>>,
    /// The list in which the call records what it reads, before it reads it. Not shared with other calls.
    pub witness: Witness,
    /// The place at which the call publishes its output while it runs. Not shared with other calls.
    pub output: LiveOutput,
}

impl ToolContext {
    /// Returns the result of a call of this tool if the gate denies it.
    #[must_use]
    pub fn denial(&self, tool: &str) -> Option<ToolOutput> {
        let denial = self.gate.as_ref()?.denial(tool)?;
        Some(ToolOutput::error(denial))
    }
}

/// The result of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    /// Text and images.
    pub content: Vec<Block>,
    /// True if the call failed. Failures are results like any other, but never cached.
    pub is_error: bool,
    /// The lifetime of the result that its producer states (`ttlMs` of MCP).
    pub lifetime: Option<Duration>,
    /// True if the result is for this user only, regardless of the scope in which results are shared
    /// (`cacheScope: private` of MCP).
    pub private: bool,
    /// The reason why the result must not be cached, if its producer knows one.
    pub not_storable: Option<String>,
}

impl From<PathError> for ToolOutput {
    fn from(refusal: PathError) -> Self {
        Self::error(refusal.to_string())
    }
}

impl From<Vec<Block>> for ToolOutput {
    fn from(content: Vec<Block>) -> Self {
        Self {
            content,
            is_error: false,
            lifetime: None,
            private: false,
            not_storable: None,
        }
    }
}

impl ToolOutput {
    /// Creates a result of text.
    pub fn text(text: impl Into<String>) -> Self {
        vec![Block::text(text)].into()
    }

    /// Creates a failure, with cause and remedy for the model.
    pub fn error(text: impl Into<String>) -> Self {
        Self {
            is_error: true,
            ..Self::text(text)
        }
    }
}
