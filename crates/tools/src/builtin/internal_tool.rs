//! Tools whose calls touch nothing outside of this program.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::Effects;
use cachalot_operation::{
    OperationMetadata, ResourceAccess, Tool, ToolContext, ToolOutput, TypedTool,
};
use serde::de::DeserializeOwned;

/// The arguments of a call that accesses no file, command or URL.
#[async_trait]
pub(super) trait InternalCall: DeserializeOwned + Send + 'static {
    /// The state on which the call works.
    type State: Send + Sync;

    /// Returns the effects of all calls. By default, a call neither reads nor writes anything that others can
    /// change.
    fn effects() -> Effects {
        Effects::reading(Vec::new())
    }

    /// Makes the call.
    async fn run(self, state: &Self::State, context: &ToolContext) -> ToolOutput;
}

/// The tool of such calls.
struct InternalTool<C: InternalCall> {
    metadata: OperationMetadata,
    state: C::State,
}

/// Creates the tool of these calls.
pub(super) fn internal_tool<C: InternalCall>(
    metadata: OperationMetadata,
    state: C::State,
) -> Arc<dyn Tool> {
    Arc::new(InternalTool::<C> { metadata, state })
}

#[async_trait]
impl<C: InternalCall> TypedTool for InternalTool<C> {
    type Arguments = C;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, _: &C, _: &ToolContext) -> Effects {
        C::effects()
    }

    fn resource_access(&self, _: &C) -> ResourceAccess {
        ResourceAccess::default()
    }

    async fn run(&self, call: C, context: &ToolContext) -> ToolOutput {
        call.run(&self.state, context).await
    }
}
