//! The operation trait, implemented by tools and by the actions of workflows.

use async_trait::async_trait;
use cachalot_core::Effects;
use serde_json::Value;

use crate::domains::Domains;
use crate::{Arguments, Failure, OperationMetadata, ResourceAccess};

/// A named unit of work. Implementations have no state per run or session: the arguments and the context
/// contain everything that a call needs. Dropping the future of [`Operation::run`] cancels the work.
#[async_trait]
pub trait Operation: Send + Sync {
    /// The dependencies of a call besides its arguments, which would otherwise be global.
    type Context: Send + Sync;
    /// The result of a call.
    type Output;

    /// Returns the declared properties of the operation. Never changes.
    fn metadata(&self) -> &OperationMetadata;

    /// Returns the reads and writes of a call. Evaluated before the call runs; must never omit a write. By
    /// default the effects are unknown, which is always correct.
    ///
    /// May read directories, and blocks while it does. Two calls can return different paths if files change
    /// in between.
    fn effects(&self, arguments: &Arguments, context: &Self::Context) -> Effects {
        let _ = (arguments, context);
        Effects::UNKNOWN
    }

    /// Returns what a call touches outside this program: files, commands, URLs. Permission rules, hook
    /// conditions and approvals are matched on it, so it must never omit anything that the arguments name.
    /// Computed from the arguments alone, before hooks and rules are evaluated; cheap, and without file
    /// system access. [`Operation::effects`] is the more exact equivalent for the cache: with resolved
    /// paths, and with unknown effects marked as unknown.
    ///
    /// By default derived from the names and values of the arguments ([`ResourceAccess::declared`]).
    fn resource_access(&self, arguments: &Arguments) -> ResourceAccess {
        let metadata = self.metadata();
        ResourceAccess::declared(&metadata.parameters.schema(), arguments, metadata.read_only)
    }

    /// Returns the inputs that are not arguments but change the result (a working directory, named
    /// environment variables, a base URL from the settings); part of every key. By default none.
    ///
    /// # Errors
    /// Returned if the inputs cannot be determined; the operation then runs uncached.
    fn implicit_inputs(
        &self,
        arguments: &Arguments,
        context: &Self::Context,
    ) -> Result<Value, Failure> {
        let _ = (arguments, context);
        Ok(Value::Null)
    }

    /// Returns the domains of changes that a third party announces, such as an MCP server: an announcement
    /// expires the result, in addition to writes to what [`Operation::effects`] reads. By default none.
    fn announced_reads(&self, arguments: &Arguments) -> Domains {
        let _ = arguments;
        Domains::NONE
    }

    /// Notifies the operation that a call got a stored result instead of a run, so that it can begin to listen for
    /// announced changes ([`Operation::announced_reads`]). Must not block. By default nothing.
    fn on_hit(&self, arguments: &Arguments) {
        let _ = arguments;
    }

    /// True if the call may run concurrently with other such calls. By default a property of the operation,
    /// independent of the arguments.
    fn concurrency_safe(&self, arguments: &Arguments) -> bool {
        let _ = arguments;
        self.metadata().concurrency_safe()
    }

    /// Runs the call. The arguments have been cast and checked against [`OperationMetadata::parameters`].
    async fn run(&self, arguments: Arguments, context: &Self::Context) -> Self::Output;
}
