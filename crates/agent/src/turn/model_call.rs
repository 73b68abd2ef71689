//! One model call of a turn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cachalot_core::{Cost, Digest, Millis, Spend};
use cachalot_hooks::Event as When;
use cachalot_hooks::input::Answer;
use cachalot_model::{Block, Delta, Model, Reply, StopReason, Unpriced, Usage};
use cachalot_prefix::diagnosis::Diagnosis;

use super::context::TurnContext;
use crate::active_session::ActiveSession;
use crate::chat_state::ChatState;
use crate::event::{AnsweredRequest, Event};
use crate::report::{Stop, UsageTotals};

/// Percentage of the context window at which the user receives a warning.
const WARN_ABOVE_PERCENT: u64 = 80;

/// The answer of a model call.
pub(super) struct ModelAnswer {
    pub(super) reply: Reply,
    pub(super) cost: Cost,
    /// The prefix break that the answer revealed, if there was one.
    pub(super) prefix_break: Option<Diagnosis>,
}

/// Calls the model with the next request. The answer is shown while it streams; `partial_text` is its text, as
/// far as it was shown.
pub(super) async fn call_model(
    context: &TurnContext<'_>,
    session: &mut ActiveSession,
    partial_text: &mut String,
    iteration: u32,
) -> Result<ModelAnswer, cachalot_model::Error> {
    let mut warmup_guard = session.wait_for_warmup().await;
    let (shared, agent) = (context.shared, context.agent.name.as_str());
    context.report(&Event::ModelCallStarted { agent, iteration });
    let sent_at = shared.dependencies.clock.now();
    let body = session.conversation.body(sent_at);
    for note in session.conversation.new_notes() {
        let message = &note.to_string();
        context.report(&Event::Note { agent, message });
    }
    let model = session.conversation.model().clone();
    partial_text.clear();
    let began = Instant::now();
    let is_shown = AtomicBool::new(false);
    let mut on = |delta: Delta| {
        is_shown.store(true, Ordering::Relaxed);
        // The response has begun: requests that wait for this prefix may be sent.
        drop(warmup_guard.take());
        match &delta {
            Delta::Text(text) => {
                partial_text.push_str(text);
                context.report(&Event::Text { agent, text });
            }
            Delta::Reasoning(text) => context.report(&Event::Reasoning { agent, text }),
            Delta::ToolUse { .. } | Delta::Arguments { .. } => {}
        }
    };
    let mut answered_last = None;
    let mut answered = model.stream(body, &mut on).await;
    if let Err(error) = &answered
        && let Some(body) = session.conversation.body_without_comparison(error)
    {
        let message = format!("{error}; continuing without `prefix.diagnostics`");
        shared.warn(agent, &message);
        answered = model.stream(body, &mut on).await;
    }
    if let Err(error) = &answered
        && let Ok(Some(body)) = session.body_without_changes(error, sent_at).await
    {
        let message = format!("{error}; sending the conversation anew, with these settings first");
        shared.warn(agent, &message);
        answered = model.stream(body, &mut on).await;
    }
    for (name, fallback) in model.fallbacks() {
        let Some(error) = answered.as_ref().err() else {
            break;
        };
        // Once a part of an answer is shown, the answer of another model would follow it.
        if is_shown.load(Ordering::Relaxed) || !error.retryable() {
            break;
        }
        let message = format!("{error}; asking the fallback `{name}`");
        shared.warn(agent, &message);
        let asked = match shared.meter.check_for(fallback) {
            Ok(()) => match session.body_for(fallback).await {
                Ok(body) => fallback.stream(body, &mut on).await,
                Err(error) => Err(error),
            },
            Err(over) => Err(over),
        };
        answered = match asked {
            Ok(reply) => {
                answered_last = Some(fallback);
                Ok(reply)
            }
            Err(of_fallback) => answered.map_err(|error| error.and_of_fallback(name, &of_fallback)),
        };
    }
    let reply = answered?;
    let diagnosis = match answered_last {
        // The agent's provider has not answered, so its cache usage is unknown.
        Some(_) => None,
        None => {
            let secret_set = &shared.dependencies.tools.secret_set;
            session.conversation.diagnose(&reply, secret_set)
        }
    };
    if reply.message.content.iter().any(Block::is_compaction) {
        let message = "the provider has summarized the conversation before it answered";
        context.report(&Event::Note { agent, message });
    }
    let call = AnsweredCall {
        reply: &reply,
        model: answered_last.unwrap_or(&model),
        is_fallback: answered_last.is_some(),
        sent_at,
        elapsed: began.elapsed(),
        diagnosis: diagnosis.as_ref(),
    };
    // Counted before the caller stores the answer: it was paid for even if that fails.
    let cost = record(context, session, &call);
    session.record_answer(reply.usage);
    Ok(ModelAnswer {
        cost,
        prefix_break: diagnosis.filter(Diagnosis::is_break),
        reply,
    })
}

/// Calls a model with a request beside the conversation. The answer is not shown.
pub(super) async fn call_model_aside(
    context: &TurnContext<'_>,
    session: &mut ActiveSession,
    model: &Model,
    body: Bytes,
) -> Result<Reply, cachalot_model::Error> {
    let agent = context.agent.name.as_str();
    let iteration = 0;
    context.report(&Event::ModelCallStarted { agent, iteration });
    let (sent_at, began) = (context.shared.dependencies.clock.now(), Instant::now());
    let reply = model.stream(body, &mut |_| {}).await?;
    let call = AnsweredCall {
        reply: &reply,
        model,
        is_fallback: false,
        sent_at,
        elapsed: began.elapsed(),
        diagnosis: None,
    };
    record(context, session, &call);
    Ok(reply)
}

/// A call that a model has answered.
pub(super) struct AnsweredCall<'a> {
    pub(super) reply: &'a Reply,
    /// The model that gave the answer.
    pub(super) model: &'a Model,
    /// True if that is not the conversation's own model.
    pub(super) is_fallback: bool,
    pub(super) sent_at: Millis,
    pub(super) elapsed: Duration,
    /// The diagnosis of the prefix of the request.
    pub(super) diagnosis: Option<&'a Diagnosis>,
}

/// Records the usage and cost of an answer in the session, too. Returns the cost.
fn record(context: &TurnContext<'_>, session: &mut ActiveSession, call: &AnsweredCall<'_>) -> Cost {
    let conversation = &mut session.conversation;
    let (agent, prefix) = (&context.agent.name, conversation.prefix());
    let (usage, paid) = count(context.shared, agent, conversation.id(), prefix, call);
    conversation.add_usage(usage, paid);
    paid.cost
}

/// Counts the usage and cost of an answer, and reports it to the listener. Returns both. `prefix` is the digest of what
/// was sent.
pub(super) fn count(
    shared: &ChatState,
    agent: &str,
    session: &str,
    prefix: Digest,
    call: &AnsweredCall<'_>,
) -> (Usage, Spend) {
    let (reply, model) = (call.reply, call.model);
    let charge = model.charge(reply, model.parameters());
    let (usage, cost) = (charge.usage, charge.cost());
    if let Err(unknown) = &charge.cost
        && shared.meter.is_first_without_price(unknown)
    {
        report_unpriced(shared, agent, model, unknown);
    }
    let paid = Spend {
        input_tokens: usage.total_input(),
        output_tokens: usage.output,
        cost,
        ..Spend::for_call(call.elapsed)
    };
    let counted = reply.usage.map(|_| usage);
    shared.meter.record(counted.as_ref(), cost);
    shared.add(UsageTotals {
        model_calls: 1,
        fallback_calls: u32::from(call.is_fallback),
        usage,
        paid,
        ..UsageTotals::default()
    });
    let listener = &shared.dependencies.listener;
    listener.on_event(&Event::ModelCallEnded {
        agent,
        usage: reply.usage.as_ref(),
        cost,
        elapsed: call.elapsed,
        request: AnsweredRequest {
            session,
            provider: model.provider(),
            model: model.name(),
            prefix,
            at: call.sent_at,
            spared: model.saved_cost(reply),
            diagnosis: call.diagnosis,
        },
    });
    (usage, paid)
}

/// Reports the part of a price that is not known: as a note if the model has no price, as a warning if an answer of a model
/// with a price has none.
fn report_unpriced(shared: &ChatState, agent: &str, model: &Model, unknown: &Unpriced) {
    let message = &format!(
        "{}/{}: the answer is not priced: {unknown}",
        model.provider(),
        model.name()
    );
    shared.dependencies.listener.on_event(&match unknown {
        Unpriced::Model(_) | Unpriced::Usage => Event::Note { agent, message },
        _ => Event::Warning { agent, message },
    });
}

/// Reports a prefix break as a note, or as a warning if it was expensive. It is called after the answer was
/// added to the session, so that the answer is not lost if the turn must end.
pub(super) async fn report_break(context: &TurnContext<'_>, prefix_break: &Diagnosis) {
    let message = &prefix_break.to_string();
    if prefix_break.is_worth_warning(context.agent.prefix.warn_above) {
        context.warn(message).await;
    } else {
        let agent = &context.agent.name;
        context.report(&Event::Note { agent, message });
    }
}

/// The data of an answer for hook events.
pub(super) struct AnswerReport {
    pub(super) usage: Option<Usage>,
    pub(super) cost: Cost,
    pub(super) finish: StopReason,
    /// The complete text.
    pub(super) text: String,
}

/// Emits `after_llm_call` to hooks, and warns the user of a conversation that is almost too long. The answer
/// is part of the session already.
///
/// # Errors
/// The turn must end, before its hooks have completed or because a hook ended it.
pub(super) async fn emit_after_llm_call(
    context: &TurnContext<'_>,
    session: &mut ActiveSession,
    answer: &AnswerReport,
) -> Result<(), Stop> {
    let AnswerReport { usage, cost, .. } = *answer;
    let emitted = context
        .emit(When::AfterLlmCall, |input| {
            input.usage = usage;
            input.cost = (cost.unpriced == 0).then_some(cost);
            input.answer = Some(Answer {
                text: answer.text.clone(),
                finish: Some(answer.finish.clone()),
                ..Answer::default()
            });
            // The messages of the request: the conversation without the answer.
            input.messages = session.conversation.prompt().messages();
            input.messages.pop();
        })
        .await;
    let context_window = session.conversation.model().limits().context;
    let usage = usage.unwrap_or_default();
    let is_summarized = context.agent.compaction_threshold > 0.0;
    if let Some(warning) = nearly_full(
        usage,
        context_window,
        is_summarized,
        session.nearly_full_warned(),
    ) {
        context.warn(&warning).await;
    }
    match emitted {
        Ok(verdict) => verdict.ends_turn.map_or(Ok(()), |why| Err(Stop::Hook(why))),
        Err(cut) => {
            context.warn_of_cut_off_hooks(When::AfterLlmCall, &cut);
            Err(cut)
        }
    }
}

/// Returns a warning when a conversation approaches the context window of its model; once per session.
fn nearly_full(
    usage: Usage,
    context_window: Option<u64>,
    is_summarized: bool,
    warned: &mut bool,
) -> Option<String> {
    let context_window = context_window.filter(|context_window| *context_window > 0)?;
    let used = usage.total_input().saturating_add(usage.output);
    let percent = used.saturating_mul(100) / context_window;
    if percent < WARN_ABOVE_PERCENT || std::mem::replace(warned, true) {
        return None;
    }
    let remedy = if is_summarized {
        "it is summarized when there is little left (compaction_threshold)"
    } else {
        "begin a new session before it is full"
    };
    Some(format!(
        "the conversation takes {used} of the {context_window} tokens that the model takes; {remedy}"
    ))
}
