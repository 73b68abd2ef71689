//! `prefix` of a configuration file.

use cachalot_core::spec::{ParameterKind as Kind, Table, Values, key};

/// Options about the prefixes that providers cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PrefixConfig {
    /// Conversations are recognized, and their breaks are recorded.
    pub(crate) watch: bool,
    /// Responses say which break the previous request of the conversation had.
    pub(crate) header: bool,
    /// Cache markers are added to requests of Messages that have none.
    pub(crate) inject_breakpoints: bool,
    /// `prompt_cache_key` is added to requests of Chat Completions and Responses that have none.
    pub(crate) prompt_cache_key: bool,
}

#[rustfmt::skip]
pub(super) static PREFIX: Table = Table::new(
    "`prefix`",
    "Options about the prefixes that providers cache.",
    &[&[
        key("watch", Kind::Boolean, "Recognizes conversations, and records which of their prefixes break, and why. Default: true."),
        key("header", Kind::Boolean, "Adds the header `x-cachalot-prefix` to responses, about the break of the previous request. Default: false."),
        key("inject_breakpoints", Kind::Boolean, "Adds cache markers to requests of Anthropic Messages that have none. Default: false."),
        key("prompt_cache_key", Kind::Boolean, "Adds a `prompt_cache_key` to requests of Chat Completions and Responses that have none. Default: false."),
    ]],
);

impl Default for PrefixConfig {
    fn default() -> Self {
        Self {
            watch: true,
            header: false,
            inject_breakpoints: false,
            prompt_cache_key: false,
        }
    }
}

impl PrefixConfig {
    pub(super) fn read(values: Values<'_>) -> Self {
        let default = Self::default();
        Self {
            watch: values.boolean("watch").unwrap_or(default.watch),
            header: values.boolean("header").unwrap_or(default.header),
            inject_breakpoints: values
                .boolean("inject_breakpoints")
                .unwrap_or(default.inject_breakpoints),
            prompt_cache_key: values
                .boolean("prompt_cache_key")
                .unwrap_or(default.prompt_cache_key),
        }
    }
}
