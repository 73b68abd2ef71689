//! The lifetime of cached prefixes.

use cachalot_core::config::{ParameterKind as Kind, Settings};
use cachalot_model::budget::{DOLLARS, dollars};

/// The requested lifetime of cached prefixes. A longer one costs more to write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Settings)]
pub enum PrefixLifetime {
    /// The shortest one of the provider: five minutes after the last read, half an hour with OpenAI.
    #[setting(key = "5m")]
    FiveMinutes,
    /// One hour after the last read.
    #[setting(key = "1h")]
    OneHour,
    /// Twelve hours after the last read.
    #[setting(key = "12h")]
    TwelveHours,
    /// The shortest one; but one hour or twelve for the prefix up to the end of the previous turn if the next
    /// turn depends on a person, and the [`Pauses`](super::Pauses) favor it.
    #[default]
    Auto,
}

/// The lifetime of the prompt prefix in the provider's cache.
#[derive(Debug, Clone, Copy, PartialEq, Settings)]
#[settings(name = "`prefix`")]
pub struct PrefixSettings {
    /// The lifetime after the last read: five minutes (half an hour with OpenAI), one hour, twelve hours, or a longer
    /// one for the part before a turn that depends on a person.
    #[setting(key = "ttl", default = "auto")]
    pub keep: PrefixLifetime,
    /// The cost of a prefix break, in US dollars, from which the user is warned.
    #[setting(range = 0.0.., default = 0.01)]
    pub warn_above: f64,
    /// Lets the provider compare each request with the previous one.
    // It stores digests of requests for that: see `ComparisonParameter` of `cachalot_model`.
    #[setting(default = false)]
    pub diagnostics: bool,
    /// Asks before a message that makes the provider read an expired prefix anew, in a chat on a terminal.
    pub guard: Option<PrefixGuard>,
}

/// Asks before a message that makes the provider read an expired prefix anew, in a chat on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Settings)]
#[settings(name = "`guard`")]
pub struct PrefixGuard {
    /// The cost in US dollars, beyond that of reading the prefix from the cache, above which the chat asks.
    ///
    /// In picodollars (10⁻¹² $).
    #[setting(kind = Kind::Custom(&DOLLARS), with = dollars)]
    pub above: u64,
}

impl Default for PrefixSettings {
    fn default() -> Self {
        Self {
            keep: PrefixLifetime::default(),
            warn_above: 0.01,
            diagnostics: false,
            guard: None,
        }
    }
}
