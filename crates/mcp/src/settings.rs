//! Settings of an agent's tools in YAML or JSON, and the creation of the tools.

mod assemble;
mod keys;
mod servers;
mod toolsets;

pub use assemble::{AgentTools, AssembleError, McpServerPool, ToolDependencies, assemble, names};
pub use servers::{ServerDefinition, read_servers};
pub use toolsets::{Toolset, ToolsetKind, ToolsetSettings, read_toolsets};
