//! Operations: the resources that a call accesses, the workspace that confines it, and the matcher of
//! permission rules.
//!
//! Tools declare the files, commands and URLs that a call accesses ([`ResourceAccess`]). Permission rules, hook
//! conditions and approvals match these resources, never the spelling of an argument.

mod named_paths;
pub mod permissions;
pub mod resource_access;
mod shell;
pub mod workspace;

pub use named_paths::{NamedPath, UNKNOWN, named_paths};
pub use permissions::{AccessRequest, PermissionDecision, Permissions};
pub use resource_access::{Command, CommandText, ResourceAccess};
pub use workspace::Workspace;

/// The arguments of a call, by name.
pub type Arguments = serde_json::Map<String, serde_json::Value>;
