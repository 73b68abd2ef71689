//! The end of a turn, for any reason.

use cachalot_core::Spend;
use cachalot_hooks::Event as When;
use cachalot_hooks::input::Answer;
use cachalot_model::{Message, StopReason};

use super::{Turn, TurnOutcome};
use crate::chat_state::ChatState;
use crate::conversation::InterruptedTurn;
use crate::normalized_reply::is_visible;
use crate::report::{Stop, UsageTotals};
use crate::{Error, ErrorKind};

/// The message for the model if a stop hook continues the turn without a reason.
const CONTINUE_MESSAGE: &str = "Go on: you are not done yet.";

/// Maximum number of answers in a turn that stop hooks may reject. Each costs a model call. Claude Code
/// has the same limit.
const MAX_CONTINUATIONS: u32 = 8;

impl Turn<'_> {
    /// Returns the stop of a turn whose last message is a model's answer. Fails if the first answer is empty.
    pub(super) async fn stop_of_answer(
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
                        self.session.conversation.model().provider(),
                        self.session.conversation.model().name()
                    ),
                ));
            }
            // The model has made calls and adds no text.
            (true, _) => self.warn("the model said nothing more").await,
        }
        Ok(Stop::End)
    }

    /// Emits `stop`. Returns true if a hook continues the turn; the hook's reason is then held as the next
    /// message.
    ///
    /// # Errors
    /// The turn must end before the hooks have completed, or although they reject the answer.
    pub(super) async fn emit_stop(&mut self, stop: &Stop) -> Result<bool, Stop> {
        if !self.session.hook_emitter.wants(When::Stop) {
            return Ok(false);
        }
        let (prompt, answer) = (self.hook_prompt.clone(), self.hook_answer());
        let told = self.emit(When::Stop, |input| {
            input.prompt = Some(prompt);
            input.answer = Some(answer);
        });
        let verdict = match told.await {
            Ok(verdict) => verdict,
            Err(cut) => return Err(self.warn_of_cut_off_hooks(When::Stop, cut)),
        };
        let Some(why) = verdict.continue_reason.filter(|_| *stop == Stop::End) else {
            return Ok(false);
        };
        let why = if is_visible(&why) {
            &why
        } else {
            CONTINUE_MESSAGE
        };
        if self.continuations >= MAX_CONTINUATIONS {
            return Err(Stop::Hook(format!(
                "stop hooks rejected {MAX_CONTINUATIONS} answers of this turn and reject the next one: {why} (a hook that is told `stop_hook_active: true` should let the turn end)"
            )));
        }
        self.session.conversation.hold(Some(Message::user(why)));
        self.continuations += 1;
        Ok(true)
    }

    /// Warns that hooks were cancelled before they completed, although the answer is complete.
    pub(super) fn warn_of_cut_off_hooks(&self, when: When, stop: Stop) -> Stop {
        let notice = stop.notice().unwrap_or_default();
        let event = when.name();
        // No hook event is emitted: the turn no longer waits for hooks.
        self.shared.warn(
            &self.agent.name,
            &format!(
                "hooks of `{event}` were cut off and may have left something undone: {notice}"
            ),
        );
        stop
    }

    /// `answer` field of hook events for the answer of the turn.
    pub(super) fn hook_answer(&self) -> Answer {
        let mut added_by = self.appended_by.clone();
        added_by.extend(self.session.hook_emitter.rewritten_by());
        Answer {
            text: self.last_text.clone(),
            finish: self.stop_reason.clone(),
            synthetic: self.synthetic.is_some(),
            stop_hook_active: self.continuations > 0,
            calls: self.hook_calls.clone(),
            worth: self.worth(),
            added_by,
            by_fallback: self.shared.totals().fallback_calls > self.fallback_calls_before,
            rejected: None,
        }
    }

    /// Spend and savings since the turn began, without what is not part of answering.
    fn worth(&self) -> Spend {
        since(self.baseline, self.shared)
    }

    /// Excludes the spend since `then` from the worth of the answer.
    pub(super) fn exclude_from_worth(&mut self, then: Spend) {
        self.baseline += since(then, self.shared);
    }

    /// Emits `on_max_iterations`: the turn has reached its maximum of model calls.
    pub(super) async fn emit_max_iterations(&self, most: u32) {
        // The turn ends; the verdict of hooks has no effect.
        let _ = self
            .emit(When::OnMaxIterations, |input| {
                input.max_iterations = Some(most);
            })
            .await;
    }

    /// Ends a turn whose last answer is missing or incomplete, and repairs the conversation.
    pub(super) async fn stop_turn(&mut self, stop: Stop) -> Result<TurnOutcome, Error> {
        if is_visible(&self.partial_text) {
            self.last_text = self.partial_text.clone();
            self.synthetic = None;
        }
        let mut interrupted = self.interrupted();
        if let Some(progress) = &mut interrupted.progress {
            self.shared.count_answers(&progress.ended);
            self.run_hooks_on_unseen(progress).await;
        }
        self.session.conversation.repair(interrupted).await?;
        Ok(self.outcome(stop))
    }

    /// Handles an error of the model: keeps the part of the answer that was shown, and returns the error.
    pub(super) async fn keep_partial_answer(&mut self, error: cachalot_model::Error) -> Error {
        let interrupted = self.interrupted();
        if is_visible(&interrupted.text) {
            // An error of this repair is less important than the model's error.
            let _ = self.session.conversation.repair(interrupted).await;
        }
        Error::from(error)
    }

    fn interrupted(&mut self) -> InterruptedTurn {
        InterruptedTurn {
            text: std::mem::take(&mut self.partial_text),
            progress: self.progress.lock().take(),
        }
    }

    /// Emits `turn_end`, however the turn ended.
    pub(super) async fn emit_turn_end(&self, ended: &Result<TurnOutcome, Error>) {
        let hook_emitter = &self.session.hook_emitter;
        let told = async {
            match ended {
                Err(error) => hook_emitter.fail(&error.message).await,
                Ok(ended) if ended.stop == Stop::Interrupted => {}
                Ok(ended) => {
                    if let Some(notice) = ended.stop.notice() {
                        hook_emitter.notify("warning", None, &notice).await;
                    }
                }
            }
            hook_emitter
                .emit(When::TurnEnd, |input| {
                    input.reason = Some(reason(ended).to_owned());
                })
                .await;
        };
        let _ = self.cancellation.run_with_grace(told).await;
        hook_emitter.end_turn();
    }
}

/// Spend and savings so far.
pub(super) fn spent(shared: &ChatState) -> Spend {
    let UsageTotals { paid, saved, .. } = shared.totals();
    let mut spent = paid;
    spent += saved;
    spent
}

/// Spend and savings since `then`.
fn since(then: Spend, shared: &ChatState) -> Spend {
    let now = spent(shared);
    Spend {
        calls: now.calls.saturating_sub(then.calls),
        ..now.without(then)
    }
}

/// The reason why a turn ended, as the word used in hook events.
fn reason(ended: &Result<TurnOutcome, Error>) -> &'static str {
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
