//! The price of an answer: the one place where tokens become money.

use std::fmt;

use cachalot_core::{Cost, Millis};

use crate::price_factors::{Factor, ModelFactors, PriceFactors, TierFactors};
use crate::{CostByKind, Price, Usage};

/// Members of an answer, or of its request, that change the price beside the tokens; under the names of the provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// The tier of service of the answer; that of the request if the answer names none.
    pub tier: Option<String>,
    /// The geography in which the model ran (`inference_geo`).
    pub geography: Option<String>,
    /// The speed.
    pub speed: Option<String>,
    /// The host of the API.
    pub host: Option<String>,
    /// A member of the answer that costs money, and whose price is not known.
    pub unknown: Option<String>,
}

impl Terms {
    /// Fills missing terms of an answer from those of its request, or from the defaults of the account.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            tier: self.tier.or(other.tier),
            geography: self.geography.or(other.geography),
            speed: self.speed.or(other.speed),
            host: self.host.or(other.host),
            unknown: self.unknown.or(other.unknown),
        }
    }
}

/// Why an answer has no price. It is never counted at the standard price instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unpriced {
    /// The provider reported no token counts.
    Usage,
    /// No price of the model is known.
    Model(String),
    /// The price of this tier of service is not known for the model.
    Tier(String),
    /// The price of this geography is not known for the model.
    Geography(String),
    /// The price of this speed is not known for the model.
    Speed(String),
    /// The price at this host is not known for the model.
    Host(String),
    /// The price of this member of the usage is not known for the model.
    Member(String),
}

impl fmt::Display for Unpriced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage => write!(f, "the answer has no token counts"),
            Self::Model(model) if model.is_empty() => write!(f, "the model is not known"),
            Self::Model(model) => write!(f, "the price of `{model}` is not known"),
            Self::Tier(tier) => write!(f, "the price of the tier `{tier}` is not known"),
            Self::Geography(name) => write!(f, "the price in the geography `{name}` is not known"),
            Self::Speed(speed) => write!(f, "the price of the speed `{speed}` is not known"),
            Self::Host(host) => write!(f, "the price at the host `{host}` is not known"),
            Self::Member(member) => write!(f, "the price of `{member}` is not known"),
        }
    }
}

/// Returns the exact cost of an answer; saturates at the maximum of `u64` picodollars. `listed` is the price of `model` in
/// the catalog, `at` the time of the answer.
///
/// # Errors
/// The part of the price that is not known.
pub fn price(
    usage: &Usage,
    model: &str,
    listed: Option<&Price>,
    at: Millis,
    terms: &Terms,
) -> Result<Cost, Unpriced> {
    price_by_kind(usage, model, listed, at, terms).map(CostByKind::total)
}

/// Returns the cost like [`price`], by what is paid for.
///
/// # Errors
/// The part of the price that is not known.
pub fn price_by_kind(
    usage: &Usage,
    model: &str,
    listed: Option<&Price>,
    at: Millis,
    terms: &Terms,
) -> Result<CostByKind, Unpriced> {
    let listed = listed.ok_or_else(|| Unpriced::Model(model.to_owned()))?;
    if let Some(member) = &terms.unknown {
        return Err(Unpriced::Member(member.clone()));
    }
    let factors = PriceFactors::published().listed(model, at);
    let rates = listed.rates_at(at, usage);
    let Usage {
        uncached_input,
        cache_read,
        cache_write_5m,
        cache_write_1h,
        cache_write_12h,
        cache_write_other,
        output,
        // Included in `output`.
        reasoning: _,
        web_searches,
    } = *usage;
    // The price is required only if there are such tokens, so that other answers of the model stay priced.
    let write_12h = match cache_write_12h {
        0 => 0,
        _ => {
            let unknown = || Unpriced::Member("cache write for 12 hours".to_owned());
            factors
                .cache_write_12h
                .ok_or_else(unknown)?
                .times(rates.input)
        }
    };
    let tier = tier(terms.tier.as_deref(), &factors)?;
    let others = [
        geography(terms.geography.as_deref(), &factors)?,
        speed(terms.speed.as_deref(), &factors)?,
        host(terms.host.as_deref(), model, at)?,
    ];
    let charged = |tokens: u64, tier: &Factor| {
        let factors = std::iter::once(tier).chain(&others);
        Cost::from_picodollars(factors.fold(tokens, |cost, factor| factor.times(cost)))
    };
    let searches = match web_searches {
        0 => 0,
        _ => {
            let unknown = || Unpriced::Member("web search".to_owned());
            factors
                .web_search
                .ok_or_else(unknown)?
                .saturating_mul(web_searches)
        }
    };
    let written = sum_of([
        (cache_write_5m, rates.cache_write_5m),
        (cache_write_other, rates.cache_write_5m),
        (cache_write_1h, rates.cache_write_1h),
        (cache_write_12h, write_12h),
    ]);
    let read = sum_of([(cache_read, rates.cache_read)]);
    Ok(CostByKind {
        input: charged(sum_of([(uncached_input, rates.input)]), &tier.all),
        cache_read: charged(read, &tier.cache_read),
        cache_write: charged(written, &tier.all),
        output: charged(sum_of([(output, rates.output)]), &tier.all),
        // Searches have a fixed price, to which the factors of tokens do not apply.
        tools: Cost::from_picodollars(searches),
    })
}

/// Returns the price of tokens at their rates; saturates.
fn sum_of<const N: usize>(parts: [(u64, u64); N]) -> u64 {
    let parts = parts.into_iter();
    let sum: u128 = parts
        .map(|(tokens, rate)| u128::from(tokens) * u128::from(rate))
        .sum();
    u64::try_from(sum).unwrap_or(u64::MAX)
}

/// The names of the standard tier.
const STANDARD_TIERS: [&str; 5] = ["auto", "default", "standard", "standard_only", "on_demand"];

/// The names of no particular geography.
const ANYWHERE: [&str; 3] = ["", "global", "not_available"];

fn tier(name: Option<&str>, factors: &ModelFactors) -> Result<TierFactors, Unpriced> {
    match name {
        None => Ok(TierFactors::ONE),
        Some(name) if STANDARD_TIERS.contains(&name) => Ok(TierFactors::ONE),
        Some(name) => {
            let unknown = || Unpriced::Tier(name.to_owned());
            factors.exact_tier(name).ok_or_else(unknown)
        }
    }
}

fn geography(name: Option<&str>, factors: &ModelFactors) -> Result<Factor, Unpriced> {
    match name {
        None => Ok(Factor::ONE),
        Some(name) if ANYWHERE.contains(&name) => Ok(Factor::ONE),
        Some(name) => {
            let unknown = || Unpriced::Geography(name.to_owned());
            factors.exact_geography(name).ok_or_else(unknown)
        }
    }
}

fn speed(name: Option<&str>, factors: &ModelFactors) -> Result<Factor, Unpriced> {
    match name {
        None | Some("" | "standard") => Ok(Factor::ONE),
        Some("fast") => factors
            .fast
            .ok_or_else(|| Unpriced::Speed("fast".to_owned())),
        Some(other) => Err(Unpriced::Speed(other.to_owned())),
    }
}

fn host(name: Option<&str>, model: &str, at: Millis) -> Result<Factor, Unpriced> {
    let Some(name) = name else {
        return Ok(Factor::ONE);
    };
    let factor = PriceFactors::published().exact_at_host(name, model, at);
    factor.ok_or_else(|| Unpriced::Host(name.to_owned()))
}
