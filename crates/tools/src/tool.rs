//! The tool trait, implemented by built-in tools, those of MCP servers, and those of other crates.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_cache::Witness;
use cachalot_core::{Clock, Effects, SecretSet};
use cachalot_model::Block;
use cachalot_operation::workspace::PathError;
use cachalot_operation::{Permissions, ResourceAccess, Workspace};
use cachalot_storage::HttpClient;
use cachalot_store::Store;
use serde_json::Value;

use crate::gate::Gate;

/// The arguments of a call, cast and checked against the tool's schema.
pub use cachalot_operation::Arguments;

/// The origin of a tool. Its order sorts definitions: built-in tools by name, then MCP tools by server and
/// name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// This program, or a program that links this crate.
    BuiltIn,
    /// An MCP server, by its name in the configuration.
    Mcp(String),
}

/// The conditions under which a result of a read-only tool may be replayed. Independent of
/// [`ToolMetadata::read_only`]: a tool that changes nothing may still return results that go stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheClass {
    /// Never.
    Never,
    /// While everything recorded in its [`ToolContext::witness`] is unchanged, and nothing that its
    /// [`Tool::effects`] reads was written.
    Validated,
    /// For this time, which the user or the server has stated.
    Ttl(Duration),
    /// Always: equal arguments give equal results forever.
    Immutable,
}

/// The description of a tool.
#[derive(Debug, Clone)]
pub struct ToolMetadata {
    /// `^[a-zA-Z0-9_-]{1,64}$`.
    pub name: String,
    /// When and how to use the tool, for the model.
    pub description: String,
    /// JSON Schema of the arguments: an object.
    pub parameters: Value,
    /// Raised when the same arguments would give another result; part of every key.
    pub version: u32,
    /// The origin of the tool.
    pub origin: Origin,
    /// True if the tool changes nothing. A server's own annotation is only a hint, and never sufficient.
    pub read_only: bool,
    /// True if the tool must run alone although it changes nothing.
    pub exclusive: bool,
    /// The conditions under which results may be replayed.
    pub cache_class: CacheClass,
}

impl ToolMetadata {
    /// Creates a description of a built-in tool with side effects: it runs alone, and its results are never
    /// replayed.
    #[must_use]
    pub fn with_side_effects(name: &str, description: String, parameters: Value) -> Self {
        Self {
            name: name.to_owned(),
            description,
            parameters,
            version: 1,
            origin: Origin::BuiltIn,
            read_only: false,
            exclusive: true,
            cache_class: CacheClass::Never,
        }
    }

    /// True if it may run concurrently with other such tools.
    #[must_use]
    pub fn concurrency_safe(&self) -> bool {
        self.read_only && !self.exclusive
    }
}

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
    pub memory: Option<Arc<dyn Store>>,
    /// The secrets that must be redacted.
    pub secret_set: Arc<SecretSet>,
    /// The allow-list of tools; `None`: all tools. Code that runs a call or passes it on must check it first,
    /// before hooks, permissions, and anything that could answer in the tool's place.
    pub gate: Option<Gate>,
    /// The permission rules. Calls are checked against them before they run; searches use them to find the
    /// files below their directory that they must not read.
    pub rules: Arc<Permissions>,
    /// The list in which the call records what it reads, before it reads it. Not shared with other calls.
    pub witness: Witness,
}

impl ToolContext {
    /// Returns the result of a call of this tool if the gate denies it.
    #[must_use]
    pub fn denial(&self, tool: &str) -> Option<ToolOutput> {
        self.gate.as_ref()?.denial(tool)
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
}

impl From<PathError> for ToolOutput {
    fn from(refusal: PathError) -> Self {
        Self::error(refusal.to_string())
    }
}

impl ToolOutput {
    /// Creates a result of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: vec![Block::text(text)],
            is_error: false,
            lifetime: None,
            private: false,
        }
    }

    /// Creates a failure, with cause and remedy for the model.
    pub fn error(text: impl Into<String>) -> Self {
        Self {
            is_error: true,
            ..Self::text(text)
        }
    }
}

/// A tool. Implementations have no state per session: the arguments and the [`ToolContext`] contain everything
/// they need. Dropping the future of [`Tool::run`] cancels the work.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns the description of the tool. Never changes.
    fn metadata(&self) -> &ToolMetadata;

    /// Returns the reads and writes of a call. Evaluated before the call runs; must never omit a write. By
    /// default the effects are unknown, which is always correct.
    fn effects(&self, arguments: &Arguments, context: &ToolContext) -> Effects {
        let _ = (arguments, context);
        Effects::UNKNOWN
    }

    /// Returns what a call touches outside this program: files, commands, URLs. Permission rules, hook
    /// conditions and approvals are matched on it, so it must never omit anything that the arguments name.
    /// Computed from the arguments alone, before hooks and rules are evaluated; cheap, and without file
    /// system access. [`Tool::effects`] is the more exact equivalent for the cache: with resolved paths, and
    /// with unknown effects marked as unknown.
    ///
    /// By default derived from the names and values of the arguments ([`ResourceAccess::declared`]).
    fn resource_access(&self, arguments: &Arguments) -> ResourceAccess {
        let metadata = self.metadata();
        ResourceAccess::declared(&metadata.parameters, arguments, metadata.read_only)
    }

    /// Returns the inputs that are not arguments but change the result (named environment variables,
    /// settings); part of every key. The workspace's root is always part of it. By default none.
    fn implicit_inputs(&self, context: &ToolContext) -> Value {
        let _ = context;
        Value::Null
    }

    /// True if the call may run concurrently with other such calls. By default a property of the tool,
    /// independent of the arguments.
    fn concurrency_safe(&self, arguments: &Arguments) -> bool {
        let _ = arguments;
        self.metadata().concurrency_safe()
    }

    /// Runs the call. The arguments have been cast and checked against [`ToolMetadata::parameters`]. A failure is an
    /// [`ToolOutput`] with [`ToolOutput::is_error`].
    async fn run(&self, arguments: Arguments, context: &ToolContext) -> ToolOutput;
}
