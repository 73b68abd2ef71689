//! Notes about a plan.

use std::fmt;

/// A part of a prompt that ends with a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The tools, and the system text without its last piece.
    Stable,
    /// The tools and the whole system text.
    Frozen,
    /// Everything before the turn.
    Turn,
    /// Everything that the previous request sent.
    Previous,
    /// The whole prompt.
    Whole,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stable => "what does not change from session to session",
            Self::Frozen => "tools and system text",
            Self::Turn => "the conversation before this turn",
            Self::Previous => "what the request before sent",
            Self::Whole => "the whole prompt",
        })
    }
}

/// A note about a plan; formats as a text for users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// This part, and all shorter ones, are too short to be cached.
    BelowMinimum {
        /// The longest part that is too short.
        part: Part,
        /// Its estimated length: its bytes divided by 4.
        tokens: u64,
        /// The minimum length.
        minimum: u64,
    },
    /// The part has no marker because too few are allowed: one was needed at the end of the previous
    /// request, which is out of reach of the lookback from the later markers.
    MarkerDropped(Part),
    /// One hour was requested, but the provider does not support it.
    NoHour,
    /// Twelve hours were requested, but the provider does not support it, or its price is not known.
    NoTwelveHours,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BelowMinimum {
                part,
                tokens,
                minimum,
            } => write!(
                f,
                "{part} is too short for the provider to keep it: about {tokens} tokens (estimated \
                 from its bytes), and it keeps {minimum} or more"
            ),
            Self::MarkerDropped(part) => write!(
                f,
                "the turn is long: a marker went where the request before ended, and {part} is left \
                 without one"
            ),
            Self::NoTwelveHours => f.write_str(
                "no marked prefix is kept for twelve hours: only OpenAI's format `responses` has \
                 such a marker, for models whose price of it is known; `ttl: 12h` is as good as `5m` here",
            ),
            Self::NoHour => f.write_str(
                "the provider keeps no marked prefix for an hour: `ttl: 1h` is as good as `5m` here",
            ),
        }
    }
}
