//! The parts of a conversation that a fork inherits.

use std::fmt;

use cachalot_core::config::Settings;

/// The parts that a fork inherits from its parent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Settings)]
pub enum Inherit {
    /// The whole prompt: the provider reads the conversation as it was sent. The gate restricts the use of
    /// the tools.
    #[default]
    Full,
    /// System text and messages; of the tools, those that the fork may use.
    Prompt,
    /// Metadata of the session (its origin and routing key) and the messages. System text and tools are
    /// rendered anew, with the tools that the fork may use.
    Session,
    /// Nothing; the messages are not inherited either.
    None,
}

impl Inherit {
    /// True if a fork with this setting must inherit `part`.
    pub(crate) fn covers(self, part: InheritedPart) -> bool {
        match self {
            Self::Full => true,
            Self::Prompt => part != InheritedPart::Tools,
            Self::Session => !matches!(part, InheritedPart::Tools | InheritedPart::System),
            Self::None => false,
        }
    }
}

/// The parts that a fork can inherit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InheritedPart {
    /// The system text.
    System,
    /// The tools, and the parameters that control tool calls.
    Tools,
    /// The time when the session began.
    SessionStart,
    /// The ID of the session.
    SessionId,
    /// The reasoning effort or budget.
    Reasoning,
    /// The output format: providers turn it into text of their own that precedes the conversation.
    Prefill,
    /// The base URL, and the request fields that are sent verbatim.
    ProviderPins,
    /// Parameters that select the provider's cache, such as the routing key, and all parameters without an
    /// entry of their own.
    Scope,
    /// The model, its provider, and the wire format.
    Model,
    /// The messages.
    History,
}

impl fmt::Display for InheritedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::System => "system",
            Self::Tools => "tools",
            Self::SessionStart => "session start",
            Self::SessionId => "session id",
            Self::Reasoning => "reasoning",
            Self::Prefill => "prefill",
            Self::ProviderPins => "provider pins",
            Self::Scope => "scope",
            Self::Model => "model",
            Self::History => "history",
        })
    }
}
