//! `prefix` of a configuration file.

use cachalot_core::config::Settings;

/// Options about the prefixes that providers cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Settings)]
#[settings(name = "`prefix`")]
pub(crate) struct PrefixConfig {
    /// Recognizes conversations, and records which of their prefixes break, and why.
    #[setting(default = true)]
    pub(crate) watch: bool,
    /// Adds the header `x-cachalot-prefix` to responses, about the break of the previous request.
    #[setting(default = false)]
    pub(crate) header: bool,
    /// Adds cache markers to requests of Anthropic Messages that have none.
    #[setting(default = false)]
    pub(crate) inject_breakpoints: bool,
    /// Adds a `prompt_cache_key` to requests of Chat Completions and Responses that have none.
    #[setting(default = false)]
    pub(crate) prompt_cache_key: bool,
}

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
