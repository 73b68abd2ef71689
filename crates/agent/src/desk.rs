//! An active session of an agent: its tools, its conversation and its hooks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use cachalot_core::tree::Node;
use cachalot_hooks::Event as When;
use cachalot_model::{Block, Model, ToolDefinition, Usage};
use cachalot_operation::permissions::Signature;
use cachalot_prompt::Session;
use cachalot_tools::builtin::signature;
use cachalot_tools::{Context, Gate, Tool, Toolbox};

use crate::conversation::{Conversation, Retracted, Shown};
use crate::definition::AgentDefinition;
use crate::delegate::TransferTask;
use crate::fork::{Branch, Flock, Lead, Trunk};
use crate::herald::{Added, Herald};
use crate::roster;
use crate::shared::Shared;
use crate::{Error, ErrorKind};

/// An active session of an agent.
pub(crate) struct Desk {
    pub(crate) toolbox: Arc<dyn Toolbox>,
    pub(crate) conversation: Conversation,
    pub(crate) herald: Herald,
    /// Output of session-start hooks for the next message.
    pub(crate) opening: Added,
    /// Variables that hooks have set for the commands of the session.
    environment: BTreeMap<String, String>,
    /// Usage of the last request.
    pub(crate) usage: Option<Usage>,
    /// Set when a compaction failed, so that it is not attempted (and paid for) again.
    pub(crate) gave_up: bool,
    /// The point from which forks of a turn start.
    pub(crate) trunk: Trunk,
    /// In a fork, the usage of the parent's last request: a lower bound for its first request.
    inherited: Option<Usage>,
    /// Set in a fork until its first request is answered. The inherited conversation is sent unchanged once
    /// before it may be compacted.
    pub(crate) is_unread: bool,
    /// The forks with the same prefix, until the first request.
    flock: Option<Flock>,
    /// Results for the calls that are open where the fork begins, until its first message.
    pub(crate) closing: Vec<Block>,
    shown: Shown,
    /// True if the user was warned that the conversation is close to the limit of the model.
    warned: bool,
}

/// The tools of an agent and the text that its model is shown.
pub(crate) struct Equipment {
    toolbox: Arc<dyn Toolbox>,
    pub(crate) shown: Shown,
    trunk: Trunk,
}

impl Desk {
    /// Begins a new session of an agent, `depth` delegations deep. Hooks are notified by [`Desk::started`].
    pub(crate) async fn begin(
        shared: &Shared,
        agent: &AgentDefinition,
        parent: Option<String>,
        depth: u32,
    ) -> Result<Self, Error> {
        let id = (shared.house.name_session)();
        let herald = Herald::of(shared, agent, &id, parent.as_deref())?;
        let equipment = equip(shared, agent, &herald, &id, depth).await?;
        let shown = &equipment.shown;
        let conversation = Conversation::begin(&shared.house, agent, shown, id, parent).await?;
        equipment.toolbox.reset(conversation.id()).await;
        Ok(Self::of(equipment, conversation, herald).listed(shared, agent))
    }

    /// Resumes a session.
    pub(crate) async fn resume(
        shared: &Shared,
        agent: &AgentDefinition,
        session: Session,
    ) -> Result<Self, Error> {
        let head = &session.head;
        let herald = Herald::of(shared, agent, &head.id, head.parent.as_deref())?;
        let equipment = equip(shared, agent, &herald, &head.id, 0).await?;
        let (conversation, notices) =
            Conversation::resume(&shared.house, agent, &equipment.shown, session).await?;
        for notice in notices {
            herald.warn(&notice).await;
        }
        Ok(Self::of(equipment, conversation, herald).listed(shared, agent))
    }

    pub(crate) fn of(equipment: Equipment, conversation: Conversation, herald: Herald) -> Self {
        let Equipment {
            toolbox,
            shown,
            trunk,
        } = equipment;
        herald.follow(conversation.transcript());
        Self {
            toolbox,
            conversation,
            herald,
            opening: Added::default(),
            environment: BTreeMap::new(),
            usage: None,
            gave_up: false,
            trunk,
            inherited: None,
            is_unread: false,
            flock: None,
            closing: Vec::new(),
            shown,
            warned: false,
        }
    }

    /// The point from which forks start, in its current state.
    pub(crate) fn branch(&self) -> Branch {
        Branch {
            tip: self.conversation.tip(),
            usage: self.usage,
            flock: Flock::default(),
        }
    }

    /// Makes the conversation continue from `branch`.
    pub(crate) fn goes_on_from(&mut self, branch: &Branch) {
        self.inherited = branch.usage;
        self.is_unread = true;
        self.flock = Some(branch.flock.clone());
        self.closing = branch.closing();
    }

    /// Waits until the next request may be sent. Returns a guard that the caller holds until the response
    /// begins.
    pub(crate) async fn may_go(&mut self) -> Option<Lead> {
        self.flock.take()?.join().await
    }

    /// Renders the next request for a fallback of the conversation's model. The conversation is not changed.
    pub(crate) async fn body_for(&self, fallback: &Model) -> Result<Bytes, cachalot_model::Error> {
        fallback.ready()?;
        self.conversation.body_for(fallback, &self.shown).await
    }

    /// Input tokens of the last request, or of the one from which the fork continues.
    pub(crate) fn last_input(&self) -> Option<u64> {
        let last = self.usage.or(self.inherited);
        last.map(|usage| usage.total_input())
    }

    /// Records that a request was answered.
    pub(crate) fn answered(&mut self, usage: Option<Usage>) {
        self.usage = usage;
        self.is_unread = false;
    }

    /// Publishes to builtins what the model is shown.
    pub(crate) fn listed(self, shared: &Shared, agent: &AgentDefinition) -> Self {
        self.list(shared, agent);
        self
    }

    fn list(&self, shared: &Shared, agent: &AgentDefinition) {
        if let Some(setup) = &shared.house.hooks {
            let conversation = &self.conversation;
            let shown = roster::fingerprint(
                &conversation.keyed_prompt(),
                conversation.model(),
                self.herald.hooks(),
                &shared.team.permissions,
                roster::origins(&shared.team, agent, &shared.house.tools),
            );
            setup.roster.note(&agent.name, conversation.id(), shown);
        }
    }

    /// The context of the session's tool calls.
    pub(crate) fn context(&self, of_all: &Context) -> Context {
        let mut context = of_all.clone();
        self.conversation.id().clone_into(&mut context.session);
        if !self.environment.is_empty() {
            Arc::make_mut(&mut context.environment).extend(self.environment.clone());
        }
        context
    }

    /// Emits the session-start hook event; `how` is `startup`, `resume`, `clear` or `compact`.
    pub(crate) async fn started(&mut self, how: &str) {
        let told = self.herald.tell(When::SessionStart, |input| {
            input.source = Some(how.to_owned());
            input.messages = self.conversation.prompt().messages();
        });
        let mut verdict = told.await;
        if !verdict.environment.is_empty() {
            self.environment = std::mem::take(&mut verdict.environment);
        }
        self.opening.add(verdict);
    }

    /// Continues from the stored state of the session after another writer has appended to it.
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

    /// Adopts the current tools. If they differ from those of the session, returns a description of the
    /// difference, and the session continues with them. On an error the session is unchanged.
    pub(crate) async fn reload(
        &mut self,
        shared: &Shared,
        agent: &AgentDefinition,
    ) -> Result<Option<String>, Error> {
        let id = self.conversation.id().to_owned();
        let Equipment {
            toolbox,
            shown,
            trunk,
        } = equip(shared, agent, &self.herald, &id, 0).await?;
        let changes = self.conversation.changed_tools(&shown);
        if changes.is_some() {
            self.conversation.show(&shown).await?;
            self.shown = shown;
            // The usage of the last request does not predict that of the next one.
            self.usage = None;
            self.inherited = None;
        }
        // Tools with the same names may come from servers that were restarted.
        (self.toolbox, self.trunk) = (toolbox, trunk);
        let Some(changes) = changes else {
            return Ok(None);
        };
        self.list(shared, agent);
        Ok(Some(changes))
    }

    /// Removes the end of the conversation; hooks then read the rest.
    pub(crate) async fn retract(&mut self) -> Result<Option<Retracted>, Error> {
        let retracted = self.conversation.retract().await?;
        if retracted.is_some() {
            self.emptied();
        }
        Ok(retracted)
    }

    /// True if the user was warned that the conversation is close to the limit of the model.
    pub(crate) fn fullness(&mut self) -> &mut bool {
        &mut self.warned
    }

    /// Resets what depends on the length of the conversation, after it became shorter.
    pub(crate) fn emptied(&mut self) {
        self.warned = false;
        self.usage = None;
        self.inherited = None;
        self.gave_up = false;
    }

    /// Ends the session with this reason and releases what the tools hold for it.
    pub(crate) async fn leave(&mut self, shared: &Shared, reason: &str) {
        // Message of an earlier turn whose future was dropped. If it cannot be stored, there is no caller to
        // report to.
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

/// Refuses a gated agent whose provider runs tools itself: the gate does not see those calls.
///
/// # Errors
/// [`ErrorKind::Fork`], naming the options; or the model does not exist.
pub(crate) fn check_server_tools(
    shared: &Shared,
    agent: &AgentDefinition,
    gate: Option<&Gate>,
) -> Result<(), Error> {
    let Some(gate) = gate else {
        return Ok(());
    };
    let options = shared.house.models.find(&agent.model)?.server_tools();
    if options.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Fork,
        server_tools_message(gate.holder(), &agent.model, &options),
    ))
}

/// The error message for a gated fork that cannot start with a model.
pub(crate) fn server_tools_message(holder: &str, model: &str, options: &[String]) -> String {
    format!(
        "{holder} may use only listed tools, but the model `{model}` is configured with `{}`, by which its provider may run tools of its own; take that out, or use a model without it",
        options.join("`, `")
    )
}

/// Creates the tools of an agent and the text that its model is shown.
pub(crate) async fn equip(
    shared: &Shared,
    agent: &AgentDefinition,
    herald: &Herald,
    session: &str,
    depth: u32,
) -> Result<Equipment, Error> {
    check_server_tools(shared, agent, shared.house.tools.gate.as_ref())?;
    let trunk = Trunk::default();
    let own: Vec<Arc<dyn Tool>> = TransferTask::of(agent, shared, herald, &trunk, depth)
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
    check_rules(shared, &toolbox.definitions(), &warn);
    let warnings = warnings
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    for warning in warnings {
        herald.notify("warning", None, &warning).await;
    }
    let mut of_toolsets = toolboxes.instructions(&shared.team, agent);
    of_toolsets.retain(|text| crate::said::is_visible(text));
    let mut system = vec![
        agent.instruction.trim_end().to_owned(),
        of_toolsets.join("\n\n"),
    ];
    system.retain(|text| crate::said::is_visible(text));
    let shown = Shown {
        tools: toolbox.definitions(),
        system,
    };
    Ok(Equipment {
        toolbox,
        shown,
        trunk,
    })
}

/// Warns of permission rules that name a tool or an argument that a connected MCP server does not have.
fn check_rules(shared: &Shared, tools: &[ToolDefinition], warn: &dyn Fn(&str)) {
    let known: Vec<Signature> = tools
        .iter()
        .map(|tool| signature(&tool.name, &tool.parameters))
        .collect();
    let servers = shared.team.mcps.as_ref().and_then(Node::as_map);
    for server in servers.unwrap_or_default() {
        let fits = |sign: char| sign.is_ascii_alphanumeric() || sign == '_' || sign == '-';
        let name: String = server
            .key
            .chars()
            .map(|sign| if fits(sign) { sign } else { '_' })
            .collect();
        let prefix = format!("mcp_{name}_");
        // A server that offers no tools here is not connected or belongs to other agents.
        if !known.iter().any(|tool| tool.name.starts_with(&prefix)) {
            continue;
        }
        for warning in shared.team.permissions.check_server(&prefix, &known) {
            warn(&warning);
        }
    }
}
