//! Sub-agents: a delegated task runs as a turn in a session of its own.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_hooks::Event as When;
use cachalot_hooks::input::Answer;

use crate::active_session::ActiveSession;
use crate::delegate::{DelegatedAnswer, DelegatedTask, Delegation};
use crate::fork::{Fork, PreparedTurn};
use crate::hook_emitter::HookEmitter;
use crate::normalized_reply::is_visible;
use crate::turn::TurnOutcome;
use crate::{Error, ErrorKind};

/// Runs delegated tasks as turns of sub-agents.
pub(crate) struct SubAgents;

#[async_trait]
impl Delegation for SubAgents {
    async fn run(&self, task: DelegatedTask<'_>) -> Result<DelegatedAnswer, Error> {
        let (name, hook_emitter) = (&task.agent.name, task.hook_emitter);
        let failed = |what: &str, error: &Error| {
            Error::new(ErrorKind::Model, format!("`{name}` {what}: {error}"))
        };
        let prepared_turn = Box::pin(prepare(&task)).await;
        let mut prepared_turn = prepared_turn.map_err(|error| failed("cannot begin", &error))?;
        let turn = prepared_turn.begin().await;
        let ended = Box::pin(turn.run()).await;
        let PreparedTurn {
            shared,
            mut active_session,
            ..
        } = prepared_turn;
        emit_subagent_stop(hook_emitter, &active_session, &ended).await;
        // Before a failure is returned: the session ends in any case.
        active_session.end(&shared, "stream_ended").await;
        let ended = ended.map_err(|error| failed("failed", &error))?;
        Ok(DelegatedAnswer {
            text: ended.text,
            stop: ended.stop,
        })
    }
}

/// Prepares the agent in a new session, on a fork of the conversation or with an empty one.
async fn prepare(task: &DelegatedTask<'_>) -> Result<PreparedTurn, Error> {
    if !is_visible(task.text) {
        let nothing = "the task is empty";
        return Err(Error::new(ErrorKind::Input, nothing));
    }
    let delegation: Arc<dyn Delegation> = Arc::new(SubAgents);
    if let Some(fork_point) = task.fork_point.clone() {
        let (agent, with, shared) = (task.agent, task.delegator, &task.shared);
        let fork = Fork::for_turn(agent, with, shared, fork_point, delegation, task.depth);
        return fork.prepared_turn(task.text).await;
    }
    let parent = Some(task.parent.to_owned());
    let active_session =
        ActiveSession::begin(&task.shared, task.agent, &delegation, parent, task.depth).await?;
    Ok(PreparedTurn {
        shared: task.shared.clone(),
        agent: task.agent.clone(),
        active_session,
        text: task.text.to_owned(),
    })
}

/// Emits `subagent_stop` to the hooks of the delegating agent, with the answer.
async fn emit_subagent_stop(
    hook_emitter: &HookEmitter,
    active_session: &ActiveSession,
    ended: &Result<TurnOutcome, Error>,
) {
    let emitted = hook_emitter.emit(When::SubagentStop, |input| {
        let conversation = &active_session.conversation;
        let session = conversation.id().to_owned();
        input.parent_session_id = Some(std::mem::replace(&mut input.session_id, session));
        conversation.agent().clone_into(&mut input.agent_name);
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
    emitted.await;
}
