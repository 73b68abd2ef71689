//! Tools: the operations that a model may call, the registry that casts, checks and runs calls, the built-in
//! tools, and a layer that caches results of read-only tools: it never pays for
//! the same call twice, and never serves a stale result.

pub mod builtin;
pub mod cached;
pub mod filter;
pub mod html;
pub mod registry;
mod run_blocking;
mod sandbox_proxy;
pub mod toolbox;
mod workspace_sandbox;

pub use cachalot_operation::{
    Arguments, CacheClass, Failure, Gate, LiveOutput, Operation, OperationMetadata, Origin,
    OutputSource, Parameter, ParameterKind, ResourceAccess, Tool, ToolContext, ToolOutput,
    TypedTool, WithOriginal, Workspace, workspace,
};
pub use cached::CachedTools;
pub use registry::{MAX_NAME_BYTES, Registry, RegistryError, is_valid_name, sanitize_name};
pub use sandbox_proxy::SandboxProxy;
pub use toolbox::{
    BatchContext, CallObserver, CallOutcome, PreparedCall, ReadyCall, RefusedCall, ToolCall,
    ToolCallResult, Toolbox,
};
pub use workspace_sandbox::{ProtectionError, WorkspaceSandbox};
