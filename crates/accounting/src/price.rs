//! Prices of models, in the form of catalog files.

use cachalot_core::config::{
    Custom, Parameter, ParameterKind as Kind, Table, Values, key, required, section,
};
use cachalot_core::{Millis, Problem};
use serde_json::json;

use crate::Usage;
use crate::date;
use crate::decimal::{amount, amount_schema, check_amount};

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
    /// Later prices, by the time from which they apply.
    pub changes: Vec<PriceChange>,
}

/// A price that replaces the one before it at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriceChange {
    /// The time from which it applies.
    pub from: Millis,
    /// Rates per token.
    pub rates: Rates,
    /// Rates of longer requests, as in [`Price::above`].
    pub above: Option<(u64, Rates)>,
}

impl Price {
    /// Returns the rates of an answer at a time.
    #[must_use]
    pub fn rates_at(&self, at: Millis, usage: &Usage) -> Rates {
        match self.at(at) {
            (_, Some((tokens, above))) if usage.total_input() > tokens => above,
            (rates, _) => rates,
        }
    }

    /// Returns the rates at a time, and those of longer requests.
    #[must_use]
    pub fn at(&self, at: Millis) -> (Rates, Option<(u64, Rates)>) {
        let mut changes = self.changes.iter().rev();
        match changes.find(|change| change.from <= at) {
            Some(change) => (change.rates, change.above),
            None => (self.rates, self.above),
        }
    }

    /// Reads the keys of a price ([`PRICE_KEYS`]). Returns `None` if there are none.
    ///
    /// A missing cache price defaults to the price of input: a provider that caches without publishing such
    /// a price charges no more than that.
    pub fn read(values: Values<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        let changes = changes(values, problems);
        let Some((rates, above)) = read_rates(values, "a price", problems) else {
            // Problems are reported already, except for a later price without an earlier one.
            if let Some(node) = values.node("changes")
                && problems.is_empty()
            {
                problems.push(
                    Problem::new("missing-key", "`changes` needs the price before them")
                        .at(&node.place)
                        .help("write `input` and `output`, too"),
                );
            }
            return None;
        };
        Some(Self {
            rates,
            above,
            changes,
        })
    }
}

/// Reads the rates of a price, and those of longer requests.
fn read_rates(
    values: Values<'_>,
    what: &str,
    problems: &mut Vec<Problem>,
) -> Option<(Rates, Option<(u64, Rates)>)> {
    let above = values.table("above").map(|tier| {
        let rates = Rates::read(tier, "`above`", problems);
        tier.integer("tokens").zip(rates)
    });
    let rates = Rates::read(values, what, problems);
    match (rates, above) {
        (Some(rates), None) => Some((rates, None)),
        (Some(rates), Some(Some(above))) => Some((rates, Some(above))),
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

/// Reads `changes`, whose dates must ascend.
fn changes(values: Values<'_>, problems: &mut Vec<Problem>) -> Vec<PriceChange> {
    let mut changes: Vec<PriceChange> = Vec::new();
    for node in values.list("changes").unwrap_or_default() {
        let Some(row) = CHANGE.read(node, problems) else {
            continue;
        };
        let Some(from) = row.text("from").and_then(date::parse) else {
            continue;
        };
        if changes.last().is_some_and(|before| before.from >= from) {
            let message = "`from` must be after that of the row before";
            problems.push(
                Problem::new("bad-value", message)
                    .at(&row.place("from"))
                    .help("sort the rows by date"),
            );
        }
        match read_rates(row, "a row of `changes`", problems) {
            Some((rates, above)) => changes.push(PriceChange { from, rates, above }),
            None if row.node("input").is_none() && row.node("output").is_none() => {
                problems.push(
                    Problem::new(
                        "missing-key",
                        "a row of `changes` needs `input` and `output`",
                    )
                    .at(&row.mapping().head())
                    .help("write the whole new price"),
                );
            }
            None => {}
        }
    }
    changes
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
pub const PRICE_KEYS: [&[Parameter]; 2] = [
    RATE_KEYS,
    &[
        section("above", &ABOVE),
        key("changes", CHANGES, "Later prices, in the order of their dates: each row has `from`, a date (the day begins in UTC), and the keys of a price, and replaces the whole price before it."),
    ],
];

const CHANGES: Kind = Kind::Custom(&Custom {
    schema: Some(|| json!({ "type": "array", "items": CHANGE.schema(false) })),
    check: |entry, problems| {
        if entry.value.as_list().is_none() {
            problems.push(entry.value.wrong_type("`changes`", "a list of prices"));
        }
    },
});

#[rustfmt::skip]
static CHANGE: Table = Table::new(
    "a row of `changes`",
    "A price that applies from a date.",
    &[
        &[required("from", DATE, "The date from which it applies.")],
        RATE_KEYS,
        &[section("above", &ABOVE)],
    ],
);

const DATE: Kind = Kind::Custom(&Custom {
    schema: Some(|| json!({ "type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$" })),
    check: |entry, problems| {
        if entry.value.as_text().and_then(date::parse).is_none() {
            let message = format!("`{}` is no date", entry.key);
            problems.push(
                Problem::new("bad-value", message)
                    .at(&entry.value.place)
                    .help("write a date such as 2026-12-01"),
            );
        }
    },
});

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
