//! The end of a turn, however it comes.

use std::sync::PoisonError;

use cachalot_core::Spend;
use cachalot_hooks::Event as When;
use cachalot_hooks::input::Answer;
use cachalot_model::{ErrorKind as ModelErrorKind, Message, StopReason};

use super::{Ended, Turn};
use crate::conversation::Remains;
use crate::report::Stop;
use crate::said::is_visible;
use crate::{Error, ErrorKind};

/// What a model is told by a stop hook that does not say why it should go on.
const GO_ON: &str = "Go on: you are not done yet.";

impl Turn<'_> {
    /// What becomes of a turn whose last word was the model's.
    pub(super) async fn answered(
        &mut self,
        stop: &StopReason,
        is_empty: bool,
        iteration: u32,
    ) -> Result<Stop, Error> {
        match stop {
            StopReason::Length => return Ok(Stop::Length),
            StopReason::Refusal => return Ok(Stop::Refusal),
            StopReason::Other(reason) => {
                let warning = format!("the provider ended the answer for another reason: {reason}");
                self.warn(&warning).await;
            }
            StopReason::End | StopReason::ToolUse | StopReason::StopText => {}
        }
        match (is_empty, iteration) {
            (false, _) => {}
            (true, 1) => {
                return Err(Error::new(
                    ErrorKind::Model,
                    format!(
                        "{}: `{}` gave an empty answer; ask again, or ask something else",
                        self.desk.conversation.model().provider(),
                        self.desk.conversation.model().name()
                    ),
                ));
            }
            // It has done something, and has nothing to say about it.
            (true, _) => self.warn("the model said nothing more").await,
        }
        Ok(Stop::End)
    }

    /// Tells hooks that nothing more is to be done; whether the turn goes on because one of them does
    /// not think so. Then what that one says is held.
    pub(super) async fn goes_on_behind(&mut self, stop: &Stop) -> bool {
        if !self.desk.herald.wants(When::Stop) {
            return false;
        }
        let (prompt, answer) = (self.prompt.clone(), self.answer_of_turn());
        let told = self.tell(When::Stop, |input| {
            input.prompt = Some(prompt);
            input.answer = Some(answer);
        });
        // The answer is there, whoever does not want to wait for hooks.
        let Ok(verdict) = told.await else {
            return false;
        };
        let Some(why) = verdict.goes_on.filter(|_| *stop == Stop::End) else {
            return false;
        };
        let why = if is_visible(&why) { &why } else { GO_ON };
        self.desk.conversation.hold(Some(Message::user(why)));
        self.is_going_on = true;
        true
    }

    /// As of [`Turn::goes_on_behind`], where a hook has answered.
    pub(super) async fn goes_on(&mut self) -> bool {
        self.goes_on_behind(&Stop::End).await
    }

    /// What hooks are told of how the turn was answered.
    pub(super) fn answer_of_turn(&self) -> Answer {
        let mut added_by = self.added_by.clone();
        added_by.extend(self.desk.herald.rewritten_by());
        Answer {
            text: self.text.clone(),
            finish: self.finish.clone(),
            synthetic: self.synthetic.is_some(),
            stop_hook_active: self.is_going_on,
            calls: self.calls.clone(),
            worth: self.worth(),
            added_by,
        }
    }

    /// What was paid and saved since the turn began.
    fn worth(&self) -> Spend {
        let (now, before) = (self.shared.sum(), self.before);
        let sum = |mut paid: Spend, saved| {
            paid += saved;
            paid
        };
        let (now, before) = (sum(now.paid, now.saved), sum(before.paid, before.saved));
        Spend {
            calls: now.calls.saturating_sub(before.calls),
            ..now.without(before)
        }
    }

    /// The turn has made as many model calls as it may.
    pub(super) async fn limit_reached(&self) {
        let most = self.agent.max_iterations;
        // The turn ends in any case.
        let _ = self
            .tell(When::OnMaxIterations, |input| {
                input.max_iterations = Some(most);
            })
            .await;
    }

    /// Ends a turn whose last word was not the model's, or did not come to its end.
    pub(super) async fn stopped(&mut self, stop: Stop) -> Result<Ended, Error> {
        if is_visible(&self.partial) {
            self.text = self.partial.clone();
            self.synthetic = None;
        }
        let mut remains = self.remains();
        if let Some(progress) = &mut remains.progress {
            self.shared.add_answers(&progress.ended);
            self.show_unseen(progress).await;
        }
        self.desk.conversation.mend(remains).await?;
        Ok(self.ended(stop))
    }

    /// The model failed. What had come of its answer was shown, and is kept.
    pub(super) async fn broken_off(&mut self, error: cachalot_model::Error) -> Error {
        let remains = self.remains();
        if is_visible(&remains.text) {
            // If that fails, too, the model's failure is still what has to be told.
            let _ = self.desk.conversation.mend(remains).await;
        }
        let is_too_long = error.kind == ModelErrorKind::TooLong;
        let mut error = Error::from(error);
        if is_too_long {
            error.message.push_str(
                "; what was said cannot be taken back: begin a new session, or resume this one with a model that takes more",
            );
        }
        error
    }

    fn remains(&mut self) -> Remains {
        Remains {
            text: std::mem::take(&mut self.partial),
            progress: self
                .progress
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        }
    }

    /// Tells hooks that the turn is over, however it ended.
    pub(super) async fn farewell(&self, ended: &Result<Ended, Error>) {
        let herald = &self.desk.herald;
        let told = async {
            match ended {
                Err(error) => herald.fail(&error.message).await,
                Ok(ended) if ended.stop == Stop::Interrupted => {}
                Ok(ended) => {
                    if let Some(notice) = ended.stop.notice() {
                        herald.notify("warning", None, &notice).await;
                    }
                }
            }
            herald
                .tell(When::TurnEnd, |input| {
                    input.reason = Some(reason(ended).to_owned());
                })
                .await;
        };
        let _ = self.halt.with_grace(told).await;
        herald.end_turn();
    }
}

/// Why a turn ended, in a word for hooks.
fn reason(ended: &Result<Ended, Error>) -> &'static str {
    let Ok(ended) = ended else {
        return "error";
    };
    match &ended.stop {
        Stop::End if ended.synthetic.is_some() => "synthetic",
        Stop::End | Stop::Refusal | Stop::Length => "normal",
        Stop::Iterations(_) => "max_iterations",
        Stop::Repetition(_) => "loop_detected",
        Stop::Budget(_) => "budget_exceeded",
        Stop::Interrupted => "canceled",
        Stop::Hook(_) => "hook_blocked",
    }
}
