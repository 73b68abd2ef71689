//! An active session of an agent: its tools, its conversation and its hooks.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cachalot_core::Millis;
use cachalot_hooks::Event as When;
use cachalot_model::{Block, Model, ToolDefinition, Usage};
use cachalot_operation::permissions::ToolSignature;
use cachalot_prompt::Session;
use cachalot_tools::builtin::signature;
use cachalot_tools::{Gate, Tool, ToolContext, Toolbox, sanitize_name};
use parking_lot::Mutex;

use crate::agent_directory;
use crate::chat_state::ChatState;
use crate::conversation::{AgentPrompt, Conversation, Retracted, SummaryInput, restricted_by};
use crate::definition::{AgentDefinition, DELEGATION_TOOL, HANDOFF_TOOL};
use crate::delegate::{Delegation, TransferTask};
use crate::event::Event;
use crate::fork_point::{CurrentForkPoint, ForkPoint};
use crate::handoff::{Handoff, HandoffRequest};
use crate::hook_emitter::{HookContext, HookEmitter};
use crate::prefix_warmup::{PrefixWarmup, WarmupGuard};
use crate::{Error, ErrorKind};

/// An active session of an agent.
pub(crate) struct ActiveSession {
    pub(crate) tools: AgentTools,
    pub(crate) conversation: Conversation,
    pub(crate) hook_emitter: Arc<HookEmitter>,
    /// Output of session-start hooks for the next message.
    pub(crate) session_start_output: HookContext,
    /// Variables that hooks have set for the commands of the session.
    environment: BTreeMap<String, String>,
    /// Set when a compaction failed, so that it is not attempted (and paid for) again.
    pub(crate) compaction_failed: bool,
    /// In a fork, the usage of the parent's last request: a lower bound for its first request.
    inherited: Option<Usage>,
    /// Set in a fork until its first request is answered. The inherited conversation is sent unchanged once
    /// before it may be compacted.
    pub(crate) awaits_first_answer: bool,
    /// The forks with the same prefix, until the first request.
    prefix_warmup: Option<PrefixWarmup>,
    /// Results for the calls that are open where the fork begins, until its first message.
    pub(crate) open_call_results: Vec<Block>,
    /// True if the user was warned that the conversation is close to the limit of the model.
    warned: bool,
}

/// The tools of an agent and the text that its model is shown.
pub(crate) struct AgentTools {
    pub(crate) toolbox: Arc<dyn Toolbox>,
    pub(crate) agent_prompt: AgentPrompt,
    /// Runs the tasks that the agent gives to sub-agents.
    pub(crate) delegation: Arc<dyn Delegation>,
    /// The point from which forks of a turn start.
    pub(crate) current_fork_point: CurrentForkPoint,
    /// The handoff that the running calls request.
    pub(crate) handoff_request: HandoffRequest,
    /// The read-only agent for which the agent works, or the agent itself if it is one.
    read_only_agent: Option<Arc<str>>,
    /// The number of delegations above this session.
    depth: u32,
}

impl ActiveSession {
    /// Begins a new session of an agent, `depth` delegations deep. Hooks are notified by [`ActiveSession::emit_session_start`].
    pub(crate) async fn begin(
        shared: &ChatState,
        agent: &AgentDefinition,
        delegation: &Arc<dyn Delegation>,
        parent: Option<String>,
        depth: u32,
    ) -> Result<Self, Error> {
        let id = (shared.dependencies.new_session_id)();
        let hook_emitter = HookEmitter::new(shared, agent, &id, parent.as_deref())?;
        let hook_emitter = Arc::new(hook_emitter);
        let tools = load_tools(shared, agent, delegation, &hook_emitter, &id, depth).await?;
        let conversation = Conversation::begin(
            &shared.dependencies,
            agent,
            &tools.agent_prompt,
            id,
            parent,
            shared.read_only_agent.as_deref(),
        )
        .await?;
        tools.toolbox.reset(conversation.id()).await;
        Ok(Self::new(tools, conversation, hook_emitter).with_published_fingerprint(shared, agent))
    }

    /// Resumes a session.
    pub(crate) async fn resume(
        shared: &ChatState,
        agent: &AgentDefinition,
        delegation: &Arc<dyn Delegation>,
        session: Session,
    ) -> Result<Self, Error> {
        let head = &session.head;
        let hook_emitter = HookEmitter::new(shared, agent, &head.id, head.parent.as_deref())?;
        let hook_emitter = Arc::new(hook_emitter);
        let restricted = shared.for_read_only(restricted_by(head));
        let tools = load_tools(&restricted, agent, delegation, &hook_emitter, &head.id, 0).await?;
        let agent_prompt = &tools.agent_prompt;
        let (conversation, notices) =
            Conversation::resume(&shared.dependencies, agent, agent_prompt, session).await?;
        for notice in notices {
            hook_emitter.warn(&notice).await;
        }
        Ok(Self::new(tools, conversation, hook_emitter).with_published_fingerprint(shared, agent))
    }

    pub(crate) fn new(
        tools: AgentTools,
        conversation: Conversation,
        hook_emitter: Arc<HookEmitter>,
    ) -> Self {
        hook_emitter.set_transcript(conversation.transcript());
        Self {
            tools,
            conversation,
            hook_emitter,
            session_start_output: HookContext::default(),
            environment: BTreeMap::new(),
            compaction_failed: false,
            inherited: None,
            awaits_first_answer: false,
            prefix_warmup: None,
            open_call_results: Vec::new(),
            warned: false,
        }
    }

    /// The point from which forks start, in its current state.
    pub(crate) fn fork_point(&self) -> ForkPoint {
        ForkPoint {
            snapshot: self.conversation.snapshot(),
            usage: self.usage(),
            prefix_warmup: PrefixWarmup::default(),
        }
    }

    /// Makes the conversation continue from `fork_point`.
    pub(crate) fn continue_from(&mut self, fork_point: &ForkPoint) {
        self.inherited = fork_point.usage;
        self.awaits_first_answer = true;
        self.prefix_warmup = Some(fork_point.prefix_warmup.clone());
        self.open_call_results = fork_point.open_call_results();
    }

    /// Waits until the next request may be sent. Returns a guard that the caller holds until the response
    /// begins.
    pub(crate) async fn wait_for_warmup(&mut self) -> Option<WarmupGuard> {
        self.prefix_warmup.take()?.join().await
    }

    /// Renders the next request for a fallback of the conversation's model. The conversation is not changed.
    pub(crate) async fn body_for(&self, fallback: &Model) -> Result<Bytes, cachalot_model::Error> {
        fallback.ready()?;
        self.conversation
            .body_for(fallback, &self.tools.agent_prompt)
            .await
    }

    /// Returns the body of a request for a summary that another model writes.
    pub(crate) async fn summary_request_body_for(
        &self,
        model: &Model,
        summary_input: &SummaryInput,
        instruction: &str,
    ) -> Result<Bytes, cachalot_model::Error> {
        let agent_prompt = &self.tools.agent_prompt;
        self.conversation
            .summary_request_body_for(model, agent_prompt, summary_input, instruction)
            .await
    }

    /// True if the agent has tools.
    pub(crate) fn has_tools(&self) -> bool {
        !self.tools.agent_prompt.tools.is_empty()
    }

    /// Returns the request in flight without the changes that `error` refuses; see
    /// [`Conversation::body_without_changes`].
    pub(crate) async fn body_without_changes(
        &mut self,
        error: &cachalot_model::Error,
        now: Millis,
    ) -> Result<Option<Bytes>, Error> {
        let agent_prompt = &self.tools.agent_prompt;
        self.conversation
            .body_without_changes(error, agent_prompt, now)
            .await
    }

    /// Usage of the last request.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.conversation.last_usage()
    }

    /// Input tokens of the last request, or of the one from which the fork continues.
    pub(crate) fn last_input(&self) -> Option<u64> {
        let last = self.usage().or(self.inherited);
        last.map(|usage| usage.total_input())
    }

    /// Records that a request was answered.
    pub(crate) fn record_answer(&mut self, usage: Option<Usage>) {
        self.conversation.set_last_usage(usage);
        self.awaits_first_answer = false;
    }

    /// Publishes to builtins what the model is shown.
    pub(crate) fn with_published_fingerprint(
        self,
        shared: &ChatState,
        agent: &AgentDefinition,
    ) -> Self {
        self.publish_fingerprint(shared, agent);
        self
    }

    fn publish_fingerprint(&self, shared: &ChatState, agent: &AgentDefinition) {
        if let Some(setup) = &shared.dependencies.hooks {
            let conversation = &self.conversation;
            let fingerprint = agent_directory::fingerprint(
                &conversation.canonical_prompt(),
                conversation.model(),
                self.hook_emitter.hooks(),
                &shared.team.permissions,
                agent_directory::origins(&shared.team, agent, &shared.dependencies.tools),
            );
            setup
                .agent_directory
                .set_fingerprint(&agent.name, conversation.id(), fingerprint);
        }
    }

    /// The context of the session's tool calls.
    pub(crate) fn context(&self, base: &ToolContext) -> ToolContext {
        let mut context = base.clone();
        self.conversation.id().clone_into(&mut context.session);
        if !self.environment.is_empty() {
            Arc::make_mut(&mut context.environment).extend(self.environment.clone());
        }
        context
    }

    /// Emits the session-start hook event; `source` is `startup`, `resume`, `clear` or `compact`.
    pub(crate) async fn emit_session_start(&mut self, source: &str) {
        let told = self.hook_emitter.emit(When::SessionStart, |input| {
            input.source = Some(source.to_owned());
            input.messages = self.conversation.prompt().messages();
        });
        let mut verdict = told.await;
        if !verdict.environment.is_empty() {
            self.environment = std::mem::take(&mut verdict.environment);
        }
        self.session_start_output.add(verdict);
    }

    /// Continues from the stored state of the session after another writer has appended to it.
    pub(crate) async fn reopen(
        &mut self,
        shared: &ChatState,
        agent: &AgentDefinition,
    ) -> Result<(), Error> {
        let reopened =
            self.conversation
                .reopen(&shared.dependencies, agent, &self.tools.agent_prompt);
        let (conversation, notices) = reopened.await?;
        self.conversation = conversation;
        self.hook_emitter
            .set_transcript(self.conversation.transcript());
        self.hook_emitter
            .warn("the session was continued elsewhere; the chat continues from there")
            .await;
        for notice in notices {
            self.hook_emitter.warn(&notice).await;
        }
        Ok(())
    }

    /// Adopts the current tools. If they differ from those of the session, returns a description of the
    /// difference and the estimated tokens that the provider reads anew, and the session continues with them. On an
    /// error the session is unchanged.
    pub(crate) async fn reload(
        &mut self,
        shared: &ChatState,
        agent: &AgentDefinition,
    ) -> Result<Option<(String, u64)>, Error> {
        let read_only_agent = self.tools.read_only_agent.clone();
        let loading = self.tools_of(shared, agent, read_only_agent, &self.hook_emitter);
        let mut tools = loading.await?;
        let changes = self.conversation.changed_tools(&tools.agent_prompt);
        let mut tokens = 0;
        if changes.is_some() {
            if !self.conversation.change_tools(&tools.agent_prompt).await? {
                tokens = self.usage().map_or(0, |usage| usage.total_input());
                self.conversation
                    .replace_prompt(&tools.agent_prompt)
                    .await?;
                // The usage of the last request does not predict that of the next one.
                self.conversation.set_last_usage(None);
                self.inherited = None;
            }
        } else {
            // Also if only the order of the tools differs: the session keeps the order that was sent.
            tools.agent_prompt = self.tools.agent_prompt.clone();
        }
        // Tools with the same names may come from servers that were restarted.
        self.tools = tools;
        let Some(changes) = changes else {
            return Ok(None);
        };
        self.publish_fingerprint(shared, agent);
        Ok(Some((changes, tokens)))
    }

    /// Continues the session with another agent: its tools, its prompt, its model and its hooks. `kind` is
    /// the kind of switch in hook events. On an error the session is unchanged.
    pub(crate) async fn switch(
        &mut self,
        shared: &ChatState,
        agent: &AgentDefinition,
        kind: &'static str,
    ) -> Result<(), Error> {
        let id = self.conversation.id().to_owned();
        let from = self.conversation.agent().to_owned();
        let parent = self.conversation.parent().map(str::to_owned);
        let hook_emitter = Arc::new(HookEmitter::new(shared, agent, &id, parent.as_deref())?);
        hook_emitter.continue_turn_of(&self.hook_emitter);
        // The user may choose any agent. An agent that hands off gives no more than it has.
        let read_only_agent = match kind {
            "user" => None,
            _ => self.tools.read_only_agent.clone(),
        };
        let loading = self.tools_of(shared, agent, read_only_agent.clone(), &hook_emitter);
        let tools = loading.await?;
        let restricted_by = read_only_agent.as_deref();
        self.conversation
            .switch(
                &shared.dependencies,
                agent,
                &tools.agent_prompt,
                restricted_by,
            )
            .await?;
        hook_emitter.set_transcript(self.conversation.transcript());
        let before = std::mem::replace(&mut self.hook_emitter, hook_emitter);
        self.tools = tools;
        // The usage of the last request does not predict that of the next one.
        self.reset_usage();
        if let Some(setup) = &shared.dependencies.hooks {
            setup.agent_directory.remove_fingerprint(&from, &id);
        }
        self.publish_fingerprint(shared, agent);
        before.emit_agent_switch(&from, &agent.name, kind).await;
        shared
            .dependencies
            .listener
            .on_event(&Event::AgentSwitched {
                agent: &agent.name,
                from: &from,
            });
        // The agent begins here: its hooks may add context, as they do for a new session.
        self.emit_session_start("startup").await;
        Ok(())
    }

    /// The state of another session that continues with the agent of this one: also for the read-only agent for
    /// which it works.
    pub(crate) fn restricted(&self, shared: &ChatState) -> ChatState {
        let name = self.tools.read_only_agent.clone();
        // The definition of a read-only agent restricts the agent itself.
        shared.for_read_only(name.filter(|name| **name != *self.conversation.agent()))
    }

    /// Creates the tools of an agent for this session.
    async fn tools_of(
        &self,
        shared: &ChatState,
        agent: &AgentDefinition,
        read_only_agent: Option<Arc<str>>,
        hook_emitter: &Arc<HookEmitter>,
    ) -> Result<AgentTools, Error> {
        let AgentTools {
            delegation, depth, ..
        } = &self.tools;
        let id = self.conversation.id();
        let shared = shared.for_read_only(read_only_agent);
        load_tools(&shared, agent, delegation, hook_emitter, id, *depth).await
    }

    /// Removes the end of the conversation; hooks then read the rest.
    pub(crate) async fn retract(&mut self) -> Result<Option<Retracted>, Error> {
        let retracted = self.conversation.retract().await?;
        if retracted.is_some() {
            self.reset_usage();
        }
        Ok(retracted)
    }

    /// True if the user was warned that the conversation is close to the limit of the model.
    pub(crate) fn nearly_full_warned(&mut self) -> &mut bool {
        &mut self.warned
    }

    /// Resets what depends on the length of the conversation, after it became shorter.
    pub(crate) fn reset_usage(&mut self) {
        self.warned = false;
        self.conversation.set_last_usage(None);
        self.inherited = None;
        self.compaction_failed = false;
    }

    /// Ends the session with this reason and releases what the tools hold for it.
    pub(crate) async fn end(&mut self, shared: &ChatState, reason: &str) {
        // Message of an earlier turn whose future was dropped. If it cannot be stored, there is no caller to
        // report to.
        let _ = self.conversation.append_held_unsent().await;
        self.hook_emitter
            .emit(When::SessionEnd, |input| {
                input.reason = Some(reason.to_owned());
            })
            .await;
        let id = self.conversation.id();
        self.tools.toolbox.reset(id).await;
        if let Some(setup) = &shared.dependencies.hooks {
            setup
                .agent_directory
                .remove_fingerprint(self.conversation.agent(), id);
        }
    }
}

/// Refuses a gated agent whose provider runs tools itself: the gate does not see those calls.
///
/// # Errors
/// [`ErrorKind::Fork`], naming the options; or the model does not exist.
pub(crate) fn check_server_tools(
    shared: &ChatState,
    agent: &AgentDefinition,
    gate: Option<&Gate>,
) -> Result<(), Error> {
    let Some(gate) = gate else {
        return Ok(());
    };
    let model = agent.find_model(&shared.dependencies.models)?;
    let options = model.server_tools();
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
pub(crate) async fn load_tools(
    shared: &ChatState,
    agent: &AgentDefinition,
    delegation: &Arc<dyn Delegation>,
    hook_emitter: &Arc<HookEmitter>,
    session: &str,
    depth: u32,
) -> Result<AgentTools, Error> {
    check_server_tools(shared, agent, shared.dependencies.tools.gate.as_ref())?;
    let current_fork_point = CurrentForkPoint::default();
    let own_name = agent.read_only.then(|| Arc::from(agent.name.as_str()));
    let read_only_agent = shared.read_only_agent.clone().or(own_name);
    let transfer_task = TransferTask::for_agent(
        agent,
        shared,
        delegation,
        hook_emitter,
        &current_fork_point,
        read_only_agent.as_ref(),
        depth,
    );
    let handoff_request = HandoffRequest::default();
    let handoff = Handoff::for_agent(agent, shared, &handoff_request);
    let own: Vec<Arc<dyn Tool>> = transfer_task.into_iter().chain(handoff).collect();
    let warnings = Mutex::new(Vec::new());
    let warn = |message: &str| {
        shared.warn(&agent.name, message);
        let mut warnings = warnings.lock();
        warnings.push(message.to_owned());
    };
    let toolboxes = &shared.dependencies.toolboxes;
    let made = toolboxes.toolbox(&shared.team, agent, session, own, &warn);
    let toolbox = made.await?;
    check_read_only(shared, agent, &*toolbox)?;
    check_rules(shared, &toolbox.definitions(), &warn);
    let warnings = warnings.into_inner();
    for warning in warnings {
        hook_emitter.notify("warning", None, &warning).await;
    }
    let mut of_toolsets = toolboxes.instructions(&shared.team, agent);
    of_toolsets.retain(|text| crate::normalized_reply::is_visible(text));
    let mut system = vec![
        agent.instruction.trim_end().to_owned(),
        of_toolsets.join("\n\n"),
        agent.context.trim_end().to_owned(),
        // Last, so that a text that differs from session to session leaves the prefix before it as it is.
        toolbox.instructions().join("\n\n"),
    ];
    system.retain(|text| crate::normalized_reply::is_visible(text));
    let agent_prompt = AgentPrompt {
        tools: toolbox.definitions(),
        system,
    };
    Ok(AgentTools {
        toolbox,
        agent_prompt,
        delegation: Arc::clone(delegation),
        current_fork_point,
        handoff_request,
        read_only_agent,
        depth,
    })
}

/// Refuses an agent that works for a read-only agent and has a tool that may change something. Its own
/// delegations and handoffs are checked when they happen.
fn check_read_only(
    shared: &ChatState,
    agent: &AgentDefinition,
    toolbox: &dyn Toolbox,
) -> Result<(), Error> {
    let Some(read_only_agent) = &shared.read_only_agent else {
        return Ok(());
    };
    let mut writing = toolbox.writing_tools();
    writing.retain(|tool| ![DELEGATION_TOOL, HANDOFF_TOOL].contains(&tool.as_str()));
    match writing.first() {
        None => Ok(()),
        Some(tool) => Err(Error::new(
            ErrorKind::Tools,
            format!(
                "the agent `{read_only_agent}` is `readonly` and gives no work to `{}`, whose tool `{tool}` may change something",
                agent.name
            ),
        )),
    }
}

/// Warns of permission rules that name a tool or an argument that a connected MCP server does not have.
fn check_rules(shared: &ChatState, tools: &[ToolDefinition], warn: &dyn Fn(&str)) {
    let known: Vec<ToolSignature> = tools
        .iter()
        .map(|tool| signature(&tool.name, &tool.parameters))
        .collect();
    let servers = shared
        .team
        .shared_tools
        .servers
        .iter()
        .flat_map(|servers| servers.value.keys());
    for server in servers {
        let prefix = format!("mcp_{}_", sanitize_name(server));
        // A server that offers no tools here is not connected or belongs to other agents.
        if !known.iter().any(|tool| tool.name.starts_with(&prefix)) {
            continue;
        }
        for warning in shared.team.permissions.check_server(&prefix, &known) {
            warn(&warning);
        }
    }
}
