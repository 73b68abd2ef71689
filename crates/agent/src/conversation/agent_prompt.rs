//! Tools and system text of an agent, and their rendering for a model.

use cachalot_model::wire::Rendered;
use cachalot_model::{Model, ToolDefinition};
use cachalot_prompt::Target;

/// The parts of an agent that a model is shown once per session.
#[derive(Debug, Clone)]
pub(crate) struct AgentPrompt {
    pub(crate) tools: Vec<ToolDefinition>,
    /// System text in tiers, the most stable first: the agent's instruction, the instructions of its
    /// toolsets, then the text about the place where it works. Content that changes from turn to turn is in no tier, but in the newest message.
    pub(crate) system: Vec<String>,
}

impl AgentPrompt {
    /// Renders tools and system text for this model.
    pub(super) fn rendered(&self, model: &Model) -> RenderedPrompt {
        let wire = model.wire();
        // Each tier ends with a possible cache breakpoint. Where the system text is one of the messages, many
        // models accept only one system message.
        let tiers = match wire.layout().system {
            Some(_) => self.system.clone(),
            None if self.system.is_empty() => Vec::new(),
            None => vec![self.system.join("\n\n")],
        };
        RenderedPrompt {
            tools: self.tools.iter().map(|tool| wire.tool(tool)).collect(),
            system: tiers.iter().map(|text| wire.system(text)).collect(),
        }
    }
}

/// Rendered tools and system text.
pub(super) struct RenderedPrompt {
    pub(super) tools: Vec<Rendered>,
    pub(super) system: Vec<Rendered>,
}

impl RenderedPrompt {
    /// Returns the target of a session that is rendered anew for `model`.
    pub(super) fn target<'a>(&'a self, model: &'a Model) -> Target<'a> {
        Target {
            provider: model.provider(),
            model: model.name(),
            base_url: Some(model.base_url()),
            tools: &self.tools,
            system: &self.system,
        }
    }
}
