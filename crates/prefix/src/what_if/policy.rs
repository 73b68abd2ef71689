//! The policies that are compared.

use std::borrow::Cow;
use std::fmt;

use cachalot_core::Millis;
use cachalot_core::text::grouped;

/// A minute, in milliseconds.
const MINUTE: Millis = 60_000;

/// The times from the last request for which a prefix is kept alive, by their names in settings.
pub const KEEP_ALIVE: [(&str, Millis); 5] = [
    ("15m", 15 * MINUTE),
    ("30m", 30 * MINUTE),
    ("1h", 60 * MINUTE),
    ("2h", 120 * MINUTE),
    ("4h", 240 * MINUTE),
];

/// The lengths in tokens at which a conversation is summarized.
pub const COMPACT_AT: [u64; 2] = [100_000, 150_000];

/// The assumed length of a summary, in tokens.
pub const SUMMARY_TOKENS: u64 = 2_000;

/// A way to treat the same requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// All entries at Anthropic live for an hour.
    OneHour,
    /// The same without those of sub-agents.
    OneHourWithoutSubAgents,
    /// All entries at Anthropic live for five minutes.
    FiveMinutes,
    /// All entries at OpenAI live for twelve hours.
    TwelveHours,
    /// Prefixes are renewed for this time after the last request: an index in [`KEEP_ALIVE`].
    KeepAlive(usize),
    /// A conversation is summarized when its prefix would be renewed.
    CompactBeforePause,
    /// A conversation is summarized when it is longer than this number of tokens.
    CompactAt(u64),
    /// Sub-agents of Claude Code use the newest model of another family.
    SubAgentsOn(Family),
    /// The tools stay the same within a conversation.
    SameTools,
    /// No other model answers within a conversation.
    SameModel,
}

/// A family of Anthropic's models, by its alias in settings of Claude Code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// `sonnet`.
    Sonnet,
    /// `haiku`.
    Haiku,
}

impl Family {
    /// Returns the alias.
    #[must_use]
    pub fn alias(self) -> &'static str {
        match self {
            Self::Sonnet => "sonnet",
            Self::Haiku => "haiku",
        }
    }
}

/// A kind of policies, of which at most one is in force at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyKind {
    /// Another lifetime of entries.
    Lifetime,
    /// Renewals in pauses.
    KeepAlive,
    /// Summaries of conversations.
    Compaction,
    /// Another model for sub-agents.
    SubAgents,
    /// Conversations without a change that loses the cached prefix.
    Unchanged(Change),
}

/// A change within a conversation that loses the cached prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// Other tools.
    Tools,
    /// Another model.
    Model,
}

impl Policy {
    /// Returns all policies, in the order of reports.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let lifetimes = [
            Self::FiveMinutes,
            Self::OneHour,
            Self::OneHourWithoutSubAgents,
            Self::TwelveHours,
        ];
        let keep_alive = (0..KEEP_ALIVE.len()).map(Self::KeepAlive);
        let compact = COMPACT_AT.into_iter().map(Self::CompactAt);
        lifetimes
            .into_iter()
            .chain(keep_alive)
            .chain([Self::CompactBeforePause])
            .chain(compact)
            .chain([Family::Sonnet, Family::Haiku].map(Self::SubAgentsOn))
            .chain([Self::SameTools, Self::SameModel])
    }

    /// Returns its kind.
    #[must_use]
    pub fn kind(self) -> PolicyKind {
        match self {
            Self::OneHour
            | Self::OneHourWithoutSubAgents
            | Self::FiveMinutes
            | Self::TwelveHours => PolicyKind::Lifetime,
            Self::KeepAlive(_) => PolicyKind::KeepAlive,
            Self::CompactBeforePause | Self::CompactAt(_) => PolicyKind::Compaction,
            Self::SubAgentsOn(_) => PolicyKind::SubAgents,
            Self::SameTools => PolicyKind::Unchanged(Change::Tools),
            Self::SameModel => PolicyKind::Unchanged(Change::Model),
        }
    }

    /// True if models are sent other content, or another model is asked, so that the cost is an estimate.
    #[must_use]
    pub fn changes_content(self) -> bool {
        matches!(
            self.kind(),
            PolicyKind::Compaction | PolicyKind::SubAgents | PolicyKind::Unchanged(Change::Model)
        )
    }

    /// Returns the name in documents.
    #[must_use]
    pub fn name(self) -> Cow<'static, str> {
        match self {
            Self::OneHour => "one_hour".into(),
            Self::OneHourWithoutSubAgents => "one_hour_without_sub_agents".into(),
            Self::FiveMinutes => "five_minutes".into(),
            Self::TwelveHours => "twelve_hours".into(),
            Self::KeepAlive(_) => "keep_alive".into(),
            Self::CompactBeforePause => "compact_before_pause".into(),
            Self::CompactAt(_) => "compact_at".into(),
            Self::SubAgentsOn(family) => format!("sub_agents_on_{}", family.alias()).into(),
            Self::SameTools => "same_tools".into(),
            Self::SameModel => "same_model".into(),
        }
    }

    /// Returns the time for which prefixes are kept alive, by its name in settings.
    #[must_use]
    pub fn until(self) -> Option<&'static str> {
        match self {
            Self::KeepAlive(index) => KEEP_ALIVE.get(index).map(|(name, _)| *name),
            _ => None,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneHour => f.write_str("1 h writes"),
            Self::OneHourWithoutSubAgents => f.write_str("1 h writes, not of sub-agents"),
            Self::FiveMinutes => f.write_str("5 min writes"),
            Self::TwelveHours => f.write_str("12 h writes"),
            Self::KeepAlive(_) => write!(f, "keep alive until {}", self.until().unwrap_or("?")),
            Self::CompactBeforePause => f.write_str("compact before a pause"),
            Self::CompactAt(tokens) => write!(f, "compact at {} tokens", grouped(*tokens)),
            Self::SubAgentsOn(family) => write!(f, "sub-agents on {}", family.alias()),
            Self::SameTools => f.write_str("same tools in a conversation"),
            Self::SameModel => f.write_str("same model in a conversation"),
        }
    }
}
