//! Delegation: a tool that gives a task to another agent, in a separate session.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::{EffectTargets, Effects};
use cachalot_hooks::Event as When;
use cachalot_hooks::input::{Answer, Switch};
use cachalot_tools::{Arguments, Operation, OperationMetadata, Tool, ToolContext, ToolOutput};
use serde_json::{Value, json};

use crate::active_session::ActiveSession;
use crate::chat_state::ChatState;
use crate::definition::{AgentDefinition, SubAgent};
use crate::fork::{CurrentForkPoint, Fork, PreparedTurn};
use crate::hook_emitter::HookEmitter;
use crate::normalized_reply::is_visible;
use crate::turn::{Turn, TurnInput, TurnOutcome};
use crate::{Error, ErrorKind};

/// The name of the tool.
pub(crate) const NAME: &str = "transfer_task";

/// Maximum depth of delegation: an agent, its sub-agent, the sub-agent's sub-agent, …
const MAX_DEPTH: u32 = 5;

/// True if the tool only delegates a task. Its sub-agent's calls are approved one by one.
pub(crate) fn is_delegation(tool: &str) -> bool {
    tool == NAME
}

/// The tool `transfer_task`.
pub(crate) struct TransferTask {
    metadata: OperationMetadata,
    shared: ChatState,
    /// The delegating agent.
    delegator: AgentDefinition,
    hook_emitter: HookEmitter,
    current_fork_point: CurrentForkPoint,
    depth: u32,
}

impl TransferTask {
    /// Returns the tool of an agent that has sub-agents and is not at the maximum depth, otherwise `None`.
    pub(crate) fn for_agent(
        agent: &AgentDefinition,
        shared: &ChatState,
        hook_emitter: &HookEmitter,
        current_fork_point: &CurrentForkPoint,
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
        let parameters = json!({
            "type": "object",
            "properties": {
                "agent": {"type": "string", "enum": names, "description": "Who gets the task."},
                "task": {"type": "string", "description": "The task, with everything that is needed to do it."},
                "expected_output": {"type": "string", "description": "What the answer should look like."}
            },
            "required": ["agent", "task"],
            "additionalProperties": false
        });
        Some(Arc::new(Self {
            metadata: OperationMetadata::with_side_effects(NAME, description, parameters),
            shared: shared.clone(),
            delegator: agent.clone(),
            hook_emitter: hook_emitter.clone(),
            current_fork_point: current_fork_point.clone(),
            depth,
        }))
    }

    /// Returns the agent that a call names and its `fork` setting, if the delegating agent may use it.
    fn sub_agent(&self, arguments: &Arguments) -> Option<(&AgentDefinition, bool)> {
        let name = text(arguments, "agent");
        let mut known = self.delegator.sub_agents.iter();
        let known = known.find(|known| known.name == name)?;
        Some((self.shared.team.agent(name)?, known.fork))
    }
}

/// Describes a sub-agent for the model, in one line.
fn describe(sub_agent: &SubAgent, shared: &ChatState) -> Option<String> {
    let agent = shared.team.agent(&sub_agent.name)?;
    Some(match agent.description.trim() {
        "" => format!("- {}", agent.name),
        description => format!("- {}: {description}", agent.name),
    })
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

fn text<'a>(arguments: &'a Arguments, name: &str) -> &'a str {
    let text = arguments.get(name).and_then(Value::as_str);
    text.unwrap_or_default()
}

#[async_trait]
impl Operation for TransferTask {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    /// The tool itself writes nothing: the calls of the sub-agent declare their own effects.
    fn effects(&self, _: &Arguments, _: &ToolContext) -> Effects {
        Effects {
            reads: EffectTargets::Unknown,
            writes: EffectTargets::NOTHING,
        }
    }

    /// Forks of one answer run concurrently: they request no approvals and share a prefix.
    fn concurrency_safe(&self, arguments: &Arguments) -> bool {
        self.sub_agent(arguments)
            .is_some_and(|(_, is_fork)| is_fork)
    }

    async fn run(&self, arguments: Arguments, context: &ToolContext) -> ToolOutput {
        let name = text(&arguments, "agent");
        let Some((agent, is_fork)) = self.sub_agent(&arguments) else {
            let known = self.delegator.sub_agents.iter();
            let known: Vec<&str> = known.map(|known| known.name.as_str()).collect();
            let known = known.join("`, `");
            return ToolOutput::error(format!("There is no agent `{name}` here, but `{known}`."));
        };
        let task = match text(&arguments, "expected_output").trim() {
            "" => text(&arguments, "task").to_owned(),
            expected => format!(
                "{}\n\nExpected output: {expected}",
                text(&arguments, "task")
            ),
        };
        self.emit_agent_switch(&self.delegator.name, name, "transfer_task")
            .await;
        // Cancelling the turn that made this call drops this future and everything within it.
        let ended = Box::pin(self.run_task(agent, is_fork, &task, context)).await;
        self.emit_agent_switch(name, &self.delegator.name, "transfer_task_return")
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

impl TransferTask {
    async fn run_task(
        &self,
        agent: &AgentDefinition,
        is_fork: bool,
        task: &str,
        context: &ToolContext,
    ) -> Result<TurnOutcome, Error> {
        let failed = |what: &str, error: &Error| {
            let name = &agent.name;
            Error::new(ErrorKind::Model, format!("`{name}` {what}: {error}"))
        };
        let prepared_turn = Box::pin(self.prepared_turn(agent, is_fork, task, context)).await;
        let mut prepared_turn = prepared_turn.map_err(|error| failed("cannot begin", &error))?;
        prepared_turn
            .active_session
            .emit_session_start("startup")
            .await;
        let input = TurnInput {
            text: &prepared_turn.text,
            from_agent: true,
            fresh: false,
        };
        let turn = Turn::new(
            &prepared_turn.shared,
            &prepared_turn.agent,
            &mut prepared_turn.active_session,
            input,
        );
        let ended = Box::pin(turn.run()).await;
        self.emit_subagent_stop(&prepared_turn.active_session, &ended)
            .await;
        prepared_turn
            .active_session
            .end(&prepared_turn.shared, "stream_ended")
            .await;
        ended.map_err(|error| failed("failed", &error))
    }

    /// Prepares the agent in a new session, on a fork of the conversation or with an empty one. It may use no
    /// tool that the delegating agent may not use.
    async fn prepared_turn(
        &self,
        agent: &AgentDefinition,
        is_fork: bool,
        task: &str,
        context: &ToolContext,
    ) -> Result<PreparedTurn, Error> {
        if !is_visible(task) {
            let nothing = "nothing was said: the task is empty";
            return Err(Error::new(ErrorKind::Input, nothing));
        }
        let shared = self.shared.with_gate(context.gate.as_ref());
        let depth = self.depth + 1;
        let fork_point = self.current_fork_point.fork_point().filter(|_| is_fork);
        if let Some(fork_point) = fork_point {
            let fork = Fork::for_turn(agent, &self.delegator, &shared, fork_point, depth);
            return fork.prepared_turn(task).await;
        }
        let parent = Some(context.session.clone());
        let active_session = ActiveSession::begin(&shared, agent, parent, depth).await?;
        Ok(PreparedTurn {
            shared,
            agent: agent.clone(),
            active_session,
            text: task.to_owned(),
        })
    }

    /// Emits `subagent_stop` to the hooks of the delegating agent, with the answer.
    async fn emit_subagent_stop(
        &self,
        active_session: &ActiveSession,
        ended: &Result<TurnOutcome, Error>,
    ) {
        let told = self.hook_emitter.emit(When::SubagentStop, |input| {
            let session = active_session.conversation.id().to_owned();
            input.parent_session_id = Some(std::mem::replace(&mut input.session_id, session));
            active_session
                .conversation
                .agent()
                .clone_into(&mut input.agent_name);
            input.answer = Some(ended.as_ref().map_or_else(
                |_| Answer::default(),
                |ended| Answer {
                    text: ended.text.clone(),
                    finish: ended.finish.clone(),
                    synthetic: ended.synthetic.is_some(),
                    ..Answer::default()
                },
            ));
        });
        told.await;
    }

    /// Emits `on_agent_switch`: another agent continues.
    async fn emit_agent_switch(&self, from: &str, to: &str, kind: &'static str) {
        let told = self.hook_emitter.emit(When::OnAgentSwitch, |input| {
            input.switch = Some(Switch {
                from_agent: from.to_owned(),
                to_agent: to.to_owned(),
                kind,
            });
        });
        told.await;
    }
}
