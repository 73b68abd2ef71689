//! The end of a turn, for any reason.

use cachalot_hooks::Event as When;
use cachalot_hooks::input::{Answer, Prompt};
use cachalot_model::{Model, StopReason};

use super::TurnOutcome;
use super::context::TurnContext;
use crate::normalized_reply::is_visible;
use crate::report::Stop;
use crate::{Error, ErrorKind};

/// The message for the model if a stop hook continues the turn without a reason.
const CONTINUE_MESSAGE: &str = "Go on: you are not done yet.";

/// Maximum number of answers in a turn that stop hooks may reject. Each costs a model call. Claude Code
/// has the same limit.
const MAX_CONTINUATIONS: u32 = 8;

/// The end of a turn.
pub(super) enum TurnEnd {
    /// The last message is the model's (or a hook's in its place), or no message was added.
    Finished(Stop),
    /// The last answer is missing or incomplete: the conversation must be repaired.
    Stopped(Stop),
    /// The turn failed.
    Failed(Error),
}

impl From<Stop> for TurnEnd {
    fn from(stop: Stop) -> Self {
        Self::Stopped(stop)
    }
}

impl From<Error> for TurnEnd {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Returns the stop of a turn whose last message is an answer of `model`. Fails if the first answer is empty.
pub(super) async fn stop_of_answer(
    context: &TurnContext<'_>,
    model: &Model,
    stop: &StopReason,
    is_empty: bool,
    iteration: u32,
) -> Result<Stop, Error> {
    match stop {
        StopReason::Length => return Ok(Stop::Length),
        StopReason::Refusal => return Ok(Stop::Refusal),
        StopReason::Other(reason) => {
            let warning = format!("the provider ended the answer for another reason: {reason}");
            context.warn(&warning).await;
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
                    model.provider(),
                    model.name()
                ),
            ));
        }
        // The model has made calls and adds no text.
        (true, _) => context.warn("the model returned an empty answer").await,
    }
    Ok(Stop::End)
}

/// Emits `stop` for the answer of a turn. Returns the next message if a hook continues the turn.
/// `continuations` is the number of answers that stop hooks rejected before.
///
/// # Errors
/// The turn must end before the hooks have completed, or although they reject the answer.
pub(super) async fn emit_stop(
    context: &TurnContext<'_>,
    stop: &Stop,
    prompt: Prompt,
    answer: Answer,
    continuations: u32,
) -> Result<Option<String>, Stop> {
    let emitted = context.emit(When::Stop, |input| {
        input.prompt = Some(prompt);
        input.answer = Some(answer);
    });
    let verdict = match emitted.await {
        Ok(verdict) => verdict,
        Err(cut) => {
            context.warn_of_cut_off_hooks(When::Stop, &cut);
            return Err(cut);
        }
    };
    let Some(why) = verdict.continue_reason.filter(|_| *stop == Stop::End) else {
        return Ok(None);
    };
    let why = if is_visible(&why) {
        why
    } else {
        CONTINUE_MESSAGE.to_owned()
    };
    if continuations >= MAX_CONTINUATIONS {
        return Err(Stop::Hook(format!(
            "stop hooks rejected {MAX_CONTINUATIONS} answers of this turn and reject the next one: {why} (a hook whose input has `stop_hook_active: true` should let the turn end)"
        )));
    }
    Ok(Some(why))
}

/// Emits `on_max_iterations`: the turn has reached its maximum of model calls.
pub(super) async fn emit_max_iterations(context: &TurnContext<'_>, maximum: u32) {
    // The turn ends; the verdict of hooks has no effect.
    let _ = context
        .emit(When::OnMaxIterations, |input| {
            input.max_iterations = Some(maximum);
        })
        .await;
}

/// Emits `turn_end`, however the turn ended.
pub(super) async fn emit_turn_end(context: &TurnContext<'_>, ended: &Result<TurnOutcome, Error>) {
    let hook_emitter = &context.hook_emitter;
    let emitted = async {
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
    let _ = context.cancellation.run_with_grace(emitted).await;
    hook_emitter.end_turn();
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
