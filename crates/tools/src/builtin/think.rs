//! The tool `think`: a place for the model's reasoning between calls.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::config::{CallArguments, tool_schema};
use cachalot_operation::{Tool, ToolContext, ToolOutput};
use serde::Deserialize;

use super::internal_tool::{InternalCall, internal_tool};
use super::session_state::SessionState;

/// Creates the tool `think` of a session. It returns all thoughts of the session so far, and has no effect.
#[must_use]
pub fn think(state: Arc<SessionState>) -> Arc<dyn Tool> {
    let metadata = super::harmless_metadata(
        "think",
        "Notes a thought and returns all thoughts so far. Obtains no information and changes nothing. Use it before acting, for instance to check rules, to see what information is missing, or to plan several steps.",
        tool_schema(Think::PARAMETERS),
    );
    internal_tool::<Think>(metadata, state)
}

#[derive(CallArguments, Deserialize)]
struct Think {
    /// The thought.
    thought: String,
}

#[async_trait]
impl InternalCall for Think {
    type State = Arc<SessionState>;

    async fn run(self, state: &Self::State, context: &ToolContext) -> ToolOutput {
        let mut thoughts = state.thoughts.lock();
        thoughts.push(self.thought);
        let text = format!("Thoughts:\n{}", thoughts.join("\n"));
        ToolOutput::text(context.secret_set.redact(&text))
    }
}
