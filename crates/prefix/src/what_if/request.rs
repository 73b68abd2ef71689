//! An answered request, and the pause before it.

use std::sync::Arc;

use cachalot_accounting::Rules;
use cachalot_core::{Cost, Millis};
use cachalot_model::{Terms, Usage};

use super::Sender;
use super::lifetime::Provider;
use super::policy::Change;
use crate::spend::{AnswerPlace, SLACK};

/// A request that was answered and paid for.
pub(super) struct AnsweredRequest {
    pub(super) sender: Sender,
    pub(super) provider: Provider,
    pub(super) session: Arc<str>,
    pub(super) model: Arc<str>,
    /// The time of the answer.
    pub(super) at: Millis,
    pub(super) usage: Usage,
    pub(super) terms: Terms,
    pub(super) place: AnswerPlace,
    pub(super) cost: Cost,
    /// The tokens that were lost in the pause before it, where the transcript shows the cause of losses.
    pub(super) recorded_loss: Option<u64>,
    /// The tokens that were lost by a change of the conversation, where the transcript shows it.
    pub(super) lost_by_change: Option<(Change, u64)>,
    /// True if it is a part of the sums.
    pub(super) is_counted: bool,
    pub(super) linked: Linked,
}

/// The relation of a request to the one before it in its conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Linked {
    /// The request before it, by the same model.
    pub(super) previous: Option<usize>,
    /// True if another request continues this one.
    pub(super) has_next: bool,
    /// The time between the two answers.
    pub(super) pause: Millis,
    /// True if it may begin with everything that the previous one had in the cache.
    pub(super) continues: bool,
    /// The tokens that it wrote to the cache again because of the pause.
    pub(super) lost: u64,
    /// The lifetime of what it has in the cache.
    pub(super) lifetime: Option<Millis>,
}

impl AnsweredRequest {
    /// Returns the tokens that the provider has in its cache after the request.
    pub(super) fn cached(&self) -> u64 {
        let usage = &self.usage;
        usage.cache_read.saturating_add(usage.cache_write())
    }

    /// Returns the tokens that it wrote although the previous request had them in the cache.
    fn lost_since(&self, previous: &Self) -> u64 {
        let usage = &self.usage;
        let missing = previous.cached().saturating_sub(usage.cache_read);
        let lost = usage.cache_write().min(missing);
        if lost > SLACK { lost } else { 0 }
    }

    /// Returns its usage if these tokens had been read instead of written.
    pub(super) fn reading(&self, tokens: u64) -> Usage {
        let mut usage = self.usage;
        let mut rest = tokens;
        for written in [
            &mut usage.cache_write_other,
            &mut usage.cache_write_5m,
            &mut usage.cache_write_1h,
            &mut usage.cache_write_12h,
        ] {
            let read = rest.min(*written);
            *written -= read;
            rest -= read;
            usage.cache_read = usage.cache_read.saturating_add(read);
        }
        usage
    }

    /// True if a sub-agent sent it.
    pub(super) fn is_of_sub_agent(&self) -> bool {
        match &self.place {
            AnswerPlace::Recorded { is_sub_agent, .. } => *is_sub_agent,
            AnswerPlace::InSession { .. } | AnswerPlace::Unknown => false,
        }
    }
}

impl Linked {
    /// `previous` is the request before `request` by the same model, with its index. `is_same_model` is false if another
    /// model answered in between.
    pub(super) fn new(
        request: &AnsweredRequest,
        previous: Option<(usize, &AnsweredRequest)>,
        is_same_model: bool,
        rules: &Rules,
    ) -> Self {
        let inherited = previous.and_then(|(_, previous)| previous.linked.lifetime);
        let lifetime = {
            let AnsweredRequest {
                provider,
                model,
                usage,
                ..
            } = request;
            provider.lifetime(model, usage, inherited, rules)
        };
        let Some((index, previous)) = previous else {
            return Self {
                lifetime,
                ..Self::default()
            };
        };
        let pause = request.at.saturating_sub(previous.at).max(0);
        let total = request.usage.total_input();
        // A shorter request is of a conversation that was summarized or cut: what it could read is not known.
        let continues = total.saturating_add(SLACK) >= previous.cached();
        let is_outlived = previous.linked.lifetime.is_some_and(|life| pause > life);
        let lost = match request.recorded_loss {
            Some(lost) => lost,
            None if is_same_model => request.lost_since(previous),
            None => 0,
        };
        Self {
            previous: Some(index),
            has_next: false,
            pause,
            continues,
            lost: if is_outlived && continues { lost } else { 0 },
            lifetime,
        }
    }
}
