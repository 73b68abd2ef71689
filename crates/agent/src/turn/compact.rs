//! Compaction: summarizes a conversation that has become too long, so that it can continue.

use cachalot_hooks::Event as When;
use cachalot_hooks::input::Compaction;
use cachalot_model::{ErrorKind as ModelErrorKind, StopReason};

use super::Turn;
use super::ending::spent;
use crate::conversation::Material;
use crate::event::Event;
use crate::report::Stop;
use crate::said::is_visible;
use crate::{Cancel, Error};

/// The instruction that asks the model for a summary. It follows the conversation, so that the provider reads
/// that from its cache.
const WISH: &str = "This conversation is about to be continued from a summary alone. Write that summary now: what the user wants, what was decided and why, what was done (with the names of files, commands and values that matter), what is known to be true, what failed, and what is still to be done. Leave out what no longer matters. Write plain text, call no tool, and write nothing but the summary.";

/// The trigger of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The user requested it.
    Manual,
    /// The conversation reached `compaction_threshold`.
    Threshold,
    /// The model refused the conversation as too long.
    Overflow,
}

impl Why {
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

/// The outcome of a request for a summary.
enum Summary {
    Is(String),
    /// There is no summary, for this reason.
    Not(String),
}

/// The outcome of a compaction.
pub(super) enum Compacted {
    Is,
    /// The conversation is unchanged, for this reason.
    Not(String),
}

impl Turn<'_> {
    /// Compacts the conversation at the user's request. Returns true if it did.
    pub(crate) async fn compact(mut self, cancel: &Cancel) -> Result<bool, Error> {
        self.halt = super::Halt::when(cancel, &self.shared.meter);
        self.settle().await?;
        if self.desk.conversation.is_new() {
            let nothing = "nothing was said yet that could be summarized";
            self.warn(nothing).await;
            return Ok(false);
        }
        let compacted = match self.reserve().err() {
            Some(over) => Err(over),
            None => self.compact_now(Why::Manual).await?,
        };
        match compacted {
            Ok(compacted) => Ok(self.told_of(compacted).await),
            Err(stop) => {
                let notice = stop.notice().unwrap_or_default();
                self.warn(&format!("nothing was summarized: {notice}"))
                    .await;
                Ok(false)
            }
        }
    }

    /// Compacts the conversation if it has reached the agent's threshold.
    pub(super) async fn compact_if_full(&mut self) -> Result<Result<(), Stop>, Error> {
        let threshold = self.agent.compaction_threshold;
        let takes = self.desk.conversation.model().limits().context;
        let (Some(usage), Some(takes)) = (self.desk.usage, takes) else {
            return Ok(Ok(()));
        };
        let used = usage.total_input().saturating_add(usage.output);
        if self.desk.gave_up || threshold <= 0.0 || !is_beyond(used, takes, threshold) {
            return Ok(Ok(()));
        }
        match Box::pin(self.compact_now(Why::Threshold)).await? {
            Ok(compacted) => self.told_of(compacted).await,
            Err(stop) => return Ok(Err(stop)),
        };
        Ok(Ok(()))
    }

    /// Returns true if the conversation was compacted; otherwise warns the user with the reason.
    async fn told_of(&mut self, compacted: Compacted) -> bool {
        let Compacted::Not(reason) = compacted else {
            return true;
        };
        self.desk.gave_up = true;
        let warning =
            format!("the conversation was not summarized, and goes on as it was: {reason}");
        self.warn(&warning).await;
        false
    }

    /// Summarizes the conversation, and restarts it with the summary if there is one.
    pub(super) async fn compact_now(&mut self, why: Why) -> Result<Result<Compacted, Stop>, Error> {
        let before = spent(self.shared);
        let summary = self.summarize(why).await;
        // Replaying this turn's answer later does not save this spend.
        self.leave_out_of_worth(before);
        match summary {
            Ok(Summary::Is(summary)) => self.begin_anew(why, summary).await,
            Ok(Summary::Not(reason)) => Ok(Ok(Compacted::Not(reason))),
            Err(stop) => Ok(Err(stop)),
        }
    }

    async fn begin_anew(
        &mut self,
        why: Why,
        summary: String,
    ) -> Result<Result<Compacted, Stop>, Error> {
        let before = spent(self.shared);
        let mut compaction = self.compaction(why);
        self.desk.conversation.restart(&summary).await?;
        self.desk.emptied();
        if why == Why::Overflow {
            self.stand_behind_summary();
        }
        self.shared.house.listener.tell(&Event::Compacted {
            agent: &self.agent.name,
            tokens: compaction
                .input_tokens
                .saturating_add(compaction.output_tokens),
            summary: &summary,
        });
        compaction.summary = Some(summary);
        let told = self.tell(When::AfterCompaction, |input| {
            input.compaction = Some(compaction);
        });
        // The compaction is complete; the verdict of hooks has no effect.
        let _ = told.await;
        let started = self.halt.clone().unless(self.desk.started("compact")).await;
        if why == Why::Overflow {
            self.hold_message();
        }
        self.leave_out_of_worth(before);
        Ok(started.map(|()| Compacted::Is))
    }

    /// Returns a summary by a hook or by the model.
    async fn summarize(&mut self, why: Why) -> Result<Summary, Stop> {
        let compaction = self.compaction(why);
        let told = self.tell(When::PreCompact, |input| {
            input.source = Some(why.source().to_owned());
            input.compaction = Some(compaction.clone());
        });
        let first = told.await?;
        if let Some(reason) = first.denial() {
            return Ok(unwanted(reason));
        }
        let told = self.tell(When::BeforeCompaction, |input| {
            input.compaction = Some(compaction);
        });
        let second = told.await?;
        if let Some(reason) = second.denial() {
            return Ok(unwanted(reason));
        }
        match second.summary.filter(|summary| is_visible(summary)) {
            Some(summary) => Ok(Summary::Is(summary)),
            None => self.ask_for_summary(why, &first.context).await,
        }
    }

    /// Returns the input of the summary.
    pub(super) fn material(&self, why: Why) -> Material {
        let conversation = &self.desk.conversation;
        match why {
            Why::Manual | Why::Threshold => conversation.material(0),
            // The current message is sent again after the summary.
            Why::Overflow if !self.has_begun() => conversation.material(1),
            Why::Overflow => {
                let mut material = conversation.material(0);
                // The unshortened material is known to be too long.
                material.shorten();
                material
            }
        }
    }

    async fn ask_for_summary(&mut self, why: Why, wishes: &[String]) -> Result<Summary, Stop> {
        let wish = [&[WISH.to_owned()], wishes].concat().join("\n\n");
        let mut material = self.material(why);
        let reply = loop {
            let body = match self.desk.conversation.body_about(&material, &wish) {
                Ok(body) => body,
                Err(error) => return Ok(Summary::Not(error.message)),
            };
            let reserved = self.reserve()?;
            let asked = self.halt.clone().unless(self.ask_aside(body)).await?;
            drop(reserved);
            match asked {
                Ok(reply) => break reply,
                Err(error) if error.kind == ModelErrorKind::TooLong && material.shorten() => {}
                Err(error) => return Ok(Summary::Not(error.to_string())),
            }
        };
        let text = reply.message.text();
        Ok(match reply.stop {
            StopReason::Length => Summary::Not("the summary was cut off".to_owned()),
            StopReason::Refusal => Summary::Not("the model refused".to_owned()),
            _ if !is_visible(&text) => Summary::Not("the model said nothing".to_owned()),
            _ => Summary::Is(text.trim().to_owned()),
        })
    }

    fn compaction(&self, why: Why) -> Compaction {
        let usage = self.desk.usage.unwrap_or_default();
        let takes = self.desk.conversation.model().limits().context;
        Compaction {
            input_tokens: usage.total_input(),
            output_tokens: usage.output,
            context_limit: takes.unwrap_or(0),
            reason: why.reason(),
            summary: None,
        }
    }
}

fn unwanted(reason: &str) -> Summary {
    Summary::Not(format!("a hook does not want it: {reason}"))
}

/// True if `used` tokens are at least the fraction `part` of the context window `takes`.
#[expect(
    clippy::cast_precision_loss,
    reason = "no model takes so many tokens that a float could not count them"
)]
fn is_beyond(used: u64, takes: u64, part: f64) -> bool {
    takes > 0 && used as f64 >= takes as f64 * part
}
