//! Snapshots of a conversation from which forks continue.

use std::sync::Arc;

use cachalot_model::wire::Rendered;
use cachalot_model::{Message, Model, Parameters};
use cachalot_prefix::PrefixMonitor;
use cachalot_prompt::{Level, Namespace, Node, Prompt, SessionHead, Tail};

use super::{
    AgentPrompt, Conversation, RenderedPrompt, changes, head, model, parameters, routing_key,
};
use crate::definition::AgentDefinition;
use crate::dependencies::Dependencies;
use crate::fork::Inherit;
use crate::{Error, ErrorKind};

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
    end: Option<u32>,
    /// Monitor of the requests so far.
    monitor: PrefixMonitor,
    /// True if the provider is asked to compare requests.
    is_compared: bool,
}

impl Snapshot {
    /// The parameters of the next request.
    pub(crate) fn parameters(&self) -> Parameters {
        parameters(&self.head, &self.model, has_tools(&self.prompt))
    }

    /// IDs of the calls without results.
    pub(crate) fn open_calls(&self) -> Vec<String> {
        match Tail::of(&self.prompt) {
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

impl Conversation {
    /// Returns a snapshot.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            prompt: self.session.prompt.clone(),
            head: self.session.head.clone(),
            model: self.model.clone(),
            sent: self.session.namespace.clone(),
            end: self.planner.end(),
            monitor: self.monitor.clone(),
            is_compared: self.is_compared,
        }
    }

    /// Creates a new session that continues from a snapshot, as far as `inherit` covers it. `agent_prompt` are the
    /// tools that the fork may use and the matching system text.
    ///
    /// # Errors
    /// The model cannot be found or does not accept such a conversation, or the session cannot be stored.
    pub(crate) async fn fork(
        dependencies: &Dependencies,
        agent: &AgentDefinition,
        from: &Snapshot,
        inherit: Inherit,
        agent_prompt: &AgentPrompt,
        id: String,
    ) -> Result<Self, Error> {
        let model = match inherit {
            Inherit::None => {
                model(dependencies, agent)?.for_tools(!agent_prompt.tools.is_empty())?
            }
            _ => from.model.clone(),
        };
        let prompt = prompt(from, inherit, agent_prompt, &model);
        let mut head = head(dependencies, agent, &model, id, Some(from.head.id.clone()));
        if inherit != Inherit::None {
            head.origin = Some(from.head.lineage());
            head.routing_key.clone_from(&from.head.routing_key);
            // Messages that were not sent count as unsent here, too, and a summary is still to be sent.
            head.notes.clone_from(&from.head.notes);
        }
        if !has_tools(&prompt) && changes::needs_tools(&prompt, model.wire().format()) {
            return Err(Error::new(
                ErrorKind::Fork,
                "what was said has tool calls, and the fork is shown no tools: this provider takes no such conversation. Let it inherit everything (`full`), let it use a tool, or let it inherit nothing (`none`)",
            ));
        }
        let is_alone = inherit == Inherit::None;
        if is_alone {
            head.routing_key = routing_key(dependencies, &model, &prompt);
        }
        let session = dependencies.sessions.create_from(head, prompt).await;
        let session = session.map_err(|error| Error::session(&error))?;
        let mut fork = Self::from_session(dependencies, agent, session, model);
        fork.is_counted = is_alone;
        // A provider that refused the comparison once is not asked again.
        fork.is_compared &= is_alone || from.is_compared;
        if inherit == Inherit::Full {
            fork.planner.continue_from(from.end);
            fork.monitor = from.monitor.clone();
        }
        Ok(fork)
    }
}

/// The prompt with which the first request of a fork begins.
fn prompt(from: &Snapshot, inherit: Inherit, agent_prompt: &AgentPrompt, model: &Model) -> Prompt {
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
