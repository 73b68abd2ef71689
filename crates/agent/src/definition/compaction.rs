//! The `compaction` key of an agent: the writer of summaries of long conversations.

use cachalot_core::config::{ParameterKind as Kind, Settings};

use super::review::{LocatedName, located};

/// The writer of summaries of long conversations.
#[derive(Debug, Clone, Default, PartialEq, Settings)]
#[settings(name = "`compaction`")]
pub struct CompactionSettings {
    /// The model that writes summaries, if it is not the agent's, which has read the conversation already.
    #[setting(kind = Kind::Text, with = located)]
    pub model: Option<LocatedName>,
    /// Lets the provider summarize within a request: OpenAI's Responses, and Anthropic.
    #[setting(default = false)]
    pub by_provider: bool,
}
