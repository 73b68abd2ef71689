//! Settings of an agent's tools in YAML or JSON, and the creation of the tools.

mod assemble;
mod kinds;
mod servers;
mod toolsets;

pub use assemble::{
    AgentTools, AssembleError, BuiltInDependencies, McpServerPool, ToolDependencies, assemble,
    names,
};
pub use servers::{SERVER, ServerDefinition, read_servers};
pub use toolsets::{
    BACKGROUND_JOBS, FETCH, SHELL, TODO, TOOLSET, Toolset, ToolsetKind, ToolsetSettings,
    read_toolsets, toolset_schema,
};
