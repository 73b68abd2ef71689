//! The policy of the MCP proxy: which answers of a server may be stored, and for how long. Pure decisions.
//!
//! A tool's answers are stored only if an entry of the policy names the tool and its annotations permit that. Everything
//! else is passed on, with a reason.

mod annotations;
mod decision;
mod file;
pub(crate) mod policy_digest;
mod refusals;

pub use annotations::{ToolAnnotations, ToolDefinition};
pub use decision::{CachedTool, ToolDecision};
pub use file::{PathKind, ProxyPolicy, ResourcePolicy, ServerPolicy, ToolPolicy, policy_keys};
