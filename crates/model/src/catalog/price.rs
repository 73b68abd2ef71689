//! Prices, and the cost of an answer.

use cachalot_core::spec::{
    Custom, Parameter, ParameterKind as Kind, Table, Values, key, required, section,
};
use cachalot_core::{Cost, Problem};

use super::decimal::{amount, amount_schema, check_amount};
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

    /// Reads the keys of a price ([`PRICE_KEYS`]). Returns `None` if there are none.
    ///
    /// A missing cache price defaults to the price of input: a provider that caches without publishing such
    /// a price charges no more than that.
    pub(crate) fn read(values: Values<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        let above = values.table("above").map(|tier| {
            let rates = Rates::read(tier, "`above`", problems);
            tier.integer("tokens").zip(rates)
        });
        let rates = Rates::read(values, "a price", problems);
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
                        .at(&values.mapping().head())
                        .help("set the price below the limit, too"),
                );
                None
            }
            _ => None,
        }
    }
}

/// The rates of a price, in dollars per million tokens.
#[rustfmt::skip]
const RATE_KEYS: &[Parameter] = &[
    key("input", RATE, "US dollars per million tokens of input."),
    key("output", RATE, "US dollars per million tokens of output."),
    key("cache_read", RATE, "The rate of input that the provider read from its cache."),
    key("cache_write", RATE, "The rate of input that the provider writes to its cache."),
    key("cache_write_5m", RATE, "The rate of input that it caches for five minutes."),
    key("cache_write_1h", RATE, "The rate of input that it caches for an hour."),
];

const RATE: Kind = Kind::Custom(&Custom {
    schema: Some(amount_schema),
    check: |entry, problems| check_amount(entry, DECIMALS, problems),
});

/// The keys of a price.
#[rustfmt::skip]
pub(crate) const PRICE_KEYS: [&[Parameter]; 2] = [
    RATE_KEYS,
    &[section("above", &ABOVE)],
];

#[rustfmt::skip]
static ABOVE: Table = Table::new(
    "`above`",
    "The price of longer requests.",
    &[
        &[required("tokens", Kind::IntegerIn(1, u64::MAX), "The number of input tokens above which it applies.")],
        RATE_KEYS,
    ],
);

impl Rates {
    fn read(values: Values<'_>, what: &str, problems: &mut Vec<Problem>) -> Option<Self> {
        // An invalid rate was reported already.
        let read = |key| match values.node(key) {
            None => Ok(None),
            Some(node) => amount(node, DECIMALS).map(Some).ok_or(()),
        };
        let input = read("input").ok()?;
        let output = read("output").ok()?;
        let cache_read = read("cache_read").ok()?;
        let write = read("cache_write").ok()?;
        let write_5m = read("cache_write_5m").ok()?;
        let write_1h = read("cache_write_1h").ok()?;
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
                            .at(&values.mapping().head())
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
