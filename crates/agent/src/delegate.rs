//! Delegation: a tool by which an agent gives a task to another one, in a session of its own.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::{Effects, Extent};
use cachalot_hooks::Event as When;
use cachalot_hooks::input::{Answer, Switch};
use cachalot_tools::{About, Arguments, Context, Output, Tool};
use serde_json::{Value, json};

use crate::definition::AgentDefinition;
use crate::desk::Desk;
use crate::herald::Herald;
use crate::shared::Shared;
use crate::turn::{Ended, Task, Turn};
use crate::{Error, ErrorKind};

/// The name of the tool.
const NAME: &str = "transfer_task";

/// How deep delegation may go: an agent, its sub-agent, its sub-agent's sub-agent, …
const DEEPEST: u32 = 5;

/// Whether a tool only hands a task on. What it does then is asked about call by call.
pub(crate) fn is_delegation(tool: &str) -> bool {
    tool == NAME
}

/// `transfer_task`.
pub(crate) struct TransferTask {
    about: About,
    shared: Shared,
    /// Who gives tasks.
    name: String,
    herald: Herald,
    /// To whom.
    agents: Vec<String>,
    depth: u32,
}

impl TransferTask {
    /// The tool of an agent that has sub-agents and is not too deep; otherwise none.
    pub(crate) fn of(
        agent: &AgentDefinition,
        shared: &Shared,
        herald: &Herald,
        depth: u32,
    ) -> Option<Arc<dyn Tool>> {
        if agent.sub_agents.is_empty() || depth >= DEEPEST {
            return None;
        }
        let described: Vec<String> = agent
            .sub_agents
            .iter()
            .filter_map(|name| shared.team.agent(name))
            .map(|agent| match agent.description.trim() {
                "" => format!("- {}", agent.name),
                description => format!("- {}: {description}", agent.name),
            })
            .collect();
        let description = format!(
            "Gives a task to another agent and returns its answer. The agent sees nothing of this conversation: say everything that it needs to know.\nAgents:\n{}",
            described.join("\n")
        );
        let parameters = json!({
            "type": "object",
            "properties": {
                "agent": {"type": "string", "enum": agent.sub_agents, "description": "Who gets the task."},
                "task": {"type": "string", "description": "The task, with everything that is needed to do it."},
                "expected_output": {"type": "string", "description": "What the answer should look like."}
            },
            "required": ["agent", "task"],
            "additionalProperties": false
        });
        Some(Arc::new(Self {
            about: About::acting(NAME, description, parameters),
            shared: shared.clone(),
            name: agent.name.clone(),
            herald: herald.clone(),
            agents: agent.sub_agents.clone(),
            depth,
        }))
    }
}

#[async_trait]
impl Tool for TransferTask {
    fn about(&self) -> &About {
        &self.about
    }

    /// Nothing by itself: the calls of the other agent tell what they write.
    fn effects(&self, _: &Arguments, _: &Context) -> Effects {
        Effects {
            reads: Extent::Unknown,
            writes: Extent::NOTHING,
        }
    }

    async fn run(&self, arguments: Arguments, context: &Context) -> Output {
        let text = |name: &str| {
            let text = arguments.get(name).and_then(Value::as_str);
            text.unwrap_or_default()
        };
        let name = text("agent");
        let known = self.agents.iter().any(|known| known == name);
        let Some(agent) = self.shared.team.agent(name).filter(|_| known) else {
            let known = self.agents.join("`, `");
            return Output::error(format!("There is no agent `{name}` here, but `{known}`."));
        };
        let task = match text("expected_output").trim() {
            "" => text("task").to_owned(),
            expected => format!("{}\n\nExpected output: {expected}", text("task")),
        };
        self.switch(&self.name, name, "transfer_task").await;
        let parent = Some(context.session.clone());
        // Whoever ends the turn that made this call drops it, and all that it does.
        let ended = Box::pin(self.carry_out(agent, &task, parent)).await;
        self.switch(name, &self.name, "transfer_task_return").await;
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
        task: &str,
        parent: Option<String>,
    ) -> Result<Ended, Error> {
        let name = &agent.name;
        let failed = |what: &str, error: &Error| {
            Error::new(ErrorKind::Model, format!("`{name}` {what}: {error}"))
        };
        let begun = Box::pin(Desk::begin(&self.shared, agent, parent, self.depth + 1)).await;
        let mut desk = begun.map_err(|error| failed("cannot begin", &error))?;
        desk.started("startup").await;
        let task = Task {
            said: task,
            is_implicit: true,
            is_fresh: false,
        };
        let turn = Turn::new(&self.shared, agent, &mut desk, task);
        let ended = Box::pin(turn.run()).await;
        self.tell_of_stop(&desk, &ended).await;
        desk.leave(&self.shared, "stream_ended").await;
        ended.map_err(|error| failed("failed", &error))
    }

    /// Tells the hooks of the agent that gave the task how it was answered.
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

    /// Tells hooks that another agent goes on.
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
