//! Tools: the operations that a model may call, the registry that casts, checks and runs calls, the built-in
//! tools, the client of MCP servers, and a layer that caches results of read-only tools: it never pays for
//! the same call twice, and never serves a stale result.

mod arguments;
pub mod builtin;
pub mod cached;
pub mod filter;
mod gate;
pub mod mcp;
mod process;
pub mod registry;
mod run_blocking;
pub mod settings;
pub mod tool;
pub mod toolbox;

pub use cachalot_operation::{ResourceAccess, Workspace, workspace};
pub use cached::CachedTools;
pub use gate::Gate;
pub use registry::{Registry, RegistryError};
pub use tool::{Arguments, CacheClass, Origin, Tool, ToolContext, ToolMetadata, ToolOutput};
pub use toolbox::{
    BatchContext, CallObserver, CallOutcome, Preparation, PreparedCall, ToolCall, ToolCallResult,
    Toolbox,
};
