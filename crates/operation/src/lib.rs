//! Operations: the trait that tools and actions implement, parameters and the casting of arguments, the
//! resources that a call accesses, the workspace that confines it, and the matcher of permission rules.
//!
//! Operations declare the files, commands and URLs that a call accesses ([`ResourceAccess`]). Permission rules, hook
//! conditions and approvals match these resources, never the spelling of an argument.

pub mod arguments;
pub mod domains;
mod failure;
mod gate;
mod live_output;
mod metadata;
mod operation;
mod parameter;
pub mod permissions;
mod protected_names;
pub mod resource_access;
mod sampling;
mod shell;
mod tool;
mod typed_tool;
mod user_prompt;
pub mod workspace;
pub mod write_notifier;

pub use arguments::{ArgumentsError, Schema, SchemaError};
pub use failure::Failure;
pub use gate::Gate;
pub use live_output::{LiveOutput, OutputSource};
pub use metadata::{CacheClass, OperationMetadata, Origin};
pub use operation::Operation;
pub use parameter::{Parameter, ParameterKind, Parameters, object_schema};
pub use permissions::{AccessRequest, PermissionDecision, Permissions};
pub use protected_names::protected_name;
pub use resource_access::{Command, CommandText, ResourceAccess};
pub use sampling::{Sampler, SamplingAnswer, SamplingError, SamplingRequest};
pub use shell::{UNKNOWN, WrittenPath, WrittenPaths, may_be, wrapper_words, written_paths};
pub use tool::{Tool, ToolContext, ToolOutput};
pub use typed_tool::{TypedTool, WithOriginal};
pub use user_prompt::{
    AnswerError, AnswerField, AnswerKind, QuestionError, UserAnswer, UserPrompter, UserQuestion,
    choice_label,
};
pub use workspace::Workspace;
pub use write_notifier::WriteNotifier;

/// The arguments of a call, by name.
pub type Arguments = serde_json::Map<String, serde_json::Value>;
