//! Common parts of the file tools, which all run on a thread that may block.

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_cache::Witness;
use cachalot_core::Effects;
use cachalot_operation::permissions::SearchFilter;
use cachalot_operation::{
    AccessRequest, Failure, OperationMetadata, ResourceAccess, Tool, ToolContext, ToolOutput,
    TypedTool, WithOriginal, Workspace,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::run_blocking::run_blocking;

/// The arguments of a call of a file tool.
pub(super) trait FileCall: DeserializeOwned + Send + Sync + 'static {
    /// True for a tool that searches a directory, and leaves out the files that permission rules exclude.
    const SEARCHES: bool = false;

    /// Describes the tool.
    fn metadata() -> OperationMetadata;

    fn effects(&self, context: &ToolContext) -> Effects;

    fn resource_access(&self) -> ResourceAccess;

    /// Makes the call. Both variants are the result.
    fn run(&self, running: RunningCall<'_>) -> Result<ToolOutput, ToolOutput>;
}

/// The surroundings of a call on a thread that may block.
#[derive(Clone, Copy)]
pub(super) struct RunningCall<'a> {
    pub(super) context: &'a ToolContext,
    /// The files that a search leaves out.
    pub(super) denied: &'a SearchFilter,
    /// Set when no caller waits any more: the call ends soon after.
    pub(super) abandoned: &'a CancellationToken,
}

impl<'a> RunningCall<'a> {
    pub(super) fn workspace(&self) -> &'a Workspace {
        &self.context.workspace
    }

    pub(super) fn witness(&self) -> &'a Witness {
        &self.context.witness
    }
}

/// The tool of such calls.
struct FileTool<C> {
    metadata: OperationMetadata,
    call: PhantomData<C>,
}

/// Creates the tool of these calls.
pub(super) fn file_tool<C: FileCall>() -> Arc<dyn Tool> {
    Arc::new(FileTool::<C> {
        metadata: C::metadata(),
        call: PhantomData,
    })
}

#[async_trait]
impl<C: FileCall> TypedTool for FileTool<C> {
    type Arguments = WithOriginal<C>;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, arguments: &Self::Arguments, context: &ToolContext) -> Effects {
        arguments.typed.effects(context)
    }

    fn resource_access(&self, arguments: &Self::Arguments) -> ResourceAccess {
        arguments.typed.resource_access()
    }

    /// The rules that exclude files from a search.
    fn implicit_inputs(&self, context: &ToolContext) -> Result<Value, Failure> {
        let rules = if C::SEARCHES {
            context.rules.search_rules(&self.metadata.name)
        } else {
            Vec::new()
        };
        Ok(match rules.as_slice() {
            [] => Value::Null,
            // Keys of earlier versions have the first field.
            rules => serde_json::json!({"readable": null, "rules": rules}),
        })
    }

    async fn run(&self, arguments: Self::Arguments, context: &ToolContext) -> ToolOutput {
        let denied = if C::SEARCHES {
            let request = AccessRequest {
                tool: &self.metadata.name,
                read_only: true,
                arguments: &arguments.original,
                resource_access: &arguments.typed.resource_access(),
                sandboxed: false,
            };
            context.rules.search_filter(&request, &context.workspace)
        } else {
            SearchFilter::default()
        };
        let context = context.clone();
        run_blocking(move |abandoned| {
            let running = RunningCall {
                context: &context,
                denied: &denied,
                abandoned,
            };
            let ran = arguments.typed.run(running);
            ran.unwrap_or_else(|failed| failed)
        })
        .await
    }
}
