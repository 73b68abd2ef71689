//! Settings of an agent's tools in YAML or JSON, and the creation of the tools.

mod assemble;
mod reading;
mod servers;
mod toolsets;

pub use assemble::{AssembleError, Assembled, Servers, Surroundings, assemble, names};
pub use servers::{ServerDefinition, read_servers};
pub use toolsets::{Toolset, ToolsetKind, ToolsetSettings, read_toolsets};
