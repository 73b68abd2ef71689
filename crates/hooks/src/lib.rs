//! Hooks: handlers that are called at events of a turn and may influence it.
//!
//! The contracts of all events are one table, [`CONTRACTS`]: the dispatcher, the JSON Schemas and the
//! documentation derive from it. Handlers are commands, HTTP requests, models and builtins. Their input
//! and output follow a [`Dialect`], so that scripts written for other runtimes run unchanged. Builtins
//! see the runtime through [`AgentLookup`] only: this crate does not depend on the agent crate.

pub mod builtin;
pub mod contract;
pub mod definition;
mod dependencies;
pub mod dialect;
mod dispatch;
mod go_template;
mod handler;
pub mod input;
mod lookup;
mod matcher;
mod output;
mod paragraph;
mod permission_mode;
pub mod schema;
mod sessions;
mod shell_word;
pub mod source;
mod transcript;
mod verdict;

pub use builtin::{ArgumentsError, Builtin, Builtins, Injection, RegistrationError};
pub use contract::{CONTRACTS, Contract, Event, UnknownEvent};
pub use definition::{Action, Definition, HookEntry};
pub use dependencies::{HookDependencies, HookSandbox, HookTools};
pub use dialect::Dialect;
pub use dispatch::Hooks;
pub use handler::Handler;
pub use input::Input;
pub use lookup::{AgentLookup, AgentView};
pub use matcher::Matcher;
pub use output::{Decision, Fault, Output, Synthetic};
pub use transcript::Transcript;
pub use verdict::{HandlerReport, Verdict};
