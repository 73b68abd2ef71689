//! A conversation with one model: a session, and the pieces that its messages are rendered to, once.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use cachalot_core::Spend;
use cachalot_model::wire::Rendered;
use cachalot_model::{
    Block, Extra, Message, Model, Role, ToolDefinition, ToolResult, Usage,
};
use cachalot_prompt::{Head, Namespace, Prompt, Session, Tail, Target, contiguous, simple_plan};

use crate::Error;
use crate::definition::AgentDefinition;
use crate::house::House;

/// What stands for an answer that never came, so that user and model keep taking turns.
const NO_ANSWER: &str = "(no answer: the turn ended before there was one)";

/// What stands for the result of a call that was interrupted.
const NO_RESULT: &str =
    "The call was interrupted. Whether it had an effect is not known; look before you repeat it.";

/// Characters of the first message that become the title of the session.
const TITLE: usize = 60;

pub(crate) struct Conversation {
    session: Session,
    model: Model,
    /// The ids of calls whose results are in the conversation, verbatim.
    results: Arc<BTreeSet<String>>,
}

impl Conversation {
    /// A new session. Tools and system text are rendered now, and never again.
    pub(crate) async fn begin(
        house: &House,
        agent: &AgentDefinition,
        tools: &[ToolDefinition],
        id: String,
        parent: Option<String>,
    ) -> Result<Self, Error> {
        let model = house.models.find(&agent.model)?;
        model.ready()?;
        let format = model.wire().format();
        let head = Head {
            workspace: Some(house.tools.workspace.root().display().to_string()),
            base_url: Some(model.base_url().to_owned()),
            parent,
            ..Head::new(id, &agent.name, model.provider(), model.name(), format)
        };
        let (tools, system) = frozen(&model, agent, tools);
        let session = house
            .sessions
            .create_from(head, Prompt::begin(&tools, &system))
            .await
            .map_err(|error| Error::session(&error))?;
        Ok(Self::over(session, model))
    }

    /// A session that was begun before. What was sent stays as it was sent, unless the agent's model
    /// is another one now: then everything is rendered anew, and the notice says so.
    pub(crate) async fn resume(
        house: &House,
        agent: &AgentDefinition,
        tools: &[ToolDefinition],
        mut session: Session,
    ) -> Result<(Self, Option<String>), Error> {
        let model = house.models.find(&agent.model)?;
        model.ready()?;
        let head = &session.head;
        let now = (model.wire().format(), model.provider(), model.name());
        if (head.format, head.provider.as_str(), head.model.as_str()) == now {
            return Ok((Self::over(session, model), None));
        }
        let notice = format!(
            "the session was held with {}/{}, and goes on with {}/{}: everything is sent anew",
            head.provider,
            head.model,
            model.provider(),
            model.name()
        );
        let (tools, system) = frozen(&model, agent, tools);
        let target = Target {
            provider: model.provider(),
            model: model.name(),
            base_url: Some(model.base_url()),
            tools: &tools,
            system: &system,
        };
        session
            .rerender(model.wire(), target)
            .await
            .map_err(|error| Error::session(&error))?;
        Ok((Self::over(session, model), Some(notice)))
    }

    fn over(session: Session, model: Model) -> Self {
        let messages = session.prompt.messages();
        let results = messages
            .iter()
            .flat_map(|message| result_ids(message))
            .map(ToOwned::to_owned)
            .collect();
        Self {
            session,
            model,
            results: Arc::new(results),
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.session.head.id
    }

    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// The ids of calls whose results are in the conversation, verbatim.
    pub(crate) fn results(&self) -> Arc<BTreeSet<String>> {
        Arc::clone(&self.results)
    }

    /// Adds a message, durably.
    pub(crate) async fn say(&mut self, message: Message) -> Result<(), Error> {
        if self.session.head.title.is_none() && message.role == Role::User {
            self.session.head.title = Some(title(&message));
        }
        let pieces = self.model.wire().message(&message)?;
        let ids: Vec<String> = result_ids(&message).map(ToOwned::to_owned).collect();
        self.session
            .append(Arc::new(message), &pieces)
            .await
            .map_err(|error| Error::session(&error))?;
        if !ids.is_empty() {
            Arc::make_mut(&mut self.results).extend(ids);
        }
        Ok(())
    }

    /// Notes what an answer used; it is kept with the next message.
    pub(crate) fn count(&mut self, usage: Usage, spent: Spend) {
        self.session.totals.count(usage, spent);
    }

    /// The next request.
    pub(crate) fn body(&mut self) -> Bytes {
        let wire = self.model.wire();
        let parameters = self.session.head.routed(self.model.parameters());
        self.session.namespace = Some(Namespace::of(wire.format(), &parameters));
        let plan = simple_plan(&self.session.prompt, wire);
        contiguous(
            &self.session.prompt,
            wire,
            &plan,
            &wire.tail(&parameters, true),
        )
    }

    /// Makes the conversation one that can go on: calls without results get some, and what was not
    /// answered gets an answer. Nothing that was sent is changed.
    pub(crate) async fn mend(&mut self) -> Result<(), Error> {
        if let Tail::OpenCalls(ids) = self.session.tail() {
            let results = ids.into_iter().map(|id| {
                Block::ToolResult(ToolResult {
                    id,
                    content: vec![Block::text(NO_RESULT)],
                    is_error: true,
                    extra: Extra::new(),
                })
            });
            let message = Message::of(Role::User, results.collect());
            self.say(message).await?;
        }
        if self.session.tail() == Tail::Unanswered {
            self.say(Message::assistant(NO_ANSWER)).await?;
        }
        Ok(())
    }
}

/// Tools and system text as this model is sent them.
fn frozen(
    model: &Model,
    agent: &AgentDefinition,
    tools: &[ToolDefinition],
) -> (Vec<Rendered>, Vec<Rendered>) {
    let wire = model.wire();
    let tools = tools.iter().map(|tool| wire.tool(tool)).collect();
    let system = Some(agent.instruction.as_str())
        .filter(|text| !text.trim().is_empty())
        .map(|text| wire.system(text));
    (tools, system.into_iter().collect())
}

fn result_ids(message: &Message) -> impl Iterator<Item = &str> {
    message.content.iter().filter_map(|block| match block {
        Block::ToolResult(result) => Some(result.id.as_str()),
        _ => None,
    })
}

/// The first words of a message.
fn title(message: &Message) -> String {
    let text = match message.content.first() {
        Some(Block::Text { text, .. }) => text.as_str(),
        _ => "",
    };
    let line: String = text
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let mut title: String = line.chars().take(TITLE).collect();
    if title.len() < line.len() {
        title.push('…');
    }
    title
}
