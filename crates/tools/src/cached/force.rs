//! The argument `force`, which the cache layer adds to tools with cacheable results, and removes before they
//! run.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::Effects;
use cachalot_operation::ResourceAccess;
use cachalot_operation::domains::Domains;
use serde_json::{Map, Value, json};

use cachalot_operation::{
    Arguments, Failure, Operation, OperationMetadata, Tool, ToolContext, ToolOutput,
};

/// The name of the argument.
pub(super) const FORCE_ARGUMENT: &str = "force";

/// A tool with the additional argument, as shown to models.
pub(super) struct ForceArgumentTool {
    metadata: OperationMetadata,
    tool: Arc<dyn Tool>,
}

impl ForceArgumentTool {
    pub(super) fn new(tool: &Arc<dyn Tool>) -> Self {
        let mut metadata = tool.metadata().clone();
        let mut schema = metadata.parameters.schema().into_owned();
        add_to(&mut schema);
        metadata.parameters = schema.into();
        Self {
            metadata,
            tool: Arc::clone(tool),
        }
    }
}

fn add_to(parameters: &mut Value) {
    let Some(schema) = parameters.as_object_mut() else {
        return;
    };
    let properties = schema
        .entry("properties")
        .or_insert_with(|| Value::Object(Map::new()));
    if let Some(properties) = properties.as_object_mut() {
        let force = json!({
            "type": "boolean",
            "description": "Run it again and give the result in full, even if nothing seems to have changed.",
        });
        properties.insert(FORCE_ARGUMENT.to_owned(), force);
    }
}

/// Removes the argument; returns true if it requested a fresh result.
pub(super) fn take(arguments: &mut Arguments) -> bool {
    matches!(arguments.remove(FORCE_ARGUMENT), Some(Value::Bool(true)))
}

#[async_trait]
impl Operation for ForceArgumentTool {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, arguments: &Arguments, context: &ToolContext) -> Effects {
        self.tool.effects(&without_force(arguments), context)
    }

    fn resource_access(&self, arguments: &Arguments) -> ResourceAccess {
        self.tool.resource_access(&without_force(arguments))
    }

    fn implicit_inputs(
        &self,
        arguments: &Arguments,
        context: &ToolContext,
    ) -> Result<Value, Failure> {
        self.tool
            .implicit_inputs(&without_force(arguments), context)
    }

    fn announced_reads(&self, arguments: &Arguments) -> Domains {
        self.tool.announced_reads(&without_force(arguments))
    }

    fn on_hit(&self, arguments: &Arguments) {
        self.tool.on_hit(&without_force(arguments));
    }

    fn concurrency_safe(&self, arguments: &Arguments) -> bool {
        self.tool.concurrency_safe(&without_force(arguments))
    }

    async fn run(&self, mut arguments: Arguments, context: &ToolContext) -> ToolOutput {
        take(&mut arguments);
        self.tool.run(arguments, context).await
    }
}

fn without_force(arguments: &Arguments) -> Arguments {
    let mut arguments = arguments.clone();
    take(&mut arguments);
    arguments
}
