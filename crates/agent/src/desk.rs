//! An agent at work: its tools and its conversation.

use std::sync::Arc;

use cachalot_prompt::Session;
use cachalot_tools::{Tool, Toolbox};

use crate::Error;
use crate::conversation::{Conversation, Shown};
use crate::definition::AgentDefinition;
use crate::delegate::TransferTask;
use crate::shared::Shared;

/// An agent at work.
pub(crate) struct Desk {
    pub(crate) toolbox: Arc<dyn Toolbox>,
    pub(crate) conversation: Conversation,
    shown: Shown,
    /// Whether the user was told that the conversation is nearly as long as it may be.
    warned: bool,
}

impl Desk {
    /// A new session of an agent, `depth` delegations deep.
    pub(crate) async fn begin(
        shared: &Shared,
        agent: &AgentDefinition,
        parent: Option<String>,
        depth: u32,
    ) -> Result<Self, Error> {
        let id = (shared.house.name_session)();
        let (toolbox, shown) = equip(shared, agent, &id, depth).await?;
        let conversation = Conversation::begin(&shared.house, agent, &shown, id, parent).await?;
        toolbox.reset(conversation.id()).await;
        Ok(Self {
            toolbox,
            conversation,
            shown,
            warned: false,
        })
    }

    /// A session that was begun before.
    pub(crate) async fn resume(
        shared: &Shared,
        agent: &AgentDefinition,
        session: Session,
    ) -> Result<Self, Error> {
        let (toolbox, shown) = equip(shared, agent, &session.head.id, 0).await?;
        let (conversation, notices) =
            Conversation::resume(&shared.house, agent, &shown, session).await?;
        for notice in notices {
            shared.warn(&agent.name, &notice);
        }
        Ok(Self {
            toolbox,
            conversation,
            shown,
            warned: false,
        })
    }

    /// Goes on from where somebody else has gone with the session.
    pub(crate) async fn reopen(
        &mut self,
        shared: &Shared,
        agent: &AgentDefinition,
    ) -> Result<(), Error> {
        let reopened = self.conversation.reopen(&shared.house, agent, &self.shown);
        let (conversation, notices) = reopened.await?;
        self.conversation = conversation;
        shared.warn(
            &agent.name,
            "the session was continued elsewhere; the chat goes on from there",
        );
        for notice in notices {
            shared.warn(&agent.name, &notice);
        }
        Ok(())
    }

    /// Whether the user was told that the conversation is nearly as long as it may be.
    pub(crate) fn fullness(&mut self) -> &mut bool {
        &mut self.warned
    }

    /// The session is over: what the tools kept for it is let go.
    pub(crate) async fn leave(&self) {
        self.toolbox.reset(self.conversation.id()).await;
    }
}

/// The tools of an agent, and what its model is shown.
async fn equip(
    shared: &Shared,
    agent: &AgentDefinition,
    session: &str,
    depth: u32,
) -> Result<(Arc<dyn Toolbox>, Shown), Error> {
    let own: Vec<Arc<dyn Tool>> = TransferTask::of(agent, shared, depth).into_iter().collect();
    let warn = |message: &str| shared.warn(&agent.name, message);
    let toolboxes = &shared.house.toolboxes;
    let toolbox = toolboxes
        .toolbox(&shared.team, agent, session, own, &warn)
        .await?;
    let mut system = vec![agent.instruction.trim_end().to_owned()];
    system.extend(toolboxes.instructions(&shared.team, agent));
    system.retain(|text| crate::said::is_visible(text));
    let shown = Shown {
        tools: toolbox.definitions(),
        system: system.join("\n\n"),
    };
    Ok((toolbox, shown))
}
