//! Hooks: whoever wants to is told of what happens in a turn, and may have a say in it.
//!
//! What holds of each event stands in one table ([`CONTRACTS`]): the dispatcher, the JSON Schemas and
//! the documentation derive from it. Handlers are commands, requests, models and builtins; they are
//! told and speak in the words of a [`Dialect`], so that scripts written for other runtimes run
//! unchanged. Builtins see the runtime through [`AgentLookup`] and nothing else: this room knows no
//! agent.

pub mod builtin;
pub mod contract;
pub mod definition;
pub mod dialect;
mod dispatch;
mod event;
mod handler;
pub mod input;
mod lookup;
mod matcher;
mod output;
pub mod schema;
pub mod source;
mod transcript;
mod verdict;

pub use builtin::{Builtin, Builtins, Injection};
pub use contract::{CONTRACTS, Contract};
pub use definition::{Action, Definition, Entry};
pub use dialect::Dialect;
pub use dispatch::{Hooks, Surroundings};
pub use event::{Event, UnknownEvent};
pub use handler::Handler;
pub use input::Input;
pub use lookup::{AgentLookup, AgentView};
pub use matcher::Matcher;
pub use output::{Decision, Fault, Output, Synthetic};
pub use transcript::Transcript;
pub use verdict::{Report, Verdict};
