//! Tool calls of one answer.

use std::sync::{Arc, Mutex, PoisonError};

use cachalot_hooks::Event as When;
use cachalot_hooks::input::TurnCall;
use cachalot_tools::{Answer, Answered, Batch, Call, Watcher};

use super::Turn;
use super::phases::Candidate;
use crate::conversation::{Progress, results};
use crate::event::Event;
use crate::herald::Herald;
use crate::report::Stop;
use crate::shared::Shared;

/// A call, with the reason if it must not be made.
pub(super) type Judged = (Call, Option<String>);

/// Rejects all calls of a batch that was repeated too often.
pub(super) fn repeated(calls: Vec<Call>, times: u32) -> Vec<Judged> {
    let why = format!(
        "The call was not made: it is the same as before, {times} times in a row, and its result would not change."
    );
    calls
        .into_iter()
        .map(|call| (call, Some(why.clone())))
        .collect()
}

/// Accepts the calls of an answer. Rejects the last call of an answer that was cut off: it may be incomplete.
pub(super) fn complete(calls: Vec<Call>, is_cut_off: bool) -> Vec<Judged> {
    let mut calls: Vec<Judged> = calls.into_iter().map(|call| (call, None)).collect();
    if let Some((_, why)) = calls.last_mut().filter(|_| is_cut_off) {
        *why = Some(
            "The call was not made: the answer reached the limit of its tokens (max_tokens) before the call was complete. Make it shorter, or do it in several calls."
                .to_owned(),
        );
    }
    calls
}

/// The result of calls after a hook has ended the turn.
const ENDED: &str = "The call was not made: a hook has ended the turn.";

/// Rejects all calls of an answer after which a hook ended the turn.
pub(super) fn ended(calls: Vec<Call>) -> Vec<Judged> {
    let judged = |call| (call, Some(ENDED.to_owned()));
    calls.into_iter().map(judged).collect()
}

/// The outcome of the calls of an answer.
struct Made {
    answers: Vec<Answer>,
    /// The calls, in the form used in hook events.
    calls: Vec<TurnCall>,
    /// Names of hooks that added something to the results.
    added_by: Vec<String>,
    /// The reason of a hook that ends the turn.
    denial: Option<String>,
}

impl Turn<'_> {
    /// Makes the permitted calls and holds the results of all calls, unless the turn must end.
    pub(super) async fn run_calls(&mut self, calls: Vec<Judged>) -> Result<(), Stop> {
        self.set_progress(Some(Progress::default()));
        let ids: Vec<String> = calls.iter().map(|(call, _)| call.id.clone()).collect();
        let made = self.halt.unless(Box::pin(self.make(calls))).await?;
        let changed = self.with_progress(|progress| std::mem::take(&mut progress.changed));
        let message = results(&ids, &made.answers, &changed.unwrap_or_default());
        self.desk.conversation.hold(Some(message));
        self.shared.add_answers(&made.answers);
        self.set_progress(None);
        self.calls.extend(made.calls);
        self.added_by.extend(made.added_by);
        match made.denial {
            Some(why) => Err(Stop::Hook(why)),
            None => Ok(()),
        }
    }

    async fn make(&self, calls: Vec<Judged>) -> Made {
        let mut prepared = Vec::with_capacity(calls.len());
        let mut permitted = Vec::with_capacity(calls.len());
        let mut ends_turn: Option<String> = None;
        for (call, why) in calls {
            let ended = ends_turn.as_ref().map(|_| ENDED.to_owned());
            let candidate = match why.or(ended) {
                Some(why) => Candidate::refused(call, why),
                None => Box::pin(self.permit(call)).await,
            };
            ends_turn = ends_turn.or_else(|| candidate.ends_turn.clone());
            prepared.push(candidate.prepared.clone());
            permitted.push(candidate);
        }
        if self.agent.sub_agents.iter().any(|agent| agent.fork) {
            self.desk.trunk.grow(self.desk.branch());
        }
        let context = self.desk.context(&self.shared.house.tools);
        let batch = Batch {
            context,
            verbatim: self.desk.conversation.results(),
            watcher: Arc::new(Told {
                shared: self.shared.clone(),
                herald: self.desk.herald.clone(),
                agent: self.agent.name.clone(),
                progress: Arc::clone(&self.progress),
            }),
        };
        let mut answers = self.desk.toolbox.run(prepared, &batch).await;
        let shown = Box::pin(self.show(&mut answers, permitted)).await;
        Made {
            calls: answers.iter().zip(&shown.read_only).map(told).collect(),
            answers,
            added_by: shown.added_by,
            denial: ends_turn.or(shown.denial),
        }
    }

    fn set_progress(&self, progress: Option<Progress>) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = progress;
    }

    /// Accesses the progress of the calls; `None` if no calls are running.
    pub(super) fn with_progress<T>(&self, look: impl FnOnce(&mut Progress) -> T) -> Option<T> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.as_mut().map(look)
    }
}

/// A call in the form used in hook events at the end of the turn.
fn told((answer, read_only): (&Answer, &bool)) -> TurnCall {
    TurnCall {
        name: answer.call.name.clone(),
        read_only: *read_only,
        is_error: answer.output.is_error,
        witnesses: answer.witnesses.clone(),
        expires: answer.expires,
    }
}

/// Records the progress of the calls, and reports it to the listener.
struct Told {
    shared: Shared,
    herald: Herald,
    agent: String,
    progress: Arc<Mutex<Option<Progress>>>,
}

impl Told {
    fn note(&self, note: impl FnOnce(&mut Progress)) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(progress) = progress.as_mut() {
            note(progress);
        }
    }
}

impl Watcher for Told {
    fn began(&self, call: &Call) {
        self.note(|progress| {
            progress.began.insert(call.id.clone());
        });
        self.shared.house.listener.tell(&Event::ToolBegan {
            agent: &self.agent,
            call,
        });
    }

    fn ended(&self, answer: &Answer) {
        let tool = &answer.call.name;
        let is_unseen = answer.how != Answered::Refused
            && self.herald.wants_of(When::ToolResponseTransform, tool);
        self.note(|progress| {
            progress.ended.push(answer.clone());
            if is_unseen {
                progress.unseen.insert(answer.call.id.clone());
            }
        });
        if is_unseen {
            // The result is reported after hooks have seen it.
            return;
        }
        self.shared.house.listener.tell(&Event::ToolEnded {
            agent: &self.agent,
            answer,
        });
    }
}
