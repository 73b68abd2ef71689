//! Common parts of the tools that search directories.

use std::marker::PhantomData;

use async_trait::async_trait;
use cachalot_core::Effects;
use cachalot_core::spec::Parameter;
use cachalot_operation::permissions::SearchFilter;
use cachalot_operation::{
    AccessRequest, Failure, OperationMetadata, ResourceAccess, ToolContext, ToolOutput, TypedTool,
    WithOriginal,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{readable, reader};
use crate::run_blocking::{AbandonFlag, run_blocking};

/// The arguments of a search of a directory in the workspace.
pub(super) trait Search: DeserializeOwned + Send + Sync + 'static {
    const NAME: &'static str;
    const DESCRIPTION: &'static str;
    const PARAMETERS: &'static [Parameter];

    /// The directory as given.
    fn path(&self) -> &str;

    fn effects(&self, context: &ToolContext) -> Effects;

    /// Runs on a thread that may block. Leaves out what `denied` excludes, and ends soon after `abandoned` is
    /// set. Both variants are the result.
    fn run(
        &self,
        context: &ToolContext,
        denied: &SearchFilter,
        abandoned: &AbandonFlag,
    ) -> Result<ToolOutput, ToolOutput>;
}

/// The tool of a search.
pub(super) struct SearchTool<S> {
    metadata: OperationMetadata,
    arguments: PhantomData<S>,
}

impl<S: Search> SearchTool<S> {
    pub(super) fn new() -> Self {
        Self {
            metadata: reader(S::NAME, S::DESCRIPTION, S::PARAMETERS),
            arguments: PhantomData,
        }
    }
}

#[async_trait]
impl<S: Search> TypedTool for SearchTool<S> {
    type Arguments = WithOriginal<S>;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, arguments: &Self::Arguments, context: &ToolContext) -> Effects {
        arguments.typed.effects(context)
    }

    fn resource_access(&self, arguments: &Self::Arguments) -> ResourceAccess {
        ResourceAccess::searching(arguments.typed.path())
    }

    /// The readable directories, and the rules that exclude files.
    fn implicit_inputs(&self, context: &ToolContext) -> Result<Value, Failure> {
        Ok(match context.rules.search_rules(S::NAME).as_slice() {
            [] => readable(context),
            rules => serde_json::json!({"readable": readable(context), "rules": rules}),
        })
    }

    async fn run(&self, arguments: Self::Arguments, context: &ToolContext) -> ToolOutput {
        let request = AccessRequest {
            tool: S::NAME,
            read_only: true,
            arguments: &arguments.original,
            resource_access: &self.resource_access(&arguments),
        };
        let denied = context.rules.search_filter(&request, &context.workspace);
        let context = context.clone();
        run_blocking(move |abandoned| {
            let ran = arguments.typed.run(&context, &denied, abandoned);
            ran.unwrap_or_else(|failed| failed)
        })
        .await
    }
}
