//! Tools: the operations that a model may call, the registry that casts, checks and runs calls, the built-in
//! tools, the client of MCP servers, and a layer that caches results of read-only tools: it never pays for
//! the same call twice, and never serves a stale result.

mod arguments;
mod blocking;
pub mod builtin;
pub mod cached;
pub mod filter;
mod gate;
pub mod mcp;
mod process;
pub mod registry;
pub mod settings;
pub mod tool;
pub mod toolbox;

pub use cachalot_operation::{Touches, Workspace, workspace};
pub use cached::CachedTools;
pub use gate::Gate;
pub use registry::{Registry, RegistryError};
pub use tool::{About, Arguments, CacheClass, Context, Origin, Output, Tool};
pub use toolbox::{Answer, Answered, Batch, Call, Prepared, Toolbox, Verdict, Watcher};
