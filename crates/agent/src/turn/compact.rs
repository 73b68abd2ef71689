//! Compaction: summarizes a conversation that has become too long, so that it can continue.

use cachalot_hooks::Event as When;
use cachalot_hooks::input::Compaction;
use cachalot_model::{ErrorKind as ModelErrorKind, Model, ModelSettings, Reply, StopReason};

use super::context::TurnContext;
use super::end::TurnEnd;
use super::message::TurnMessage;
use super::model_call::call_model_aside;
use super::reserve::{reserve, reserve_for};
use super::spend::{TurnSpend, spent};
use crate::Error;
use crate::active_session::ActiveSession;
use crate::conversation::SummaryInput;
use crate::event::Event;
use crate::normalized_reply::is_visible;

/// The instruction that asks the model for a summary. It follows the conversation, so that the provider reads
/// that from its cache.
const SUMMARY_INSTRUCTION: &str = "This conversation is about to be continued from a summary alone. Write that summary now: what the user wants, what was decided and why, what was done (with the names of files, commands and values that matter), what is known to be true, what failed, and what is still to be done. Leave out what no longer matters. Write plain text, call no tool, and write nothing but the summary.";

/// The trigger of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CompactionTrigger {
    /// The user requested it.
    Manual,
    /// The conversation reached `compaction_threshold`.
    Threshold,
    /// The model refused the conversation as too long.
    Overflow,
}

impl CompactionTrigger {
    fn source(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Threshold | Self::Overflow => "auto",
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Threshold => "threshold",
            Self::Overflow => "overflow",
        }
    }
}

/// The reason why a turn does not continue with a compacted conversation.
pub(super) enum NotCompacted {
    /// The turn must end.
    Ended(TurnEnd),
    /// The conversation is unchanged, for this reason.
    Failed(String),
}

impl<T: Into<TurnEnd>> From<T> for NotCompacted {
    fn from(end: T) -> Self {
        Self::Ended(end.into())
    }
}

/// Compacts the conversation of a turn.
pub(super) struct Compactor<'t, 'a> {
    pub(super) context: &'t TurnContext<'a>,
    pub(super) session: &'t mut ActiveSession,
    /// The user's message. After a compaction in the middle of the turn, it is sent again.
    pub(super) message: &'t mut TurnMessage<'a>,
    pub(super) spend: &'t mut TurnSpend,
    /// True if something was answered in this turn.
    pub(super) has_begun: bool,
}

impl Compactor<'_, '_> {
    /// Compacts the conversation at the user's request. Returns true if it did.
    pub(super) async fn compact_on_request(&mut self) -> Result<bool, Error> {
        if self.session.conversation.is_new() {
            let nothing = "the conversation is empty; nothing can be summarized";
            self.context.warn(nothing).await;
            return Ok(false);
        }
        let compacted = match reserve(self.context, self.session, self.message.text()).err() {
            Some(over) => Err(over.into()),
            None => self.compact(CompactionTrigger::Manual).await,
        };
        match compacted {
            Ok(()) => return Ok(true),
            Err(NotCompacted::Failed(reason)) => self.warn_of_failure(&reason).await,
            Err(NotCompacted::Ended(TurnEnd::Failed(error))) => return Err(error),
            Err(NotCompacted::Ended(TurnEnd::Stopped(stop) | TurnEnd::Finished(stop))) => {
                let notice = stop.notice().unwrap_or_default();
                let warning = format!("nothing was summarized: {notice}");
                self.context.warn(&warning).await;
            }
        }
        Ok(false)
    }

    /// Compacts the conversation if it has reached the agent's threshold.
    pub(super) async fn compact_if_full(&mut self) -> Result<(), TurnEnd> {
        let threshold = self.context.agent.compaction_threshold;
        let context_window = self.session.conversation.model().limits().context;
        let (Some(usage), Some(context_window)) = (self.session.usage(), context_window) else {
            return Ok(());
        };
        let used = usage.total_input().saturating_add(usage.output);
        if self.session.compaction_failed
            || self.session.conversation.model().is_compacting()
            || threshold <= 0.0
            || !exceeds_fraction(used, context_window, threshold)
        {
            return Ok(());
        }
        match Box::pin(self.compact(CompactionTrigger::Threshold)).await {
            Ok(()) => {}
            Err(NotCompacted::Failed(reason)) => self.warn_of_failure(&reason).await,
            Err(NotCompacted::Ended(end)) => return Err(end),
        }
        Ok(())
    }

    async fn warn_of_failure(&mut self, reason: &str) {
        self.session.compaction_failed = true;
        let warning =
            format!("the conversation was not summarized and continues unchanged: {reason}");
        self.context.warn(&warning).await;
    }

    /// Summarizes the conversation, and restarts it with the summary if there is one.
    pub(super) async fn compact(&mut self, trigger: CompactionTrigger) -> Result<(), NotCompacted> {
        let before = spent(self.context.shared);
        let summary = self.summarize(trigger).await;
        // Replaying this turn's answer later does not save this spend.
        // Before the error is returned: a summary that failed was paid for as well.
        self.spend.exclude_since(before, self.context.shared);
        self.restart_with_summary(trigger, summary?).await
    }

    async fn restart_with_summary(
        &mut self,
        trigger: CompactionTrigger,
        summary: String,
    ) -> Result<(), NotCompacted> {
        let before = spent(self.context.shared);
        let mut compaction = self.hook_input(trigger);
        self.session.conversation.restart(&summary).await?;
        // The usage is that of the long conversation. With it, the next turn would compact the short one again.
        self.session.reset_usage();
        if trigger == CompactionTrigger::Overflow {
            self.message
                .hold_after_summary(self.session, self.has_begun);
        }
        self.context.report(&Event::Compacted {
            agent: &self.context.agent.name,
            tokens: compaction
                .input_tokens
                .saturating_add(compaction.output_tokens),
            summary: &summary,
        });
        compaction.summary = Some(summary);
        let emitted = self.context.emit(When::AfterCompaction, |input| {
            input.compaction = Some(compaction);
        });
        // The compaction is complete; the verdict of hooks has no effect.
        let _ = emitted.await;
        let started = self
            .context
            .cancellation
            .run_until_cancelled(self.session.emit_session_start("compact"))
            .await;
        // A second time, because the `session_start` hooks have added paragraphs since. Also after an interrupt, which
        // is returned only below.
        if trigger == CompactionTrigger::Overflow {
            self.message.hold(self.session);
        }
        self.spend.exclude_since(before, self.context.shared);
        started.map_err(NotCompacted::from)
    }

    /// Returns a summary by a hook or by the model.
    async fn summarize(&mut self, trigger: CompactionTrigger) -> Result<String, NotCompacted> {
        let compaction = self.hook_input(trigger);
        let emitted = self.context.emit(When::PreCompact, |input| {
            input.source = Some(trigger.source().to_owned());
            input.compaction = Some(compaction.clone());
        });
        let first = emitted.await?;
        if let Some(reason) = first.denial() {
            return Err(denied_by_hook(reason));
        }
        let emitted = self.context.emit(When::BeforeCompaction, |input| {
            input.compaction = Some(compaction);
        });
        let second = emitted.await?;
        if let Some(reason) = second.denial() {
            return Err(denied_by_hook(reason));
        }
        match second.summary.filter(|summary| is_visible(summary)) {
            Some(summary) => Ok(summary),
            None => self.ask_for_summary(trigger, &first.context).await,
        }
    }

    /// Returns the input of the summary.
    pub(super) fn summary_input(&self, trigger: CompactionTrigger) -> SummaryInput {
        let conversation = &self.session.conversation;
        match trigger {
            CompactionTrigger::Manual | CompactionTrigger::Threshold => {
                conversation.summary_input(0)
            }
            // The current message is sent again after the summary.
            CompactionTrigger::Overflow if !self.has_begun => conversation.summary_input(1),
            CompactionTrigger::Overflow => {
                let mut summary_input = conversation.summary_input(0);
                // The unshortened material is known to be too long.
                summary_input.shorten();
                summary_input
            }
        }
    }

    async fn ask_for_summary(
        &mut self,
        trigger: CompactionTrigger,
        extra_instructions: &[String],
    ) -> Result<String, NotCompacted> {
        let instruction = [&[SUMMARY_INSTRUCTION.to_owned()], extra_instructions]
            .concat()
            .join("\n\n");
        if let Some(summary) = self.ask_other_model(trigger, &instruction).await? {
            return Ok(summary);
        }
        let model = self.session.conversation.model().clone();
        let mut summary_input = self.summary_input(trigger);
        let reply = loop {
            let body = self
                .session
                .conversation
                .summary_request_body(&summary_input, &instruction)
                .map_err(|error| NotCompacted::Failed(error.message))?;
            let reserved = reserve(self.context, self.session, self.message.text())?;
            let asked = call_model_aside(self.context, self.session, &model, body);
            let asked = self.context.cancellation.run_until_cancelled(asked).await?;
            drop(reserved);
            match asked {
                Ok(reply) => break reply,
                Err(error) if error.kind == ModelErrorKind::TooLong && summary_input.shorten() => {}
                Err(error) => return Err(NotCompacted::Failed(error.to_string())),
            }
        };
        summary_text(&reply).map_err(|failure| NotCompacted::Failed(failure.to_owned()))
    }

    /// Returns a summary by the model of `compaction`. `None` if there is no other model than the agent's, or it writes no
    /// summary; the user is warned of that.
    async fn ask_other_model(
        &mut self,
        trigger: CompactionTrigger,
        instruction: &str,
    ) -> Result<Option<String>, NotCompacted> {
        let agent = self.context.agent;
        let named = agent.compaction.model.as_ref();
        let Some(named) = named.filter(|named| named.name != agent.model) else {
            return Ok(None);
        };
        let reason = match self.other_model(&named.name) {
            Ok(model) => match self.summary_by(&model, trigger, instruction).await? {
                Ok(summary) => return Ok(Some(summary)),
                Err(reason) => reason,
            },
            Err(error) => error.to_string(),
        };
        let warning = format!(
            "`{}` of `compaction` wrote no summary: {reason}; asking the agent's own model",
            named.name
        );
        self.context.warn(&warning).await;
        Ok(None)
    }

    fn other_model(&self, name: &str) -> Result<Model, cachalot_model::Error> {
        let models = &self.context.shared.dependencies.models;
        let model = models.choose(Some(name), &ModelSettings::default())?;
        let model = model.for_tools(self.session.has_tools())?;
        model.ready()?;
        Ok(model)
    }

    /// Returns a summary by this model, which has read nothing of the conversation, or the reason why there is none.
    async fn summary_by(
        &mut self,
        model: &Model,
        trigger: CompactionTrigger,
        instruction: &str,
    ) -> Result<Result<String, String>, NotCompacted> {
        let summary_input = self.summary_input(trigger);
        let session = &*self.session;
        let body = session.summary_request_body_for(model, &summary_input, instruction);
        let body = match body.await {
            Ok(body) => body,
            Err(error) => return Ok(Err(error.to_string())),
        };
        // A budget that is spent ends the turn when the agent's own model is asked.
        let reserved = reserve_for(self.context, self.session, model, self.message.text());
        let reserved = match reserved {
            Ok(reserved) => reserved,
            Err(stop) => return Ok(Err(stop.notice().unwrap_or_default())),
        };
        let asked = call_model_aside(self.context, self.session, model, body);
        let asked = self.context.cancellation.run_until_cancelled(asked).await?;
        drop(reserved);
        Ok(match asked {
            Ok(reply) => summary_text(&reply).map_err(str::to_owned),
            Err(error) => Err(error.to_string()),
        })
    }

    /// `compaction` field of hook events.
    fn hook_input(&self, trigger: CompactionTrigger) -> Compaction {
        let usage = self.session.usage().unwrap_or_default();
        let context_window = self.session.conversation.model().limits().context;
        Compaction {
            input_tokens: usage.total_input(),
            output_tokens: usage.output,
            context_limit: context_window.unwrap_or(0),
            reason: trigger.reason(),
            summary: None,
        }
    }
}

/// Returns the summary in an answer.
///
/// # Errors
/// The reason why there is none.
fn summary_text(reply: &Reply) -> Result<String, &'static str> {
    let text = reply.message.text();
    match reply.stop {
        StopReason::Length => Err("the summary was cut off"),
        StopReason::Refusal => Err("the model refused"),
        _ if !is_visible(&text) => Err("the model returned an empty answer"),
        _ => Ok(text.trim().to_owned()),
    }
}

fn denied_by_hook(reason: &str) -> NotCompacted {
    NotCompacted::Failed(format!("a hook does not want it: {reason}"))
}

/// True if `used` tokens are at least the fraction `part` of the context window `context_window`.
#[expect(
    clippy::cast_precision_loss,
    reason = "no model takes so many tokens that a float could not count them"
)]
fn exceeds_fraction(used: u64, context_window: u64, part: f64) -> bool {
    context_window > 0 && used as f64 >= context_window as f64 * part
}
