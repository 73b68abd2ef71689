//! Where a conversation stands, for forks that go on from there.

use std::sync::Arc;

use cachalot_model::wire::Rendered;
use cachalot_model::{Message, Model, Parameters};
use cachalot_prefix::PrefixMonitor;
use cachalot_prompt::{Head, Level, Namespace, Node, Prompt, Tail};

use super::{Conversation, Frozen, Shown, changes, head, model, parameters, routing_key};
use crate::definition::AgentDefinition;
use crate::fork::Inherit;
use crate::house::House;
use crate::{Error, ErrorKind};

/// Where a conversation stands. Costs the same however long that is, and so does a clone.
#[derive(Clone)]
pub(crate) struct Tip {
    pub(crate) prompt: Prompt,
    pub(crate) head: Head,
    pub(crate) model: Model,
    /// The parameters of the last request, as far as they decide what the provider reads anew.
    pub(crate) sent: Option<Namespace>,
    /// Where the last request ended.
    end: Option<u32>,
    /// What became of the requests so far.
    watch: PrefixMonitor,
    /// True if the provider is asked to compare requests.
    is_compared: bool,
}

impl Tip {
    /// The parameters of the next request.
    pub(crate) fn parameters(&self) -> Parameters {
        parameters(&self.head, &self.model, has_tools(&self.prompt))
    }

    /// The ids of calls that have no results.
    pub(crate) fn open_calls(&self) -> Vec<String> {
        match Tail::of(&self.prompt) {
            Tail::OpenCalls(ids) => ids,
            Tail::Complete | Tail::Unanswered => Vec::new(),
        }
    }
}

/// Whether a model is shown tools.
pub(super) fn has_tools(prompt: &Prompt) -> bool {
    let first = prompt.backwards().last();
    first.is_some_and(|piece| piece.level == Level::Tool)
}

impl Conversation {
    /// Where it stands.
    pub(crate) fn tip(&self) -> Tip {
        Tip {
            prompt: self.session.prompt.clone(),
            head: self.session.head.clone(),
            model: self.model.clone(),
            sent: self.session.namespace.clone(),
            end: self.plans.end(),
            watch: self.watch.clone(),
            is_compared: self.is_compared,
        }
    }

    /// A new session that goes on from there, as far as it is to inherit. `shown` are the tools that it
    /// may use, and the system's text that goes with them.
    ///
    /// # Errors
    /// The model cannot be found or takes no such conversation, or the session cannot be kept.
    pub(crate) async fn fork(
        house: &House,
        agent: &AgentDefinition,
        from: &Tip,
        inherit: Inherit,
        shown: &Shown,
        id: String,
    ) -> Result<Self, Error> {
        let model = match inherit {
            Inherit::None => model(house, agent)?.for_tools(!shown.tools.is_empty())?,
            _ => from.model.clone(),
        };
        let prompt = prompt(from, inherit, shown, &model);
        let mut head = head(house, agent, &model, id, Some(from.head.id.clone()));
        if inherit != Inherit::None {
            head.origin = Some(from.head.lineage());
            head.routing_key.clone_from(&from.head.routing_key);
            // What was not sent is not sent here either, and a summary is still to be said.
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
            head.routing_key = routing_key(house, &model, &prompt);
        }
        let session = house.sessions.create_from(head, prompt).await;
        let session = session.map_err(|error| Error::session(&error))?;
        let mut fork = Self::over(house, agent, session, model);
        fork.is_counted = is_alone;
        // A provider that has refused it once is not asked again.
        fork.is_compared &= is_alone || from.is_compared;
        if inherit == Inherit::Full {
            fork.plans.go_on_from(from.end);
            fork.watch = from.watch.clone();
        }
        Ok(fork)
    }
}

/// What a fork's first request begins with.
fn prompt(from: &Tip, inherit: Inherit, shown: &Shown, model: &Model) -> Prompt {
    match inherit {
        Inherit::Full => from.prompt.clone(),
        Inherit::Prompt => {
            let allowed = |piece: &Rendered| {
                let name = changes::name(&piece.bytes);
                shown.tools.iter().any(|tool| tool.name == name)
            };
            let mut tools = pieces(&from.prompt, Level::Tool);
            tools.retain(allowed);
            let system = pieces(&from.prompt, Level::System);
            said_again(Prompt::begin(&tools, &system), &from.prompt)
        }
        Inherit::Session | Inherit::None => {
            let Frozen { tools, system } = shown.rendered(model);
            let anew = Prompt::begin(&tools, &system);
            match inherit {
                Inherit::Session => said_again(anew, &from.prompt),
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

/// The messages of a prompt behind another beginning, byte for byte.
fn said_again(mut prompt: Prompt, said: &Prompt) -> Prompt {
    let mut message: Option<(Arc<Message>, Vec<Rendered>)> = None;
    let nodes = said.nodes().into_iter();
    for node in nodes.filter(|node| node.level == Level::Message) {
        if let Some(source) = &node.source {
            if let Some((source, pieces)) = message.take() {
                prompt = prompt.append(&pieces, source);
            }
            message = Some((Arc::clone(source), Vec::new()));
        }
        // A message that the format has no words for has no pieces.
        if let Some((_, pieces)) = message.as_mut().filter(|_| !node.bytes.is_empty()) {
            pieces.push(rendered(node));
        }
    }
    match message {
        Some((source, pieces)) => prompt.append(&pieces, source),
        None => prompt,
    }
}
