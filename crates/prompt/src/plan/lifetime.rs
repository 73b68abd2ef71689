//! The lifetime of cached prefixes.

use cachalot_core::spec::{Literal, ParameterKind as Kind, Table, Values, key, words};

/// The requested lifetime of cached prefixes. A longer one costs more to write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PrefixLifetime {
    /// The shortest one of the provider: five minutes after the last read, half an hour with OpenAI.
    FiveMinutes,
    /// One hour after the last read.
    OneHour,
    /// Twelve hours after the last read.
    TwelveHours,
    /// The shortest one; but one hour or twelve for the prefix up to the end of the previous turn if the next
    /// turn depends on a person, and the [`Pauses`](super::Pauses) favor it.
    #[default]
    Auto,
}

impl PrefixLifetime {
    const WORDS: [(&str, Self); 4] = [
        ("5m", Self::FiveMinutes),
        ("1h", Self::OneHour),
        ("12h", Self::TwelveHours),
        ("auto", Self::Auto),
    ];
}

/// The default of `warn_above`: the cost in US dollars from which a prefix break causes a warning.
const DEFAULT_WARN_ABOVE: f64 = 0.01;

/// Settings of an agent's prefix: `prefix: {ttl: 5m|1h|12h|auto, warn_above: DOLLARS, diagnostics:
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

const LIFETIME_WORDS: [&str; 4] = words(&PrefixLifetime::WORDS);

/// The keys of `prefix` of an agent.
pub static PREFIX: Table = Table::new(
    "`prefix`",
    "The lifetime of the prompt prefix in the provider's cache.",
    &[&[
        key("ttl", Kind::Word(&LIFETIME_WORDS), "The lifetime after the last read: five minutes (half an hour with OpenAI), one hour, twelve hours, or a longer one for the part before a turn that depends on a person.").default(Literal::Text("auto")),
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
