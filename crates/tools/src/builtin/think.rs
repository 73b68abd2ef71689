//! The tool `think`: a place for the model's reasoning between calls.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::Effects;
use cachalot_core::spec::{Parameter, ParameterKind as Kind, required, tool_schema};
use cachalot_operation::{OperationMetadata, ResourceAccess, ToolContext, ToolOutput, TypedTool};
use serde::Deserialize;

use super::session_state::SessionState;

/// The tool `think`. Returns all thoughts of the session so far, and has no effect.
pub struct ThinkTool {
    metadata: OperationMetadata,
    state: Arc<SessionState>,
}

const PARAMETERS: &[Parameter] = &[required("thought", Kind::Text, "The thought.")];

impl ThinkTool {
    /// Creates the tool of a session.
    #[must_use]
    pub fn new(state: Arc<SessionState>) -> Self {
        Self {
            metadata: super::harmless_metadata(
                "think",
                "Notes a thought and returns all thoughts so far. Obtains no information and changes nothing. Use it before acting, for instance to check rules, to see what information is missing, or to plan several steps.",
                tool_schema(PARAMETERS),
            ),
            state,
        }
    }
}

/// The arguments of `think`.
#[derive(Debug, Deserialize)]
pub struct ThinkArguments {
    thought: String,
}

#[async_trait]
impl TypedTool for ThinkTool {
    type Arguments = ThinkArguments;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, _: &ThinkArguments, _: &ToolContext) -> Effects {
        Effects::reading(Vec::new())
    }

    fn resource_access(&self, _: &ThinkArguments) -> ResourceAccess {
        ResourceAccess::default()
    }

    async fn run(&self, arguments: ThinkArguments, context: &ToolContext) -> ToolOutput {
        let mut thoughts = self.state.thoughts.lock();
        thoughts.push(arguments.thought);
        let text = format!("Thoughts:\n{}", thoughts.join("\n"));
        ToolOutput::text(context.secret_set.redact(&text))
    }
}
