//! YAML agents: templates, graph, inline code and the action registry.

pub mod action;
pub mod actions;
mod destination;
pub mod format;
pub mod graph;
mod origin;
pub mod report;
pub mod runtime;
pub mod script;
pub mod session;
mod spending;
pub mod template;

pub use action::{
    About, Action, Arguments, Failure, Memoizable, Parameter, ParameterKind, Planned,
};
pub use runtime::Runtime;
