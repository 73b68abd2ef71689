//! Settings of an agent's tools in YAML or JSON, and the creation of the tools.

mod assemble;
mod docker_agent;
mod docker_server;
mod servers;
mod shared_keys;
mod shared_tools;
mod toolsets;

pub use assemble::{
    AgentTools, AssembleError, BuiltInDependencies, McpServerPool, ToolDependencies, assemble,
    names, server_prefixes, signatures, writing_tools,
};
pub use servers::{SERVER, ServerDefinition, read_servers};
pub use shared_tools::{Parsed, SharedTools};
pub use toolsets::{
    BACKGROUND_JOBS, FETCH, FILESYSTEM, FolderSettings, SHELL, SOURCE, TODO, TOOLSET, Toolset,
    ToolsetKind, ToolsetSettings, read_toolsets, toolset_schema,
};
