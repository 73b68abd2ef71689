//! Delegation: a tool that gives a task to another agent, in a separate session.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::config::tool_schema;
use cachalot_core::{EffectTargets, Effects};
use cachalot_tools::{
    OperationMetadata, ResourceAccess, Tool, ToolContext, ToolOutput, TypedTool, WithOriginal,
};
use serde::Deserialize;

use crate::Error;
use crate::chat_state::ChatState;
use crate::definition::{AgentDefinition, DELEGATION_PARAMETERS, DELEGATION_TOOL, SubAgent};
use crate::fork_point::{CurrentForkPoint, ForkPoint};
use crate::hook_emitter::HookEmitter;
use crate::report::Stop;

/// Maximum depth of delegation: an agent, its sub-agent, the sub-agent's sub-agent, …
const MAX_DEPTH: u32 = 5;

/// A task that an agent gives to a sub-agent.
pub(crate) struct DelegatedTask<'a> {
    /// The state of the chat. Its gate is that of the call: the sub-agent may use no tool that the delegating
    /// agent may not use.
    pub(crate) shared: ChatState,
    /// The delegating agent.
    pub(crate) delegator: &'a AgentDefinition,
    /// Emits events to the hooks of the delegating agent.
    pub(crate) hook_emitter: &'a HookEmitter,
    /// The session of the delegating agent.
    pub(crate) parent: &'a str,
    /// The sub-agent.
    pub(crate) agent: &'a AgentDefinition,
    /// The message for the sub-agent.
    pub(crate) text: &'a str,
    /// The state from which the sub-agent continues; `None` for an empty conversation.
    pub(crate) fork_point: Option<ForkPoint>,
    /// The depth of the sub-agent.
    pub(crate) depth: u32,
}

/// The answer of a sub-agent.
pub(crate) struct DelegatedAnswer {
    pub(crate) text: String,
    pub(crate) stop: Stop,
}

/// Runs the tasks that agents give to each other.
#[async_trait]
pub(crate) trait Delegation: Send + Sync {
    /// Runs a task to its end. Dropping the future stops the sub-agent.
    ///
    /// # Errors
    /// The sub-agent cannot begin, or its turn failed.
    async fn run(&self, task: DelegatedTask<'_>) -> Result<DelegatedAnswer, Error>;
}

/// The tool `transfer_task`.
pub(crate) struct TransferTask {
    metadata: OperationMetadata,
    shared: ChatState,
    /// The delegating agent.
    delegator: AgentDefinition,
    delegation: Arc<dyn Delegation>,
    hook_emitter: Arc<HookEmitter>,
    current_fork_point: CurrentForkPoint,
    /// The read-only agent for which the delegating agent works, or itself.
    read_only_agent: Option<Arc<str>>,
    depth: u32,
}

impl TransferTask {
    /// Returns the tool of an agent that has sub-agents and is not at the maximum depth, otherwise `None`.
    pub(crate) fn for_agent(
        agent: &AgentDefinition,
        shared: &ChatState,
        delegation: &Arc<dyn Delegation>,
        hook_emitter: &Arc<HookEmitter>,
        current_fork_point: &CurrentForkPoint,
        read_only_agent: Option<&Arc<str>>,
        depth: u32,
    ) -> Option<Arc<dyn Tool>> {
        if agent.sub_agents.is_empty() || depth >= MAX_DEPTH {
            return None;
        }
        let agents = agent.sub_agents.iter();
        let described: Vec<String> = agents
            .clone()
            .filter_map(|sub_agent| describe(sub_agent, shared))
            .collect();
        let description = format!(
            "Gives a task to another agent and returns its answer. {}\nAgents:\n{}",
            describe_visibility(&agent.sub_agents),
            described.join("\n")
        );
        let names: Vec<&str> = agents.map(|sub_agent| sub_agent.name.as_str()).collect();
        let mut parameters = tool_schema(DELEGATION_PARAMETERS);
        parameters["properties"]["agent"]["enum"] = names.into();
        Some(Arc::new(Self {
            metadata: OperationMetadata::with_side_effects(
                DELEGATION_TOOL,
                description,
                parameters,
            ),
            shared: shared.clone(),
            delegator: agent.clone(),
            delegation: Arc::clone(delegation),
            hook_emitter: Arc::clone(hook_emitter),
            current_fork_point: current_fork_point.clone(),
            read_only_agent: read_only_agent.cloned(),
            depth,
        }))
    }

    /// Returns the agent that a call names and its `fork` setting, if the delegating agent may use it.
    fn sub_agent(&self, name: &str) -> Option<(&AgentDefinition, bool)> {
        let mut known = self.delegator.sub_agents.iter();
        let known = known.find(|known| known.name == name)?;
        Some((self.shared.team.agent(name)?, known.fork))
    }
}

/// Describes a sub-agent for the model, in one line.
fn describe(sub_agent: &SubAgent, shared: &ChatState) -> Option<String> {
    Some(shared.team.agent(&sub_agent.name)?.described())
}

/// Describes for the model which sub-agents see the conversation.
fn describe_visibility(sub_agents: &[SubAgent]) -> String {
    let nothing =
        "The agent sees nothing of this conversation: say everything that it needs to know.";
    let seeing: Vec<String> = sub_agents
        .iter()
        .filter(|sub_agent| sub_agent.fork)
        .map(|sub_agent| format!("`{}`", sub_agent.name))
        .collect();
    match seeing.len() {
        0 => nothing.to_owned(),
        count if count == sub_agents.len() => {
            "The agent sees this conversation as it stands: say what it is to do.".to_owned()
        }
        _ => format!(
            "Of these agents, {} see this conversation as it stands; any other sees nothing of it: say everything that it needs to know.",
            seeing.join(", ")
        ),
    }
}

/// The arguments of `transfer_task`.
#[derive(Deserialize)]
pub(crate) struct TransferArguments {
    agent: String,
    task: String,
    #[serde(default)]
    expected_output: String,
}

#[async_trait]
impl TypedTool for TransferTask {
    type Arguments = WithOriginal<TransferArguments>;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    /// The tool itself writes nothing: the calls of the sub-agent declare their own effects.
    fn effects(&self, _: &WithOriginal<TransferArguments>, _: &ToolContext) -> Effects {
        Effects {
            reads: EffectTargets::Unknown,
            writes: EffectTargets::NOTHING,
        }
    }

    fn resource_access(&self, arguments: &WithOriginal<TransferArguments>) -> ResourceAccess {
        let schema = self.metadata.parameters.schema();
        ResourceAccess::declared(&schema, &arguments.original, false)
    }

    /// Forks of one answer run concurrently: they request no approvals and share a prefix.
    fn concurrency_safe(&self, arguments: &WithOriginal<TransferArguments>) -> bool {
        self.sub_agent(&arguments.typed.agent)
            .is_some_and(|(_, is_fork)| is_fork)
    }

    async fn run(
        &self,
        arguments: WithOriginal<TransferArguments>,
        context: &ToolContext,
    ) -> ToolOutput {
        let arguments = arguments.typed;
        let name = &*arguments.agent;
        let Some((agent, is_fork)) = self.sub_agent(name) else {
            let known = self.delegator.sub_agents.iter();
            let known: Vec<&str> = known.map(|known| known.name.as_str()).collect();
            let known = known.join("`, `");
            return ToolOutput::error(format!("There is no agent `{name}` here, but `{known}`."));
        };
        let task = match arguments.expected_output.trim() {
            "" => arguments.task,
            expected => format!("{}\n\nExpected output: {expected}", arguments.task),
        };
        let emitter = &self.hook_emitter;
        emitter
            .emit_agent_switch(&self.delegator.name, name, "transfer_task")
            .await;
        let task = DelegatedTask {
            shared: self
                .shared
                .with_gate(context.gate.as_ref())
                .for_read_only(self.read_only_agent.clone()),
            delegator: &self.delegator,
            hook_emitter: &self.hook_emitter,
            parent: &context.session,
            agent,
            text: &task,
            fork_point: self.current_fork_point.fork_point().filter(|_| is_fork),
            depth: self.depth + 1,
        };
        // Cancelling the turn that made this call drops this future and everything within it.
        let ended = self.delegation.run(task).await;
        emitter
            .emit_agent_switch(name, &self.delegator.name, "transfer_task_return")
            .await;
        match ended {
            Ok(ended) => match ended.stop.notice() {
                None => ToolOutput::text(ended.text),
                Some(notice) => ToolOutput::error(
                    format!("{}\n({name}: {notice})", ended.text)
                        .trim_start()
                        .to_owned(),
                ),
            },
            Err(error) => ToolOutput::error(error.message),
        }
    }
}
