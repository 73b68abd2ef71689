//! Factors by which a request costs more than the standard price of its model, from a data file.

use std::sync::LazyLock;

use cachalot_core::tree::{self, Section};
use cachalot_core::{Millis, Problem};

use crate::date;
use crate::pattern::Pattern;
use crate::rules;

const PUBLISHED_FACTORS: &str = include_str!("../data/price_factors.yaml");

/// A factor of a price, in ten-thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Factor(u64);

/// The published factors of models.
#[derive(Debug, Clone, Default)]
pub struct PriceFactors {
    regional_hosts: Vec<Pattern>,
    models: Vec<(Vec<Pattern>, ModelRow)>,
}

/// A row of the file.
#[derive(Debug, Clone, Default)]
struct ModelRow {
    factors: ModelFactors,
    /// Later factors with the times from which they apply, in this order.
    changes: Vec<(Millis, ModelFactors)>,
    /// True if the row is for models that the price pages do not name: it bounds a cost and prices no answer.
    is_unlisted: bool,
}

/// The factors of one model; `None` if it is not offered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelFactors {
    /// A write to the provider's cache for twelve hours, times the price of input.
    pub cache_write_12h: Option<Factor>,
    /// The tier of service `flex`.
    pub flex: Option<Factor>,
    /// Input read from the cache in the tier `flex`, if it is another factor.
    pub flex_cache_read: Option<Factor>,
    /// The tier of service `batch`.
    pub batch: Option<Factor>,
    /// Input read from the cache in the tier `batch`, if it is another factor.
    pub batch_cache_read: Option<Factor>,
    /// The tier of service `priority`, which some APIs name `fast`.
    pub priority: Option<Factor>,
    /// Input read from the cache in the tier `priority`, if it is another factor.
    pub priority_cache_read: Option<Factor>,
    /// The tier of service `ultrafast`.
    pub ultrafast: Option<Factor>,
    /// The geography `us`.
    pub us: Option<Factor>,
    /// The speed `fast`.
    pub fast: Option<Factor>,
    /// At a host of a region.
    pub regional: Option<Factor>,
    /// The price of a search of the web, in picodollars.
    pub web_search: Option<u64>,
}

/// The factors of a tier of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierFactors {
    /// The factor of all tokens that were not read from the cache.
    pub all: Factor,
    /// The factor of input read from the cache.
    pub cache_read: Factor,
}

impl TierFactors {
    /// The standard tier.
    pub const ONE: Self = Self {
        all: Factor::ONE,
        cache_read: Factor::ONE,
    };
}

impl Factor {
    /// The factor 1.
    pub const ONE: Self = Self(10_000);

    /// Returns the amount times the factor, rounded up; saturates at the maximum of `u64`.
    #[must_use]
    pub fn times(self, amount: u64) -> u64 {
        let product = (u128::from(amount) * u128::from(self.0)).div_ceil(u128::from(Self::ONE.0));
        u64::try_from(product).unwrap_or(u64::MAX)
    }
}

impl PriceFactors {
    /// Returns the published factors: the data file of this crate. It is parsed once.
    #[must_use]
    pub fn published() -> &'static Self {
        static FACTORS: LazyLock<PriceFactors> = LazyLock::new(|| {
            let factors = PriceFactors::parse("price_factors.yaml", PUBLISHED_FACTORS);
            debug_assert!(factors.is_ok(), "{:?}", factors.err());
            factors.unwrap_or_default()
        });
        &FACTORS
    }

    /// Parses factors in the format of `data/price_factors.yaml`.
    ///
    /// # Errors
    /// All problems in the file.
    pub fn parse(file_name: &str, text: &str) -> Result<Self, Vec<Problem>> {
        let node = tree::parse(file_name, text)?;
        let mut problems = Vec::new();
        let mut factors = Self::default();
        if let Some(mut file) = Section::from_node(&node, "the price factors", &mut problems) {
            // For readers.
            file.required_text("date", &mut problems);
            file.texts("sources", &mut problems);
            let hosts = file.texts("regional_hosts", &mut problems);
            let hosts = hosts.unwrap_or_default().into_iter();
            factors.regional_hosts = hosts.map(Pattern::new).collect();
            for node in file.list("models", &mut problems).unwrap_or_default() {
                if let Some(row) = Section::from_node(node, "a row of `models`", &mut problems) {
                    factors.models.push(model(row, &mut problems));
                }
            }
            file.finish(&mut problems);
        }
        if problems.is_empty() {
            Ok(factors)
        } else {
            Err(problems)
        }
    }

    /// Returns the factors of `model` at a time, for the bound of a cost: those of a model that is not listed are the
    /// largest of its provider. None for a model that no row names.
    #[must_use]
    pub fn model(&self, model: &str, at: Millis) -> ModelFactors {
        rules::row(&self.models, model).map_or_else(ModelFactors::default, |row| row.at(at))
    }

    /// Returns the factors of `model` at a time, for the price of an answer: none for a model that is not listed.
    #[must_use]
    pub fn listed(&self, model: &str, at: Millis) -> ModelFactors {
        let row = rules::row(&self.models, model).filter(|row| !row.is_unlisted);
        row.map_or_else(ModelFactors::default, |row| row.at(at))
    }

    /// Returns the factor of `model` at a host, for the bound of a cost: the largest of all times. That of a model without a
    /// known one is the largest of all models.
    #[must_use]
    pub fn at_host(&self, host: &str, model: &str) -> Factor {
        if !self.is_regional(host) {
            return Factor::ONE;
        }
        let known = rules::row(&self.models, model).and_then(ModelRow::largest_regional);
        let all = self.models.iter();
        let largest = || all.filter_map(|(_, row)| row.largest_regional()).max();
        known.or_else(largest).unwrap_or(Factor::ONE)
    }

    /// Returns the factor of `model` at a host and a time, for the price of an answer; `None` if it is not known.
    #[must_use]
    pub fn exact_at_host(&self, host: &str, model: &str, at: Millis) -> Option<Factor> {
        if self.is_regional(host) {
            self.listed(model, at).regional
        } else {
            Some(Factor::ONE)
        }
    }

    fn is_regional(&self, host: &str) -> bool {
        let mut hosts = self.regional_hosts.iter();
        hosts.any(|regional| regional.matches(host))
    }
}

impl ModelRow {
    fn at(&self, at: Millis) -> ModelFactors {
        let mut changes = self.changes.iter().rev();
        let change = changes.find(|(from, _)| *from <= at);
        change.map_or(self.factors, |(_, factors)| *factors)
    }

    fn largest_regional(&self) -> Option<Factor> {
        let later = self.changes.iter().map(|(_, factors)| factors);
        let all = std::iter::once(&self.factors).chain(later);
        all.filter_map(|factors| factors.regional).max()
    }
}

impl ModelFactors {
    /// Returns the factor of a tier of service, under the name of OpenAI; `None` if its price is not known. Tiers that
    /// are cheaper than the standard one count as that one.
    #[must_use]
    pub fn tier(&self, name: &str) -> Option<Factor> {
        match name {
            "auto" | "default" | "standard" | "flex" | "batch" => Some(Factor::ONE),
            "priority" | "fast" => self.priority,
            "ultrafast" => self.ultrafast,
            _ => None,
        }
    }

    /// Returns the factors of a tier of service other than the standard one; `None` if its price is not known.
    #[must_use]
    pub fn exact_tier(&self, name: &str) -> Option<TierFactors> {
        let (all, cache_read) = match name {
            "flex" => (self.flex, self.flex_cache_read),
            "batch" => (self.batch, self.batch_cache_read),
            "priority" | "fast" => (self.priority, self.priority_cache_read),
            "ultrafast" => (self.ultrafast, None),
            _ => (None, None),
        };
        let all = all?;
        Some(TierFactors {
            all,
            cache_read: cache_read.unwrap_or(all),
        })
    }

    /// Returns the factor of the dearest tier that a request without one can get.
    #[must_use]
    pub fn dearest_default_tier(&self) -> Factor {
        self.priority.unwrap_or(Factor::ONE).max(Factor::ONE)
    }

    /// Returns the factor of a geography, under the name of Anthropic, for the bound of a cost.
    #[must_use]
    pub fn geography(&self, name: &str) -> Factor {
        self.exact_geography(name).unwrap_or(Factor::ONE)
    }

    /// Returns the factor of a geography that has a price of its own; `None` if it is not known.
    #[must_use]
    pub fn exact_geography(&self, name: &str) -> Option<Factor> {
        match name {
            "us" => self.us,
            _ => None,
        }
    }

    /// Returns the factor of the dearest geography that a request without one can get.
    #[must_use]
    pub fn dearest_default_geography(&self) -> Factor {
        self.us.unwrap_or(Factor::ONE).max(Factor::ONE)
    }
}

fn model(mut row: Section<'_>, problems: &mut Vec<Problem>) -> (Vec<Pattern>, ModelRow) {
    let names = rules::names(&mut row, problems);
    let is_unlisted = row.boolean("unlisted", problems) == Some(true);
    let factors = read_factors(&mut row, ModelFactors::default(), problems);
    let mut changes: Vec<(Millis, ModelFactors)> = Vec::new();
    for node in row.list("changes", problems).unwrap_or_default() {
        let Some(mut change) = Section::from_node(node, "a row of `changes`", problems) else {
            continue;
        };
        let (at, before) = changes.last().copied().unwrap_or((Millis::MIN, factors));
        let from = change.required_text("from", problems).and_then(date::parse);
        let later = read_factors(&mut change, before, problems);
        match from.filter(|from| *from > at) {
            Some(from) => changes.push((from, later)),
            None => {
                let message = "`from` is no date after that of the row before";
                problems.push(Problem::new("bad-value", message).at(change.place()));
            }
        }
        change.finish(problems);
    }
    row.finish(problems);
    let row = ModelRow {
        factors,
        changes,
        is_unlisted,
    };
    (names, row)
}

/// Reads the factors of a row; those of the row `before` apply where it has none.
fn read_factors(
    row: &mut Section<'_>,
    before: ModelFactors,
    problems: &mut Vec<Problem>,
) -> ModelFactors {
    let place = row.place().clone();
    let mut number = |key| {
        let number = row.number(key, problems)?;
        if (0.0..=1_000.0).contains(&number) {
            return Some(number);
        }
        let message = format!("`{key}` is no number from 0 to 1,000");
        problems.push(Problem::new("bad-value", message).at(&place));
        None
    };
    // At most ten million.
    let mut factor =
        |key| number(key).map(|number: f64| Factor((number * 10_000.0).round() as u64));
    let mut read = |key, before: Option<Factor>| factor(key).or(before);
    ModelFactors {
        cache_write_12h: read("cache_write_12h", before.cache_write_12h),
        flex: read("flex", before.flex),
        flex_cache_read: read("flex_cache_read", before.flex_cache_read),
        batch: read("batch", before.batch),
        batch_cache_read: read("batch_cache_read", before.batch_cache_read),
        priority: read("priority", before.priority),
        priority_cache_read: read("priority_cache_read", before.priority_cache_read),
        ultrafast: read("ultrafast", before.ultrafast),
        us: read("us", before.us),
        fast: read("fast", before.fast),
        regional: read("regional", before.regional),
        // Dollars per thousand searches: a billionth of a dollar is a thousand picodollars.
        web_search: number("web_search")
            .map(|dollars| (dollars * 1e9).round() as u64)
            .or(before.web_search),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn published_factors_apply_the_first_matching_row() {
        let factors = PriceFactors::parse("price_factors.yaml", PUBLISHED_FACTORS).unwrap();
        let priority = |model: &str| factors.model(model, 0).priority.map(|factor| factor.0);
        for (model, expected) in [
            ("gpt-4o-mini-2024-07-18", Some(16_667)),
            ("gpt-4o-2024-05-13", Some(17_500)),
            ("gpt-4o", Some(17_000)),
            ("gpt-4o-search-preview", None),
            ("openai/gpt-5.5", Some(25_000)),
            ("gpt-5.5-pro", None),
            ("gpt-5.2-codex", None),
            ("gpt-6-sol", Some(20_000)),
            ("gpt-9-unknown", Some(25_000)),
            ("openai/gpt-oss-120b", None),
            ("gpt-oss:20b", None),
            ("o3-deep-research", None),
            ("text-embedding-3-small", None),
            ("claude-opus-5-5", None),
            ("gemini-3.8-flash", Some(18_000)),
            ("gemini-9-unknown", None),
        ] {
            assert_eq!(priority(model), expected, "{model}");
        }
        let model = |name: &str| factors.model(name, 0);
        assert_eq!(model("gpt-6-sol").cache_write_12h, Some(Factor(25_000)));
        assert_eq!(model("gpt-5.5").cache_write_12h, None);
        assert_eq!(model("gpt-oss-20b").cache_write_12h, None);
        assert_eq!(
            model("anthropic/claude-sonnet-4.6").us,
            Some(Factor(11_000))
        );
        assert_eq!(model("claude-sonnet-4-6").us, Some(Factor(11_000)));
        assert_eq!(model("claude-haiku-4-5-20251001").us, None);
        assert_eq!(model("claude-opus-5-5").fast, Some(Factor(20_000)));
        assert_eq!(model("claude-opus-9").fast, Some(Factor(20_000)));
        let at = |host: &str| factors.at_host(host, "gpt-5.4");
        assert_eq!(at("EU.api.openai.com"), Factor(11_000));
        assert_eq!(at("api.openai.com"), Factor::ONE);
        let at = |host: &str, model: &str| factors.at_host(host, model);
        for host in [
            "us-east5-aiplatform.googleapis.com",
            "aiplatform.eu.rep.googleapis.com",
        ] {
            assert_eq!(at(host, "claude-haiku-4-5@20251001"), Factor(11_000));
            assert_eq!(at(host, "claude-3-5-haiku"), Factor::ONE);
        }
        let global = at("aiplatform.googleapis.com", "claude-haiku-4-5@20251001");
        assert_eq!(global, Factor::ONE);
    }

    #[test]
    fn regional_factors_are_exact_at_their_time_or_the_largest() {
        let factors = PriceFactors::parse(
            "price_factors.yaml",
            "date: 2026-11-28
sources: [x]
regional_hosts: [eu.example.com]
models:
  - {names: [a], regional: 1, changes: [{from: 2027-01-01, regional: 1.2}]}
  - {names: [b], batch: 0.5}
  - {names: [\"c*\"], unlisted: true, regional: 1.1}
",
        )
        .unwrap();
        let change = date::parse("2027-01-01").unwrap();
        let exact = |model: &str, at| factors.exact_at_host("eu.example.com", model, at);
        assert_eq!(exact("a", change - 1), Some(Factor::ONE));
        assert_eq!(exact("a", change), Some(Factor(12_000)));
        for model in ["b", "c1", "d"] {
            assert_eq!(exact(model, change), None, "{model}");
            let elsewhere = factors.exact_at_host("example.com", model, change);
            assert_eq!(elsewhere, Some(Factor::ONE), "{model}");
        }
        for (model, largest) in [("a", 12_000), ("b", 12_000), ("c1", 11_000), ("d", 12_000)] {
            let bound = factors.at_host("eu.example.com", model);
            assert_eq!(bound, Factor(largest), "{model}");
        }
        assert_eq!(factors.at_host("example.com", "a"), Factor::ONE);
    }

    #[test]
    fn factors_round_up_and_saturate() {
        assert_eq!(Factor(11_000).times(1), 2);
        assert_eq!(Factor::ONE.times(u64::MAX), u64::MAX);
        assert_eq!(Factor(20_000).times(u64::MAX), u64::MAX);
        assert_eq!(Factor(16_667).times(30), 51);
    }
}
