//! Decides if the answer of a turn may be stored.

use cachalot_core::Millis;
use cachalot_core::text::head;
use cachalot_model::StopReason;

use super::question::TurnQuestion;
use super::settings::MatchingMode;
use super::stored_answer::check;
use crate::input::{Answer, Input, TurnCall};

/// Returns the reason not to store the answer of a turn, judged by everything except its text.
pub(super) fn check_answer(
    question: &TurnQuestion,
    input: &Input,
    answer: &Answer,
    now: Millis,
) -> Result<(), String> {
    let Answer {
        text: _,
        finish,
        synthetic,
        stop_hook_active,
        calls,
        worth: _,
        added_by,
        by_fallback,
        rejected,
    } = answer;
    if let Some(why) = rejected {
        return Err(rejection_message(why));
    }
    if *synthetic {
        return Err("a hook answered".to_owned());
    }
    if *by_fallback {
        return Err("another model answered in place of the agent's own".to_owned());
    }
    if *stop_hook_active {
        return Err("the turn went on because a hook wanted it to".to_owned());
    }
    if input.agent_name != question.agent {
        return Err(format!("another agent answered: `{}`", input.agent_name));
    }
    if has_extra_context(question, input) {
        return Err("the user sent another message during the turn".to_owned());
    }
    if has_prefix_changed(question, input) {
        return Err(
            "the session was continued elsewhere, or summarized, during the turn".to_owned(),
        );
    }
    if may_be_outdated(question, input) {
        return Err(
            "tools were called earlier in the session, and their results may be outdated; set `ttl` to \
             store the answer"
                .to_owned(),
        );
    }
    check_finish(finish.as_ref())?;
    calls
        .iter()
        .try_for_each(|call| check_call(question, call, now))?;
    match added_by.first() {
        Some(who) if question.settings.ttl.is_none() => Err(format!(
            "`{who}` added to the message what may change; it would be kept with a `ttl`"
        )),
        _ => Ok(()),
    }
}

/// Formats the reason not to store an answer that a stop hook rejected.
pub(super) fn rejection_message(why: &str) -> String {
    /// Maximum characters of the hook's message.
    const SHOWN: usize = 200;
    let shown = head(why.lines().next().unwrap_or_default(), SHOWN);
    format!("a stop hook did not accept the answer: {shown}")
}

/// Returns the reason not to store a text.
pub(super) fn check_text(question: &TurnQuestion, text: &str) -> Result<(), String> {
    check(text, question.form.as_ref())
}

fn has_extra_context(question: &TurnQuestion, input: &Input) -> bool {
    let differs = |then: Option<&str>, now: Option<&str>| match (then, now) {
        (Some(then), Some(now)) => then != now,
        _ => false,
    };
    let prompt = input.prompt.as_ref().map(|prompt| prompt.text.as_str());
    differs(Some(&question.message), prompt)
        || differs(question.last.as_deref(), input.last_user_message.as_deref())
}

/// True if the answer may depend on tool results from earlier in the session. With
/// [`MatchingMode::Conversation`], these results are part of the key.
fn may_be_outdated(question: &TurnQuestion, input: &Input) -> bool {
    let prompt = input.prompt.as_ref();
    question.settings.matching == MatchingMode::Question
        && question.settings.ttl.is_none()
        && prompt.is_some_and(|prompt| prompt.after_results)
}

/// True if the conversation before the question differs from the one at its lookup.
fn has_prefix_changed(question: &TurnQuestion, input: &Input) -> bool {
    let prompt = input.prompt.as_ref();
    question.settings.matching == MatchingMode::Conversation
        && prompt.is_some_and(|prompt| prompt.prefix != question.prefix)
}

fn check_finish(finish: Option<&StopReason>) -> Result<(), String> {
    Err(match finish {
        Some(StopReason::End | StopReason::StopText) => return Ok(()),
        None => "no model answered".to_owned(),
        Some(StopReason::ToolUse) => "the turn ended in the middle of calls of tools".to_owned(),
        Some(StopReason::Length) => "the answer was cut off: it reached its limit".to_owned(),
        Some(StopReason::Refusal) => "the model refused".to_owned(),
        Some(StopReason::Other(why)) => format!("the answer is not known to be whole ({why})"),
    })
}

/// Returns an error unless the result of a tool call stays valid until a witness or an expiry
/// invalidates it.
fn check_call(question: &TurnQuestion, call: &TurnCall, now: Millis) -> Result<(), String> {
    let TurnCall {
        name,
        read_only,
        is_error,
        witnesses,
        expires,
    } = call;
    if !read_only {
        return Err(format!("`{name}` may have changed something"));
    }
    if *is_error {
        return Err(format!("`{name}` failed or was refused"));
    }
    if expires.is_some_and(|expires| expires <= now) {
        return Err(format!("what `{name}` found has expired meanwhile"));
    }
    if expires.is_some() && question.store.flat.is_some() {
        return Err(format!(
            "what `{name}` found lasts for a time only, and a flat file cannot hold that"
        ));
    }
    match witnesses.items() {
        Ok([]) => Ok(()),
        _ if question.store.flat.is_some() => Err(format!(
            "the answer was built from what `{name}` read, and a flat file cannot hold that"
        )),
        Ok(_) => Ok(()),
        Err(_) if question.settings.ttl.is_some() => Ok(()),
        Err(why) => Err(format!(
            "`{name}` leaves no witness ({why}); the answer would be kept with a `ttl`"
        )),
    }
}
