//! YAML agents: templates, graph, inline code and the action registry.

pub mod action;
pub mod action_tool;
pub mod actions;
pub mod codes;
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

pub use action::{Action, Planned};
pub use cachalot_operation::{
    Arguments, CacheClass, Failure, Operation, OperationMetadata, Parameter, ParameterKind,
    Parameters,
};
pub use runtime::Runtime;
