//! Prices of actual and of other usages.

use cachalot_accounting::{Rules, price};
use cachalot_core::{Cost, Millis};
use cachalot_model::{Catalog, Price, Usage};

use super::request::AnsweredRequest;
use crate::spend::PaidAnswer;

/// Reason for answers whose cost is known, but not what it is for.
const OTHER_COST: &str = "the recorded cost does not follow from the recorded tokens";

/// The prices and the published rules.
pub(super) struct Pricing<'c> {
    catalog: &'c Catalog,
    pub(super) rules: Rules,
}

impl<'c> Pricing<'c> {
    pub(super) fn new(catalog: &'c Catalog) -> Self {
        Self {
            catalog,
            rules: Rules::published(),
        }
    }

    fn listed(&self, model: &str) -> Option<&'c Price> {
        self.catalog.find_by_name(model)?.price.as_ref()
    }

    /// Returns the usage and the cost of an answer. Writes of an unrecorded lifetime have the one that explains the
    /// recorded cost.
    ///
    /// # Errors
    /// The reason why the cost is not known.
    pub(super) fn paid(&self, answer: &PaidAnswer, at: Millis) -> Result<(Usage, Cost), String> {
        let model = &*answer.model;
        let listed = self.listed(model);
        let cost_of = |usage: &Usage| price(usage, model, listed, at, &answer.terms);
        let usage = answer.usage;
        let Some(recorded) = answer.cost else {
            return match cost_of(&usage) {
                Ok(cost) => Ok((usage, cost)),
                Err(reason) => Err(reason.to_string()),
            };
        };
        let other = usage.cache_write_other;
        let hour = Usage {
            cache_write_1h: usage.cache_write_1h.saturating_add(other),
            cache_write_other: 0,
            ..usage
        };
        let twelve = Usage {
            cache_write_12h: usage.cache_write_12h.saturating_add(other),
            cache_write_other: 0,
            ..usage
        };
        let mut lifetimes = [usage, hour, twelve].into_iter();
        lifetimes
            .find(|usage| cost_of(usage).is_ok_and(|cost| cost == recorded))
            .map(|usage| (usage, recorded))
            .ok_or_else(|| OTHER_COST.to_owned())
    }

    /// Returns the cost of another usage under the terms of a request; `None` if its price is not known.
    pub(super) fn cost(
        &self,
        request: &AnsweredRequest,
        usage: &Usage,
        at: Millis,
    ) -> Option<Cost> {
        let model = &*request.model;
        price(usage, model, self.listed(model), at, &request.terms).ok()
    }

    /// Returns the cost of a request with another usage; unpriced if it is not known.
    pub(super) fn other(&self, request: &AnsweredRequest, usage: &Usage) -> Cost {
        self.cost(request, usage, request.at)
            .unwrap_or(Cost::UNPRICED)
    }

    /// True if a write for an hour has a price of its own.
    pub(super) fn has_one_hour(&self, request: &AnsweredRequest) -> bool {
        self.listed(&request.model).is_some_and(|listed| {
            let rates = listed.rates_at(request.at, &request.usage);
            rates.cache_write_1h > rates.cache_write_5m
        })
    }
}
