//! Delegation: a tool by which an agent gives a task to another one, in a session of its own.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::{Effects, Extent};
use cachalot_tools::{About, Arguments, CacheClass, Context, Origin, Output, Tool};
use serde_json::{Value, json};

use crate::chat::Desk;
use crate::definition::AgentDefinition;
use crate::turn::{Shared, Turn};

/// How deep delegation may go: an agent, its sub-agent, its sub-agent's sub-agent, …
const DEEPEST: u32 = 5;

/// `transfer_task`.
pub(crate) struct TransferTask {
    about: About,
    shared: Shared,
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
        let about = About {
            name: "transfer_task".to_owned(),
            description,
            parameters: json!({
                "type": "object",
                "properties": {
                    "agent": {"type": "string", "enum": agent.sub_agents, "description": "Who gets the task."},
                    "task": {"type": "string", "description": "The task, with everything that is needed to do it."},
                    "expected_output": {"type": "string", "description": "What the answer should look like."}
                },
                "required": ["agent", "task"],
                "additionalProperties": false
            }),
            version: 1,
            origin: Origin::BuiltIn,
            read_only: false,
            exclusive: true,
            class: CacheClass::Never,
        };
        Some(Arc::new(Self {
            about,
            shared: shared.clone(),
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
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
        let Some(agent) = self.shared.team.agent(text("agent")) else {
            return Output::error(format!("There is no agent `{}`.", text("agent")));
        };
        let task = match text("expected_output") {
            "" => text("task").to_owned(),
            expected => format!("{}\n\nExpected output: {expected}", text("task")),
        };
        let parent = Some(context.session.clone());
        let mut desk = match Desk::begin(&self.shared, agent, parent, self.depth + 1).await {
            Ok(desk) => desk,
            Err(error) => return Output::error(format!("`{}` cannot begin: {error}", agent.name)),
        };
        let turn = Turn {
            shared: &self.shared,
            agent,
            toolbox: &desk.toolbox,
            conversation: &mut desk.conversation,
        };
        let ended = turn.run(&task).await;
        desk.leave().await;
        match ended {
            Ok(ended) => match ended.stop.notice() {
                None => Output::text(ended.text),
                Some(notice) => {
                    Output::error(format!("{}\n({}: {notice})", ended.text, agent.name))
                }
            },
            Err(error) => Output::error(format!("`{}` failed: {error}", agent.name)),
        }
    }
}
