//! Handoff: a tool by which an agent gives the conversation to another agent, which continues it in its place.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::config::tool_schema;
use cachalot_core::{EffectTargets, Effects};
use cachalot_tools::{
    OperationMetadata, ResourceAccess, Tool, ToolContext, ToolOutput, TypedTool, WithOriginal,
};
use parking_lot::Mutex;
use serde::Deserialize;

use crate::chat_state::ChatState;
use crate::definition::{AgentDefinition, HANDOFF_PARAMETERS, HANDOFF_TOOL};

/// The handoff that the running calls of a session request. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct HandoffRequest(Arc<Mutex<HandoffState>>);

#[derive(Default)]
enum HandoffState {
    /// No agent was named since the last answer.
    #[default]
    None,
    /// The agent that continues.
    To(String),
    /// The session cannot be handed off.
    Refused,
}

/// The reason why a handoff cannot be requested, for the model.
#[derive(Debug, thiserror::Error)]
enum HandoffError {
    #[error(
        "The conversation was handed off to `{0}` already; there can be one handoff at a time."
    )]
    Repeated(String),
    #[error("This work cannot be handed off: complete it, and return the answer.")]
    Refused,
}

impl HandoffRequest {
    /// Refuses all handoffs: a fork works for its holder, which waits for this agent's answer.
    pub(crate) fn refuse(&self) {
        *self.0.lock() = HandoffState::Refused;
    }

    /// True if the session cannot be handed off.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(*self.0.lock(), HandoffState::Refused)
    }

    /// Takes the name of the agent that continues; `None` if there was no handoff.
    pub(crate) fn take(&self) -> Option<String> {
        let mut state = self.0.lock();
        match std::mem::take(&mut *state) {
            HandoffState::To(name) => Some(name),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Requests a handoff. Of several calls in one answer, the first one takes effect.
    fn request(&self, name: &str) -> Result<(), HandoffError> {
        let mut state = self.0.lock();
        match &*state {
            HandoffState::None => {
                *state = HandoffState::To(name.to_owned());
                Ok(())
            }
            HandoffState::To(other) => Err(HandoffError::Repeated(other.clone())),
            HandoffState::Refused => Err(HandoffError::Refused),
        }
    }
}

/// The tool `handoff`.
pub(crate) struct Handoff {
    metadata: OperationMetadata,
    shared: ChatState,
    /// The agents that may continue.
    agents: Vec<String>,
    request: HandoffRequest,
}

impl Handoff {
    /// Returns the tool of an agent with `handoffs`, otherwise `None`.
    pub(crate) fn for_agent(
        agent: &AgentDefinition,
        shared: &ChatState,
        request: &HandoffRequest,
    ) -> Option<Arc<dyn Tool>> {
        if agent.handoffs.is_empty() {
            return None;
        }
        let described: Vec<String> = agent
            .handoffs
            .iter()
            .filter_map(|name| shared.team.agent(name))
            .map(AgentDefinition::described)
            .collect();
        let description = format!(
            "Hands the conversation off to another agent, which continues it in your place with its own instruction and tools. It sees the whole conversation. You do not get it back: call this when the rest is the other agent's work.\nAgents:\n{}",
            described.join("\n")
        );
        let mut parameters = tool_schema(HANDOFF_PARAMETERS);
        parameters["properties"]["agent"]["enum"] = agent.handoffs.clone().into();
        Some(Arc::new(Self {
            metadata: OperationMetadata::with_side_effects(HANDOFF_TOOL, description, parameters),
            shared: shared.clone(),
            agents: agent.handoffs.clone(),
            request: request.clone(),
        }))
    }
}

/// The arguments of `handoff`.
#[derive(Deserialize)]
pub(crate) struct HandoffArguments {
    agent: String,
}

#[async_trait]
impl TypedTool for Handoff {
    type Arguments = WithOriginal<HandoffArguments>;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    /// The tool itself writes nothing: the calls of the next agent declare their own effects.
    fn effects(&self, _: &WithOriginal<HandoffArguments>, _: &ToolContext) -> Effects {
        Effects {
            reads: EffectTargets::Unknown,
            writes: EffectTargets::NOTHING,
        }
    }

    fn resource_access(&self, arguments: &WithOriginal<HandoffArguments>) -> ResourceAccess {
        let schema = self.metadata.parameters.schema();
        ResourceAccess::declared(&schema, &arguments.original, false)
    }

    async fn run(&self, arguments: WithOriginal<HandoffArguments>, _: &ToolContext) -> ToolOutput {
        let name = arguments.typed.agent;
        let known = self.agents.contains(&name);
        let Some(agent) = self.shared.team.agent(&name).filter(|_| known) else {
            let known = self.agents.join("`, `");
            return ToolOutput::error(format!("There is no agent `{name}` here, but `{known}`."));
        };
        // A model that cannot be called must not get the conversation.
        let model = agent.find_model(&self.shared.dependencies.models);
        if let Err(error) = model.and_then(|model| model.ready()) {
            return ToolOutput::error(format!("`{name}` cannot continue: {error}"));
        }
        match self.request.request(&name) {
            Ok(()) => ToolOutput::text(format!(
                "The conversation was handed off to `{name}`. From here on you are the agent `{name}`: continue with the user's request."
            )),
            Err(error) => ToolOutput::error(error.to_string()),
        }
    }
}
