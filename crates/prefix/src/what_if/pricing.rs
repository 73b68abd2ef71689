//! Prices of actual and of other usages.

use std::collections::HashMap;
use std::sync::Arc;

use cachalot_accounting::{Rules, price};
use cachalot_core::{Cost, Millis};
use cachalot_model::{Catalog, Price, Terms, Usage};

use super::policy::Family;
use super::request::AnsweredRequest;
use crate::spend::PaidAnswer;

/// Reason for answers whose cost is known, but not what it is for.
const OTHER_COST: &str = "the recorded cost does not follow from the recorded tokens";

/// The prices and the published rules.
pub(super) struct Pricing<'c> {
    catalog: &'c Catalog,
    pub(super) rules: Rules,
    newest: HashMap<Family, NewestModel>,
}

/// The newest model of a family.
pub(super) struct NewestModel {
    pub(super) model: Arc<str>,
    /// The length of its context, in tokens.
    pub(super) context: u64,
}

impl NewestModel {
    /// Finds the model with the highest version among those of Anthropic's own API.
    fn find(catalog: &Catalog, family: Family) -> Option<Self> {
        let beginning = format!("claude-{}-", family.alias());
        let versions = catalog.models("anthropic").filter_map(|model| {
            let version = model.strip_prefix(&beginning)?.split('-');
            let version: Result<Vec<u32>, _> = version.map(str::parse).collect();
            // A longer number is a date.
            let version = version
                .ok()
                .filter(|parts| parts.iter().all(|part| *part < 100))?;
            Some((version, model))
        });
        let (_, model) = versions.max()?;
        let entry = catalog.find("anthropic", model)?;
        Some(Self {
            model: model.into(),
            context: entry.limits.context?,
        })
    }
}

impl<'c> Pricing<'c> {
    pub(super) fn new(catalog: &'c Catalog) -> Self {
        Self {
            catalog,
            rules: Rules::published(),
            newest: [Family::Sonnet, Family::Haiku]
                .into_iter()
                .filter_map(|family| Some((family, NewestModel::find(catalog, family)?)))
                .collect(),
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

    /// Returns the newest model of a family; `None` if the catalog has none.
    pub(super) fn newest(&self, family: Family) -> Option<&NewestModel> {
        self.newest.get(&family)
    }

    /// Returns the cost of a request if another model had answered with the same counts; unpriced if it is not known.
    pub(super) fn by_model(&self, request: &AnsweredRequest, model: &str, terms: &Terms) -> Cost {
        let listed = self.listed(model);
        price(&request.usage, model, listed, request.at, terms).unwrap_or(Cost::UNPRICED)
    }

    /// True if a write for an hour has a price of its own.
    pub(super) fn has_one_hour(&self, request: &AnsweredRequest) -> bool {
        self.listed(&request.model).is_some_and(|listed| {
            let rates = listed.rates_at(request.at, &request.usage);
            rates.cache_write_1h > rates.cache_write_5m
        })
    }
}
