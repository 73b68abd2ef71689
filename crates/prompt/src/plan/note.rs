//! What is worth knowing of a plan.

use std::fmt;

/// A part of a prompt that ends with a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Tools, and the text of the system before its last piece.
    Stable,
    /// Tools and the system's text.
    Frozen,
    /// Everything before the turn.
    Turn,
    /// Everything that the request before sent.
    Previous,
    /// Everything.
    Whole,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stable => "what does not change from session to session",
            Self::Frozen => "tools and system text",
            Self::Turn => "what was said before this turn",
            Self::Previous => "what the request before sent",
            Self::Whole => "the whole prompt",
        })
    }
}

/// What is worth knowing of a plan; as text, it says so to a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// So much, and all that is shorter, is too short to be kept.
    BelowMinimum {
        /// What: the longest part that is too short.
        part: Part,
        /// How long it is: its bytes divided by 4, an estimate.
        tokens: u64,
        /// How long it would have to be.
        minimum: u64,
    },
    /// There were too few markers, and this part got none: another one was needed where the request
    /// before ended, too far back to be found from the markers behind it.
    GaveWay(Part),
    /// An hour was asked for, and the provider has no such marker.
    NoHour,
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
            Self::GaveWay(part) => write!(
                f,
                "the turn is long: a marker went where the request before ended, and {part} is left \
                 without one"
            ),
            Self::NoHour => f.write_str(
                "the provider keeps no marked prefix for an hour: `ttl: 1h` is as good as `5m` here",
            ),
        }
    }
}
