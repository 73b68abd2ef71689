//! YAML agents: templates, graph, inline code and the action registry.

pub mod action;
pub mod actions;
pub mod codes;
mod destination;
mod exact_json;
pub mod format;
pub mod graph;
mod origin;
mod passed_variables;
pub mod report;
pub mod script;
pub mod session;
mod spending;
pub mod template;

pub use action::{Action, Planned, Registry, Runtime};
pub use cachalot_operation::{
    Arguments, CacheClass, Failure, Operation, OperationMetadata, Parameter, ParameterKind,
    Parameters,
};
