//! Tool calls of one answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use cachalot_hooks::Event as When;
use cachalot_hooks::input::TurnCall;
use cachalot_tools::{
    BatchContext, CallObserver, CallOutcome, LiveOutput, RefusedCall, ToolCall, ToolCallResult,
    ToolContext, Toolbox,
};

use super::call_progress::CallProgress;
use super::candidate::Candidate;
use super::context::TurnContext;
use super::message::NOTICE_SOURCE;
use super::outside;
use super::permit::permit;
use super::results::run_result_hooks;
use super::sampling::AgentSampler;
use crate::active_session::ActiveSession;
use crate::event::{Event, Listener};
use crate::hook_emitter::HookEmitter;

/// A call, with the reason if it must not be made.
pub(super) type JudgedCall = (ToolCall, Option<String>);

/// Rejects all calls of a batch that was repeated too often.
pub(super) fn reject_repeated(calls: Vec<ToolCall>, times: u32) -> Vec<JudgedCall> {
    let why = format!(
        "The call was not made: it is the same as before, {times} times in a row, and its result would not change."
    );
    calls
        .into_iter()
        .map(|call| (call, Some(why.clone())))
        .collect()
}

/// Accepts the calls of an answer. Rejects the last call of an answer that was cut off: it may be incomplete.
pub(super) fn accept_complete(calls: Vec<ToolCall>, is_cut_off: bool) -> Vec<JudgedCall> {
    let mut calls: Vec<JudgedCall> = calls.into_iter().map(|call| (call, None)).collect();
    if let Some((_, why)) = calls.last_mut().filter(|_| is_cut_off) {
        *why = Some(
            "The call was not made: the answer reached the limit of its tokens (max_tokens) before the call was complete. Make it shorter, or do it in several calls."
                .to_owned(),
        );
    }
    calls
}

/// The result of calls after a hook has ended the turn.
const TURN_ENDED_BY_HOOK: &str = "The call was not made: a hook has ended the turn.";

/// Rejects all calls of an answer after which a hook ended the turn.
pub(super) fn reject_after_turn_end(calls: Vec<ToolCall>) -> Vec<JudgedCall> {
    let judged = |call| (call, Some(TURN_ENDED_BY_HOOK.to_owned()));
    calls.into_iter().map(judged).collect()
}

/// The outcome of the calls of an answer.
pub(super) struct CallsOutcome {
    pub(super) answers: Vec<ToolCallResult>,
    /// The calls, in the form used in hook events.
    pub(super) calls: Vec<TurnCall>,
    /// Names of hooks that added something to the results.
    pub(super) added_by: Vec<String>,
    /// The reason of a hook that ends the turn.
    pub(super) denial: Option<String>,
}

/// Makes the permitted calls of an answer, or of the user. `progress` records how far they are. `readable` are the
/// earlier calls to whose results a result may refer.
pub(super) async fn execute(
    context: &TurnContext<'_>,
    session: &ActiveSession,
    toolbox: &dyn Toolbox,
    progress: &CallProgress,
    calls: Vec<JudgedCall>,
    readable: Arc<BTreeSet<String>>,
) -> CallsOutcome {
    let mut prepared = Vec::with_capacity(calls.len());
    let mut permitted = Vec::with_capacity(calls.len());
    let mut ends_turn: Option<String> = None;
    // All calls are judged before the first one runs: the user answers in the order of the calls, and a hook that ends
    // the turn keeps all later calls from running.
    for (call, why) in calls {
        let ended = ends_turn.as_ref().map(|_| TURN_ENDED_BY_HOOK.to_owned());
        let candidate = match why.or(ended) {
            Some(why) => Candidate::refused(RefusedCall::new(call, why)),
            None => Box::pin(permit(context, toolbox, call)).await,
        };
        ends_turn = ends_turn.or_else(|| candidate.decided.ends_turn.clone());
        prepared.push(candidate.prepared.clone());
        permitted.push(candidate);
    }
    if context.agent.sub_agents.iter().any(|agent| agent.fork) {
        session.tools.current_fork_point.set(session.fork_point());
    }
    let watcher = |is_repeating| -> Arc<dyn CallObserver> {
        Arc::new(ProgressWatcher {
            listener: Arc::clone(&context.shared.dependencies.listener),
            hook_emitter: Arc::clone(&context.hook_emitter),
            agent: context.agent.name.clone(),
            progress: progress.clone(),
            is_repeating,
        })
    };
    let batch = BatchContext {
        context: ToolContext {
            sampler: AgentSampler::for_calls(context, session),
            ..session.context(&context.shared.dependencies.tools)
        },
        verbatim: readable,
        observer: watcher(false),
    };
    let mut answers = toolbox.run(prepared, &batch).await;
    // Before the hooks, which must see the result that the model receives.
    outside::repeat(
        context,
        session,
        &batch,
        &watcher(true),
        &mut answers,
        &permitted,
    )
    .await;
    let shown = run_result_hooks(context, progress, &mut answers, permitted);
    let mut shown = Box::pin(shown).await;
    // Taken last: nothing can end the turn before the results are held.
    if let Some(answer) = answers.last_mut() {
        let notices = context.take_notices(session.conversation.id());
        if let Some(block) = crate::context::block(&notices) {
            answer.output.content.push(block);
            progress.with(|progress| progress.record_seen(answer, true));
            shown.added_by.push(NOTICE_SOURCE.to_owned());
        }
    }
    CallsOutcome {
        calls: answers
            .iter()
            .zip(&shown.read_only)
            .map(turn_call)
            .collect(),
        answers,
        added_by: shown.added_by,
        denial: ends_turn.or(shown.denial),
    }
}

/// A call in the form used in hook events at the end of the turn.
fn turn_call((answer, read_only): (&ToolCallResult, &bool)) -> TurnCall {
    TurnCall {
        name: answer.call.name.clone(),
        read_only: *read_only,
        is_error: answer.output.is_error,
        witnesses: answer.witnesses.clone(),
        expires: answer.expires,
    }
}

/// Records the progress of the calls, and reports it to the listener.
struct ProgressWatcher {
    listener: Arc<dyn Listener>,
    hook_emitter: Arc<HookEmitter>,
    agent: String,
    progress: CallProgress,
    /// True for calls that have a result already, which the new one replaces. Such a call starts and ends twice.
    is_repeating: bool,
}

impl CallObserver for ProgressWatcher {
    fn call_started(&self, call: &ToolCall, output: &LiveOutput) {
        let output = if self.hook_emitter.withholds_output(&call.name) {
            LiveOutput::default()
        } else {
            output.clone()
        };
        self.progress.with(|progress| {
            if self.is_repeating {
                // If it is interrupted, the first result says nothing about what it has done.
                progress.ended.retain(|answer| answer.call.id != call.id);
                progress.unseen.remove(&call.id);
            }
            progress.started.insert(call.id.clone(), output.clone());
        });
        self.listener.on_event(&Event::ToolStarted {
            agent: &self.agent,
            call,
            output: &output,
        });
    }

    fn call_finished(&self, answer: &ToolCallResult) {
        let tool = &answer.call.name;
        let is_unseen = answer.outcome != CallOutcome::Refused
            && self
                .hook_emitter
                .wants_tool(When::ToolResponseTransform, tool);
        self.progress.with(|progress| {
            progress.ended.push(answer.clone());
            if is_unseen {
                progress.unseen.insert(answer.call.id.clone());
            }
        });
        if is_unseen {
            // The result is reported after hooks have seen it.
            return;
        }
        self.listener.on_event(&Event::ToolEnded {
            agent: &self.agent,
            answer,
        });
    }
}
