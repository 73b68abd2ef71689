//! The `compaction` key of an agent: the writer of summaries of long conversations.

use cachalot_core::spec::{Literal, ParameterKind as Kind, Table, Values, key};

use super::review::{LocatedName, located};

/// The `compaction` key of an agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CompactionSettings {
    /// The model that writes summaries, if it differs from the agent's.
    pub model: Option<LocatedName>,
    /// True if the provider summarizes within a request, if it can.
    pub by_provider: bool,
}

/// The keys of `compaction`.
#[rustfmt::skip]
pub static COMPACTION: Table = Table::new(
    "`compaction`",
    "The writer of summaries of long conversations.",
    &[&[
        key("model", Kind::Text, "The model that writes summaries, if it is not the agent's, which has read the conversation already."),
        key("by_provider", Kind::Boolean, "Lets the provider summarize within a request: OpenAI's Responses, and Anthropic.").default(Literal::Boolean(false)),
    ]],
);

/// Reads `compaction`.
pub(super) fn read(values: Values<'_>) -> CompactionSettings {
    CompactionSettings {
        model: values.node("model").and_then(located),
        by_provider: values.boolean("by_provider").unwrap_or_default(),
    }
}
