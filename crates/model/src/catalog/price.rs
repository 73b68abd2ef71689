//! Prices, and the cost of an answer.

use cachalot_core::tree::Section;
use cachalot_core::{Cost, Problem};

use super::decimal::amount;
use crate::Usage;

/// Decimal places of a price per million tokens: the sixth is a picodollar per token.
const DECIMALS: usize = 6;

/// Prices per token in picodollars (10⁻¹² $). One picodollar per token is a millionth of a dollar per
/// million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Input that the provider neither read from nor wrote to its cache.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Input that the provider read from its cache.
    pub cache_read: u64,
    /// Input that the provider wrote to its cache for five minutes, or for an unreported time.
    pub cache_write_5m: u64,
    /// Input that the provider wrote to its cache for one hour.
    pub cache_write_1h: u64,
}

/// Price of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    /// Rates per token.
    pub rates: Rates,
    /// Rates for all tokens, including output, of a request whose input is longer than this number of
    /// tokens.
    pub above: Option<(u64, Rates)>,
}

impl Price {
    /// Returns the exact cost of an answer; saturates at the maximum of `u64`.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Cost {
        let rates = match &self.above {
            Some((tokens, rates)) if usage.total_input() > *tokens => rates,
            _ => &self.rates,
        };
        let Usage {
            uncached_input,
            cache_read,
            cache_write_5m,
            cache_write_1h,
            cache_write_other,
            output,
            // Included in `output`.
            reasoning: _,
        } = *usage;
        let sum: u128 = [
            (uncached_input, rates.input),
            (cache_read, rates.cache_read),
            (cache_write_5m, rates.cache_write_5m),
            (cache_write_other, rates.cache_write_5m),
            (cache_write_1h, rates.cache_write_1h),
            (output, rates.output),
        ]
        .into_iter()
        .map(|(tokens, rate)| u128::from(tokens) * u128::from(rate))
        .sum();
        Cost::from_picodollars(u64::try_from(sum).unwrap_or(u64::MAX))
    }

    /// Reads the keys of a price, in dollars per million tokens: `input`, `output`, `cache_read`,
    /// `cache_write` or `cache_write_5m` and `cache_write_1h`, `above`. Returns `None` if there are none.
    ///
    /// A missing cache price defaults to the price of input: a provider that caches without publishing such
    /// a price charges no more than that.
    pub(crate) fn read(section: &mut Section<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        let above = section
            .section("above", "`above`", problems)
            .map(|mut tier| {
                let tokens = match tier.required("tokens", problems) {
                    Some(_) => tier.integer("tokens", 1..=u64::MAX, problems),
                    None => None,
                };
                let rates = Rates::read(&mut tier, "`above`", problems);
                tier.finish(problems);
                tokens.zip(rates)
            });
        let rates = Rates::read(section, "a price", problems);
        match (rates, above) {
            (Some(rates), None) => Some(Self { rates, above: None }),
            (Some(rates), Some(Some(above))) => Some(Self {
                rates,
                above: Some(above),
            }),
            // Problems are reported already, except for a price above the limit without one below.
            (None, Some(Some(_))) => {
                problems.push(
                    Problem::new("missing-key", "a price needs `input` and `output`")
                        .at(section.place())
                        .help("say what tokens cost below the limit, too"),
                );
                None
            }
            _ => None,
        }
    }
}

impl Rates {
    fn read(section: &mut Section<'_>, what: &str, problems: &mut Vec<Problem>) -> Option<Self> {
        let before = problems.len();
        let mut read = |key| amount(section, key, DECIMALS, problems);
        let input = read("input");
        let output = read("output");
        let cache_read = read("cache_read");
        let write = read("cache_write");
        let write_5m = read("cache_write_5m");
        let write_1h = read("cache_write_1h");
        if problems.len() > before {
            return None;
        }
        let any = [input, output, cache_read, write, write_5m, write_1h];
        match (input, output) {
            (Some(input), Some(output)) => Some(Self {
                input,
                output,
                cache_read: cache_read.unwrap_or(input),
                cache_write_5m: write_5m.or(write).unwrap_or(input),
                cache_write_1h: write_1h.or(write).or(write_5m).unwrap_or(input),
            }),
            _ => {
                if any.iter().any(Option::is_some) {
                    problems.push(
                        Problem::new("missing-key", format!("{what} needs `input` and `output`"))
                            .at(section.place())
                            .help(
                                "write both, in dollars per million tokens; 0 if it costs nothing",
                            ),
                    );
                }
                None
            }
        }
    }
}
