//! Snapshots of a conversation from which forks continue.

use std::sync::Arc;

use cachalot_model::wire::Rendered;
use cachalot_model::{Message, Model, Parameters};
use cachalot_prefix::PrefixMonitor;
use cachalot_prompt::{Level, Namespace, Node, Prompt, SessionHead, Tail};

use super::agent_prompt::{AgentPrompt, RenderedPrompt};
use super::changes;
use super::head::parameters;
use crate::Inherit;

/// A snapshot of a conversation. Its size and the cost of a clone do not depend on the length of the
/// conversation.
#[derive(Clone)]
pub(crate) struct Snapshot {
    pub(crate) prompt: Prompt,
    pub(crate) head: SessionHead,
    pub(crate) model: Model,
    /// The parameters of the last request that decide whether the provider's cache can be read.
    pub(crate) sent: Option<Namespace>,
    /// The end of the last request.
    pub(super) end: Option<u32>,
    /// Monitor of the requests so far.
    pub(super) monitor: PrefixMonitor,
    /// True if the provider is asked to compare requests.
    pub(super) is_compared: bool,
}

impl Snapshot {
    /// The parameters of the next request.
    pub(crate) fn parameters(&self) -> Parameters {
        parameters(&self.head, &self.model, has_tools(&self.prompt))
    }

    /// IDs of the calls without results.
    pub(crate) fn open_calls(&self) -> Vec<String> {
        match Tail::from_prompt(&self.prompt) {
            Tail::OpenCalls(ids) => ids,
            Tail::Complete | Tail::Unanswered => Vec::new(),
        }
    }
}

/// True if the prompt contains tools.
pub(super) fn has_tools(prompt: &Prompt) -> bool {
    let first = prompt.backwards().last();
    first.is_some_and(|piece| piece.level == Level::Tool)
}

/// The prompt with which the first request of a fork begins.
pub(super) fn fork_prompt(
    from: &Snapshot,
    inherit: Inherit,
    agent_prompt: &AgentPrompt,
    model: &Model,
) -> Prompt {
    match inherit {
        Inherit::Full => from.prompt.clone(),
        Inherit::Prompt => {
            let allowed = |piece: &Rendered| {
                let name = changes::name(&piece.bytes);
                agent_prompt.tools.iter().any(|tool| tool.name == name)
            };
            let mut tools = pieces(&from.prompt, Level::Tool);
            tools.retain(allowed);
            let system = pieces(&from.prompt, Level::System);
            append_messages(Prompt::begin(&tools, &system), &from.prompt)
        }
        Inherit::Session | Inherit::None => {
            let RenderedPrompt { tools, system } = agent_prompt.rendered(model);
            let anew = Prompt::begin(&tools, &system);
            match inherit {
                Inherit::Session => append_messages(anew, &from.prompt),
                _ => anew,
            }
        }
    }
}

/// The pieces of a level, as they were rendered.
fn pieces(prompt: &Prompt, level: Level) -> Vec<Rendered> {
    let nodes = prompt.nodes().into_iter();
    nodes
        .filter(|node| node.level == level)
        .map(rendered)
        .collect()
}

fn rendered(node: &Node) -> Rendered {
    Rendered {
        bytes: node.bytes.clone(),
        mark_at: node.mark_at,
    }
}

/// Appends the messages of the second prompt to the first, byte for byte.
fn append_messages(mut prompt: Prompt, said: &Prompt) -> Prompt {
    let mut message: Option<(Arc<Message>, Vec<Rendered>)> = None;
    let nodes = said.nodes().into_iter();
    for node in nodes.filter(|node| node.level == Level::Message) {
        if let Some(source) = &node.source {
            if let Some((source, pieces)) = message.take() {
                prompt = prompt.append(&pieces, source);
            }
            message = Some((Arc::clone(source), Vec::new()));
        }
        // A message that the format cannot express has no pieces.
        if let Some((_, pieces)) = message.as_mut().filter(|_| !node.bytes.is_empty()) {
            pieces.push(rendered(node));
        }
    }
    match message {
        Some((source, pieces)) => prompt.append(&pieces, source),
        None => prompt,
    }
}
