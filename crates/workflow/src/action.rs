//! The `Action` trait: an operation that a workflow step can run. Each namespace has one file under
//! `actions/`.

pub(crate) mod argument_checker;
pub(crate) mod registry;
pub mod runtime;

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_cache::{Domain, Witness};
use cachalot_core::Problem;
use cachalot_core::tree::Node;
use cachalot_operation::{Arguments, Failure, Operation};
use serde_json::Value;

use argument_checker::ArgumentChecker;
pub use registry::Registry;
pub use runtime::Runtime;

/// The planned outcome of an action.
#[derive(Debug, Clone, PartialEq)]
pub enum Planned {
    /// The action runs and is not memoized.
    Runs,
    /// The cache would answer.
    Hit {
        /// The node's result, as a run would get it.
        result: Value,
        /// The handle of the entry.
        handle: String,
    },
    /// The action would run, and its result would be stored if that is permitted.
    Miss {
        /// The handle, if the call has one.
        handle: Option<String>,
        /// The reason why the cache does not answer.
        reason: String,
    },
}

/// An operation that a workflow step can run. The arguments have been converted to the kinds of their
/// parameters; null arguments have been removed, except those of kind
/// [`ParameterKind::Any`](cachalot_operation::ParameterKind::Any). A failure fails the node and is never
/// stored.
///
/// `cache.wrap` records witnesses of the files and directories that [`Operation::effects`] reads before the
/// action runs, so an entry is not served after they change. The content of a directory is the names and kinds of its entries. Effects are none for arguments
/// that the action would refuse.
#[async_trait]
pub trait Action: Operation<Context = Runtime, Output = Result<Value, Failure>> {
    /// Returns problems of the arguments as written, beyond their names and types: by default, of values
    /// outside of what the parameters declare. Called when a file is loaded, before any template is
    /// rendered.
    fn check(&self, with: Option<&Node>, registry: &Registry) -> Vec<Problem> {
        let _ = registry;
        ArgumentChecker::new(self.metadata(), with).problems()
    }

    /// True if the author of a file may name the action as a tool of `reason.react`. False for an action
    /// that runs other actions: its arguments are chosen by a model, which could then run any action.
    fn is_tool(&self) -> bool {
        true
    }

    /// Returns what [`Operation::run`] would do with these arguments, as far as that can be determined
    /// without running the action. A plan shows it. Defaults to [`Planned::Runs`].
    ///
    /// # Errors
    /// Failures that `run` would return before it starts to work.
    async fn plan(&self, arguments: Arguments, runtime: &Runtime) -> Result<Planned, Failure> {
        let _ = (arguments, runtime);
        Ok(Planned::Runs)
    }

    /// Returns the domains that the result depends on. An entry is not served after a change of one of its
    /// domains was announced ([`cachalot_cache::Cache::write_guard`]). Called for every lookup, so it must be
    /// cheap. Defaults to none.
    fn domains(&self, arguments: &Arguments, runtime: &Runtime) -> Vec<Domain> {
        let _ = (arguments, runtime);
        Vec::new()
    }

    /// Returns arguments for alternative calls of this action, in order. Each may run in place of a
    /// call that failed with [`Failure::allows_alternatives`]. Each is a separate call with its own cache key.
    /// Defaults to none.
    fn alternatives(&self, arguments: &Arguments, runtime: &Runtime) -> Vec<Arguments> {
        let _ = (arguments, runtime);
        Vec::new()
    }

    /// Runs the action like [`Operation::run`]; the result may be shared with other calls. A step calls this.
    /// `cache.wrap` implements it, so that a hit copies no result.
    ///
    /// # Errors
    /// The same as those of [`Operation::run`].
    async fn run_shared(
        &self,
        arguments: Arguments,
        runtime: &Runtime,
    ) -> Result<Arc<Value>, Failure> {
        self.run(arguments, runtime).await.map(Arc::new)
    }

    /// Runs the action like [`Operation::run`], but without [`Action::alternatives`], and records in
    /// `witness` what it reads beyond its declared effects.
    ///
    /// # Errors
    /// The same as those of [`Operation::run`].
    async fn run_without_alternatives(
        &self,
        arguments: Arguments,
        runtime: &Runtime,
        witness: &Witness,
    ) -> Result<Value, Failure> {
        let _ = witness;
        self.run(arguments, runtime).await
    }
}

impl std::fmt::Debug for dyn Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Action({})", self.metadata().name)
    }
}

/// Runs a call of an action. If it may write, the caches of the process are notified before and after it.
pub(crate) async fn announced<T, F: Future<Output = T>>(
    action: &dyn Action,
    arguments: Arguments,
    runtime: &Runtime,
    call: impl FnOnce(Arguments) -> F,
) -> T {
    if action.metadata().read_only {
        return call(arguments).await;
    }
    let writes = action.effects(&arguments, runtime).writes;
    let notifier = &runtime.tools.write_notifier;
    notifier
        .announce(&writes, &runtime.directory, call(arguments))
        .await
}
