//! Delegation: a tool by which an agent gives a task to another one, in a session of its own.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::{Effects, Extent};
use cachalot_tools::{About, Arguments, Context, Output, Tool};
use serde_json::{Value, json};

use crate::definition::AgentDefinition;
use crate::desk::Desk;
use crate::shared::Shared;
use crate::turn::Turn;

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
    /// To whom.
    agents: Vec<String>,
    depth: u32,
}

impl TransferTask {
    /// The tool of an agent that has sub-agents and is not too deep; otherwise none.
    pub(crate) fn of(
        agent: &AgentDefinition,
        shared: &Shared,
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
        let parent = Some(context.session.clone());
        let mut desk = match Desk::begin(&self.shared, agent, parent, self.depth + 1).await {
            Ok(desk) => desk,
            Err(error) => return Output::error(format!("`{name}` cannot begin: {error}")),
        };
        // Whoever ends the turn that made this call drops it, and all that it does.
        let turn = Turn::new(&self.shared, agent, &mut desk);
        let ended = turn.run(&task).await;
        desk.leave().await;
        match ended {
            Ok(ended) => match ended.stop.notice() {
                None => Output::text(ended.text),
                Some(notice) => Output::error(
                    format!("{}\n({name}: {notice})", ended.text)
                        .trim_start()
                        .to_owned(),
                ),
            },
            Err(error) => Output::error(format!("`{name}` failed: {error}")),
        }
    }
}
