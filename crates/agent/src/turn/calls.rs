//! The tool calls of one answer.

use std::sync::{Arc, Mutex, PoisonError};

use cachalot_tools::{Answer, Batch, Call, Output, Prepared, Verdict, Watcher};

use super::Turn;
use crate::Error;
use crate::conversation::{Progress, results};
use crate::event::Event;
use crate::report::Stop;
use crate::shared::Shared;

/// A call, and why it must not be made, if so.
pub(super) type Judged = (Call, Option<String>);

/// Calls that were made before, again and again: none is made.
pub(super) fn repeated(calls: Vec<Call>, times: u32) -> Vec<Judged> {
    let why = format!(
        "The call was not made: it is the same as before, {times} times in a row, and its result would not change."
    );
    calls
        .into_iter()
        .map(|call| (call, Some(why.clone())))
        .collect()
}

/// Calls of an answer; the last of one that was cut off may be half a call, and is not made.
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

impl Turn<'_> {
    /// Makes the calls that may be made, and says the results of all; unless the turn has to end before.
    pub(super) async fn run_calls(
        &mut self,
        calls: Vec<Judged>,
    ) -> Result<Result<(), Stop>, Error> {
        self.set_progress(Some(Progress::default()));
        let ids: Vec<String> = calls.iter().map(|(call, _)| call.id.clone()).collect();
        let answers = match self.halt.unless(self.answers(calls)).await {
            Ok(answers) => answers,
            Err(stop) => return Ok(Err(stop)),
        };
        let message = results(&ids, &answers);
        self.desk.conversation.say(message).await?;
        self.shared.add_answers(&answers);
        self.set_progress(None);
        Ok(Ok(()))
    }

    async fn answers(&self, calls: Vec<Judged>) -> Vec<Answer> {
        let mut prepared = Vec::with_capacity(calls.len());
        for (call, why) in calls {
            prepared.push(match why {
                Some(why) => Prepared {
                    call,
                    verdict: Verdict::Refused(Output::error(why)),
                },
                None => self.permit(self.desk.toolbox.prepare(call)).await,
            });
        }
        let mut context = self.shared.house.tools.clone();
        self.desk.conversation.id().clone_into(&mut context.session);
        let batch = Batch {
            context,
            verbatim: self.desk.conversation.results(),
            watcher: Arc::new(Told {
                shared: self.shared.clone(),
                agent: self.agent.name.clone(),
                progress: Arc::clone(&self.progress),
            }),
        };
        self.desk.toolbox.run(prepared, &batch).await
    }

    fn set_progress(&self, progress: Option<Progress>) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = progress;
    }
}

/// Notes how far the calls have come, and passes it on to the listener.
struct Told {
    shared: Shared,
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
        self.note(|progress| progress.ended.push(answer.clone()));
        self.shared.house.listener.tell(&Event::ToolEnded {
            agent: &self.agent,
            answer,
        });
    }
}
