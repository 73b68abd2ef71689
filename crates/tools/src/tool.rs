//! What a tool is: the seam for built-in tools, those of MCP servers, and anybody else's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_cache::Witness;
use cachalot_core::{Clock, Effects, Seals};
use cachalot_memory::Memory;
use cachalot_model::Block;
use cachalot_operation::workspace::Refusal;
use cachalot_operation::{Permissions, Touches, Workspace};
use cachalot_storage::HttpClient;
use serde_json::Value;

use crate::gate::Gate;

/// The arguments of a call, cast and checked against the tool's schema.
pub use cachalot_operation::Arguments;

/// Where a tool comes from. Orders definitions: built-in tools by name, then MCP by server and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// This program, or whoever links it.
    BuiltIn,
    /// An MCP server, by the name that the configuration gives it.
    Mcp(String),
}

/// For how long, and on what grounds, a result of a read-only tool may be served again. Something
/// other than [`About::read_only`]: that a tool changes nothing does not make its result last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheClass {
    /// Never.
    Never,
    /// While everything that it noted in its [`Context::witness`] is unchanged, and nothing that its
    /// [`Tool::effects`] reads was written.
    Validated,
    /// For this long; somebody stated it.
    Ttl(Duration),
    /// Always: the same arguments give the same result for ever.
    Immutable,
}

/// What a tool says of itself.
#[derive(Debug, Clone)]
pub struct About {
    /// `^[a-zA-Z0-9_-]{1,64}$`.
    pub name: String,
    /// When and how to use it, for the model.
    pub description: String,
    /// JSON Schema of its arguments: an object.
    pub parameters: Value,
    /// Raised when the same arguments would give another result; part of every key.
    pub version: u32,
    /// Where it comes from.
    pub origin: Origin,
    /// Whether it changes nothing. What a server says of itself is a hint, and never enough.
    pub read_only: bool,
    /// Whether it must run alone, although it changes nothing.
    pub exclusive: bool,
    /// Whether results may be served again.
    pub class: CacheClass,
}

impl About {
    /// A tool of this program that acts: it runs alone, and its results are never served again.
    #[must_use]
    pub fn acting(name: &str, description: String, parameters: Value) -> Self {
        Self {
            name: name.to_owned(),
            description,
            parameters,
            version: 1,
            origin: Origin::BuiltIn,
            read_only: false,
            exclusive: true,
            class: CacheClass::Never,
        }
    }

    /// Whether it may run beside others of its kind.
    #[must_use]
    pub fn concurrency_safe(&self) -> bool {
        self.read_only && !self.exclusive
    }
}

/// What a tool is given beside its arguments: everything that would otherwise be global.
#[derive(Clone)]
pub struct Context {
    /// The directory that relative paths are relative to, and that nothing may leave.
    pub workspace: Arc<Workspace>,
    /// The session on whose behalf it runs.
    pub session: String,
    /// The environment variables.
    pub environment: Arc<BTreeMap<String, String>>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The HTTP client; addresses that a model chose go through its guarded half.
    pub http: HttpClient,
    /// Long-term memory, if there is one.
    pub memory: Option<Arc<dyn Memory>>,
    /// The secrets that must not leave.
    pub seals: Arc<Seals>,
    /// Which tools may be used; `None`: all. Whoever carries a call out, or hands it on, asks it
    /// first, before hooks, permissions and anything that could answer in the tool's place.
    pub gate: Option<Gate>,
    /// The permission rules. Calls are judged by them before they run; searches ask them which files
    /// below their directory they must not read.
    pub rules: Arc<Permissions>,
    /// Where the call notes what it looks at, before it looks. Of this call alone.
    pub witness: Witness,
}

impl Context {
    /// The result of a call of this tool, if it may not be used.
    #[must_use]
    pub fn denial(&self, tool: &str) -> Option<Output> {
        self.gate.as_ref()?.denial(tool)
    }
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Text and pictures.
    pub content: Vec<Block>,
    /// Whether it failed. Failures are results like any other, and never kept.
    pub is_error: bool,
    /// For how long whoever made the result says that it lasts (`ttlMs` of MCP).
    pub lifetime: Option<Duration>,
    /// Whether it is for this user alone, whatever scope results are otherwise shared in
    /// (`cacheScope: private` of MCP).
    pub private: bool,
}

impl From<Refusal> for Output {
    fn from(refusal: Refusal) -> Self {
        Self::error(refusal.to_string())
    }
}

impl Output {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: vec![Block::text(text)],
            is_error: false,
            lifetime: None,
            private: false,
        }
    }

    /// A failure, with cause and remedy for the model.
    pub fn error(text: impl Into<String>) -> Self {
        Self {
            is_error: true,
            ..Self::text(text)
        }
    }
}

/// A tool. Implementations hold no state of a session: what they need comes with the arguments and
/// the [`Context`]. Dropping the future of [`Tool::run`] cancels the work.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What it is. Never changes during its life.
    fn about(&self) -> &About;

    /// What a call would read and write. Judged before the call runs; must never leave out a write.
    /// By default nothing is known, which is always right.
    fn effects(&self, arguments: &Arguments, context: &Context) -> Effects {
        let _ = (arguments, context);
        Effects::UNKNOWN
    }

    /// What a call touches outside this program: files, commands, addresses. Permission rules, hook
    /// conditions and approvals are matched on it, so it must never leave out anything that the
    /// arguments name. Computed from the arguments alone, before hooks and rules are asked; cheap, and
    /// without access to the file system. [`Tool::effects`] says the same to the cache, more exactly:
    /// resolved, and with what cannot be told.
    ///
    /// By default what the names and values of the arguments show ([`Touches::declared`]).
    fn touches(&self, arguments: &Arguments) -> Touches {
        let about = self.about();
        Touches::declared(&about.parameters, arguments, about.read_only)
    }

    /// What is not in the arguments but changes the result (named environment variables, settings);
    /// part of every key. The workspace's root always is. By default nothing.
    fn implicit_inputs(&self, context: &Context) -> Value {
        let _ = context;
        Value::Null
    }

    /// Whether a call may run beside others that may, too. By default what it is decides, and not what
    /// it is called with.
    fn concurrency_safe(&self, arguments: &Arguments) -> bool {
        let _ = arguments;
        self.about().concurrency_safe()
    }

    /// Does it. The arguments have been cast and checked against [`About::parameters`]. A failure
    /// is an [`Output`] with [`Output::is_error`].
    async fn run(&self, arguments: Arguments, context: &Context) -> Output;
}
