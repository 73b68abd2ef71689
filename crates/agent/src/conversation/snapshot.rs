//! Snapshots of a conversation from which forks continue.

use std::sync::Arc;

use cachalot_model::wire::{Rendered, Wire};
use cachalot_model::{Message, Model, Parameters, SettingChanges};
use cachalot_prefix::PrefixMonitor;
use cachalot_prompt::{Level, Namespace, Node, Prompt, SessionHead, Tail};

use super::agent_prompt::{AgentPrompt, RenderedPrompt};
use super::head::parameters;
use super::{tool_changes, tool_name};
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

    /// Returns the messages alone, without the changes of tools and effort that they bring.
    pub(crate) fn without_changes(&self) -> Prompt {
        append_messages(Prompt::begin(&[], &[]), &self.prompt, self.model.wire())
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
                let name = tool_name::name(&piece.bytes);
                agent_prompt.tools.iter().any(|tool| tool.name == name)
            };
            let mut tools = tool_changes::current(&from.prompt, model.wire(), &from.head.notes);
            tools.retain(allowed);
            let system = system_pieces(&from.prompt);
            append_messages(Prompt::begin(&tools, &system), &from.prompt, model.wire())
        }
        Inherit::Session | Inherit::None => {
            let RenderedPrompt { tools, system } = agent_prompt.rendered(model);
            let anew = Prompt::begin(&tools, &system);
            match inherit {
                Inherit::Session => append_messages(anew, &from.prompt, model.wire()),
                _ => anew,
            }
        }
    }
}

/// The pieces of the system text, as they were rendered.
fn system_pieces(prompt: &Prompt) -> Vec<Rendered> {
    let nodes = prompt.nodes().into_iter();
    nodes
        .filter(|node| node.level == Level::System)
        .map(rendered)
        .collect()
}

fn rendered(node: &Node) -> Rendered {
    Rendered {
        bytes: node.bytes.clone(),
        mark_at: node.mark_at,
    }
}

/// Appends the messages of the second prompt to the first, byte for byte. Changes of tools and effort are left out: the
/// first prompt begins with all tools, and its requests have the current effort.
fn append_messages(mut prompt: Prompt, said: &Prompt, wire: &dyn Wire) -> Prompt {
    let mut message: Option<(Arc<Message>, Vec<Rendered>)> = None;
    let nodes = said.nodes().into_iter();
    for node in nodes.filter(|node| node.level == Level::Message) {
        if let Some(source) = &node.source {
            if let Some((source, pieces)) = message.take() {
                prompt = append_unchanged(&prompt, source, pieces, wire);
            }
            message = Some((Arc::clone(source), Vec::new()));
        }
        // A message that the format cannot express has no pieces.
        if let Some((_, pieces)) = message.as_mut().filter(|_| !node.bytes.is_empty()) {
            pieces.push(rendered(node));
        }
    }
    match message {
        Some((source, pieces)) => append_unchanged(&prompt, source, pieces, wire),
        None => prompt,
    }
}

/// Appends a message without the changes that it brings, which are its last pieces.
fn append_unchanged(
    prompt: &Prompt,
    source: Arc<Message>,
    mut pieces: Vec<Rendered>,
    wire: &dyn Wire,
) -> Prompt {
    if let Some(changes) = SettingChanges::noted(&source) {
        let own = pieces.len().saturating_sub(wire.changes(&changes).len());
        pieces.truncate(own);
    }
    prompt.append(&pieces, SettingChanges::removed_from(source))
}
