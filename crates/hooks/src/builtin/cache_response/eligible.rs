//! Decides if the answer of a turn may be stored.

use cachalot_core::Millis;
use cachalot_model::StopReason;

use super::question::TurnQuestion;
use super::settings::MatchingMode;
use super::unsuitable::Unsuitable;
use crate::input::{Answer, Input, TurnCall};

/// Returns the reason not to store the answer of a turn, judged by everything except its text.
pub(super) fn check_answer(
    question: &TurnQuestion,
    input: &Input,
    answer: &Answer,
    now: Millis,
) -> Result<(), Unsuitable> {
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
        return Err(Unsuitable::Rejected(why.clone()));
    }
    if *synthetic {
        return Err(Unsuitable::Synthetic);
    }
    if *by_fallback {
        return Err(Unsuitable::ByFallback);
    }
    if *stop_hook_active {
        return Err(Unsuitable::Continued);
    }
    if input.agent_name != question.agent {
        return Err(Unsuitable::ByAgent(input.agent_name.clone()));
    }
    if has_extra_context(question, input) {
        return Err(Unsuitable::ExtraMessage);
    }
    if has_prefix_changed(question, input) {
        return Err(Unsuitable::PrefixChanged);
    }
    if may_be_outdated(question, input) {
        return Err(Unsuitable::OutdatedResults);
    }
    check_finish(finish.as_ref())?;
    calls
        .iter()
        .try_for_each(|call| check_call(question, call, now))?;
    match added_by.first() {
        // No witness covers the context that a hook adds. Only a time to live limits its age.
        Some(who) if question.settings.ttl.is_none() => Err(Unsuitable::AddedContext(who.clone())),
        _ => Ok(()),
    }
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

fn check_finish(finish: Option<&StopReason>) -> Result<(), Unsuitable> {
    Err(match finish {
        Some(StopReason::End | StopReason::StopText) => return Ok(()),
        None => Unsuitable::NoModel,
        Some(StopReason::ToolUse) => Unsuitable::EndedInCalls,
        Some(StopReason::Length) => Unsuitable::CutOff,
        Some(StopReason::Refusal) => Unsuitable::Refused,
        Some(StopReason::Other(why)) => Unsuitable::UnknownFinish(why.clone()),
    })
}

/// Returns an error unless the result of a tool call stays valid until a witness or an expiry
/// invalidates it.
fn check_call(question: &TurnQuestion, call: &TurnCall, now: Millis) -> Result<(), Unsuitable> {
    let TurnCall {
        name,
        read_only,
        is_error,
        witnesses,
        expires,
    } = call;
    let is_flat = question.store.flat.is_some();
    if !read_only {
        return Err(Unsuitable::ToolWrites(name.clone()));
    }
    if *is_error {
        return Err(Unsuitable::ToolFailed(name.clone()));
    }
    if expires.is_some_and(|expires| expires <= now) {
        return Err(Unsuitable::ResultExpired(name.clone()));
    }
    // A flat file holds neither an expiry nor witnesses: the answer would stay valid forever.
    if expires.is_some() && is_flat {
        return Err(Unsuitable::ResultExpires(name.clone()));
    }
    match witnesses.items() {
        Ok([]) => Ok(()),
        _ if is_flat => Err(Unsuitable::ResultHasWitnesses(name.clone())),
        Ok(_) => Ok(()),
        Err(_) if question.settings.ttl.is_some() => Ok(()),
        Err(why) => Err(Unsuitable::NoWitness {
            tool: name.clone(),
            why: why.to_owned(),
        }),
    }
}
