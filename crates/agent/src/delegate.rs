//! Delegation: a tool that gives a task to another agent, in a separate session.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::{Effects, Extent};
use cachalot_hooks::Event as When;
use cachalot_hooks::input::{Answer, Switch};
use cachalot_tools::{About, Arguments, Context, Output, Tool};
use serde_json::{Value, json};

use crate::definition::{AgentDefinition, SubAgent};
use crate::desk::Desk;
use crate::fork::{Fork, Seat, Trunk};
use crate::herald::Herald;
use crate::said::is_visible;
use crate::shared::Shared;
use crate::turn::{Ended, Task, Turn};
use crate::{Error, ErrorKind};

/// The name of the tool.
pub(crate) const NAME: &str = "transfer_task";

/// Maximum depth of delegation: an agent, its sub-agent, the sub-agent's sub-agent, …
const DEEPEST: u32 = 5;

/// True if the tool only delegates a task. Its sub-agent's calls are approved one by one.
pub(crate) fn is_delegation(tool: &str) -> bool {
    tool == NAME
}

/// The tool `transfer_task`.
pub(crate) struct TransferTask {
    about: About,
    shared: Shared,
    /// The delegating agent.
    giver: AgentDefinition,
    herald: Herald,
    trunk: Trunk,
    depth: u32,
}

impl TransferTask {
    /// Returns the tool of an agent that has sub-agents and is not at the maximum depth, otherwise `None`.
    pub(crate) fn of(
        agent: &AgentDefinition,
        shared: &Shared,
        herald: &Herald,
        trunk: &Trunk,
        depth: u32,
    ) -> Option<Arc<dyn Tool>> {
        if agent.sub_agents.is_empty() || depth >= DEEPEST {
            return None;
        }
        let agents = agent.sub_agents.iter();
        let described: Vec<String> = agents
            .clone()
            .filter_map(|sub_agent| described(sub_agent, shared))
            .collect();
        let description = format!(
            "Gives a task to another agent and returns its answer. {}\nAgents:\n{}",
            what_they_see(&agent.sub_agents),
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
            about: About::acting(NAME, description, parameters),
            shared: shared.clone(),
            giver: agent.clone(),
            herald: herald.clone(),
            trunk: trunk.clone(),
            depth,
        }))
    }

    /// Returns the agent that a call names and its `fork` setting, if the delegating agent may use it.
    fn taker(&self, arguments: &Arguments) -> Option<(&AgentDefinition, bool)> {
        let name = text(arguments, "agent");
        let mut known = self.giver.sub_agents.iter();
        let known = known.find(|known| known.name == name)?;
        Some((self.shared.team.agent(name)?, known.fork))
    }
}

/// Describes a sub-agent for the model, in one line.
fn described(sub_agent: &SubAgent, shared: &Shared) -> Option<String> {
    let agent = shared.team.agent(&sub_agent.name)?;
    Some(match agent.description.trim() {
        "" => format!("- {}", agent.name),
        description => format!("- {}: {description}", agent.name),
    })
}

/// Describes for the model which sub-agents see the conversation.
fn what_they_see(sub_agents: &[SubAgent]) -> String {
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
impl Tool for TransferTask {
    fn about(&self) -> &About {
        &self.about
    }

    /// The tool itself writes nothing: the calls of the sub-agent declare their own effects.
    fn effects(&self, _: &Arguments, _: &Context) -> Effects {
        Effects {
            reads: Extent::Unknown,
            writes: Extent::NOTHING,
        }
    }

    /// Forks of one answer run concurrently: they request no approvals and share a prefix.
    fn concurrency_safe(&self, arguments: &Arguments) -> bool {
        self.taker(arguments).is_some_and(|(_, is_fork)| is_fork)
    }

    async fn run(&self, arguments: Arguments, context: &Context) -> Output {
        let name = text(&arguments, "agent");
        let Some((agent, is_fork)) = self.taker(&arguments) else {
            let known = self.giver.sub_agents.iter();
            let known: Vec<&str> = known.map(|known| known.name.as_str()).collect();
            let known = known.join("`, `");
            return Output::error(format!("There is no agent `{name}` here, but `{known}`."));
        };
        let task = match text(&arguments, "expected_output").trim() {
            "" => text(&arguments, "task").to_owned(),
            expected => format!(
                "{}\n\nExpected output: {expected}",
                text(&arguments, "task")
            ),
        };
        self.switch(&self.giver.name, name, "transfer_task").await;
        // Cancelling the turn that made this call drops this future and everything within it.
        let ended = Box::pin(self.carry_out(agent, is_fork, &task, context)).await;
        self.switch(name, &self.giver.name, "transfer_task_return")
            .await;
        match ended {
            Ok(ended) => match ended.stop.notice() {
                None => Output::text(ended.text),
                Some(notice) => Output::error(
                    format!("{}\n({name}: {notice})", ended.text)
                        .trim_start()
                        .to_owned(),
                ),
            },
            Err(error) => Output::error(error.message),
        }
    }
}

impl TransferTask {
    async fn carry_out(
        &self,
        agent: &AgentDefinition,
        is_fork: bool,
        task: &str,
        context: &Context,
    ) -> Result<Ended, Error> {
        let failed = |what: &str, error: &Error| {
            let name = &agent.name;
            Error::new(ErrorKind::Model, format!("`{name}` {what}: {error}"))
        };
        let seat = Box::pin(self.seat(agent, is_fork, task, context)).await;
        let mut seat = seat.map_err(|error| failed("cannot begin", &error))?;
        seat.desk.started("startup").await;
        let task = Task {
            said: &seat.said,
            is_implicit: true,
            is_fresh: false,
        };
        let turn = Turn::new(&seat.shared, &seat.agent, &mut seat.desk, task);
        let ended = Box::pin(turn.run()).await;
        self.tell_of_stop(&seat.desk, &ended).await;
        seat.desk.leave(&seat.shared, "stream_ended").await;
        ended.map_err(|error| failed("failed", &error))
    }

    /// Prepares the agent in a new session, on a fork of the conversation or with an empty one. It may use no
    /// tool that the delegating agent may not use.
    async fn seat(
        &self,
        agent: &AgentDefinition,
        is_fork: bool,
        task: &str,
        context: &Context,
    ) -> Result<Seat, Error> {
        if !is_visible(task) {
            let nothing = "nothing was said: the task is empty";
            return Err(Error::new(ErrorKind::Input, nothing));
        }
        let shared = self.shared.behind(context.gate.as_ref());
        let depth = self.depth + 1;
        let branch = self.trunk.branch().filter(|_| is_fork);
        if let Some(branch) = branch {
            let fork = Fork::of_turn(agent, &self.giver, &shared, branch, depth);
            return fork.seat(task).await;
        }
        let parent = Some(context.session.clone());
        let desk = Desk::begin(&shared, agent, parent, depth).await?;
        Ok(Seat {
            shared,
            agent: agent.clone(),
            desk,
            said: task.to_owned(),
        })
    }

    /// Emits `subagent_stop` to the hooks of the delegating agent, with the answer.
    async fn tell_of_stop(&self, desk: &Desk, ended: &Result<Ended, Error>) {
        let told = self.herald.tell(When::SubagentStop, |input| {
            let session = desk.conversation.id().to_owned();
            input.parent_session_id = Some(std::mem::replace(&mut input.session_id, session));
            desk.conversation.agent().clone_into(&mut input.agent_name);
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
    async fn switch(&self, from: &str, to: &str, kind: &'static str) {
        let told = self.herald.tell(When::OnAgentSwitch, |input| {
            input.switch = Some(Switch {
                from_agent: from.to_owned(),
                to_agent: to.to_owned(),
                kind,
            });
        });
        told.await;
    }
}
