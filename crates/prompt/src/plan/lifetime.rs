//! The lifetime of cached prefixes.

use cachalot_core::spec::{Literal, ParameterKind as Kind, Table, Values, key, words};

/// The requested lifetime of cached prefixes. One hour costs more to write than five minutes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PrefixLifetime {
    /// Five minutes after the last read.
    FiveMinutes,
    /// One hour after the last read.
    OneHour,
    /// Five minutes; but one hour for the prefix up to the end of the previous turn if the next turn
    /// depends on a person and [`Pauses::favor_one_hour`](super::Pauses).
    #[default]
    Auto,
}

impl PrefixLifetime {
    const WORDS: [(&str, Self); 3] = [
        ("5m", Self::FiveMinutes),
        ("1h", Self::OneHour),
        ("auto", Self::Auto),
    ];
}

/// The default of `warn_above`: the cost in US dollars from which a prefix break causes a warning.
const DEFAULT_WARN_ABOVE: f64 = 0.01;

/// Settings of an agent's prefix: `prefix: {ttl: 5m|1h|auto, warn_above: DOLLARS, diagnostics:
/// BOOLEAN}`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrefixSettings {
    /// The lifetime of cached prefixes.
    pub keep: PrefixLifetime,
    /// The minimum cost of a prefix break, in US dollars, for a warning to the user.
    pub warn_above: f64,
    /// True if the provider should compare each request with the previous one
    /// ([`ComparisonParameter`](cachalot_model::ComparisonParameter)). The provider stores digests of requests for that.
    pub diagnostics: bool,
}

impl Default for PrefixSettings {
    fn default() -> Self {
        Self {
            keep: PrefixLifetime::default(),
            warn_above: DEFAULT_WARN_ABOVE,
            diagnostics: false,
        }
    }
}

const LIFETIME_WORDS: [&str; 3] = words(&PrefixLifetime::WORDS);

/// The keys of `prefix` of an agent.
pub static PREFIX: Table = Table::new(
    "`prefix`",
    "The lifetime of the prompt prefix in the provider's cache.",
    &[&[
        key("ttl", Kind::Word(&LIFETIME_WORDS), "The lifetime after the last read: five minutes, one hour, or one hour for the part before a turn that depends on a person.").default(Literal::Text("auto")),
        key("warn_above", Kind::NumberIn(0.0, f64::INFINITY), "The cost of a prefix break, in US dollars, from which the user is warned.").default(Literal::Number(DEFAULT_WARN_ABOVE)),
        key("diagnostics", Kind::Boolean, "Lets the provider compare each request with the previous one.").default(Literal::Boolean(false)),
    ]],
);

impl PrefixSettings {
    /// Reads the values of [`PREFIX`].
    #[must_use]
    pub fn read(values: Values<'_>) -> Self {
        let default = Self::default();
        Self {
            keep: values
                .choice("ttl", &PrefixLifetime::WORDS)
                .unwrap_or(default.keep),
            warn_above: values.number("warn_above").unwrap_or(default.warn_above),
            diagnostics: values.boolean("diagnostics").unwrap_or_default(),
        }
    }
}
