//! `strip_unsupported_modalities`: removes images for models without image input.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_model::{Block, Message, ToolResult};

use super::simple::SimpleBuiltin;
use super::{BuiltinDependencies, flag};
use crate::Event;
use crate::input::Input;
use crate::lookup::{AgentLookup, AgentView};
use crate::output::{Fault, Output};

/// Replaces images by a text if the model takes no images.
pub(super) struct StripUnsupportedModalities {
    lookup: Arc<dyn AgentLookup>,
}

impl StripUnsupportedModalities {
    pub(super) fn new(dependencies: &BuiltinDependencies) -> Self {
        Self {
            lookup: Arc::clone(&dependencies.lookup),
        }
    }

    /// True if the next model takes no images, according to the agent's section or the model catalog.
    /// False if unknown.
    fn lacks_image_input(&self, input: &Input) -> bool {
        let Some(agent) = self.lookup.agent(&input.agent_name) else {
            return false;
        };
        if let Some(said) = flag::value(&*agent, Self::NAME) {
            return said;
        }
        let models = agent.models();
        let asked = models
            .iter()
            .find(|model| format!("{}/{}", model.provider(), model.name()) == input.model_id);
        asked
            .or(models.first())
            .is_some_and(|model| model.limits().images == Some(false))
    }
}

#[async_trait]
impl SimpleBuiltin for StripUnsupportedModalities {
    const NAME: &'static str = "strip_unsupported_modalities";
    const ABOUT: &'static str = "Puts a text in place of images that the model does not take, in messages and in results of tools. Agents have it whose model is listed with `images: false`; `strip_unsupported_modalities: true` turns it on for any model, `false` turns it off.";
    const EVENTS: &'static [Event] = &[Event::BeforeLlmCall];
    const HAS_FLAG: bool = true;

    fn is_enabled_by_default(&self, agent: &dyn AgentView) -> bool {
        let models = agent.models();
        models
            .iter()
            .any(|model| model.limits().images == Some(false))
    }

    async fn handle(&self, input: &Input) -> Result<Output, Fault> {
        // A hook can only change unsent messages; changes of others would break the cached prefix, and are ignored.
        let from = input.messages.len().saturating_sub(input.unsent);
        let unsent = &input.messages[from..];
        let holds_images = unsent
            .iter()
            .any(|message| message.content.iter().any(is_image));
        if !holds_images || !self.lacks_image_input(input) {
            return Ok(Output::default());
        }
        let model = match input.model_id.as_str() {
            "" => "the model",
            model => model,
        };
        let stripped = unsent.iter().map(|message| without_images(message, model));
        Ok(Output {
            updated_messages: Some(stripped.collect()),
            ..Output::default()
        })
    }
}

/// True if the block is an image or a tool result with an image.
fn is_image(block: &Block) -> bool {
    match block {
        Block::Image(_) => true,
        Block::ToolResult(result) => result.content.iter().any(is_image),
        _ => false,
    }
}

fn without_images(message: &Message, model: &str) -> Message {
    Message {
        content: blocks(&message.content, model),
        ..message.clone()
    }
}

fn blocks(blocks: &[Block], model: &str) -> Vec<Block> {
    blocks.iter().map(|block| replaced(block, model)).collect()
}

fn replaced(block: &Block, model: &str) -> Block {
    match block {
        Block::Image(_) => Block::text(format!(
            "[There was an image here; it was left out, because {model} takes none.]"
        )),
        Block::ToolResult(result) => Block::ToolResult(ToolResult {
            content: blocks(&result.content, model),
            ..result.clone()
        }),
        other => other.clone(),
    }
}
