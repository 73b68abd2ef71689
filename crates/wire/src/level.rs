//! The levels of pieces.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The level of a piece. Providers hash the levels in this order, so a change at one level invalidates
/// this level and the following ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A tool.
    Tool,
    /// A block of the system text.
    System,
    /// A message, or a part of one.
    Message,
}

impl Level {
    /// The name of all pieces of the level: `tools`, `system` or `messages`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::System => "system",
            Self::Message => "messages",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
