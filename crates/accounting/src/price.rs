//! Prices of models, in the form of catalog files.

use cachalot_core::config::{
    Custom, Located, Parameter, ParameterKind as Kind, SettingValue, Settings, Table, Values,
};
use cachalot_core::tree::Node;
use cachalot_core::{Millis, Problem, SourceSpan};
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
        // In the order of their dates: the last one that has begun applies.
        let mut changes = self.changes.iter().rev();
        match changes.find(|change| change.from <= at) {
            Some(change) => (change.rates, change.above),
            None => (self.rates, self.above),
        }
    }
}

/// The prices of tokens.
#[derive(Settings)]
#[settings(name = "`cost`")]
struct WrittenPrice {
    #[setting(flatten)]
    rates: WrittenRates,
    /// The price of longer requests.
    above: Option<Above>,
    /// Later prices, in the order of their dates: each row has `from`, a date (the day begins in UTC), and the keys of
    /// a price, and replaces the whole price before it.
    #[setting(kind = CHANGES)]
    changes: Option<Node>,
}

/// A price that applies from a date.
#[derive(Settings)]
#[settings(name = "a row of `changes`")]
struct WrittenChange {
    /// The date from which it applies.
    #[setting(kind = DATE, with = from_date, required)]
    from: Option<Located<Millis>>,
    #[setting(flatten)]
    rates: WrittenRates,
    /// The price of longer requests.
    above: Option<Above>,
}

/// The price of longer requests.
#[derive(Settings)]
#[settings(name = "`above`")]
struct Above {
    /// The number of input tokens above which it applies.
    #[setting(range = 1.., required)]
    tokens: Option<u64>,
    #[setting(flatten)]
    rates: WrittenRates,
}

/// The rates of a price, in dollars per million tokens.
#[derive(Settings)]
#[settings(name = "a price")]
struct WrittenRates {
    /// US dollars per million tokens of input.
    input: Option<Rate>,
    /// US dollars per million tokens of output.
    output: Option<Rate>,
    /// The rate of input that the provider read from its cache.
    cache_read: Option<Rate>,
    /// The rate of input that the provider writes to its cache.
    cache_write: Option<Rate>,
    /// The rate of input that it caches for five minutes.
    cache_write_5m: Option<Rate>,
    /// The rate of input that it caches for an hour.
    cache_write_1h: Option<Rate>,
    #[setting(place)]
    place: SourceSpan,
}

/// A rate as written; `None` if it is invalid, which was reported.
#[derive(Clone, Copy, PartialEq)]
struct Rate(Option<u64>);

impl SettingValue for Rate {
    const KIND: Kind = Kind::Custom(&Custom {
        schema: Some(amount_schema),
        check: |entry, problems| check_amount(entry, DECIMALS, problems),
    });

    fn from_node(node: &Node, _: Kind, _: &mut Vec<Problem>) -> Option<Self> {
        Some(Self(amount(node, DECIMALS)))
    }
}

const CHANGES: Kind = Kind::Custom(&Custom {
    schema: Some(|| json!({ "type": "array", "items": WrittenChange::TABLE.schema(false) })),
    check: |entry, problems| {
        if entry.value.as_list().is_none() {
            problems.push(entry.value.wrong_type("`changes`", "a list of prices"));
        }
    },
});

const DATE: Kind = Kind::Custom(&Custom {
    schema: Some(|| json!({ "type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$" })),
    check: |entry, problems| {
        if from_date(&entry.value).is_none() {
            let message = format!("`{}` is no date", entry.key);
            problems.push(
                Problem::new("bad-value", message)
                    .at(&entry.value.place)
                    .help("write a date such as 2026-12-01"),
            );
        }
    },
});

fn from_date(node: &Node) -> Option<Located<Millis>> {
    Some(Located {
        value: date::parse(node.as_text()?)?,
        place: node.place.clone(),
    })
}

impl Settings for Price {
    const PARAMETERS: &'static [Parameter] = WrittenPrice::PARAMETERS;
    const TABLE: &'static Table = WrittenPrice::TABLE;

    /// Reads the keys of a price. Returns `None` if there are none.
    ///
    /// A missing cache price defaults to the price of input: a provider that caches without publishing such
    /// a price charges no more than that.
    fn from_values(values: Values<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        let written = WrittenPrice::from_values(values, problems)?;
        let changes = changes(written.changes.as_ref(), problems);
        let rates = read_rates(&written.rates, written.above, "a price", problems);
        let Some((rates, above)) = rates else {
            // Problems are reported already, except for a later price without an earlier one.
            if let Some(node) = &written.changes
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

impl SettingValue for Price {
    const KIND: Kind = Kind::Table(Self::TABLE);

    /// Reads `cost`, which must not be empty.
    fn from_node(node: &Node, _: Kind, problems: &mut Vec<Problem>) -> Option<Self> {
        let values = Self::TABLE.values(node)?;
        let mut keys = Self::PARAMETERS.iter();
        if keys.all(|key| values.node(key.name).is_none()) {
            problems.push(
                Problem::new("missing-key", "`cost` needs `input` and `output`")
                    .at(&node.head())
                    .help("write both, in dollars per million tokens; 0 if it costs nothing"),
            );
        }
        Self::from_values(values, problems)
    }
}

/// Returns the rates of a price, and those of longer requests.
fn read_rates(
    written: &WrittenRates,
    above: Option<Above>,
    what: &str,
    problems: &mut Vec<Problem>,
) -> Option<(Rates, Option<(u64, Rates)>)> {
    let above = above.map(|tier| {
        let rates = tier.rates.rates("`above`", problems);
        tier.tokens.zip(rates)
    });
    match (written.rates(what, problems), above) {
        (Some(rates), None) => Some((rates, None)),
        (Some(rates), Some(Some(above))) => Some((rates, Some(above))),
        // Problems are reported already, except for a price above the limit without one below.
        (None, Some(Some(_))) => {
            problems.push(
                Problem::new("missing-key", "a price needs `input` and `output`")
                    .at(&written.place)
                    .help("set the price below the limit, too"),
            );
            None
        }
        _ => None,
    }
}

/// Reads `changes`, whose dates must ascend.
fn changes(written: Option<&Node>, problems: &mut Vec<Problem>) -> Vec<PriceChange> {
    let mut changes: Vec<PriceChange> = Vec::new();
    for node in written.and_then(Node::as_list).unwrap_or_default() {
        let Some(row) = WrittenChange::read(node, problems) else {
            continue;
        };
        let Some(Located { value: from, place }) = row.from else {
            continue;
        };
        if changes.last().is_some_and(|before| before.from >= from) {
            let message = "`from` must be after that of the row before";
            problems.push(
                Problem::new("bad-value", message)
                    .at(&place)
                    .help("sort the rows by date"),
            );
        }
        match read_rates(&row.rates, row.above, "a row of `changes`", problems) {
            Some((rates, above)) => changes.push(PriceChange { from, rates, above }),
            None if row.rates.input.is_none() && row.rates.output.is_none() => {
                problems.push(
                    Problem::new(
                        "missing-key",
                        "a row of `changes` needs `input` and `output`",
                    )
                    .at(&row.rates.place)
                    .help("write the whole new price"),
                );
            }
            None => {}
        }
    }
    changes
}

impl WrittenRates {
    fn rates(&self, what: &str, problems: &mut Vec<Problem>) -> Option<Rates> {
        let all = [
            self.input,
            self.output,
            self.cache_read,
            self.cache_write,
            self.cache_write_5m,
            self.cache_write_1h,
        ];
        if all.contains(&Some(Rate(None))) {
            return None;
        }
        let [input, output, cache_read, write, write_5m, write_1h] = all.map(|rate| rate?.0);
        match (input, output) {
            (Some(input), Some(output)) => Some(Rates {
                input,
                output,
                cache_read: cache_read.unwrap_or(input),
                cache_write_5m: write_5m.or(write).unwrap_or(input),
                cache_write_1h: write_1h.or(write).or(write_5m).unwrap_or(input),
            }),
            _ => {
                if all.iter().any(Option::is_some) {
                    problems.push(
                        Problem::new("missing-key", format!("{what} needs `input` and `output`"))
                            .at(&self.place)
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
