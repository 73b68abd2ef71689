//! Sums over answers.

use std::collections::BTreeMap;

use cachalot_accounting::avoidable::CacheUse;
use cachalot_accounting::{CostByKind, price, price_by_kind};
use cachalot_core::Cost;
use cachalot_model::{Catalog, Price, Usage};

use super::answer::{Client, LossCause, PaidAnswer};

/// The sum of some answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpendTotals {
    /// The number of answers.
    pub answers: u64,
    /// The tokens.
    pub usage: Usage,
    /// The cost by the prices of the catalog; counts the answers without a price.
    pub cost: Cost,
    /// The same cost by what was paid for, where it is known.
    pub by_kind: CostByKind,
    /// The part of the cost that is recorded as a sum only.
    pub unsplit: Cost,
    /// The number of answers without a price, by reason.
    pub unpriced: BTreeMap<String, u64>,
    /// Tokens that were written to the provider's cache for an unreported time, counted as five minutes, and what they
    /// would cost more if they had been written for an hour; none if it would be the same.
    pub written_for_unknown_time: (u64, Cost),
    /// The part of the cost that is of requests in no line.
    pub side_requests: Cost,
    /// The number of answers whose output may be larger than recorded.
    pub partial: u64,
    /// Tokens that Claude Code wrote to Anthropic's cache again, by cause, without those of summaries.
    pub written_again: BTreeMap<&'static str, WrittenAgain>,
}

/// Tokens that were written to the cache again for one cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WrittenAgain {
    /// The number of requests.
    pub requests: u64,
    /// The tokens.
    pub tokens: u64,
    /// The cost of writing them again beyond that of reading them.
    pub cost: Cost,
}

impl SpendTotals {
    /// Adds an answer, with the price of its model.
    pub fn add(&mut self, answer: &PaidAnswer, catalog: &Catalog) {
        self.answers += 1;
        self.usage += answer.usage;
        self.partial += u64::from(answer.is_partial);
        let listed = listed(answer, catalog);
        let (model, terms) = (&*answer.model, &answer.terms);
        let at = answer.at.unwrap_or_default();
        let cost_of = |usage: &Usage| price(usage, model, listed, at, terms).unwrap_or_default();
        let by_kind = price_by_kind(&answer.usage, model, listed, at, terms);
        let cost = match (answer.cost, &by_kind) {
            (Some(cost), Ok(by_kind)) if by_kind.total() == cost => {
                self.by_kind += *by_kind;
                cost
            }
            (Some(cost), _) => {
                self.unsplit += Cost::from_picodollars(cost.picodollars);
                if cost.unpriced > 0 {
                    self.count_unpriced(format!("`{model}` was recorded without a price"));
                }
                cost
            }
            (None, Ok(by_kind)) => {
                self.by_kind += *by_kind;
                by_kind.total()
            }
            (None, Err(reason)) => {
                self.count_unpriced(reason.to_string());
                Cost::UNPRICED
            }
        };
        self.cost += cost;
        let written = answer.usage.cache_write_other;
        if written > 0 && answer.cost.is_none() && by_kind.is_ok() {
            let hour = Usage {
                cache_write_1h: answer.usage.cache_write_1h.saturating_add(written),
                cache_write_other: 0,
                ..answer.usage
            };
            let more = cost_of(&hour).picodollars.saturating_sub(cost.picodollars);
            if more > 0 {
                let (tokens, sum) = &mut self.written_for_unknown_time;
                *tokens = tokens.saturating_add(written);
                *sum += Cost::from_picodollars(more);
            }
        }
        if answer.client != Client::ClaudeCode || by_kind.is_err() {
            return;
        }
        if let Some(loss) = &answer.loss
            && loss.cause != LossCause::Compaction
        {
            let read = with_use(&answer.usage, reading(&answer.usage, loss.tokens));
            let sum = self.written_again.entry(name(&loss.cause)).or_default();
            sum.requests += 1;
            sum.tokens = sum.tokens.saturating_add(loss.tokens);
            let otherwise = cost_of(&read).picodollars;
            sum.cost += Cost::from_picodollars(cost.picodollars.saturating_sub(otherwise));
        }
    }

    /// Adds requests that are in no line ([`Spending::side_requests`](super::Spending::side_requests)), at the price of
    /// short ones: the length of each is not known.
    pub fn add_side_requests(&mut self, requests: &PaidAnswer, catalog: &Catalog) {
        self.usage += requests.usage;
        let short = listed(requests, catalog).map(|listed| Price {
            above: None,
            ..listed.clone()
        });
        let at = requests.at.unwrap_or_default();
        let (usage, model, terms) = (&requests.usage, &*requests.model, &requests.terms);
        let cost = match price_by_kind(usage, model, short.as_ref(), at, terms) {
            Ok(by_kind) => {
                self.by_kind += by_kind;
                by_kind.total()
            }
            Err(reason) => {
                self.count_unpriced(reason.to_string());
                Cost::UNPRICED
            }
        };
        self.cost += cost;
        self.side_requests += cost;
    }

    fn count_unpriced(&mut self, reason: String) {
        *self.unpriced.entry(reason).or_default() += 1;
    }

    /// The part of the input that was read from the provider's cache; `None` without input.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for display only")]
    pub fn cache_read_ratio(&self) -> Option<f64> {
        let input = self.usage.total_input();
        (input > 0).then(|| self.usage.cache_read as f64 / input as f64)
    }
}

/// Returns the price of the answer's model in the catalog.
fn listed<'c>(answer: &PaidAnswer, catalog: &'c Catalog) -> Option<&'c Price> {
    catalog.find_by_name(&answer.model)?.price.as_ref()
}

/// Returns the use of the provider's cache. A write of unknown lifetime counts as one of five minutes.
pub(crate) fn cache_use(usage: &Usage) -> CacheUse {
    CacheUse {
        read: usage.cache_read,
        written_5m: usage.cache_write_5m.saturating_add(usage.cache_write_other),
        written_1h: usage.cache_write_1h,
    }
}

/// Returns the use if these tokens had been read instead of written.
fn reading(usage: &Usage, tokens: u64) -> CacheUse {
    let used = cache_use(usage);
    let short = tokens.min(used.written_5m);
    CacheUse {
        read: used.read.saturating_add(tokens),
        written_5m: used.written_5m - short,
        written_1h: used.written_1h.saturating_sub(tokens - short),
    }
}

/// Returns the usage with another use of the provider's cache.
pub(crate) fn with_use(usage: &Usage, used: CacheUse) -> Usage {
    Usage {
        cache_read: used.read,
        cache_write_5m: used.written_5m,
        cache_write_1h: used.written_1h,
        cache_write_other: 0,
        ..*usage
    }
}

/// The name of a cause in sums.
fn name(cause: &LossCause) -> &'static str {
    match cause {
        LossCause::Diagnosed(reason) => match &**reason {
            "model_changed" => "model changed",
            "tools_changed" => "tools changed",
            "system_changed" => "system text changed",
            "messages_changed" => "earlier messages changed",
            _ => "named by the provider",
        },
        LossCause::Compaction => "compaction",
        LossCause::ModelChanged => "model changed",
        LossCause::Paused(_) => "pause longer than the cache lives",
        LossCause::Unexplained => "unexplained",
    }
}
