//! One model call of a turn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cachalot_core::{Cost, Millis, Spend};
use cachalot_hooks::Event as When;
use cachalot_hooks::input::Answer;
use cachalot_model::{Delta, Model, Reply, StopReason, Usage};
use cachalot_prefix::diagnosis::Diagnosis;

use super::Turn;
use crate::event::{AnsweredRequest, Event};
use crate::report::{Stop, UsageTotals};

/// Percentage of the context window at which the user receives a warning.
const WARN_ABOVE_PERCENT: u64 = 80;

impl Turn<'_> {
    /// Calls the model with the next request. The answer is shown while it streams.
    pub(super) async fn call_model(
        &mut self,
        iteration: u32,
    ) -> Result<Reply, cachalot_model::Error> {
        let mut warmup_guard = self.session.wait_for_warmup().await;
        let Self {
            shared,
            agent,
            session,
            partial_text: partial,
            ..
        } = self;
        let (agent, listener) = (agent.name.as_str(), &shared.dependencies.listener);
        listener.on_event(&Event::ModelCallStarted { agent, iteration });
        let sent_at = shared.dependencies.clock.now();
        let body = session.conversation.body(sent_at);
        for note in session.conversation.new_notes() {
            let message = &note.to_string();
            listener.on_event(&Event::Note { agent, message });
        }
        let model = session.conversation.model().clone();
        partial.clear();
        let began = Instant::now();
        let is_shown = AtomicBool::new(false);
        let mut on = |delta: Delta| {
            is_shown.store(true, Ordering::Relaxed);
            // The response has begun: requests that wait for this prefix may be sent.
            drop(warmup_guard.take());
            match &delta {
                Delta::Text(text) => {
                    partial.push_str(text);
                    listener.on_event(&Event::Text { agent, text });
                }
                Delta::Reasoning(text) => listener.on_event(&Event::Reasoning { agent, text }),
                Delta::ToolUse { .. } | Delta::Arguments { .. } => {}
            }
        };
        let mut asked_last = None;
        let mut answered = model.stream(body, &mut on).await;
        if let Err(error) = &answered
            && let Some(body) = session.conversation.body_without_comparison(error)
        {
            let message = format!("{error}; going on without `prefix.diagnostics`");
            shared.warn(agent, &message);
            answered = model.stream(body, &mut on).await;
        }
        for (name, fallback) in model.fallbacks() {
            let Some(error) = answered.as_ref().err() else {
                break;
            };
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
                    asked_last = Some(fallback.clone());
                    Ok(reply)
                }
                Err(of_fallback) => {
                    answered.map_err(|error| error.and_of_fallback(name, &of_fallback))
                }
            };
        }
        let reply = answered?;
        self.fallback = asked_last;
        let diagnosis = match self.fallback {
            // The agent's provider has not answered, so its cache usage is unknown.
            Some(_) => None,
            None => {
                let secret_set = &self.shared.dependencies.tools.secret_set;
                self.session.conversation.diagnose(&reply, secret_set)
            }
        };
        self.record_reply(&reply, sent_at, began.elapsed(), diagnosis.as_ref());
        self.session.record_answer(reply.usage);
        self.unreported_break = diagnosis.filter(Diagnosis::is_break);
        Ok(reply)
    }

    /// The model that gave the last answer.
    fn answered_by(&self) -> &Model {
        let own = self.session.conversation.model();
        self.fallback.as_ref().unwrap_or(own)
    }

    /// Calls the model with a request beside the conversation. The answer is not shown.
    pub(super) async fn call_model_aside(
        &mut self,
        body: Bytes,
    ) -> Result<Reply, cachalot_model::Error> {
        let agent = self.agent.name.as_str();
        let iteration = 0;
        let listener = &self.shared.dependencies.listener;
        listener.on_event(&Event::ModelCallStarted { agent, iteration });
        let model = self.session.conversation.model().clone();
        let (sent_at, began) = (self.shared.dependencies.clock.now(), Instant::now());
        let reply = model.stream(body, &mut |_| {}).await?;
        self.fallback = None;
        self.record_reply(&reply, sent_at, began.elapsed(), None);
        Ok(reply)
    }

    /// Records the usage and cost of an answer, and reports it to the listener.
    fn record_reply(
        &mut self,
        reply: &Reply,
        at: Millis,
        elapsed: Duration,
        diagnosis: Option<&Diagnosis>,
    ) {
        let usage = reply.usage.unwrap_or_default();
        let cost = self.answered_by().cost_of(reply);
        let paid = Spend {
            input_tokens: usage.total_input(),
            output_tokens: usage.output,
            cost,
            ..Spend::for_call(elapsed)
        };
        self.session.conversation.add_usage(usage, paid);
        self.shared.meter.record(reply.usage.as_ref(), cost);
        self.shared.add(UsageTotals {
            model_calls: 1,
            fallback_calls: u32::from(self.fallback.is_some()),
            usage,
            paid,
            ..UsageTotals::default()
        });
        let conversation = &self.session.conversation;
        let model = self.answered_by();
        self.shared
            .dependencies
            .listener
            .on_event(&Event::ModelCallEnded {
                agent: &self.agent.name,
                usage: reply.usage.as_ref(),
                cost,
                elapsed,
                request: AnsweredRequest {
                    session: conversation.id(),
                    provider: model.provider(),
                    model: model.name(),
                    prefix: conversation.prefix(),
                    at,
                    spared: model.spared(&usage),
                    diagnosis,
                },
            });
    }

    /// Reports the prefix break of the last answer as a note, or as a warning if it was expensive. It is
    /// called after the answer was added to the session, so that the answer is not lost if the turn must end.
    pub(super) async fn report_break(&mut self) {
        let Some(unreported_break) = self.unreported_break.take() else {
            return;
        };
        let message = &unreported_break.to_string();
        if unreported_break.is_worth_warning(self.agent.prefix.warn_above) {
            self.warn(message).await;
        } else {
            let agent = &self.agent.name;
            let listener = &self.shared.dependencies.listener;
            listener.on_event(&Event::Note { agent, message });
        }
        self.breaks.push(unreported_break);
    }

    /// Emits `after_llm_call` to hooks, and warns the user of a conversation that is almost too long. The
    /// answer is part of the session already.
    ///
    /// # Errors
    /// The turn must end, before its hooks have completed or because a hook ended it.
    pub(super) async fn emit_after_llm_call(&mut self, answer: &AnswerReport) -> Result<(), Stop> {
        let AnswerReport { usage, cost, .. } = *answer;
        let told = self
            .emit(When::AfterLlmCall, |input| {
                input.usage = usage;
                input.cost = (cost.unpriced == 0).then_some(cost);
                input.answer = Some(Answer {
                    text: answer.text.clone(),
                    finish: Some(answer.finish.clone()),
                    ..Answer::default()
                });
                // The messages of the request: the conversation without the answer.
                input.messages = self.session.conversation.prompt().messages();
                input.messages.pop();
            })
            .await;
        let context_window = self.session.conversation.model().limits().context;
        let usage = usage.unwrap_or_default();
        let is_summarized = self.agent.compaction_threshold > 0.0;
        if let Some(warning) = nearly_full(
            usage,
            context_window,
            is_summarized,
            self.session.nearly_full_warned(),
        ) {
            self.warn(&warning).await;
        }
        match told {
            Ok(verdict) => verdict.ends_turn.map_or(Ok(()), |why| Err(Stop::Hook(why))),
            Err(cut) => Err(self.warn_of_cut_off_hooks(When::AfterLlmCall, cut)),
        }
    }

    /// Warns the user, and notifies hooks of the warning, unless the turn must end before.
    pub(super) async fn warn(&self, message: &str) {
        self.shared.warn(&self.agent.name, message);
        let hook_emitter = &self.session.hook_emitter;
        let _ = self
            .cancellation
            .run_until_cancelled(hook_emitter.notify("warning", None, message))
            .await;
    }

    /// The data of an answer for hook events.
    pub(super) fn answer_report(&self, reply: &Reply) -> AnswerReport {
        AnswerReport {
            usage: reply.usage,
            cost: self.answered_by().cost_of(reply),
            finish: reply.stop.clone(),
            text: String::new(),
        }
    }
}

/// The data of an answer for hook events.
pub(super) struct AnswerReport {
    usage: Option<Usage>,
    cost: Cost,
    finish: StopReason,
    /// The complete text.
    pub(super) text: String,
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
    let remedy = match is_summarized {
        true => "it is summarized when there is little left (compaction_threshold)",
        false => "begin a new session before it is full",
    };
    Some(format!(
        "the conversation takes {used} of the {context_window} tokens that the model takes; {remedy}"
    ))
}
