//! Tool calls of one answer.

use std::sync::Arc;

use cachalot_hooks::Event as When;
use cachalot_hooks::input::TurnCall;
use cachalot_tools::{BatchContext, CallObserver, CallOutcome, ToolCall, ToolCallResult};
use parking_lot::Mutex;

use super::Turn;
use super::phases::Candidate;
use crate::chat_state::ChatState;
use crate::conversation::{Progress, results};
use crate::event::Event;
use crate::hook_emitter::HookEmitter;
use crate::report::Stop;

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
struct CallsOutcome {
    answers: Vec<ToolCallResult>,
    /// The calls, in the form used in hook events.
    calls: Vec<TurnCall>,
    /// Names of hooks that added something to the results.
    added_by: Vec<String>,
    /// The reason of a hook that ends the turn.
    denial: Option<String>,
}

impl Turn<'_> {
    /// Makes the permitted calls and holds the results of all calls, unless the turn must end.
    pub(super) async fn run_calls(&mut self, calls: Vec<JudgedCall>) -> Result<(), Stop> {
        self.set_progress(Some(Progress::default()));
        let ids: Vec<String> = calls.iter().map(|(call, _)| call.id.clone()).collect();
        let made = self
            .cancellation
            .run_until_cancelled(Box::pin(self.execute(calls)))
            .await?;
        let changed = self.with_progress(|progress| std::mem::take(&mut progress.changed));
        let message = results(&ids, &made.answers, &changed.unwrap_or_default());
        self.session.conversation.hold(Some(message));
        self.shared.count_answers(&made.answers);
        self.set_progress(None);
        self.hook_calls.extend(made.calls);
        self.appended_by.extend(made.added_by);
        match made.denial {
            Some(why) => Err(Stop::Hook(why)),
            None => Ok(()),
        }
    }

    async fn execute(&self, calls: Vec<JudgedCall>) -> CallsOutcome {
        let mut prepared = Vec::with_capacity(calls.len());
        let mut permitted = Vec::with_capacity(calls.len());
        let mut ends_turn: Option<String> = None;
        for (call, why) in calls {
            let ended = ends_turn.as_ref().map(|_| TURN_ENDED_BY_HOOK.to_owned());
            let candidate = match why.or(ended) {
                Some(why) => Candidate::refused(call, why),
                None => Box::pin(self.permit(call)).await,
            };
            ends_turn = ends_turn.or_else(|| candidate.ends_turn.clone());
            prepared.push(candidate.prepared.clone());
            permitted.push(candidate);
        }
        if self.agent.sub_agents.iter().any(|agent| agent.fork) {
            self.session
                .current_fork_point
                .set(self.session.fork_point());
        }
        let context = self.session.context(&self.shared.dependencies.tools);
        let batch = BatchContext {
            context,
            verbatim: self.session.conversation.results(),
            observer: Arc::new(ProgressWatcher {
                shared: self.shared.clone(),
                hook_emitter: self.session.hook_emitter.clone(),
                agent: self.agent.name.clone(),
                progress: Arc::clone(&self.progress),
            }),
        };
        let mut answers = self.session.toolbox.run(prepared, &batch).await;
        let shown = Box::pin(self.run_result_hooks(&mut answers, permitted)).await;
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

    fn set_progress(&self, progress: Option<Progress>) {
        *self.progress.lock() = progress;
    }

    /// Accesses the progress of the calls; `None` if no calls are running.
    pub(super) fn with_progress<T>(&self, look: impl FnOnce(&mut Progress) -> T) -> Option<T> {
        let mut progress = self.progress.lock();
        progress.as_mut().map(look)
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
    shared: ChatState,
    hook_emitter: HookEmitter,
    agent: String,
    progress: Arc<Mutex<Option<Progress>>>,
}

impl ProgressWatcher {
    fn update(&self, update: impl FnOnce(&mut Progress)) {
        let mut progress = self.progress.lock();
        if let Some(progress) = progress.as_mut() {
            update(progress);
        }
    }
}

impl CallObserver for ProgressWatcher {
    fn call_started(&self, call: &ToolCall) {
        self.update(|progress| {
            progress.started.insert(call.id.clone());
        });
        self.shared
            .dependencies
            .listener
            .on_event(&Event::ToolStarted {
                agent: &self.agent,
                call,
            });
    }

    fn call_finished(&self, answer: &ToolCallResult) {
        let tool = &answer.call.name;
        let is_unseen = answer.outcome != CallOutcome::Refused
            && self
                .hook_emitter
                .wants_tool(When::ToolResponseTransform, tool);
        self.update(|progress| {
            progress.ended.push(answer.clone());
            if is_unseen {
                progress.unseen.insert(answer.call.id.clone());
            }
        });
        if is_unseen {
            // The result is reported after hooks have seen it.
            return;
        }
        self.shared
            .dependencies
            .listener
            .on_event(&Event::ToolEnded {
                agent: &self.agent,
                answer,
            });
    }
}
