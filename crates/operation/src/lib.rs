//! Operations: what a call touches, the workspace that confines it, and the one matcher of permission
//! rules.
//!
//! Tools declare what a call touches ([`Touches`]). Permission rules, hook conditions and approvals
//! match on that, never on the spelling of an argument.

mod named_paths;
pub mod permissions;
mod shell;
pub mod touches;
pub mod workspace;

pub use named_paths::{NamedPath, UNKNOWN, named_paths};
pub use permissions::{Decision, Operation, Permissions};
pub use touches::{Command, CommandText, Touches};
pub use workspace::Workspace;

/// Arguments of a call, by name.
pub type Arguments = serde_json::Map<String, serde_json::Value>;
