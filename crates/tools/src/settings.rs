//! Settings: which tools an agent has, read from YAML or JSON, and the tools made from them.

mod assemble;
mod reading;
mod servers;
mod toolsets;

pub use assemble::{AssembleError, Assembled, Servers, Surroundings, assemble, names};
pub use servers::{ServerDefinition, read_servers};
pub use toolsets::{Toolset, ToolsetKind, ToolsetSettings, read_toolsets};
