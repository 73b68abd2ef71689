//! Conversations that are summarized earlier than they were. The cost is an estimate: a model that has read a summary sends
//! other requests than those that took place.

use cachalot_core::{Cost, Millis};
use cachalot_model::Usage;

use super::outcome::Outcome;
use super::policy::{Policy, SUMMARY_TOKENS};
use super::pricing::Pricing;
use super::request::AnsweredRequest;
use crate::diagnosis::renewal_interval;

/// A conversation after a request.
#[derive(Debug, Clone, Copy, Default)]
struct Conversation {
    /// The tokens before its first message, which no summary replaces: what its first request had in the cache.
    head: u64,
    /// The tokens that summaries have replaced.
    removed: u64,
    /// The usage of the request, with the summaries.
    usage: Usage,
}

impl Conversation {
    /// Returns the length if it is summarized, if that is at most half of the present one.
    fn summarized(&self) -> Option<u64> {
        let length = self.head.saturating_add(SUMMARY_TOKENS);
        (length <= self.usage.total_input() / 2).then_some(length)
    }
}

/// The state of all conversations under a policy.
pub(super) struct Compaction {
    policy: Policy,
    conversations: Vec<Conversation>,
}

impl Compaction {
    pub(super) fn new(policy: Policy) -> Self {
        Self {
            policy,
            conversations: Vec::new(),
        }
    }

    /// Returns the outcome of the next request of the list.
    pub(super) fn next(
        &mut self,
        requests: &[AnsweredRequest],
        end: Millis,
        pricing: &Pricing<'_>,
    ) -> Outcome {
        let request = &requests[self.conversations.len()];
        let mut outcome = Outcome::paid(request);
        let (conversation, before) = self.following(requests, request, pricing);
        if conversation.usage != request.usage {
            outcome.cost = pricing.other(request, &conversation.usage);
        }
        if let Some(cost) = before {
            outcome.add_request(cost);
        }
        let rest = end.saturating_sub(request.at);
        if !request.linked.has_next && self.is_compacted(request, &conversation, rest) {
            outcome.add_request(summary(request, &conversation, pricing));
        }
        self.conversations.push(conversation);
        outcome
    }

    /// Returns the conversation after a request, and the cost of a summary before it.
    fn following(
        &self,
        requests: &[AnsweredRequest],
        request: &AnsweredRequest,
        pricing: &Pricing<'_>,
    ) -> (Conversation, Option<Cost>) {
        let linked = &request.linked;
        let new = Conversation {
            head: match request.cached() {
                0 => request.usage.total_input(),
                cached => cached,
            },
            removed: 0,
            usage: request.usage,
        };
        let Some(index) = linked.previous else {
            return (new, None);
        };
        let (previous, before) = (&requests[index], self.conversations[index]);
        let is_compacted = self.is_compacted(previous, &before, linked.pause);
        let cost = is_compacted.then(|| summary(previous, &before, pricing));
        if !linked.continues {
            // It was summarized or cut in fact, too.
            let head = before.head.min(new.head);
            return (Conversation { head, ..new }, cost);
        }
        let total = request.usage.total_input();
        let conversation = match before.summarized().filter(|_| is_compacted) {
            Some(length) => {
                let removed = previous.usage.total_input().saturating_sub(length);
                let lives = previous.linked.lifetime;
                let is_alive = lives.is_some_and(|lifetime| linked.pause <= lifetime);
                let read = if is_alive { before.head } else { 0 };
                let total = total.saturating_sub(removed);
                Conversation {
                    removed,
                    usage: rewritten(request, total, read, pricing),
                    ..before
                }
            }
            None => Conversation {
                usage: shortened(&request.usage, before.removed),
                ..before
            },
        };
        (conversation, cost)
    }

    /// True if the conversation is summarized after this request, in a pause.
    fn is_compacted(
        &self,
        request: &AnsweredRequest,
        conversation: &Conversation,
        pause: Millis,
    ) -> bool {
        let is_due = match self.policy {
            Policy::CompactBeforePause => request
                .linked
                .lifetime
                .is_some_and(|lifetime| pause > renewal_interval(lifetime)),
            // It is summarized by the next request.
            Policy::CompactAt(tokens) => {
                request.linked.has_next && conversation.usage.total_input() > tokens
            }
            _ => false,
        };
        is_due && conversation.summarized().is_some()
    }
}

/// Returns the cost of the summary: a request that reads the conversation.
fn summary(request: &AnsweredRequest, conversation: &Conversation, pricing: &Pricing<'_>) -> Cost {
    let usage = &conversation.usage;
    let written = usage.cache_write();
    let (read, uncached) = if request
        .provider
        .charges_writes(&request.model, &pricing.rules)
    {
        (usage.cache_read.saturating_add(written), 0)
    } else {
        (usage.cache_read, written)
    };
    let usage = Usage {
        cache_read: read,
        uncached_input: usage.uncached_input.saturating_add(uncached),
        output: SUMMARY_TOKENS,
        ..Usage::default()
    };
    let cost = pricing.cost(request, &usage, request.at);
    cost.unwrap_or(Cost::UNPRICED)
}

/// Returns the usage of the first request after a summary: of `total` tokens, `read` are still in the cache.
fn rewritten(request: &AnsweredRequest, total: u64, read: u64, pricing: &Pricing<'_>) -> Usage {
    let usage = &request.usage;
    let read = read.min(total);
    let rest = total - read;
    let uncached = rest.min(usage.uncached_input);
    let written = rest - uncached;
    let mut other = Usage {
        uncached_input: uncached,
        cache_read: read,
        cache_write_5m: 0,
        cache_write_1h: 0,
        cache_write_12h: 0,
        cache_write_other: 0,
        ..*usage
    };
    let kind = if !request
        .provider
        .charges_writes(&request.model, &pricing.rules)
    {
        &mut other.uncached_input
    } else if usage.cache_write_1h > 0 {
        &mut other.cache_write_1h
    } else if usage.cache_write_12h > 0 {
        &mut other.cache_write_12h
    } else {
        &mut other.cache_write_other
    };
    *kind = kind.saturating_add(written);
    other
}

/// Returns a usage without some tokens of the prefix.
fn shortened(usage: &Usage, tokens: u64) -> Usage {
    let mut usage = *usage;
    let mut rest = tokens;
    for part in [
        &mut usage.cache_read,
        &mut usage.cache_write_other,
        &mut usage.cache_write_5m,
        &mut usage.cache_write_1h,
        &mut usage.cache_write_12h,
        &mut usage.uncached_input,
    ] {
        let removed = rest.min(*part);
        *part -= removed;
        rest -= removed;
    }
    usage
}
