//! An agent at work: its tools, its conversation and its hooks.

use std::sync::{Arc, Mutex, PoisonError};

use cachalot_hooks::Event as When;
use cachalot_model::Usage;
use cachalot_prompt::Session;
use cachalot_tools::{Tool, Toolbox};

use crate::Error;
use crate::conversation::{Conversation, Shown};
use crate::definition::AgentDefinition;
use crate::delegate::TransferTask;
use crate::herald::{Added, Herald};
use crate::roster;
use crate::shared::Shared;

/// An agent at work.
pub(crate) struct Desk {
    pub(crate) toolbox: Arc<dyn Toolbox>,
    pub(crate) conversation: Conversation,
    pub(crate) herald: Herald,
    /// What goes into the next message because the session has begun.
    pub(crate) opening: Added,
    /// What the last request used.
    pub(crate) usage: Option<Usage>,
    /// Whether the conversation was to be summarized, and could not: it would be paid for each time.
    pub(crate) gave_up: bool,
    shown: Shown,
    /// Whether the user was told that the conversation is nearly as long as it may be.
    warned: bool,
}

impl Desk {
    /// A new session of an agent, `depth` delegations deep. Hooks are told once it is
    /// [`Desk::started`].
    pub(crate) async fn begin(
        shared: &Shared,
        agent: &AgentDefinition,
        parent: Option<String>,
        depth: u32,
    ) -> Result<Self, Error> {
        let id = (shared.house.name_session)();
        let herald = Herald::of(shared, agent, &id, parent.as_deref())?;
        let (toolbox, shown) = equip(shared, agent, &herald, &id, depth).await?;
        let conversation = Conversation::begin(&shared.house, agent, &shown, id, parent).await?;
        toolbox.reset(conversation.id()).await;
        Ok(Self::of(toolbox, conversation, herald, shown).listed(shared, agent))
    }

    /// A session that was begun before.
    pub(crate) async fn resume(
        shared: &Shared,
        agent: &AgentDefinition,
        session: Session,
    ) -> Result<Self, Error> {
        let head = &session.head;
        let herald = Herald::of(shared, agent, &head.id, head.parent.as_deref())?;
        let (toolbox, shown) = equip(shared, agent, &herald, &head.id, 0).await?;
        let (conversation, notices) =
            Conversation::resume(&shared.house, agent, &shown, session).await?;
        for notice in notices {
            herald.warn(&notice).await;
        }
        Ok(Self::of(toolbox, conversation, herald, shown).listed(shared, agent))
    }

    fn of(
        toolbox: Arc<dyn Toolbox>,
        conversation: Conversation,
        herald: Herald,
        shown: Shown,
    ) -> Self {
        herald.follow(conversation.transcript());
        Self {
            toolbox,
            conversation,
            herald,
            opening: Added::default(),
            usage: None,
            gave_up: false,
            shown,
            warned: false,
        }
    }

    /// Lets builtins know what the model is shown.
    fn listed(self, shared: &Shared, agent: &AgentDefinition) -> Self {
        if let Some(setup) = &shared.house.hooks {
            let conversation = &self.conversation;
            let shown = roster::fingerprint(
                conversation.prompt(),
                conversation.model(),
                self.herald.hooks(),
                &shared.team.permissions,
                roster::origins(&shared.team, agent, &shared.house.tools),
            );
            setup.roster.note(&agent.name, conversation.id(), shown);
        }
        self
    }

    /// Tells hooks that the session has begun, or begun anew: `startup`, `resume`, `clear`, `compact`.
    pub(crate) async fn started(&mut self, how: &str) {
        let told = self.herald.tell(When::SessionStart, |input| {
            input.source = Some(how.to_owned());
        });
        let verdict = told.await;
        self.opening.add(verdict);
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
        self.herald.follow(self.conversation.transcript());
        self.herald
            .warn("the session was continued elsewhere; the chat goes on from there")
            .await;
        for notice in notices {
            self.herald.warn(&notice).await;
        }
        Ok(())
    }

    /// Whether the user was told that the conversation is nearly as long as it may be.
    pub(crate) fn fullness(&mut self) -> &mut bool {
        &mut self.warned
    }

    /// The conversation is a short one again.
    pub(crate) fn emptied(&mut self) {
        self.warned = false;
        self.usage = None;
        self.gave_up = false;
    }

    /// The session is over, for this reason: what the tools kept for it is let go.
    pub(crate) async fn leave(&mut self, shared: &Shared, reason: &str) {
        // Of a turn whose future was dropped. If it cannot be kept, nobody is there to be told.
        let _ = self.conversation.say_held_back().await;
        self.herald
            .tell(When::SessionEnd, |input| {
                input.reason = Some(reason.to_owned());
            })
            .await;
        let id = self.conversation.id();
        self.toolbox.reset(id).await;
        if let Some(setup) = &shared.house.hooks {
            setup.roster.forget(self.conversation.agent(), id);
        }
    }
}

/// The tools of an agent, and what its model is shown.
async fn equip(
    shared: &Shared,
    agent: &AgentDefinition,
    herald: &Herald,
    session: &str,
    depth: u32,
) -> Result<(Arc<dyn Toolbox>, Shown), Error> {
    let own: Vec<Arc<dyn Tool>> = TransferTask::of(agent, shared, herald, depth)
        .into_iter()
        .collect();
    let warnings = Mutex::new(Vec::new());
    let warn = |message: &str| {
        shared.warn(&agent.name, message);
        let mut warnings = warnings.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.push(message.to_owned());
    };
    let toolboxes = &shared.house.toolboxes;
    let made = toolboxes.toolbox(&shared.team, agent, session, own, &warn);
    let toolbox = made.await?;
    let warnings = warnings
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    for warning in warnings {
        herald.notify("warning", None, &warning).await;
    }
    let mut system = vec![agent.instruction.trim_end().to_owned()];
    system.extend(toolboxes.instructions(&shared.team, agent));
    system.retain(|text| crate::said::is_visible(text));
    let shown = Shown {
        tools: toolbox.definitions(),
        system: system.join("\n\n"),
    };
    Ok((toolbox, shown))
}
